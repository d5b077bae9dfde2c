# The scheduler keeps databases young to which no session can connect.  On a standby it
# does nothing until that is promoted, and its changes reach the standby's sessions.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler qw(:DEFAULT !speed);
use PvTest;
use Test::More;
use Time::HiRes qw(sleep time);

sched_start('scheduler_primary', q{
autovacuum_freeze_max_age = 100000
vacuum_freeze_min_age = 0
parvacuum.scheduler = on
}, allows_streaming => 1);

# Cost units per second of all workers together.  The launcher may not be there to apply it.
sub speed { return reload_with('parvacuum.scheduler_max_cost' => $_[0]); }

# A function of an index, and how it is made to fail
my $works = 'CREATE OR REPLACE FUNCTION broken(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN i; END$$';
my $break = 'CREATE OR REPLACE FUNCTION broken(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RAISE EXCEPTION \'broken\'; END$$';

make_keyed(qw(e_function t_last));
sql($works, 'CREATE INDEX ON e_function (broken(id))', 'ALTER TABLE e_function SET (autovacuum_analyze_threshold = 10, autovacuum_analyze_scale_factor = 0)');
sql('DELETE FROM e_function WHERE id % 3 = 0');
sql('VACUUM ANALYZE e_function');

#
# Ages, also of databases to which no session can connect, and of shared catalogs, whose age
# each database has for itself.
#
reload_with('parvacuum.scheduler' => 'off');
sql('CREATE DATABASE closed');
$node->safe_psql('closed', q{CREATE TABLE t (pad char(5000)); ALTER TABLE t ALTER pad SET STORAGE PLAIN; INSERT INTO t VALUES ('one page')});
# A table with pages that only an aggressive vacuum reads, and with nothing else to vacuum.  A limit
# of its own that is higher has no effect.
sql('SET vacuum_freeze_min_age = 1000000', "CREATE TABLE aged WITH ($in, $low, autovacuum_vacuum_insert_threshold = -1, autovacuum_freeze_max_age = 1000000, $calm) AS SELECT i, repeat('x', 1000) FROM generate_series(1, 2000) i", 'VACUUM aged');
is(sql(q{SELECT all_visible > 200 AND all_frozen < 100 FROM pg_visibility_map_summary('aged')}), 't', 'an old table: its pages are not all-frozen');
sql(q{DO $$ BEGIN FOR i IN 1 .. 62000 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$});
# A page that is not frozen by the settings of that database, which count for half of autovacuum_freeze_max_age at most
$node->safe_psql('closed', q{INSERT INTO t VALUES ('another page')});
sql(q{DO $$ BEGIN FOR i IN 1 .. 30000 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$});
sql(q{UPDATE pg_database SET datallowconn = false WHERE datname = 'closed'}, 'ALTER DATABASE closed SET vacuum_freeze_min_age = 1000000');
cmp_ok(sql(q{SELECT age(datfrozenxid) FROM pg_database WHERE datname = 'closed'}), '>', 90000, 'a closed database: it is old');
reload_with('parvacuum.enabled' => 'on', 'parvacuum.scheduler' => 'on');
until_answer(q{SELECT age(datfrozenxid) < 10000 FROM pg_database WHERE datname = 'closed'}, 'true', 'a closed database: a database scan freezes all of it');
ok($node->poll_query_until('template1', q{SELECT max(age(relfrozenxid)) < 10000 FROM pg_class WHERE relkind IN ('r', 't')}), 'a template database is young, too')
  or diag $node->safe_psql('template1', q{SELECT relname, age(relfrozenxid) FROM pg_class WHERE relkind IN ('r', 't') AND age(relfrozenxid) >= 10000}),
  map { "\n$_: " . sql("SELECT * FROM $_") } qw(parvacuum_queue_items() parvacuum_scheduler_stats() pg_stat_activity);
reload_with('parvacuum.enabled' => 'off');
until_answer(q{SELECT age(relfrozenxid) < 10000 FROM pg_class WHERE oid = 'aged'::regclass}, 'true', 'an old table: it is young');

# A shared catalog has an age of its own in each database.  The relation cache of a process may
# begin with that of another one: with a file that a session of that database has written.
reload_with('parvacuum.scheduler' => 'off');
until_answer(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker'}, 0, 'a shared catalog: no worker vacuums it now');
sql(q{DO $$ BEGIN FOR i IN 1 .. 95000 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$});
my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE pg_subscription IN SHARE UPDATE EXCLUSIVE MODE');
reload_with('parvacuum.scheduler' => 'on');
until_answer(q{SELECT concat(count(*) FILTER (WHERE reason = 'lock'), ' ', count(*)) FROM parvacuum_queue_items()}, '4 4', 'a shared catalog: it is locked, and all others are young');
reload_with('parvacuum.scheduler' => 'off');
$locker->query_safe('COMMIT');
$locker->quit;
sql('VACUUM (FREEZE) pg_subscription');
sql('SELECT 1');
reload_with('parvacuum.scheduler' => 'on');
ok($node->poll_query_until('template1', q{SELECT age(relfrozenxid) < 10000 FROM pg_class WHERE oid = 'pg_subscription'::regclass}), 'a shared catalog: it is vacuumed for its age in other databases');

#
# Recovery: the scheduler does nothing on a standby until that is promoted.
#
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('scheduler_standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
pv_catch_up($node, $standby);
is(pv_sql($standby, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'parvacuum%'}), 0, 'recovery: no process of the scheduler');

# Sessions of the standby get the invalidations of a vacuum, even if the ANALYZE
# that follows it fails.
sub estimate { return $_[0]->query_safe("EXPLAIN SELECT * FROM $_[1]") =~ /rows=(\d+)/ ? $1 : ''; }
sql("CREATE TABLE told (id int) WITH ($in, $low, autovacuum_vacuum_insert_threshold = -1, $calm)", 'INSERT INTO told SELECT i FROM generate_series(1, 300) i WHERE i % 3 > 0', 'VACUUM told');
pv_catch_up($node, $standby);
my $session = $standby->background_psql('postgres');
is(estimate($session, $_), sql("SELECT reltuples FROM pg_class WHERE relname = '$_'"), "recovery: a session of the standby has the number of rows of $_") for qw(e_function told);
my %count = map { $_ => vacuums($_) } qw(e_function told);
my $failed = stat_of('errors');
sql($break, map { "DELETE FROM $_ WHERE id % 3 = 1" } qw(e_function told));
until_vacuumed($_, $count{$_} + 1, "recovery: $_ is vacuumed") for qw(e_function told);
until_answer("SELECT errors > $failed FROM parvacuum_scheduler_stats()", 'true', 'recovery: the ANALYZE failed');
pv_catch_up($node, $standby);
for my $table (qw(e_function told))
{
	is(sql("SELECT reltuples FROM pg_class WHERE relname = '$table'"), 100, "recovery: $table has the number of rows that the vacuum counted");
	is(estimate($session, $table), 100, "recovery: the session of the standby has the new number of rows of $table");
}
$session->quit;
sql('ALTER TABLE e_function SET (autovacuum_enabled = off)');

# A standby keeps the lock under which a table was truncated until it has replayed the commit.  So
# that is flushed at once, although the scheduler does not wait for its WAL otherwise.
sql('CREATE EXTENSION pg_walinspect', "CREATE TABLE cut (id int) WITH (autovacuum_enabled = off, $in, $low, $calm)", 'INSERT INTO cut SELECT generate_series(1, 20000)');
until_answer($active, 0, 'recovery: the queue is empty');
reload_with(wal_writer_delay => 10000);
sql('DELETE FROM cut WHERE id > 100', 'ALTER TABLE cut SET (autovacuum_enabled = on)');
my $from = $node->lsn('insert');
until_vacuumed('cut', 1, 'recovery: a table is vacuumed');
until_answer($active, 0, 'recovery: the vacuum has ended');
is(sql(qq{WITH records AS (SELECT xid, record_type FROM pg_get_wal_records_info('$from', pg_current_wal_flush_lsn()))
	SELECT count(*), count(c.xid) FROM records l LEFT JOIN records c ON c.xid = l.xid AND c.record_type = 'COMMIT' WHERE l.record_type = 'LOCK'}),
	'1|1', 'recovery: the commit that releases the lock of a truncated table is flushed');
is(pv_sql($standby, 'SELECT count(*) FROM parvacuum_queue'), 0, 'recovery: the queue is empty');
isnt(($standby->psql('postgres', q{SELECT parvacuum_enqueue('t_last')}))[0], 0, 'recovery: parvacuum_enqueue() fails');
$node->stop;
pv_no_crash($node, 'the server');
$standby->promote;
pv_sql($standby, 'DELETE FROM t_last WHERE id % 3 = 0');
ok($standby->poll_query_until('postgres', 'SELECT ' . vacuum_sql('t_last') . ' > 0'), 'recovery: after a promotion the scheduler vacuums a table');
$standby->stop;
pv_no_crash($standby, 'the standby');
done_testing();
