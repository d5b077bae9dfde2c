# A label with a time zone that this server does not know, because it was dumped on
# another one: only the window is ignored, with a warning; the label can be restored.
# Owners cannot make up zones without end.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('zones');
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }
sub attempt { return $node->psql('postgres', join(";\n", @_), on_error_stop => 1); }
sub times_of { my ($text, $pattern) = @_; my $n = () = $text =~ /$pattern/g; return $n; }

my $options = q{SELECT enabled, workers, vacuum_window, vacuum_window_from FROM parvacuum_tables WHERE relid = '%s'::regclass};
my $label_of = q{SELECT label FROM pg_seclabel WHERE provider = 'parvacuum' AND objoid = '%s'::regclass};
my $label = 'enabled=true, window="Mon-Fri 22:00-06:00, 10:00-11:00 Mars/Olympus", workers=3';
my $ignored = qr/WARNING:  ignoring the parvacuum option "window" of table "t"\nDETAIL:  This server cannot use its value: "[^"]*"\./;

sql('CREATE TABLE t AS SELECT i FROM generate_series(1, 100) i', 'CREATE TABLE other (i int)',
	'CREATE TABLE p (i int) PARTITION BY LIST (i)', q{ALTER TABLE p SET (parvacuum."window" = '01:00-02:00')},
	'CREATE TABLE c PARTITION OF p FOR VALUES IN (1)');

# SECURITY LABEL accepts it, ALTER TABLE does not.
my ($rc, $out, $err) = attempt("SECURITY LABEL FOR parvacuum ON TABLE t IS '$label'");
is($rc, 0, 'the label can be set');
like($err, qr/WARNING:  parameter "parvacuum\.window" has no effect on this server: "Mon-Fri 22:00-06:00, 10:00-11:00 Mars\/Olympus"\nDETAIL:  This server does not know its time zone\.\n/, 'the unknown time zone causes a warning');
is(sql(sprintf $label_of, 't'), $label, 'the label is stored unchanged');
for my $zone ('Mars/Olympus', 'FOO+1')
{
	for my $statement ('ALTER TABLE other SET', 'CREATE TABLE another (i int) WITH')
	{
		($rc, $out, $err) = attempt(qq{$statement (parvacuum."window" = '22:00-06:00 $zone')});
		isnt($rc, 0, "$zone: $statement fails");
		like($err, qr/ERROR:  invalid value for parameter "parvacuum\.window": "22:00-06:00 \Q$zone\E"\nDETAIL:  This server has no time zone "\Q$zone\E"\.\n/, "$zone: the error has the reason");
	}
}
for my $bad ('window="22:00-06:00 Mars Olympus"', 'window="22:0-06:00 Mars/Olympus"', 'window="22:00-06:00  Mars/Olympus"', 'window="22:00-06:00 Mars/Olympus")')
{
	isnt((attempt("SECURITY LABEL FOR parvacuum ON TABLE other IS '$bad'"))[0], 0, "not a label: $bad");
}

# The other options apply.
is(sql(sprintf $options, 't'), 't|3||default' =~ s/default/($out = sql('SELECT vacuum_window_from FROM parvacuum_tables WHERE relid = $$other$$::regclass'))/er, 'the other options are in effect');
($rc, $out, $err) = attempt('VACUUM (VERBOSE) t');
like($err, qr/engine: parvacuum/, 'the engine vacuums the table');
like($err, $ignored, 'the unknown time zone causes a warning');
sql(q{SECURITY LABEL FOR parvacuum ON TABLE c IS 'window="22:00-06:00 Mars/Olympus"'});
is(sql(sprintf $options, 'c') =~ s/.*\|(.*\|)/$1/r, '01:00-02:00|ancestor', 'the window of an ancestor is in effect instead');

# One warning for a label in each process, as long as it is the last one
($rc, $out, $err) = attempt('VACUUM t', 'VACUUM other', 'VACUUM t', sprintf($options, 't'), 'VACUUM t');
is(times_of($err, $ignored), 1, 'one warning in a session');
($rc, $out, $err) = attempt('VACUUM t', 'VACUUM t', q{SECURITY LABEL FOR parvacuum ON TABLE t IS 'window="22:00-06:00 Mars/Olympus"'}, 'VACUUM t', 'VACUUM t',
	q{SECURITY LABEL FOR parvacuum ON TABLE t IS 'workers=1'}, 'VACUUM t', q{SECURITY LABEL FOR parvacuum ON TABLE t IS 'window="22:00-06:00 Mars/Olympus"'}, 'VACUUM t', 'VACUUM t');
is(times_of($err, $ignored), 2, 'one more warning after the label was good');

# ALTER TABLE keeps the options that it does not name.
($rc, $out, $err) = attempt('ALTER TABLE t SET (parvacuum.workers = 2)');
is($rc, 0, 'another option can be set');
is(sql(sprintf $label_of, 't'), 'window="22:00-06:00 Mars/Olympus", workers=2', 'the window stays in the label');
sql('CREATE TABLE alike (LIKE t INCLUDING ALL)');
is(sql(sprintf $label_of, 'alike'), 'window="22:00-06:00 Mars/Olympus", workers=2', 'a table created LIKE it has the label, too');
is(sql('ALTER TABLE alike RESET (parvacuum."window")', sprintf $label_of, 'alike'), 'workers=2', 'the window can be reset');
is(sql(q{ALTER TABLE alike SET (parvacuum."window" = '22:00-06:00 utc')}, sprintf $label_of, 'alike'), 'window="22:00-06:00 UTC", workers=2', 'the window can be set with a known time zone');

# A dump can be restored.
my $dump = $PostgreSQL::Test::Utils::tmp_check . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'a dump succeeds');
sql('CREATE DATABASE restored');
$node->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], 'the restore succeeds');
is($node->safe_psql('restored', sprintf $label_of, 't'), 'window="22:00-06:00 Mars/Olympus", workers=2', 'the restored table has the label');
sql('DROP DATABASE restored');

# The rule of a zone, as a version that accepted it would have stored it
($rc, $out, $err) = attempt(q{SECURITY LABEL FOR parvacuum ON TABLE other IS 'window="22:00-06:00 FOO+1"'});
like($err, qr/WARNING:  parameter "parvacuum\.window" has no effect on this server: "22:00-06:00 FOO\+1"/, 'the rule of a zone in a label causes a warning');
like((attempt('VACUUM other'))[2], qr/WARNING:  ignoring the parvacuum option "window" of table "other"/, 'and a vacuum ignores it');
like((attempt(q{SET parvacuum."window" = '22:00-06:00 FOO+1'}))[2], qr/ERROR:  invalid value for parameter "parvacuum\.window"/, 'a setting cannot have it');

# The scheduler: an ignored window is always open.
sql('SECURITY LABEL FOR parvacuum ON TABLE other IS NULL', 'SECURITY LABEL FOR parvacuum ON TABLE c IS NULL', 'DROP TABLE alike');
sql(q{SECURITY LABEL FOR parvacuum ON TABLE t IS 'enabled=true, window="00:00-00:01 Mars/Olympus"'});
sql('ALTER TABLE t SET (autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0)', 'VACUUM t', 'DELETE FROM t WHERE i <= 50');
my $before = sql(q{SELECT vacuum_count + autovacuum_count FROM pg_stat_user_tables WHERE relname = 't'});
my $offset = -s $node->logfile;
pv_reload_with($node, 'autovacuum_naptime' => 1, 'parvacuum.scheduler' => 'on');
ok(pv_await($node, qq{SELECT vacuum_count + autovacuum_count > $before FROM pg_stat_user_tables WHERE relname = 't'}, 'true'), 'the scheduler vacuums the table');
like(substr(slurp_file($node->logfile), $offset), qr/ignoring the parvacuum option "window" of table "t"/, 'the unknown time zone causes a warning');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
