# The scheduler when something goes wrong: processes that end, databases and
# tables that go, no room, errors, recovery.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = pv_node('scheduler_faults', allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_cost_delay = 0
autovacuum_freeze_max_age = 100000
vacuum_freeze_min_age = 0
deadlock_timeout = 100ms
parvacuum.scheduler = on
parvacuum.scheduler_workers = 3
});
$node->start;
pv_setup($node);

sub sql { return $node->safe_psql('postgres', join ";\n", @_); }

sub reload_with { return pv_reload_with($node, @_); }

# Cost units for all scheduler workers together.
sub speed { return reload_with('parvacuum.scheduler_max_cost' => $_[0]); }

sub vacuum_sql { return "(SELECT vacuum_count + autovacuum_count FROM pg_stat_all_tables WHERE relid = '$_[0]'::regclass)"; }
sub vacuums { return sql('SELECT ' . vacuum_sql($_[0])); }
sub stat_of { return sql("SELECT $_[0] FROM parvacuum_scheduler_stats()"); }
sub described { return join "\n", sql('SELECT * FROM parvacuum_queue LIMIT 20'), sql('SELECT * FROM parvacuum_scheduler_stats()'), pv_processes($node); }

# Wait for an answer; nothing that follows makes sense without it.
sub until_answer
{
	my ($query, $answer, $what) = @_;
	ok(pv_await($node, $query, $answer), $what) or die "$what: ", described();
	return;
}
sub until_vacuumed
{
	my ($table, $count, $what) = @_;
	return until_answer('SELECT ' . vacuum_sql($table) . " >= $count", 'true', $what);
}
sub until_item
{
	my ($table, $state, $what) = @_;
	return until_answer("SELECT (SELECT concat_ws(' ', state, reason) FROM parvacuum_queue_items() WHERE relid = '$table'::regclass)", $state, $what);
}

my $active = q{SELECT count(*) FROM parvacuum_queue_items() WHERE state <> 'waiting'};
my $scheduler workers = q{FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker'};
my $launcher = q{FROM pg_stat_activity WHERE backend_type = 'parvacuum launcher'};
my $low = 'parvacuum.enabled, autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000';

# How often the log has something, from some place on.
sub log_length { return length slurp_file($node->logfile); }
sub times_logged
{
	my ($pattern, $from) = @_;
	my $n = () = substr(slurp_file($node->logfile), $from // 0) =~ /$pattern/g;
	return $n;
}

# Tables of 100 pages and more; at 500 units a second one takes four seconds, or more.
my $slowly = 500;
sub create { return map { ("CREATE TABLE $_ (id int PRIMARY KEY, pad char(2400)) WITH ($low)", "ALTER TABLE $_ ALTER pad SET STORAGE PLAIN", "INSERT INTO $_ SELECT i, 'x' FROM generate_series(1, 300) i") } @_; }
sub make_tables { sql(create(@_)); sql(map { "VACUUM $_" } @_); return; }
sub make_dead { return sql(map({ ("ALTER TABLE $_ SET (autovacuum_enabled = off)", "UPDATE $_ SET pad = 'y' WHERE id % 3 = 1") } @_),
		'CHECKPOINT', 'BEGIN', map({ "ALTER TABLE $_ SET (autovacuum_enabled = on)" } @_), 'COMMIT'); }

# Have the only scheduler worker busy.
sub keep_busy
{
	reload_with('parvacuum.scheduler_workers' => 1);
	speed($slowly);
	make_dead('busy');
	sql(q{SELECT parvacuum_enqueue('busy', 100000)});
	until_item('busy', 'running', "$_[0]: the only scheduler worker is busy");
	return;
}
sub go_on
{
	speed(0);
	until_answer($active, 0, "$_[0]: the queue is empty");
	reload_with('parvacuum.scheduler_workers' => 3);
	return;
}

make_tables(qw(busy t_ended t_dropped t_renamed t_truncated t_last));

#
# A scheduler worker that is ended, while it is at a table
#
speed($slowly);
make_dead('t_ended');
until_item('t_ended', 'running', 'terminated: a scheduler worker is at it');
my $pid = sql(q{SELECT pid FROM parvacuum_queue WHERE relid = 't_ended'::regclass});

# let passes be asked for meanwhile
until_answer(q{SELECT count(*) FROM parvacuum_queue_items() WHERE clock_timestamp() - since > '1.5 s'}, 1, 'terminated: for a while');
sql("SELECT pg_terminate_backend($pid)");
until_answer("SELECT count(*) $scheduler workers AND pid = $pid", 0, 'terminated: it ends');
speed(0);
until_vacuumed('t_ended', 2, 'terminated: a later pass does its table');
is(pv_findings($node, 't_ended'), '', 'terminated: the table is whole');

#
# Tables that go, or change, while they are queued
#
my $errors = stat_of('errors');
keep_busy('DDL');
make_dead(qw(t_dropped t_renamed t_truncated t_last));
sql(map { "SELECT parvacuum_enqueue('$_', 50)" } qw(t_dropped t_renamed t_truncated t_last));
until_item($_, 'queued', "DDL: $_ is queued") for qw(t_dropped t_renamed t_truncated t_last);
sql('DROP TABLE t_dropped', 'ALTER TABLE t_renamed RENAME TO t_new', 'TRUNCATE t_truncated');
go_on('DDL');
is(vacuums('t_new'), 2, 'DDL: a table with another name');
is(vacuums('t_last'), 2, 'DDL: and the next one');
is(stat_of('errors'), $errors, 'DDL: nothing of that is an error');

# and while they are worked on
speed($slowly);
make_dead('t_new');
until_item('t_new', 'running', 'dropped: a scheduler worker is at it');
is(($node->psql('postgres', q{SET lock_timeout = '5s'; DROP TABLE t_new}))[0], 0, 'dropped: that is possible');
speed(0);
until_answer($active, 0, 'dropped: nothing is left');
until_answer(q{SELECT count(*) FROM parvacuum_queue WHERE "table" IS NULL OR "table"::text ~ '^[0-9]'}, 0, 'dropped: nor known');

#
# Databases that go, while something is queued for them and while a scheduler worker is there
#
sub make_database
{
	my ($name) = @_;
	sql("CREATE DATABASE $name");
	$node->safe_psql($name, join ";\n", 'CREATE EXTENSION parvacuum', create('t'));
	$node->safe_psql($name, 'VACUUM t');
	$node->safe_psql($name, join ";\n", 'ALTER TABLE t SET (autovacuum_enabled = off)', q{UPDATE t SET pad = 'y'}, 'CHECKPOINT', 'ALTER TABLE t SET (autovacuum_enabled = on)');
	return sql("SELECT oid FROM pg_database WHERE datname = '$name'");
}

keep_busy('a dropped database');
my $oid = make_database('dropped');
$node->safe_psql('dropped', q{SELECT parvacuum_enqueue('t')});
until_answer("SELECT state FROM parvacuum_queue_items() WHERE datid = $oid", 'queued', 'a dropped database: something is queued for it');
reload_with(autovacuum_naptime => 4);
sleep 1.2;
my $from = log_length();
sql('DROP DATABASE dropped');
go_on('a dropped database');
until_answer("SELECT count(*) FROM parvacuum_queue_items() WHERE datid = $oid", 0, 'a dropped database: its queue is gone');
cmp_ok(times_logged('FATAL: ', $from), '<', 10, 'a dropped database: nobody tries to get there again and again');
reload_with(autovacuum_naptime => 1);

for my $statement ('DROP DATABASE visited', 'CREATE DATABASE another TEMPLATE visited', 'ALTER DATABASE visited RENAME TO left_alone')
{
	speed($slowly);
	my $oid = make_database('visited');
	until_answer("SELECT state FROM parvacuum_queue_items() WHERE datid = $oid", 'running', "$statement: a scheduler worker is there");
	my $begun = time;
	is(($node->psql('postgres', $statement))[0], 0, "$statement: succeeds");
	cmp_ok(time - $begun, '<', 6, "$statement: soon");
	speed(0);
	if ($statement =~ /TEMPLATE/)
	{
		is($node->safe_psql('another', 'SELECT count(*) FROM t'), 300, "$statement: the copy is whole");
		sql('DROP DATABASE visited', 'DROP DATABASE another');
	}
	elsif ($statement =~ /RENAME/)
	{
		ok($node->poll_query_until('left_alone', 'SELECT vacuum_count >= 2 FROM pg_stat_user_tables'), "$statement: and is vacuumed");
		sql('DROP DATABASE left_alone');
	}
}

# one that nobody can connect to for some time: who waits there is in nobody's way
make_database('locked');
reload_with('parvacuum.scheduler_workers' => 1);
my $owner = $node->background_psql('postgres');
$owner->query_safe('BEGIN; ALTER DATABASE locked RENAME TO locked_out');
my $waiting = q{SELECT count(*) FROM pg_locks WHERE classid = 'pg_database'::regclass AND objid <> 0 AND NOT granted};
until_answer($waiting, 1, 'a locked database: the only scheduler worker waits for it');
my $begun = time;
my $count = vacuums('t_last');
make_dead('t_last');
until_vacuumed('t_last', $count + 1, 'a locked database: others do not wait');
cmp_ok(time - $begun, '<', 30, 'a locked database: for long');
sleep 3;
is(sql($waiting), 1, 'a locked database: nobody else is sent there');
$owner->query_safe('ROLLBACK');
$owner->quit;
ok($node->poll_query_until('locked', 'SELECT vacuum_count >= 2 FROM pg_stat_user_tables'), 'a locked database: it has its turn');
sql('DROP DATABASE locked');
reload_with('parvacuum.scheduler_workers' => 3);

# one that is much more urgent than the one that has the only scheduler worker
keep_busy('an urgent database');
my @less = qw(t_ended t_last t_truncated);
sql(map { "SELECT parvacuum_enqueue('$_', 50)" } @less);
my $of_less = q{SELECT count(*) FROM parvacuum_queue_items() WHERE state = 'queued' AND priority = 50};
$oid = make_database('urgent');
$node->safe_psql('urgent', q{SELECT parvacuum_enqueue('t', 1000)});
ok($node->poll_query_until('urgent', 'SELECT vacuum_count >= 2 FROM pg_stat_user_tables'), 'an urgent database: it is vacuumed');
cmp_ok(sql($of_less), '>', 0, 'an urgent database: before all that is queued elsewhere');
go_on('an urgent database');
sql('DROP DATABASE urgent');

# one that a DROP has left invalid, with something queued
keep_busy('an invalid database');
$oid = make_database('invalid');
$node->safe_psql('invalid', q{SELECT parvacuum_enqueue('t')});
until_answer("SELECT state FROM parvacuum_queue_items() WHERE datid = $oid", 'queued', 'an invalid database: something is queued for it');
sql(q{UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'invalid'});
$from = log_length();
go_on('an invalid database');
until_answer("SELECT count(*) FROM parvacuum_queue_items() WHERE datid = $oid", 0, 'an invalid database: its queue is given up');
cmp_ok(times_logged('FATAL: .*invalid', $from), '<', 10, 'an invalid database: nobody tries to get there again and again');
sql('DROP DATABASE invalid');

#
# The launcher
#
for my $how (qw(pg_terminate_backend pg_cancel_backend))
{
	my $count = vacuums('t_last');
	my $old = sql("SELECT pid $launcher");
	speed($slowly);
	make_dead('busy', 't_last');
	until_item('busy', 'running', "$how: the launcher's: a scheduler worker is there");
	sql("SELECT $how(pid) $launcher");
	speed(0);
	until_vacuumed('t_last', $count + 1, "$how: those that are there go on");
	until_answer("SELECT count(*) $launcher AND pid <> $old", 1, "$how: the launcher comes back") if $how =~ /terminate/;
	make_dead('t_last');
	until_vacuumed('t_last', $count + 2, "$how: and there are new ones");
}

# More databases than queues: those that have one are served, then the others.  A new
# launcher looks at databases in the order in which they were made.
sub make_small_table { return $node->safe_psql($_[0], 'CREATE EXTENSION parvacuum; CREATE TABLE small AS SELECT 1 AS i'); }
sql("CREATE DATABASE $_"), make_small_table($_) for qw(queue_1 queue_2);
reload_with('parvacuum.queue_limit' => 2);
my $gone = sql("SELECT pid $launcher");
sql("SELECT pg_terminate_backend($gone)");
until_answer("SELECT count(*) $scheduler workers", 0, 'more databases than queues: nobody is at work');
$node->safe_psql($_, q{SELECT parvacuum_enqueue('small', 50)}) for qw(queue_1 queue_2);
is(sql(q{SELECT count(DISTINCT datid) FROM parvacuum_queue_items() WHERE state = 'queued'}), 2, 'more databases than queues: all are taken');
until_answer("SELECT count(*) $launcher AND pid <> $gone", 1, 'more databases than queues: the launcher comes back');
$count = vacuums('t_last');
make_dead('t_last');
until_vacuumed('t_last', $count + 1, 'more databases than queues: all have their turn');
ok($node->poll_query_until($_, 'SELECT vacuum_count > 0 FROM pg_stat_user_tables'), "more databases than queues: $_") for qw(queue_1 queue_2);
sql('DROP DATABASE queue_1', 'DROP DATABASE queue_2');
reload_with('parvacuum.queue_limit' => 32768);

#
# An error in one table is none of the others' business
#
make_tables(qw(e_function e_file e_other));
my $break = 'CREATE OR REPLACE FUNCTION broken(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RAISE EXCEPTION \'broken\'; END$$';
sql('CREATE FUNCTION broken(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN i; END$$', 'CREATE INDEX ON e_function (broken(id))');
sql($break);
sql('ALTER TABLE e_function SET (autovacuum_analyze_threshold = 10, autovacuum_analyze_scale_factor = 0)');
my $file = $node->data_dir . '/' . sql(q{SELECT pg_relation_filepath('e_file')});
$errors = stat_of('errors');
make_dead('e_file');
# its pages have been written; hide them
rename $file, "$file.away" or die "cannot rename $file: $!";
sql('DELETE FROM e_function WHERE id % 3 = 0');
make_dead('e_other');
until_answer("SELECT errors >= $errors + 4 FROM parvacuum_scheduler_stats()", 'true', 'errors: are counted, pass by pass');
until_item('e_function', 'waiting error', 'errors: a function that fails in ANALYZE');
until_item('e_file', 'waiting error', 'errors: a file that is missing');
until_vacuumed('e_other', 2, 'errors: another table is vacuumed');
cmp_ok(times_logged(q{parvacuum's scheduled vacuum of table "public\.e_f}), '>', 1, 'errors: the log says what that was');
rename "$file.away", $file or die "cannot rename $file: $!";
sql('CREATE OR REPLACE FUNCTION broken(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN i; END$$');
until_vacuumed('e_file', 2, 'errors: a later pass does it');
until_answer(q{SELECT analyze_count > 0 FROM pg_stat_user_tables WHERE relname = 'e_function'}, 'true', 'errors: that, too');
is(pv_findings($node, $_), '', "$_ is whole") for qw(e_function e_file);

#
# No place in the queue
#
my @many = map { "many_$_" } 1 .. 30;
my $of_many = q{SELECT min(vacuum_count) FROM pg_stat_user_tables WHERE relname LIKE 'many%'};
make_tables(@many);
reload_with('parvacuum.queue_limit' => 4);
$from = log_length();
make_dead(@many);
until_answer($of_many, 2, 'queue full: all tables are vacuumed');
until_answer($active, 0, 'queue full: and nothing is left');
cmp_ok(stat_of('queue_full'), '>', 0, 'queue full: that is counted');
is(times_logged(q{parvacuum's queue is full}, $from), 1, 'queue full: and told once');
like(($node->psql('postgres', join '; ', map { "SELECT parvacuum_enqueue('$_')" } @many[ 0 .. 9 ]))[2], qr/the scheduler's queue is full/, 'queue full: nothing can be enqueued');
until_answer($active, 0, 'queue full: what was, is done');

# of tables that wait for a horizon
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM busy');
my $of_full = stat_of('queue_full');
make_dead(@many);
until_answer("SELECT queue_full > $of_full FROM parvacuum_scheduler_stats()", 'true', 'queue full, of tables that wait: it is');
my $passes = stat_of('database_scans');
sleep 2;
cmp_ok(stat_of('database_scans') - $passes, '<', 30, 'queue full, of tables that wait: nobody runs in circles');
$reader->query_safe('COMMIT');
$reader->quit;
until_answer(q{SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE relname LIKE 'many%'}, 0, 'queue full, of tables that wait: and again when they can be');
reload_with('parvacuum.queue_limit' => 32768);

#
# Terminated at random, a hundred times
#
speed(3000);
my $load = pv_start_pgbench($node, 20, 2, map { ("update_$_" => [ 1, "\\set id random(1, 300)\nUPDATE $_ SET pad = random()::text WHERE id = :id;\n\\sleep 1 ms\n" ]) } @many);

# One after the other, since a session that waits would hold the horizon.
my $ended = 0;
my $end = time + 30;
while ($ended < 100 && time < $end)
{
	$ended += sql(q{SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
		WHERE backend_type IN ('parvacuum scheduler worker', 'parallel worker') ORDER BY random() LIMIT 2) x});
	sleep rand 0.02;
}
$load->{handle}->finish;
unlike($load->{err}, qr/error|abort/i, 'no transaction failed beside that') or diag $load->{err};
cmp_ok($ended, '>=', 100, 'terminated a hundred times');
speed(0);
my $seen = sql(q{SELECT sum(vacuum_count) FROM pg_stat_user_tables WHERE relname LIKE 'many%'});
make_dead(@many);
until_answer(q{SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE relname LIKE 'many%'}, 0, 'and all tables are done after that');
is(pv_findings($node, $_), '', "$_ is whole") for @many[ 0 .. 4 ];
until_answer($active, 0, 'nothing is left in the queue');

#
# Ages, also where nobody can connect.  Shared catalogs are core's, so they are
# done by hand, where that is to be seen in pg_database.
#
reload_with('parvacuum.scheduler' => 'off');
sql('CREATE DATABASE closed');
$node->safe_psql('closed', 'CREATE TABLE t AS SELECT 1 AS i');
# a table with pages that only an aggressive vacuum reads, where nothing else asks for one
sql('SET vacuum_freeze_min_age = 1000000', "CREATE TABLE aged WITH ($low) AS SELECT i, repeat('x', 1000) FROM generate_series(1, 2000) i", 'VACUUM aged');
is(sql(q{SELECT all_visible > 200 AND all_frozen < 100 FROM pg_visibility_map_summary('aged')}), 't', 'an old table: its pages are not frozen');
sql(q{DO $$ BEGIN FOR i IN 1 .. 92000 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$});
$node->safe_psql('closed', join ";\n", map { "VACUUM (FREEZE) $_" }
	split /\n/, $node->safe_psql('closed', q{SELECT oid::regclass FROM pg_class WHERE relisshared AND relkind = 'r'}));
sql(q{UPDATE pg_database SET datallowconn = false WHERE datname = 'closed'});
cmp_ok(sql(q{SELECT age(datfrozenxid) FROM pg_database WHERE datname = 'closed'}), '>', 90000, 'a closed database: it is old');
reload_with('parvacuum.enabled' => 'on', 'parvacuum.scheduler' => 'on');
until_answer(q{SELECT age(datfrozenxid) < 10000 FROM pg_database WHERE datname = 'closed'}, 'true', 'a closed database: and is young after a pass');
ok($node->poll_query_until('template1', q{SELECT max(age(relfrozenxid)) < 10000 FROM pg_class WHERE relkind IN ('r', 't') AND NOT relisshared}), 'so is a template');
reload_with('parvacuum.enabled' => 'off');
until_answer(q{SELECT age(relfrozenxid) < 10000 FROM pg_class WHERE oid = 'aged'::regclass}, 'true', 'an old table: so is that');

#
# Recovery: nothing is done on a standby, until it is promoted
#
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('scheduler_standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
pv_catch_up($node, $standby);
is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'parvacuum%'}), 0, 'recovery: no process of the scheduler');

# its sessions are told what a vacuum has changed, also if the ANALYZE in its transaction failed
sub estimate { return $_[0]->query_safe("EXPLAIN SELECT * FROM $_[1]") =~ /rows=(\d+)/ ? $1 : ''; }
sql("CREATE TABLE told (id int) WITH ($low)", 'INSERT INTO told SELECT i FROM generate_series(1, 300) i WHERE i % 3 > 0', 'VACUUM told');
pv_catch_up($node, $standby);
my $session = $standby->background_psql('postgres');
is(estimate($session, $_), sql("SELECT reltuples FROM pg_class WHERE relname = '$_'"), "recovery: rows of $_, as a session of the standby knows") for qw(e_function told);
my %count = map { $_ => vacuums($_) } qw(e_function told);
my $failed = stat_of('errors');
sql($break, map { "DELETE FROM $_ WHERE id % 3 = 1" } qw(e_function told));
until_vacuumed($_, $count{$_} + 1, "recovery: $_ has less") for qw(e_function told);
until_answer("SELECT errors > $failed FROM parvacuum_scheduler_stats()", 'true', 'recovery: the ANALYZE failed');
pv_catch_up($node, $standby);
for my $table (qw(e_function told))
{
	is(sql("SELECT reltuples FROM pg_class WHERE relname = '$table'"), 100, "recovery: $table, as the vacuum counts");
	is(estimate($session, $table), 100, 'recovery: and as that session does');
}
$session->quit;
sql('ALTER TABLE e_function SET (autovacuum_enabled = off)');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM parvacuum_queue'), 0, 'recovery: an empty queue');
isnt(($standby->psql('postgres', q{SELECT parvacuum_enqueue('t_last')}))[0], 0, 'recovery: nothing can be enqueued');
$node->stop;
pv_no_crash($node, 'the server');
$standby->promote;
$standby->safe_psql('postgres', 'DELETE FROM t_last WHERE id % 3 = 0');
ok($standby->poll_query_until('postgres', 'SELECT ' . vacuum_sql('t_last') . ' > 0'), 'recovery: after a promotion it works');
$standby->stop;
pv_no_crash($standby, 'the standby');

#
# No place for a process: one is left, and taken
#
$node->append_conf('postgresql.conf', "max_worker_processes = 3\nrestart_after_crash = on\n");
$node->append_conf('postgresql.auto.conf', "parvacuum.scheduler = off\n");	# or it has it itself
$node->start;
my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE busy');
my $run = pv_start_run($node, q{SELECT parvacuum_run('busy')});
until_answer(q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND backend_type LIKE 'parvacuum%'}, 1, 'no place: somebody has the last one');
$from = log_length();
reload_with('parvacuum.scheduler' => 'on');
sql(q{UPDATE t_last SET pad = 'z' WHERE id % 3 = 1});
ok($node->wait_for_log(qr/LOG: .*parvacuum's scheduler could not start a process/, $from), 'no place: the log says so');
sleep 2.5;
is(times_logged(q{parvacuum's scheduler could not start a process}, $from), 1, 'no place: once');
$locker->query_safe('COMMIT');
$locker->quit;
pv_finish($run);
until_answer(q{SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 't_last'}, 0, 'no place: and goes on when there is one');

#
# A scheduler worker that is killed takes all others with it, and all begin again
#
speed($slowly);
make_dead('t_last');
until_item('t_last', 'running', 'killed: a scheduler worker is at it');
$pid = sql(q{SELECT pid FROM parvacuum_queue WHERE relid = 't_last'::regclass});
my $old = sql("SELECT pid $launcher");
$from = log_length();
kill 'KILL', $pid;
ok($node->wait_for_log(qr/ready to accept connections/, $from), 'killed: the server is up again');
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 $launcher AND pid <> $old"), 'killed: the launcher is there again');
is(pv_findings($node, 't_last'), '', 'killed: the table is whole');
speed(0);
sql('DELETE FROM t_last WHERE id % 3 = 2');
ok($node->poll_query_until('postgres', 'SELECT ' . vacuum_sql('t_last') . ' > 0'), 'killed: and it is vacuumed again');
is(sql('SELECT count(*) FROM parvacuum_queue'), 0, 'killed: nothing is left in the queue');

$node->stop;
is(times_logged('PANIC:|TRAP:'), 0, 'no other crash');
done_testing();
