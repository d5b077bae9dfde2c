# The options of tables in dumps, restores and pg_upgrade.  Where the library is not
# preloaded, a restore leaves out the options, or only the options fail.

use strict;
use warnings FATAL => 'all';

use File::Find;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $source = pv_node('source');
$source->start;
my $dir = PostgreSQL::Test::Utils::tempdir;

# Not preloaded, and without our settings in the configuration
sub bare_node
{
	my ($name) = @_;
	my $node = pv_bare_node($name);

	$node->append_conf('postgresql.conf', "autovacuum = off\nlisten_addresses = ''\nfsync = off\n");
	return $node;
}

#
# The contents to be dumped: each kind of table, names that need quotes, an owner who is
# not a superuser, and a database with a setting of its own.
#
my $odd = q{"Odd ""schema"""."it's 100% ""odd"" \ $$ -- ; Table"};

$source->safe_psql('postgres', 'CREATE ROLE clerk; CREATE DATABASE shop; CREATE DATABASE archive');
$source->safe_psql('postgres', q{
	ALTER DATABASE archive SET parvacuum.enabled = on;
	ALTER DATABASE archive SET parvacuum."window" = 'Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin'});
$source->safe_psql('shop', qq{
	CREATE EXTENSION parvacuum;
	CREATE TABLE plain AS SELECT i FROM generate_series(1, 100) i;
	CREATE SCHEMA clerk AUTHORIZATION clerk;
	CREATE TABLE clerk.orders (id int PRIMARY KEY, what text)
		WITH (fillfactor = 90, parvacuum.enabled, parvacuum.workers = 4, parvacuum.buffer_usage_limit = '1MB');
	INSERT INTO clerk.orders SELECT i, repeat('x', i % 50) FROM generate_series(1, 1000) i;
	ALTER TABLE clerk.orders OWNER TO clerk;
	CREATE TABLE alone (i int) WITH (parvacuum.workers = 0);
	CREATE TABLE nights (i int) WITH (parvacuum.window = 'Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin');
	CREATE UNLOGGED TABLE unlogged AS SELECT i FROM generate_series(1, 10) i;
	ALTER TABLE unlogged SET (parvacuum.enabled = false, parvacuum.buffer_usage_limit = 0);

	CREATE TABLE days (day int, n int) PARTITION BY RANGE (day);
	CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM (0) TO (10);
	CREATE TABLE days_2 PARTITION OF days FOR VALUES FROM (10) TO (20);
	CREATE TABLE days_3 PARTITION OF days FOR VALUES FROM (20) TO (30) PARTITION BY RANGE (day);
	CREATE TABLE days_3a PARTITION OF days_3 FOR VALUES FROM (20) TO (25);
	CREATE TABLE days_3b PARTITION OF days_3 DEFAULT;
	ALTER TABLE days SET (parvacuum.enabled, parvacuum.workers = 3);
	ALTER TABLE days_2 SET (parvacuum.enabled = false);
	ALTER TABLE days_3 SET (parvacuum.workers = 5, parvacuum.window = 'never');
	ALTER TABLE days_3a SET (parvacuum.workers = 6);
	INSERT INTO days SELECT i % 30, i FROM generate_series(1, 300) i;

	CREATE MATERIALIZED VIEW totals WITH (parvacuum.enabled, parvacuum.workers = 1) AS SELECT day, sum(n) FROM days GROUP BY day;

	CREATE SCHEMA "Odd ""schema""";
	CREATE TABLE $odd (i int);
	ALTER TABLE $odd SET (parvacuum.enabled, parvacuum.workers = 7);
	INSERT INTO $odd SELECT i FROM generate_series(1, 20) i;
});
$source->safe_psql('archive', q{
	CREATE EXTENSION parvacuum;
	CREATE TABLE old_orders AS SELECT i FROM generate_series(1, 100) i;
	CREATE TABLE small AS SELECT i FROM generate_series(1, 10) i;
	ALTER TABLE small SET (parvacuum.enabled = false, parvacuum.window = '');
});

#
# The state of a database
#

# The labels, by the names of their objects
sub labels
{
	my ($node, $db) = @_;
	return $node->safe_psql($db, q{
		SELECT coalesce(c.oid::regclass::text, l.objoid::text), c.relkind, l.objsubid, l.label
		FROM pg_seclabel l LEFT JOIN pg_class c ON c.oid = l.objoid AND l.classoid = 'pg_class'::regclass
		WHERE l.provider = 'parvacuum' ORDER BY c.relname COLLATE "C"});
}

# The options in effect for each table, and their origins
sub effective
{
	my ($node, $db) = @_;
	return $node->safe_psql($db, q{
		SELECT relation, enabled, enabled_from, workers, workers_from, buffer_usage_limit, buffer_usage_limit_from, vacuum_window, vacuum_window_from, declined
		FROM parvacuum_tables WHERE relation::text NOT LIKE 'information_schema.%' ORDER BY relation::text COLLATE "C"});
}

# All of it as a script, without comments and without lines that differ from dump to dump
sub dump_of
{
	my ($node, $db, @how) = @_;
	my ($out, $err) = run_command([ 'pg_dump', @how, '-d', $node->connstr($db) ]);

	die "pg_dump of $db: $err" if $err ne '';
	return $out =~ s/^(--.*|\\(un)?restrict .*|)\n//gmr;
}

# Compare dumps; show only the first line that differs.
sub same_text
{
	my ($got, $expected, $name) = @_;
	my @got = split /\n/, $got;
	my @expected = split /\n/, $expected;
	my $i = 0;

	$i++ while $i < @got && $i < @expected && $got[$i] eq $expected[$i];
	return is($got[$i], $expected[$i], $name);
}

my $no_labels = '--no-security-labels';
my %labels = map { $_ => labels($source, $_) } qw(shop archive);
my %effective = map { $_ => effective($source, $_) } qw(shop archive);
my %dump = map { $_ => dump_of($source, $_) } qw(shop archive);
my $without = dump_of($source, 'shop', $no_labels);

is($labels{shop} . "\n", <<'', 'the labels to be dumped');
alone|r|0|workers=0
days|p|0|enabled=true, workers=3
days_2|r|0|enabled=false
days_3|p|0|window="never", workers=5
days_3a|r|0|workers=6
"Odd ""schema"""."it's 100% ""odd"" \ $$ -- ; Table"|r|0|enabled=true, workers=7
nights|r|0|window="Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin"
clerk.orders|r|0|buffer_usage_limit=1024, enabled=true, workers=4
totals|m|0|enabled=true, workers=1
unlogged|r|0|buffer_usage_limit=0, enabled=false

is($labels{archive}, 'small|r|0|enabled=false, window=""', 'the labels of the other database to be dumped');
is($effective{archive},
	"old_orders|t|database||default|16384|default|Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin|database|\n"
	  . 'small|f|table||default|16384|default||table|',
	'the options in effect in the other database, with its setting');
my $n_labels = () = $labels{shop} =~ /\|0\|/g;
is(scalar(() = $dump{shop} =~ /^SECURITY LABEL FOR parvacuum ON /gm), $n_labels, 'a dump has one statement for each label');
unlike($without, qr/SECURITY LABEL/, "$no_labels leaves out the labels");
same_text($dump{shop} =~ s/^SECURITY LABEL.*\n//gmr, $without, "$no_labels leaves out nothing else");

# A restored database must be the one that was dumped.
sub is_same
{
	my ($node, $db, $what, $of) = @_;
	$of //= 'shop';
	is(labels($node, $db), $labels{$of}, "$what: the same labels");
	is(effective($node, $db), $effective{$of}, "$what: the same options are in effect");
	same_text(dump_of($node, $db), $dump{$of}, "$what: the contents of the database are the same");
	return;
}

# Which engine vacuums a table there, by a plain VACUUM?
sub vacuumed_by
{
	my ($node, $db, $table, $who) = @_;
	my ($rc, $out, $err) = $node->psql($db, "VACUUM (VERBOSE) $table");

	is($rc == 0 ? $err =~ /engine: parvacuum/ ? 'engine' : 'core' : $err, $who, "$table is vacuumed by $who");
	return;
}

#
# Into a server with the library preloaded
#
my $target = pv_node('target');
$target->start;

# All databases.  Only the role that initdb has created exists already.
$source->command_ok([ 'pg_dumpall', '-d', $source->connstr('postgres'), '-f', "$dir/all.sql" ], 'pg_dumpall');
my ($rc, $out, $err) = $target->psql('postgres', slurp_file("$dir/all.sql"), on_error_stop => 0);
is_deeply([ grep { /ERROR:|FATAL:|WARNING:/ && !/role ".*" already exists/ } split /\n/, $err ], [], 'pg_dumpall | psql: no error');
is_same($target, $_, "pg_dumpall | psql, $_", $_) for qw(shop archive);
my $settings = 'SELECT datname, setconfig FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase';
my $of_archive = 'archive|{parvacuum.enabled=on,"parvacuum.window=Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin"}';
is($target->safe_psql('postgres', $settings), $of_archive, 'pg_dumpall | psql: the setting of the database');
vacuumed_by($target, 'shop', $_, 'engine') for 'clerk.orders', 'totals', $odd;
vacuumed_by($target, 'shop', $_, 'core') for qw(plain days_2);
vacuumed_by($target, 'archive', 'old_orders', 'engine');
vacuumed_by($target, 'archive', 'small', 'core');

# One database, in each format of a dump
$source->command_ok([ 'pg_dump', '-d', $source->connstr('shop'), @$_ ], "pg_dump @$_[0]")
  for [ '-Fp', '-f', "$dir/shop.sql" ], [ '-Fc', '-f', "$dir/shop.dump" ], [ '-Fd', '-j', 2, '-f', "$dir/shop.d" ];
my %restore = (
	plain => [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/shop.sql" ],
	custom => [ 'pg_restore', '-e', "$dir/shop.dump" ],
	owners => [ 'pg_restore', '-e', '--use-set-session-authorization', "$dir/shop.dump" ],
	jobs => [ 'pg_restore', '-e', '-j', 2, "$dir/shop.dump" ],
	directory => [ 'pg_restore', '-e', '-j', 2, "$dir/shop.d" ]);
for my $how (sort keys %restore)
{
	$target->safe_psql('postgres', "CREATE DATABASE $how OWNER clerk");
	$target->command_ok([ @{ $restore{$how} }, '-d', $target->connstr($how) ], "$how: restored");
	is_same($target, $how, $how);
}

# A copy that the server makes itself
$target->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE shop');
is_same($target, 'copy', 'CREATE DATABASE');

# Over a database that has other options in the meantime
$target->safe_psql('custom', q{
	ALTER TABLE plain SET (parvacuum.enabled); ALTER TABLE clerk.orders RESET (parvacuum.workers); ALTER TABLE days SET (parvacuum.workers = 9)});
isnt(labels($target, 'custom'), $labels{shop}, 'options are changed before the restore');
$target->command_ok([ 'pg_restore', '-e', '--clean', '--if-exists', '-d', $target->connstr('custom'), "$dir/shop.dump" ], '--clean: restored');
is_same($target, 'custom', '--clean');

# With the database and its settings
$target->safe_psql('postgres', 'DROP DATABASE archive');
$source->command_ok([ 'pg_dump', '-Fc', '-d', $source->connstr('archive'), '-f', "$dir/archive.dump" ], 'pg_dump of the other database');
$target->command_ok([ 'pg_restore', '-e', '--create', '-d', $target->connstr('postgres'), "$dir/archive.dump" ], '--create: restored');
is_same($target, 'archive', '--create', 'archive');

#
# Into a server without the library
#
my $bare = bare_node('bare');
$bare->start;

# The messages of a program, and whether it has succeeded.  The message of CREATE
# EXTENSION must be there where it is visible, and is left out.
my $not_preloaded = qr/WARNING:  parvacuum is not preloaded$/;
sub complaints
{
	my ($db, @command) = @_;
	my ($out, $err) = run_command([ @command, '-d', $bare->connstr($db) ]);
	my $good = $? == 0;
	my @complaints = grep { /error|warning|fatal/i && !/^DETAIL:/ } split /\n/, $err;
	is(scalar(grep { /$not_preloaded/ } @complaints), 1, "$db: CREATE EXTENSION warns that the library is missing") or diag $err
	  if $command[0] eq 'psql';    # pg_restore shows no warnings
	return ($good, grep { !/$not_preloaded/ } @complaints);
}

# Tables, rows and everything else are restored, but no options.
sub is_plain
{
	my ($db) = @_;
	same_text(dump_of($bare, $db), $without, "$db: all except the options is restored");
	is(labels($bare, $db), '', "$db: no label");
	is($bare->safe_psql($db, 'SELECT DISTINCT enabled, enabled_from, workers, workers_from, buffer_usage_limit, buffer_usage_limit_from, vacuum_window, vacuum_window_from FROM parvacuum_tables'),
		'f|default||default|16384|default||default', "$db: no options are in effect");
	return;
}

my @plain = ('psql', '-Xq', '-f');
my @archive = ('pg_restore', "$dir/shop.dump");

$bare->safe_psql('postgres', 'CREATE ROLE clerk');
$bare->safe_psql('postgres', "CREATE DATABASE $_") for qw(left_out_of_dump left_out_of_archive left_out_by_restore failing_plain failing_archive);
$source->command_ok([ 'pg_dump', $no_labels, '-d', $source->connstr('shop'), '-f', "$dir/without.sql" ], "pg_dump $no_labels");
$source->command_ok([ 'pg_dump', $no_labels, '-Fc', '-d', $source->connstr('shop'), '-f', "$dir/without.dump" ], "pg_dump $no_labels -Fc");
is_deeply([ complaints('left_out_of_dump', @plain, "$dir/without.sql") ], [1], "pg_dump $no_labels | psql has no error");
is_deeply([ complaints('left_out_of_archive', 'pg_restore', "$dir/without.dump") ], [1], "pg_dump $no_labels -Fc | pg_restore has no error");
is_deeply([ complaints('left_out_by_restore', @archive, $no_labels) ], [1], "pg_restore $no_labels has no error");
is_plain($_) for qw(left_out_of_dump left_out_of_archive left_out_by_restore);

# psql goes on after an error, and so does pg_restore.
my $not_loaded = qr/ERROR:  security label provider "parvacuum" is not loaded$/;
my ($good, @errors) = complaints('failing_plain', @plain, "$dir/shop.sql");
is(scalar(grep { /$not_loaded/ } @errors), $n_labels, 'psql: each label fails');
is_deeply([ grep { !/$not_loaded/ } @errors ], [], 'psql: no other statement fails');
is_plain('failing_plain');
($good, @errors) = complaints('failing_archive', @archive);
ok(!$good, 'pg_restore fails');
is(scalar(grep { /$not_loaded/ } @errors), $n_labels, 'pg_restore: each label fails');
is_deeply([ grep { !/$not_loaded/ } @errors ], ["pg_restore: warning: errors ignored on restore: $n_labels"], 'pg_restore: no other statement fails');
is_plain('failing_archive');
($good, @errors) = complaints('postgres', @archive, '-e');
ok(!$good, 'pg_restore -e fails');
is(scalar(@errors), 1, 'pg_restore -e: one error') or diag @errors;
like($errors[0], $not_loaded, 'pg_restore -e: the error is that of the first label');
$bare->stop;

#
# Labels that remain when the library is not preloaded any more
#
$target->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$target->restart;
is(labels($target, 'shop'), $labels{shop}, 'the labels remain without the library');
same_text(dump_of($target, 'shop'), $dump{shop}, 'the labels are dumped without the library');
$target->safe_psql('shop', 'DROP EXTENSION parvacuum');
is(labels($target, 'shop'), $labels{shop}, 'DROP EXTENSION does not remove the labels without the library');
$target->safe_psql('shop', "DELETE FROM pg_seclabel WHERE provider = 'parvacuum'");
is(labels($target, 'shop'), '', 'DELETE FROM pg_seclabel removes the labels');
is(labels($target, 'archive'), $labels{archive}, 'no label remains in this database');
$target->safe_psql('shop', 'CREATE EXTENSION parvacuum');
same_text(dump_of($target, 'shop'), $without, 'a dump has nothing of parvacuum any more');

# With the library again, the options are gone.
$target->append_conf('postgresql.conf', "shared_preload_libraries = 'parvacuum'\n");
$target->restart;
vacuumed_by($target, 'shop', 'clerk.orders', 'core');
$target->safe_psql('shop', 'ALTER TABLE clerk.orders SET (parvacuum.enabled)');
vacuumed_by($target, 'shop', 'clerk.orders', 'engine');
$target->stop;

#
# pg_upgrade, which writes files into the current folder
#
chdir $dir or BAIL_OUT("cannot go to $dir: $!");
$source->stop;

sub upgrade
{
	my ($new, @options) = @_;
	my ($out, $err) = run_command([
		'pg_upgrade', '--no-sync', @options,
		'-d', $source->data_dir, '-D', $new->data_dir,
		'-b', $source->config_data('--bindir'), '-B', $new->config_data('--bindir'),
		'-s', $new->host, '-p', $source->port, '-P', $new->port ]);
	return ($? == 0, $out . $err);
}

# The logs that pg_upgrade leaves when it fails
sub upgrade_logs
{
	my ($new) = @_;
	my $output = $new->data_dir . '/pg_upgrade_output.d';
	my $text = '';

	find(sub { $text .= slurp_file($_) if /\.log$/ }, $output) if -d $output;
	return $text;
}

# Into a cluster without the library: even with --link the old cluster is not changed,
# because the labels are restored before any file is linked.
my $unready = bare_node('unready');
($good, $out) = upgrade($unready, '--link');
ok(!$good, 'pg_upgrade fails if the library is not preloaded in the new cluster');
like($out, qr/Performing Upgrade.*Consult the last few lines of/s, 'pg_upgrade fails while it restores, and names its log');
my @log_errors = grep { /ERROR:/ } split /\n/, upgrade_logs($unready);
ok(scalar(grep { /$not_loaded/ } @log_errors), 'the log has the name of the label provider') or diag @log_errors;
is(scalar(grep { !/$not_loaded/ } @log_errors), 0, 'the log has no other error') or diag @log_errors;
$source->start;
is_same($source, $_, "the old cluster still starts, $_", $_) for qw(shop archive);
vacuumed_by($source, 'shop', 'clerk.orders', 'engine');
$source->stop;

my $ready = bare_node('ready');
$ready->append_conf('postgresql.conf', "shared_preload_libraries = 'parvacuum'\n");
($good, $out) = upgrade($ready);
ok($good, 'pg_upgrade succeeds if the library is preloaded') or diag $out, upgrade_logs($ready);
$ready->start;
is_same($ready, $_, "the new cluster, $_", $_) for qw(shop archive);
is($ready->safe_psql('postgres', $settings), $of_archive, 'the new cluster: the setting of the database');
vacuumed_by($ready, 'shop', $_, 'engine') for 'clerk.orders', 'totals', $odd;
vacuumed_by($ready, 'shop', $_, 'core') for qw(plain days_2);
$ready->safe_psql('shop', 'ALTER TABLE clerk.orders SET (parvacuum.workers = 1)');
like(labels($ready, 'shop'), qr/^clerk\.orders.*, workers=1$/m, 'the new cluster: options can be changed');
$ready->stop;

# Without labels it does not need the library.
$source->start;
$source->safe_psql($_, "DELETE FROM pg_seclabel WHERE provider = 'parvacuum'") for qw(shop archive);
$source->stop;
my $clean = bare_node('clean');
($good, $out) = upgrade($clean);
ok($good, 'pg_upgrade succeeds without labels and without the library') or diag $out, upgrade_logs($clean);
$clean->start;
same_text(dump_of($clean, 'shop'), $without, 'the new cluster without the library: all contents are there');
$clean->stop;

pv_no_crash($_, 'the server ' . $_->name) for $source, $target, $bare, $ready, $clean;
done_testing();
