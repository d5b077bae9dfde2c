# The commands of docs/operating.md, run in their order on servers that are set up as each section
# assumes: a fresh one, a primary and its standby, a new cluster, a green one, one without the
# library.  Commands of Debian that need root have stand-ins here, which do the same to these
# servers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvDocuments;
use PvTest;
use Test::More;

# Words of what cannot be run here, and why
my %excuse = (
	'apt install' => 'test/package runs it, in a system of its own',
	'patronictl' => 'there is no Patroni; the document says so');

my $dir = PostgreSQL::Test::Utils::tempdir_short;
my $sections = slurp_file("$pv_source_dir/docs/operating.md");
my %node;

# The servers, by the names after the fences.  "main" is the one of blocks without a name, and
# "fresh" that of the first page.
sub add_server
{
	my ($name, %how) = @_;
	my $node = $how{standby_of} ? PostgreSQL::Test::Cluster->new($name) : pv_bare_node($name, allows_streaming => 'logical');

	if ($how{standby_of})
	{
		$how{standby_of}->backup('backup');
		$node->init_from_backup($how{standby_of}, 'backup', has_streaming => 1);
	}
	$node->append_conf('postgresql.conf', "listen_addresses = ''\nfsync = off\nautovacuum_naptime = 1s\nshared_buffers = 128MB\n");
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$how{preload}'\n") if $how{preload};
	$node->start unless $how{stopped};
	return $node{$name} = $node;
}

# Programs that replace those of Debian.  PGDATA and PV_LOG say which server they are about.
sub stand_in
{
	my ($name, $text) = @_;
	mkdir "$dir/bin";
	append_to_file("$dir/bin/$name", "#!/usr/bin/env bash\nset -eu\n$text\n");
	chmod 0755, "$dir/bin/$name";
	return;
}
stand_in('pg_conftool', q{[[ $1 == 15 && $2 == main && $3 == set ]]; echo "$4 = '$5'" >>"$PGDATA/postgresql.conf"});
stand_in('pg_ctlcluster', q{[[ $1 == 15 && $2 == main && $3 == restart ]]; pg_ctl -D "$PGDATA" -l "$PV_LOG" -s -w -m fast restart});
stand_in('runuser', q{[[ $1 == -u && $2 == postgres && $3 == -- ]]; shift 3; exec "${@/#\/usr\/share\/postgresql\/15/$PV_SHARE}"});

sub connection
{
	my ($node) = @_;
	return $node ? 'host=' . $node->host . ' port=' . $node->port : '';
}

sub run_shell
{
	my ($node, $block) = @_;
	my $share = $node->config_data('--sharedir');
	my $bin = $node->config_data('--bindir');
	my $data = $node->data_dir;

	note 'with stand-ins of pg_conftool, pg_ctlcluster and runuser' if $block->{text} =~ /pg_c|runuser/;
	pv_run_shell($dir, $block, PATH => "$dir/bin:$ENV{PATH}", PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'postgres',
		PGDATA => $data, PV_LOG => $node->logfile, PV_SHARE => $share, BLUE => connection($node{main}), GREEN => connection($node{green}),
		OLD => $node{main} ? $node{main}->data_dir : '', NEW => $data, OLD_BIN => $bin, NEW_BIN => $bin);

	# what pg_ctl has started or stopped
	$_->_update_pid(-e $_->data_dir . '/postmaster.pid' ? 1 : 0) for values %node;
	return;
}

# What is done before a section begins, and what must hold when it has ended
my $by_engine = 'SET client_min_messages = info; VACUUM (VERBOSE) orders';
my (%before, %after, %out);

sub says_engine
{
	my ($node, $engine, $what) = @_;
	my ($rc, $out, $err) = $node->psql('shop', $by_engine);
	like($err, qr/engine: $engine|$engine/, $what) if $engine;
	unlike($err, qr/engine: parvacuum/, $what) if !$engine;
	return;
}

my $options = q{SELECT string_agg(objoid::regclass || ' ' || label, ', ' ORDER BY objoid::regclass::text) FROM pg_seclabel WHERE provider = 'parvacuum'};
my $options_of_shop = 'order_lines enabled=true, orders enabled=true, visits enabled=true';

# An autovacuum worker that looks for tables holds back the horizon for a moment; by default that
# is once a minute.
$before{'The first page'} = sub { add_server('fresh')->append_conf('postgresql.conf', 'autovacuum_naptime = 1min'); $node{''} = $node{fresh} };
$after{'The first page'} = sub {
	is($node{fresh}->safe_psql('postgres', q{SELECT relname, outcome, tuples_removed FROM parvacuum_history}), 't|done|200000', 'parvacuum has vacuumed the table');
	like(slurp_file("$dir/vacuums.html"), qr/<html.*"relname":"?t\b|<html.*parvacuum/s, 'there is a report');
	$node{fresh}->stop;
};

$before{'Preloading in a running cluster with a standby'} = sub {
	$node{''} = add_server('main', preload => 'pg_stat_statements');
	$node{main}->safe_psql('postgres', 'CREATE DATABASE shop');
	$node{main}->safe_psql('shop', q{
		CREATE TABLE orders (id int PRIMARY KEY, customer int);
		CREATE TABLE order_lines (id int PRIMARY KEY, what text);
		CREATE TABLE visits (id int PRIMARY KEY, day date);
		CREATE SEQUENCE "order numbers";
		SELECT setval('"order numbers"', 42);
		INSERT INTO orders SELECT i, i % 100 FROM generate_series(1, 20000) i;
		INSERT INTO visits SELECT i, now() FROM generate_series(1, 1000) i;
		DELETE FROM orders WHERE id % 5 = 0});
	add_server('standby', standby_of => $node{main});
};
$after{'Preloading in a running cluster with a standby'} = sub {
	is(pv_sql($_, 'SHOW shared_preload_libraries'), 'pg_stat_statements, parvacuum', $_->name . ' has the library, and the other one') for @node{qw(main standby)};
	is($out{standby}, '', 'the standby has nothing to be changed');
};
$after{'The first week'} = sub {
	is($node{main}->safe_psql('shop', $options), $options_of_shop, 'the tables have opted in');
	says_engine($node{main}, 'engine: parvacuum', 'and parvacuum vacuums them');
	is($node{main}->safe_psql('shop', q{SELECT count(*) FROM parvacuum_check() WHERE name = 'autovacuum'}), '0', 'nothing is left to nobody');
};

# Each column of the table of settings has enough processes.
$after{'Settings by size of machine'} = sub {
	my $server = add_server('sizes', preload => 'parvacuum');
	my @rows = map { [ /`([\w.]+)` \| (.*) \|$/ ] } grep { /^\| `(?:max|parvacuum)\S+ \| \d+ \|/ } split /\n/, $sections;

	is(scalar(@rows), 6, 'the table has six settings');
	pv_sql($server, 'CREATE EXTENSION parvacuum; ALTER SYSTEM SET parvacuum.scheduler = on');
	for my $column (0 .. 4)
	{
		my %value = map { ($_->[0] => (split / \| /, $_->[1])[$column]) } @rows;
		pv_sql($server, "ALTER SYSTEM SET $_ = $value{$_}") for sort keys %value;
		$server->restart;
		is(pv_sql($server, q{SELECT evidence FROM parvacuum_check() WHERE name = 'worker_processes'}), '', "column $column: max_worker_processes is enough");
		is($value{max_worker_processes}, $value{max_parallel_workers} + 4 + $value{'parvacuum.scheduler_workers'} + 2, "column $column: and no more");
	}
	$server->stop;
};

$before{'Upgrading parvacuum'} = sub { $node{main}->safe_psql('shop', 'CREATE EXTENSION parvacuum_cluster') };

$before{'pg_upgrade'} = sub { add_server('new', stopped => 1) };
$after{'pg_upgrade'} = sub {
	is($node{new}->safe_psql('shop', $options), $options_of_shop, 'pg_upgrade has kept the options');
	says_engine($node{new}, 'engine: parvacuum', 'and parvacuum vacuums the table there');
	$node{new}->stop;
	$node{main}->start;
};

$before{'Logical replication, blue and green'} = sub { add_server('green', preload => 'parvacuum') };
$after{'Logical replication, blue and green'} = sub {
	is($node{green}->safe_psql('shop', $options), $options_of_shop, 'the green cluster has the options');
	is($node{green}->safe_psql('shop', 'SHOW parvacuum.enabled'), 'on', 'and the setting of the database');
	is($node{green}->safe_psql('shop', 'SELECT count(*) FROM orders'), '16000', 'and the rows');
	is($node{green}->safe_psql('shop', q{SELECT nextval('"order numbers"')}), '43', 'and the values of sequences');
	$node{green}->stop;
};

$before{'Dump and restore'} = sub { add_server('plain') };
$after{'Dump and restore'} = sub {
	is($node{main}->safe_psql('copy', $options), $options_of_shop, 'a server with the library has the options');
	is($node{plain}->safe_psql('copy', 'SELECT count(*) FROM orders'), '16000', 'a server without it has the rows');
	$node{plain}->stop;
};

$after{'Removing it'} = sub {
	is($out{'Removing it'}{nothing}, '', 'nothing needs the library');
	is(pv_sql($_, 'SHOW shared_preload_libraries'), 'pg_stat_statements', $_->name . ' has the other library only') for @node{qw(main standby)};
	says_engine($node{main}, '', 'PostgreSQL vacuums the table');
};

sub run_block
{
	my ($section, $block) = @_;
	my $node = $node{ $block->{server} };

	return if pv_excused($block, %excuse);
	if (!$node) { fail("$block->{file}:$block->{line}: there is no server $block->{server}"); return; }
	return run_shell($node, $block) if $block->{kind} eq 'sh';
	if ($block->{kind} eq 'sql')
	{
		if ($block->{server} eq 'standby')
		{
			$node{main}->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_stat_replication');
			pv_catch_up($node{main}, $node{standby});
		}
		my $out = pv_run_sql($node, 'shop', $block);
		$out{ $block->{server} } = $out;
		$out{$section}{nothing} = $out if $block->{text} =~ /pg_file_settings/;
		return;
	}
	fail("$block->{file}:$block->{line}: neither a command nor excused");
	return;
}

my $line = 0;
my ($section, %section_at) = ('');
for (split /\n/, $sections)
{
	$line++;
	$section_at{$line} = $1 if /^##+ (.*)/;
}
my %known = map { $_ => 1 } values %section_at;
my %named = (%before, %after);
ok($known{$_}, "there is a section \"$_\"") for sort keys %named;
my @blocks = pv_blocks('docs/operating.md');
for my $at (sort { $a <=> $b } keys %section_at)
{
	my ($next) = grep { $_ > $at } sort { $a <=> $b } keys %section_at;
	$section = $section_at{$at};
	$before{$section}->() if $before{$section};
	run_block($section, $_) for grep { $_->{line} > $at && (!$next || $_->{line} < $next) } @blocks;
	$after{$section}->() if $after{$section};
}
is(join(', ', pv_unused_excuses(%excuse)), '', 'each excuse is used');
# the log of the new cluster is where the document has it
for my $name (sort grep { $_ ne '' && $_ ne 'new' } keys %node) { pv_no_crash($node{$name}, "the server $name") }
done_testing();
