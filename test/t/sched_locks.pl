# Locks that scheduler workers hold, and those that they wait for: when they give way to
# other sessions, and what becomes of the table.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;

sched_start('scheduler_locks');
make_bell();

reload_with('parvacuum.scheduler' => 'on');
my $pid;

#
# A worker that vacuums gives way to a session that waits for the lock of its table.
#
make_tables(200, qw(gives not_for_age by_hand));
start_held('gives', 'a lock');
my $locker = $node->background_psql('postgres');
$locker->query_safe(q{SET lock_timeout = '2min'; BEGIN; LOCK TABLE gives IN ACCESS EXCLUSIVE MODE});
like(slurp_file($node->logfile), qr/canceling statement due to user request\n.*CONTEXT:  (?:.*\n){0,2}.*parvacuum's scheduled vacuum of table "postgres\.public\.gives"/, 'a lock: the log names the table whose vacuum was canceled');
my $session = q{lock_pid, lock_usename, lock_query};
my $locker_pid = $locker->query_safe('SELECT pg_backend_pid()');
like(sql(qq{SELECT outcome, error, $session FROM parvacuum_history WHERE relation = 'gives'::regclass AND outcome = 'canceled'}),
	qr/^canceled\|gave way to a session that waits for a lock\|$locker_pid\|\w+\|LOCK TABLE gives IN ACCESS EXCLUSIVE MODE/, 'a lock: the history has the session that it gave way to');
until_item('gives', 'waiting lock', 'a lock: the table waits for the lock to be released');
my $locked = stat_of('skipped_lock');
ok(pv_await($node, "SELECT skipped_lock > $locked FROM parvacuum_scheduler_stats()", 'true'), 'a lock: the skipped table is counted');
is(vacuums('gives'), 1, 'a lock: the table is not vacuumed yet');
like(sql(qq{SELECT action, runs > 1, start_time = end_time, $session FROM parvacuum_history WHERE relation = 'gives'::regclass AND outcome = 'skipped'}),
	qr/^vacuum\|t\|t\|$locker_pid\|\w+\|SELECT pg_backend_pid/, 'a lock: the history has one row for the times that it was skipped, with the session that had the lock');
my $check = q{FROM parvacuum_check() WHERE name = 'skipped' AND relation = 'gives'::regclass};
ok(pv_await($node, "SELECT count(*) $check", 1), 'a lock: parvacuum_check() has a row when the table was skipped three times');
like(sql("SELECT evidence $check"), qr/^\d+ vacuums in a row were not completed, the last one was skipped at .*; because of PID $locker_pid, role "\w+"$/, 'a lock: with the session');
is(sql(q{SELECT runs_canceled, runs, errors FROM parvacuum_stats WHERE relation = 'gives'::regclass}), '1|2|0', 'a lock: tables that were skipped were not vacuumed');
$locker->query_safe('COMMIT');
release();
until_vacuumed('gives', 2, 'a lock: a later database scan vacuums the table');
is(pv_findings($node, 'gives'), '', 'a lock: the table is whole');
sql('CREATE ROLE keeper', 'ALTER TABLE gives OWNER TO keeper');
is(sql('SET ROLE keeper', q{SELECT count(*), count(lock_pid), count(lock_usename), count(lock_query) FROM parvacuum_history WHERE relation = 'gives'::regclass AND outcome IN ('canceled', 'skipped')}), '2|2|2|0',
	'a lock: the owner of the table does not see what sessions of other roles executed');

# A vacuum that is canceled by hand has not given way to a session that waits since a moment.
{
	my $timeout = sql('SHOW deadlock_timeout');
	reload_with(deadlock_timeout => '1min');
	start_held('by_hand', 'by hand');
	my $waiter = pv_start_run($node, 'BEGIN; LOCK TABLE by_hand IN SHARE MODE; COMMIT');
	ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE relation = 'by_hand'::regclass AND NOT granted}, 1), 'by hand: a session waits');
	sql(q{SELECT parvacuum_cancel('by_hand')});
	ok(pv_finish($waiter), 'by hand: it gets the lock');
	is(sql(q{SELECT outcome, error, lock_pid FROM parvacuum_history WHERE relation = 'by_hand'::regclass AND outcome = 'canceled'}), 'canceled|canceling statement due to user request|', 'by hand: the history has no session');
	reload_with(deadlock_timeout => $timeout);
	release();
	until_vacuumed('by_hand', 2, 'by hand: a later scan vacuums the table');
}

# A statement that needs a lock succeeds, but a vacuum against wraparound does not give way.
start_held('not_for_age', 'wraparound');
is(($node->psql('postgres', q{SET lock_timeout = '2min'; ALTER TABLE not_for_age SET (fillfactor = 90, autovacuum_freeze_max_age = 150000000)}))[0], 0, 'ALTER TABLE gets its lock');
sql(q{UPDATE pg_class SET relfrozenxid = ((txid_current() - 190000000) & 4294967295)::text::xid WHERE relname = 'not_for_age'});
ok(pv_await($node, q{SELECT wraparound FROM parvacuum_queue_items() WHERE relid = 'not_for_age'::regclass AND state = 'running'}, 'true'), 'wraparound: the vacuum runs');
$pid = worker_of('not_for_age');
like(($node->psql('postgres', q{SET lock_timeout = '500ms'; ALTER TABLE not_for_age SET (fillfactor = 100)}))[2], qr/lock timeout/, 'wraparound: other sessions wait for the lock');
is(worker_of('not_for_age'), $pid, 'wraparound: the vacuum goes on');
like(sql("SELECT query FROM pg_stat_activity WHERE pid = $pid"), qr/^autovacuum: VACUUM( ANALYZE)? public\.not_for_age \(parvacuum\) \(to prevent wraparound\)$/, 'wraparound: pg_stat_activity shows the reason');
release();
until_vacuumed('not_for_age', 2, 'wraparound: the vacuum is completed');

# A worker does not wait for a locked table, not even against wraparound.
reload_with('parvacuum.scheduler_workers' => 1);
$locker->query_safe('BEGIN; LOCK TABLE not_for_age IN SHARE UPDATE EXCLUSIVE MODE');
sql(q{UPDATE pg_class SET relfrozenxid = ((txid_current() - 190000000) & 4294967295)::text::xid WHERE relname = 'not_for_age'});
until_item('not_for_age', 'waiting lock', 'wraparound: a locked table waits in the queue');
make_dead('gives');
until_vacuumed('gives', 3, 'wraparound: other tables are vacuumed meanwhile');
like(slurp_file($node->logfile), qr/LOG: .*parvacuum's scheduler skipped table "postgres\.public\.not_for_age"/, 'wraparound: the log has that the table was locked');
$locker->query_safe('COMMIT');
$locker->quit;
until_vacuumed('not_for_age', 3, 'wraparound: the table is vacuumed when the lock is released');
reload_with('parvacuum.scheduler_workers' => 3);

#
# VACUUM and ANALYZE are two transactions.  Other vacuums respect the snapshot of ANALYZE, and
# it gives way to other sessions, also if the table is small or was vacuumed for its age.
#
sub create_function { return 'CREATE OR REPLACE FUNCTION waits(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN ' . $_[0] . ' RETURN i; END$$'; }
my %of_size = (at_once => 10, for_age => 10, one_by_one => 5000);
sql(create_function(''), 'CREATE TABLE removed (i int)');
sql(map { ("CREATE TABLE $_ (id int, pad char(500))", "ALTER TABLE $_ ALTER pad SET STORAGE PLAIN", "INSERT INTO $_ SELECT i, 'x' FROM generate_series(1, $of_size{$_}) i",
		"CREATE INDEX ${_}_idx ON $_ (waits(id))") } sort keys %of_size);
sql(map { "VACUUM ANALYZE $_" } sort keys %of_size);	# by a session that has no counts to report later
sql(create_function('PERFORM pg_advisory_xact_lock_shared(1);'));
my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(1)');
for my $table (sort keys %of_size)
{
	my $statistics = "SELECT reltuples, (SELECT analyze_count FROM pg_stat_user_tables WHERE relid = '$table'::regclass) FROM pg_class WHERE oid = '$table'::regclass";
	my $left = $of_size{$table} / 5;

	sql("ALTER TABLE $table SET ($in, autovacuum_vacuum_threshold = 5, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 5, autovacuum_analyze_scale_factor = 0)",
		'BEGIN', "DELETE FROM $table WHERE id % 5 > 0",
		q{UPDATE pg_class SET relfrozenxid = ((txid_current() - 190000000) & 4294967295)::text::xid WHERE relname = '} . ($table eq 'for_age' ? $table : '') . q{'},
		'SELECT pg_stat_force_next_flush()', 'COMMIT');
	ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 1), "$table: ANALYZE waits in a function of the index");
	$pid = worker_of($table);
	is(sql("SELECT count(*) FROM pg_locks WHERE pid = $pid AND relation = '${table}_idx'::regclass AND mode = 'RowExclusiveLock'"), 0,
		"$table: the transaction of the vacuum has ended");
	is(sql($statistics), "$left|1", "$table: the vacuum is committed");
	sql('INSERT INTO removed VALUES (1)', 'DELETE FROM removed');
	sql('VACUUM removed');
	is(sql(q{SELECT pg_relation_size('removed') > 0}), 't', "$table: rows that its snapshot sees are not removed");
	is(($node->psql('postgres', "BEGIN; SET LOCAL lock_timeout = '2min'; LOCK TABLE $table; COMMIT"))[0], 0, "$table: another session gets the lock");
	is(sql($statistics), "$left|1", "$table: the vacuum stays committed");
	like(sql(qq{SELECT error, lock_query FROM parvacuum_history WHERE relation = '$table'::regclass AND action = 'analyze' AND outcome = 'canceled'}),
		qr/^gave way to a session that waits for a lock\|.*LOCK TABLE $table/, "$table: the history has the ANALYZE that was canceled");
	sql("ALTER TABLE $table SET (autovacuum_enabled = off)");
	ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 0), "$table: no process waits any more");
	sql('VACUUM removed');
	is(sql(q{SELECT pg_relation_size('removed')}), 0, "$table: the rows are removed afterwards");
}
$holder->query_safe('SELECT pg_advisory_unlock(1)');
$holder->quit;
sql(map { "ALTER TABLE $_ SET (autovacuum_enabled = on)" } sort keys %of_size);
for my $table (sort keys %of_size)
{
	ok(pv_await($node, "SELECT analyze_count FROM pg_stat_user_tables WHERE relid = '$table'::regclass", 2), "$table: a later database scan analyzes it");
	is(sql(qq{SELECT count(*), bool_and(elapsed_ms > 0 AND buffers_hit > 0 AND pages_total IS NULL) FROM parvacuum_history WHERE relation = '$table'::regclass AND action = 'analyze' AND outcome = 'done'}), '1|t',
		"$table: the history has that ANALYZE");
	is(pv_findings($node, $table), '', "$table: the table is whole");
}
sql('DROP TABLE removed, ' . join(', ', sort keys %of_size));

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
