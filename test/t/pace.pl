# The adaptive pace: the scheduler, or autovacuum, is faster while clients do not feel it, slower when they do,
# and as fast as its limits say when nobody can tell, or a standby or a checkpoint would suffer later.
#
# One client computes or, while a switch is on and the vacuum uses cost units, waits as if for a
# page.  So it is harmed while vacuums work and not while they pause, however slow or busy the machine.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../torture", $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvFaults;
use PvTest;
use Test::More;

# A page costs 200: three times the limit is 300 pages a second, and the table has 60000.
my $limit = 20000;
faults_node('pace', qq{
autovacuum = off
autovacuum_naptime = 1s
autovacuum_vacuum_threshold = 50
autovacuum_vacuum_scale_factor = 0
autovacuum_analyze_threshold = 1000000000
log_autovacuum_min_duration = 0
vacuum_cost_page_hit = 200
vacuum_cost_page_miss = 200
parvacuum.scheduler = on
parvacuum.scheduler_workers = 1
parvacuum.scheduler_max_cost = $limit
wal_level = replica
max_wal_senders = 4
});
sub sql { return pv_sql($node, @_); }

# Wait until parvacuum_pace() is as wanted
sub pace_is
{
	my ($what, $name) = @_;
	ok(pv_await($node, "SELECT $what FROM parvacuum_pace()", 'true'), $name)
	  or diag sql('SELECT * FROM parvacuum_pace()', 'SELECT phase, heap_blks_scanned, heap_blks_total FROM pg_stat_progress_vacuum'), pv_processes($node);
	return;
}

sql('CREATE EXTENSION IF NOT EXISTS parvacuum_test', 'CREATE TABLE switch AS SELECT false AS is_on',
	'CREATE UNLOGGED TABLE big (a int, b char(4000)) WITH (parvacuum.enabled, parvacuum.workers = 0, autovacuum_enabled = off)', 'ALTER TABLE big ALTER b SET STORAGE PLAIN',
	q{INSERT INTO big SELECT i, 'x' FROM generate_series(1, 120000) i}, 'DELETE FROM big WHERE a % 4 = 0',
	q{CREATE PROCEDURE be_a_client() LANGUAGE plpgsql AS $$
		DECLARE
			units bigint;
			before bigint = 0;
		BEGIN
			LOOP
				SELECT cost_units INTO units FROM parvacuum_scheduler_stats();
				IF units > before AND EXISTS (SELECT FROM switch WHERE is_on) THEN
					PERFORM parvacuum_test_wait(20000);
				ELSE
					PERFORM count(*) FROM generate_series(1, 2000);
				END IF;
				before = units;
				COMMIT;
			END LOOP;
		END $$});

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('pace_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

my $client = pv_start_run($node, 'CALL be_a_client()');
sql('ALTER TABLE big RESET (autovacuum_enabled)');
ok(pv_await($node, q{SELECT phase FROM pg_stat_progress_vacuum}, 'scanning heap'), 'the table is being vacuumed');
is(sql('SELECT * FROM parvacuum_pace()'), "settings||$limit|$limit|", 'the pace is fixed by default');
pv_reload_with($node, 'parvacuum.pace' => 'adaptive');
pace_is("rate > 3 * floor AND harm IS NOT NULL AND since <= clock_timestamp()", 'a client that is not harmed: the rate rises');
my $peak = sql('SELECT rate FROM parvacuum_pace()');

sql('UPDATE switch SET is_on = true');
pace_is("limited_by IN ('harm', 'floor') AND harm > 0.05 AND rate < $peak / 2", 'a client that is: it falls');
cmp_ok(sql('SELECT rate FROM parvacuum_pace()'), '>=', $limit, 'not below the limit of the settings');
sql('UPDATE switch SET is_on = false');
pace_is('rate > 3 * floor', 'it is not harmed any more: the rate rises again');

# A standby stops to replay.  The client is harmed meanwhile, so the rate stays low.
my $slowed = "limited_by IN ('harm', 'floor')";
sql('UPDATE switch SET is_on = true');
pace_is($slowed, 'a client is harmed again');
pv_reload_with($node, 'parvacuum.pace_max_lag' => '1s');
pv_sql($standby, 'SELECT pg_wal_replay_pause()');
sql('UPDATE switch SET is_on = true');
pace_is("limited_by = 'standby' AND rate = floor AND harm IS NULL", 'a standby does not replay: the rate is the floor');
pv_reload_with($node, 'parvacuum.pace_max_lag' => 0);
pace_is($slowed, 'standbys are not to matter: harm does again');
pv_reload_with($node, 'parvacuum.pace_max_lag' => '1s');
pace_is("limited_by = 'standby'", 'they are to matter');
pv_sql($standby, 'SELECT pg_wal_replay_resume()');
pace_is($slowed, 'the standby has replayed');
pv_sql($standby, 'SELECT pg_wal_replay_pause()');
sql('UPDATE switch SET is_on = true');
pace_is("limited_by = 'standby'", 'it stops again');
$standby->stop('immediate');
pace_is($slowed, 'the standby is gone');

# Of the 16 MB of WAL until the next checkpoint, 3 MB may be written at once, and the rest in the half
# minute of checkpoint_warning.
pv_reload_with($node, max_wal_size => '64MB');
sql('CHECKPOINT', "SELECT pg_logical_emit_message(false, '', repeat('x', 1000000)) FROM generate_series(1, 10)");
pace_is("limited_by = 'checkpoint' AND rate = floor AND harm IS NULL", 'a checkpoint would come too soon: the rate is the floor');
pv_reload_with($node, checkpoint_warning => 0);
pace_is($slowed, 'checkpoints may come at any time');
sql('UPDATE switch SET is_on = false');

# The table becomes so old that half of the way to the failsafe is gone, which the scan of another
# worker sees.
pace_is("floor < 1.5 * $limit", 'a young table: the floor is the limit of the settings');
pv_reload_with($node, 'parvacuum.scheduler_workers' => 2);
sql(q{UPDATE pg_class SET relfrozenxid = ((pg_current_xact_id()::text::bigint - 900000000) & 4294967295)::text::xid WHERE relname = 'big'});
pace_is("floor BETWEEN 1.9 * $limit AND 3 * $limit", 'an old table: it is twice as much');

# What clients feel cannot be measured.
faults_arm(kinds => ['open'], error => 'ENOENT', path => '/proc/*/schedstat', times => 1000000);
pace_is("limited_by = 'blind' AND harm IS NULL AND rate BETWEEN floor AND 1.5 * floor", 'the sensor is lost: the rate is that of the settings');
faults_disarm();
pace_is("limited_by <> 'blind' AND rate > 2 * floor", 'it is there again: the rate rises');

# Nor can it where only a client that does nothing can be looked at.  The sessions that ask are
# clients as well, so they are short and rare.
my $idle = $node->background_psql('postgres');
my $pid = sql(q{SELECT pid FROM pg_stat_activity WHERE query ~ '^CALL be_a_client'});
faults_arm(kinds => ['open'], error => 'ENOENT', path => "/proc/$pid/schedstat", times => 1000000);
my $limited_by = '';
for (1 .. $PostgreSQL::Test::Utils::timeout_default / 2)
{
	sleep 2;
	$limited_by = sql('SELECT limited_by FROM parvacuum_pace()');
	last if $limited_by eq 'blind';
}
is($limited_by, 'blind', 'a client that is idle tells nothing of one that is not');
faults_disarm();
$idle->quit;
pace_is("limited_by <> 'blind'", 'the other one can be seen again');

pv_reload_with($node, 'parvacuum.pace' => 'fixed');
pace_is("limited_by = 'settings' AND rate = $limit AND since IS NULL", 'a reload makes the pace fixed again');
pv_reload_with($node, 'parvacuum.pace' => 'adaptive');

# Nobody is there: the vacuum is as fast as it can be.
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^CALL be_a_client'});
pv_finish($client);
ok(pv_await($node, q{SELECT vacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 'big'}, 'true'), 'without clients the vacuum ends soon');
pace_is("limited_by = 'settings' AND rate = $limit", 'after it the pace is fixed');
is(sql(q{SELECT paced_ms BETWEEN 1000 AND elapsed_ms FROM parvacuum_history WHERE relname = 'big' ORDER BY run DESC LIMIT 1}), 't', 'the history has the time in which the pace limited it')
  or diag sql(q{SELECT relname, started_by, outcome, paced_ms, elapsed_ms FROM parvacuum_history ORDER BY run DESC LIMIT 3});
like(slurp_file($node->logfile), qr/automatic vacuum of table "postgres\.public\.big".*?\n\tpace: limited for \d+\.\d+ ms/s, 'so does the log');

# Autovacuum has the pace too, unless the scheduler or the table has limits of its own.
sub autovacuum_begins
{
	my ($name) = @_;
	ok(pv_await($node, q{SELECT heap_blks_scanned > 100 FROM pg_stat_progress_vacuum JOIN pg_stat_activity USING (pid) WHERE backend_type = 'autovacuum worker' AND relid = 'big'::regclass}, 'true'), $name);
	return;
}
sub end_autovacuum { return sql("SELECT bool_and(pg_terminate_backend(pid, ${PostgreSQL::Test::Utils::timeout_default}000)) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'"); }
$client = pv_start_run($node, 'CALL be_a_client()');
pv_reload_with($node, 'parvacuum.scheduler' => 'off', autovacuum_vacuum_cost_delay => '10ms', autovacuum => 'on');
sql('DELETE FROM big WHERE a % 4 = 1');
autovacuum_begins('autovacuum vacuums the table');
is(sql('SELECT limited_by FROM parvacuum_pace()'), 'settings', 'it does not use a rate that is for the scheduler alone');
pv_reload_with($node, 'parvacuum.scheduler_max_cost' => -1);
end_autovacuum();
autovacuum_begins('another worker vacuums the table');
pace_is('rate > 3 * floor AND harm IS NOT NULL', 'a client that is not harmed: its rate rises');
sql('UPDATE switch SET is_on = true');
pace_is("limited_by IN ('harm', 'floor') AND harm > 0.05", 'a client that is: it falls');
sql('UPDATE switch SET is_on = false');
end_autovacuum();
pace_is("limited_by = 'settings'", 'the worker is terminated: nobody uses the pace');
# A worker may have begun before the table had limits, and have gone before the new work was there.
sql('ALTER TABLE big SET (autovacuum_vacuum_cost_delay = 20)', 'DELETE FROM big WHERE a % 4 = 2');
autovacuum_begins('a third one does, with the limits of the table');
is(sql('SELECT limited_by FROM parvacuum_pace()'), 'settings', 'it does not use the pace');
sql('ALTER TABLE big RESET (autovacuum_vacuum_cost_delay)');
pv_reload_with($node, autovacuum_vacuum_cost_limit => 10000, autovacuum_vacuum_cost_delay => '1ms');
end_autovacuum();
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^CALL be_a_client'});
pv_finish($client);
ok(pv_await($node, q{SELECT n_dead_tup = 0 FROM pg_stat_user_tables WHERE relname = 'big'}, 'true'), 'with a high budget another one ends soon');
pace_is("limited_by = 'settings'", 'after it nobody uses the pace');
pv_no_crash($node, 'the server');
$node->stop;
done_testing();
