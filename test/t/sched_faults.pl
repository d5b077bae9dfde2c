# The scheduler when something goes wrong: workers and the launcher end, tables go or fail,
# no process can be started, the server crashes.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;
use Time::HiRes qw(sleep time);

sched_start('scheduler_faults', q{
autovacuum_freeze_max_age = 100000
vacuum_freeze_min_age = 0
parvacuum.scheduler = on
});

my $workers = q{FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker'};
my $launcher = q{FROM pg_stat_activity WHERE backend_type = 'parvacuum launcher'};

my ($from, $count, $oid);

make_keyed(qw(busy t_ended t_dropped t_renamed t_truncated t_last));

#
# A worker is terminated while it vacuums a table.
#
hold('t_ended');
make_keyed_dead('t_ended');
until_item('t_ended', 'running', 'terminated: a worker vacuums the table');
my $pid = sql(q{SELECT pid FROM parvacuum_queue WHERE relid = 't_ended'::regclass});

# A database scan becomes due meanwhile.
until_answer(q{SELECT count(*) FROM parvacuum_queue_items() WHERE clock_timestamp() - since > '1.5 s'}, 1, 'terminated: the vacuum takes a while');
sql("SELECT pg_terminate_backend($pid)");
until_answer("SELECT count(*) $workers AND pid = $pid", 0, 'terminated: the worker ends');
release();
until_vacuumed('t_ended', 2, 'terminated: a later database scan vacuums its table');
is(pv_findings($node, 't_ended'), '', 'terminated: the table is whole');

#
# Tables that are dropped or changed while they are queued
#
my $errors = stat_of('errors');
keep_busy('DDL');
make_keyed_dead(qw(t_dropped t_renamed t_truncated t_last));
sql(map { "SELECT parvacuum_enqueue('$_')" } qw(t_dropped t_renamed t_truncated t_last));
until_item($_, 'queued', "DDL: $_ is queued") for qw(t_dropped t_renamed t_truncated t_last);
sql('DROP TABLE t_dropped', 'ALTER TABLE t_renamed RENAME TO t_new', 'TRUNCATE t_truncated');
go_on('DDL');
is(vacuums('t_new'), 2, 'DDL: the renamed table is vacuumed');
is(vacuums('t_last'), 2, 'DDL: the next table is vacuumed');
is(stat_of('errors'), $errors, 'DDL: no error is counted');

# A table that is dropped while it is vacuumed
hold('t_new');
make_keyed_dead('t_new');
until_item('t_new', 'running', 'dropped: a worker vacuums the table');
is(($node->psql('postgres', q{SET lock_timeout = '1min'; DROP TABLE t_new}))[0], 0, 'dropped: DROP TABLE succeeds');
release();
until_answer($active, 0, 'dropped: the queue is empty');
until_answer(q{SELECT count(*) FROM parvacuum_queue WHERE relation IS NULL OR relation::text ~ '^[0-9]'}, 0, 'dropped: no entry is without a name');
#
# The launcher is terminated and canceled.
#
for my $how (qw(pg_terminate_backend pg_cancel_backend))
{
	my $count = vacuums('t_last');
	my $old = sql("SELECT pid $launcher");
	hold('busy', 't_last');
	make_keyed_dead('busy', 't_last');
	until_item('busy', 'running', "$how, the launcher: a worker vacuums a table");
	sql("SELECT $how(pid) $launcher");
	release();
	until_vacuumed('t_last', $count + 1, "$how, the launcher: its workers go on");
	until_answer("SELECT count(*) $launcher AND pid <> $old", 1, "$how, the launcher: it is started again") if $how =~ /terminate/;
	make_keyed_dead('t_last');
	until_vacuumed('t_last', $count + 2, "$how, the launcher: it starts new workers");
}
#
# An error in one table does not affect the others.
#
make_keyed(qw(e_function e_file e_other));
# A function of an index, and how it is made to fail
my $works = 'CREATE OR REPLACE FUNCTION broken(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN i; END$$';
my $break = 'CREATE OR REPLACE FUNCTION broken(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RAISE EXCEPTION \'broken\'; END$$';
sql($works, 'CREATE INDEX ON e_function (broken(id))');
sql($break);
sql('ALTER TABLE e_function SET (autovacuum_analyze_threshold = 10, autovacuum_analyze_scale_factor = 0)');
my $file = $node->data_dir . '/' . sql(q{SELECT pg_relation_filepath('e_file')});
$errors = stat_of('errors');
make_keyed_dead('e_file');
# Its pages have been written.  Hide the file.
rename $file, "$file.away" or die "cannot rename $file: $!";
sql('DELETE FROM e_function WHERE id % 3 = 0');
make_keyed_dead('e_other');
until_answer("SELECT errors >= $errors + 4 FROM parvacuum_scheduler_stats()", 'true', 'errors: each one is counted');
until_item('e_function', 'waiting error', 'errors: a function that fails in ANALYZE');
until_item('e_file', 'waiting error', 'errors: a file that is missing');
until_vacuumed('e_other', 2, 'errors: another table is vacuumed');
cmp_ok(times_logged(q{parvacuum's scheduled (?:vacuum|analyze) of table "postgres\.public\.e_f}), '>', 1, 'errors: the log has the tables');

# A table that fails again and again is left alone for longer each time, by autovacuum as well; also
# if its worker ends.  A request of an administrator ends the pause.
sub until_paused { return until_answer("SELECT until - now() > interval '$_[1]' FROM parvacuum_queue WHERE relid = '$_[0]'::regclass AND state = 'waiting' AND reason = 'error'", 'true', $_[2]); }
until_paused('e_file', '3 s', 'errors: a file that is missing, the pause becomes longer');
until_paused('e_function', '3 s', 'errors: a function that fails, the pause becomes longer');
sql($break =~ s/BEGIN/BEGIN PERFORM set_config('exit_on_error', 'on', false);/r);
$from = log_length();
sql(q{SELECT parvacuum_enqueue('e_function')});
ok($node->wait_for_log(qr/parvacuum scheduler worker FATAL:  .*broken/, $from), 'errors: a request ends the pause; the worker ends');
until_paused('e_function', '3 s', 'errors: a worker that ends counts as well');
sql($break);

# Autovacuum leaves alone what the scheduler does: a table that has failed, and one outside of its
# window.  It has been there when it has vacuumed a table that has not opted in, twice.
sql("CREATE TABLE not_in (id int) WITH ($low, parvacuum.enabled = off)", 'INSERT INTO not_in SELECT generate_series(1, 100)');
sql("CREATE TABLE closed (id int) WITH ($in, $low, $calm, parvacuum.window = 'never')", 'INSERT INTO closed SELECT generate_series(1, 100)', 'DELETE FROM closed');
reload_with(autovacuum => 'on');
my $until = q{SELECT until FROM parvacuum_queue WHERE relid = 'e_file'::regclass};
for my $try (1 .. 5)
{
	until_paused('e_file', '5 s', "autovacuum: a failing table is left alone, $try");
	my $before = sql($until);
	$from = log_length();
	for (1 .. 2)
	{
		my $n = vacuums('not_in');
		sql('UPDATE not_in SET id = id');
		until_vacuumed('not_in', $n + 1, "autovacuum: it vacuums another table, $try");
	}
	last if sql($until) eq $before;
}
is(times_logged(q{autovacuum worker ERROR:  .*could not open file}, $from), 0, 'autovacuum: it has not tried the table that fails');
is(vacuums('closed'), 0, 'autovacuum: nor has it vacuumed a table outside of its window');
sql(q{ALTER TABLE closed SET (parvacuum.window = '')});
until_vacuumed('closed', 1, 'autovacuum: it is vacuumed in its window');
reload_with(autovacuum => 'off');
sql('DROP TABLE not_in, closed');

# A table that fails has no cost limits, but the next one of the worker keeps to those of the
# scheduler.  Its score is lower.
reload_with('parvacuum.scheduler' => 'off', 'parvacuum.scheduler_workers' => 1);
until_answer("SELECT count(*) $workers", 0, 'limits: no worker is left');
sql($works =~ s/broken/fails/r, "CREATE TABLE unlimited (i int) WITH ($in, autovacuum_vacuum_cost_delay = 0)", 'INSERT INTO unlimited SELECT generate_series(1, 1000)', 'CREATE INDEX ON unlimited (fails(i))',
	"CREATE TABLE limited (i int) WITH ($in, $calm, autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_threshold = 14000, autovacuum_vacuum_scale_factor = 0)", 'INSERT INTO limited SELECT generate_series(1, 30000)',
	'DELETE FROM limited WHERE i % 2 = 0', $break =~ s/broken/fails/r, 'CHECKPOINT');
set_speed(1000);
reload_with('parvacuum.scheduler' => 'on');
until_vacuumed('limited', 1, 'limits: the table behind one that fails is vacuumed');
cmp_ok(times_logged(q{parvacuum's scheduled analyze of table "postgres\.public\.unlimited}), '>', 0, 'limits: the other has failed');
cmp_ok(sql(q{SELECT elapsed_ms FROM parvacuum_history WHERE relation = 'limited'::regclass}), '>', 1500, 'limits: the limit of the scheduler holds for it');
set_speed(0);
reload_with('parvacuum.scheduler_workers' => 3);
sql('DROP TABLE unlimited, limited');
rename "$file.away", $file or die "cannot rename $file: $!";
sql($works);
until_vacuumed('e_file', 2, 'errors: the file is back, and the table is vacuumed');
until_answer(q{SELECT analyze_count > 0 FROM pg_stat_user_tables WHERE relname = 'e_function'}, 'true', 'errors: the function works, and the table is analyzed');
is(pv_findings($node, $_), '', "errors: $_ is whole") for qw(e_function e_file);

#
# No slot for a background worker is free: the last one is taken.
#
forget_holder();
$node->stop;
pv_no_crash($node, 'the server');
$node->append_conf('postgresql.conf', "max_worker_processes = 3\nrestart_after_crash = on\n");
$node->append_conf('postgresql.auto.conf', "parvacuum.scheduler = off\n");	# else the scheduler takes it itself
$node->start;
my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE busy');
my $run = pv_start_run($node, q{SELECT parvacuum_run('busy')});
until_answer(q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND backend_type LIKE 'parvacuum%'}, 1, 'no slot: parvacuum_run() has the last one');
$from = log_length();
reload_with('parvacuum.scheduler' => 'on');
sql(q{UPDATE t_last SET pad = 'z' WHERE id % 3 = 1});
ok($node->wait_for_log(qr/LOG: .*parvacuum's scheduler could not start a process/, $from), 'no slot: logged');
sleep 2.5;
is(times_logged(q{parvacuum's scheduler could not start a process}, $from), 1, 'no slot: logged once');
is(sql(q{SELECT severity FROM parvacuum_check() WHERE name = 'worker_processes'}), 'warning', 'no slot: parvacuum_check() warns');
$locker->query_safe('COMMIT');
$locker->quit;
pv_finish($run);
until_answer(q{SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 't_last'}, 0, 'no slot: the table is vacuumed when a slot is free');

#
# A worker is killed: the server restarts all processes, and the scheduler begins again.
#
hold('t_last');
make_keyed_dead('t_last');
until_item('t_last', 'running', 'killed: a worker vacuums the table');
$pid = sql(q{SELECT pid FROM parvacuum_queue WHERE relid = 't_last'::regclass});
my $old = sql("SELECT pid $launcher");
$from = log_length();
kill 'KILL', $pid;
forget_holder();
ok($node->wait_for_log(qr/ready to accept connections/, $from), 'killed: the server is running again');
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 $launcher AND pid <> $old"), 'killed: the launcher is started again');
is(pv_findings($node, 't_last'), '', 'killed: the table is whole');
sql('DELETE FROM t_last WHERE id % 3 = 2');
ok($node->poll_query_until('postgres', 'SELECT ' . vacuum_sql('t_last') . ' > 0'), 'killed: the table is vacuumed');
is(sql('SELECT count(*) FROM parvacuum_queue'), 0, 'killed: the queue is empty');

$node->stop;
is(times_logged('PANIC:|TRAP:'), 0, 'no other crash');
done_testing();
