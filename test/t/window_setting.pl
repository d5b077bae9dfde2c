# parvacuum.window in the configuration: the postmaster reads it at its start, and passes
# it on to each kind of process.  Invalid values are logged.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $nights = 'Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin';
my $node = pv_node('window');
my $log = sub { slurp_file($node->logfile) };
my $show = sub { $node->safe_psql($_[0] // 'postgres', q{SHOW parvacuum."window"}) };
my $holds = sub {
	$node->safe_psql($_[0] // 'postgres', q{SELECT vacuum_window, vacuum_window_from FROM parvacuum_tables WHERE relid = 't'::regclass});
};

# Processes that inherit the settings, or get them from another process
$node->append_conf('postgresql.conf', "parvacuum.window = 'mon-fri 22:00-6:00, sat-sun 0:00-0:00 europe/berlin'\n");
$node->start;
pv_sql($node, q{
	CREATE EXTENSION parvacuum;
	CREATE TABLE t WITH (autovacuum_enabled = off) AS SELECT generate_series(1, 10000) AS i;
	CREATE FUNCTION of_worker() RETURNS text LANGUAGE sql PARALLEL SAFE AS $$SELECT current_setting('parvacuum.window')$$});
is($holds->(), "$nights|configuration file", 'the postmaster has read the window');
like($show->(), qr/^mon-fri/, 'the setting is shown as it was written');
is(pv_sql($node, q{SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query') \\g /dev/null
SET parvacuum."window" = 'never'; SELECT of_worker()}),
	'never', 'a parallel worker gets the window from its leader');
is(pv_sql($node, q{SET parvacuum."window" = '6:00-7:00'; SELECT count(*) FROM parvacuum_run('t', workers => 1)}),
	'1', 'a background leader gets the window from its caller');
unlike($log->(), qr/invalid value for parameter/, 'no warning is logged');

# A reload with a valid and with an invalid value
$node->append_conf('postgresql.conf', "parvacuum.window = '1:00-2:00'\n");
$node->reload;
ok($node->poll_query_until('postgres', q{SELECT current_setting('parvacuum.window') = '1:00-2:00'}), 'a reload changes the setting');
is($holds->(), '01:00-02:00|configuration file', 'a reload changes the window in effect');
$node->append_conf('postgresql.conf', "parvacuum.window = '1:00-2:00 Nowhere/Land'\n");
$node->reload;
ok($node->poll_query_until('postgres', q{SELECT NOT applied FROM pg_file_settings WHERE name = 'parvacuum.window' ORDER BY seqno DESC LIMIT 1}),
	'an invalid value is not applied');
is($holds->(), '01:00-02:00|configuration file', 'the previous window stays in effect');
ok($node->wait_for_log(qr/LOG: .*invalid value for parameter "parvacuum\.window": "1:00-2:00 Nowhere\/Land"/), 'the invalid value is logged');
like($log->(), qr/DETAIL:  This server has no time zone "Nowhere\/Land"\./, 'the log has the reason');
$node->append_conf('postgresql.conf', "parvacuum.window = '$nights'\n");

# The settings of a database and of a role
pv_sql($node, q{
	CREATE DATABASE d; ALTER DATABASE d SET parvacuum."window" = 'never';
	CREATE ROLE r LOGIN SUPERUSER; ALTER ROLE r SET "parvacuum.window" = ''});
$node->safe_psql('d', 'CREATE EXTENSION parvacuum; CREATE TABLE t (i int)');
is($holds->('d'), 'never|database', 'a database has a window of its own');
is($node->safe_psql('d', q{SELECT source, setting FROM pg_settings WHERE name = 'parvacuum.window'}, extra_params => [ '-U', 'r' ]), 'user|', 'a role has a window of its own');

# An invalid value at the start
$node->append_conf('postgresql.conf', "parvacuum.window = 'at night'\n");
$node->restart;
is($holds->(), '|default', 'the server starts with an invalid value, and has no window');
like($log->(), qr/WARNING: .*invalid value for parameter "parvacuum\.window": "at night"/, 'the invalid value at the start is logged');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
