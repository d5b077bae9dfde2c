# An owner tries to have the scheduler work for his tables only: thresholds of 0, requests,
# a low freeze_max_age, large tables, functions that sleep.  A table past nine tenths of its
# age comes first nevertheless, and a table of another owner waits for one of his at most.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PvScheduler;
use PvTest;
use Test::More;

sched_start('scheduler_fair', q{
autovacuum_freeze_max_age = 100000
vacuum_freeze_min_age = 0
parvacuum.scheduler_workers = 1
});

sub burn
{
	my ($transactions) = @_;
	sql("DO \$\$ BEGIN FOR i IN 1 .. $transactions LOOP PERFORM txid_current(); COMMIT; END LOOP; END \$\$");
	return;
}

# A table of many pages, three rows on each
my $never = 'autovacuum_vacuum_threshold = 1000000000, autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000000';

sub create
{
	my ($pages, $options, @tables) = @_;
	return map { ("CREATE TABLE $_ (id int, pad char(2400)) WITH (parvacuum.enabled, $options)", "ALTER TABLE $_ ALTER pad SET STORAGE PLAIN",
			"INSERT INTO $_ SELECT i, 'x' FROM generate_series(1, 3 * $pages) i") } @tables;
}

# The owner's tables, and two that are not changed
my @hot = map { "hot_$_" } 1 .. 15;
my $hostile = 'autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_freeze_max_age = 100000, '
  . 'autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000000';
sql('CREATE ROLE hostile LOGIN', 'CREATE SCHEMA his AUTHORIZATION hostile', 'GRANT CREATE ON SCHEMA public TO hostile');
sql('SET ROLE hostile', create(30, $hostile, @hot), create(8400, $hostile, 'hot_large'));
sql(create(30, $never, 'old'), create(8400, $never, 'old_large'));
sql(map { "VACUUM FREEZE $_" } @hot, qw(hot_large old old_large));

#
# While his tables fill the queue
#
set_speed(2000);
reload_with('parvacuum.scheduler' => 'on');
my $bench;
{
	local $ENV{PGUSER} = 'hostile';
	$bench = pv_start_pgbench($node, 600, 1, annoy => [ 1, join "\n", '\set i random(1, 15)', 'UPDATE hot_:i SET id = id WHERE id <= 45;', 'SELECT parvacuum_enqueue(\'hot_:i\');', '\sleep 10 ms', '' ]);
}
my $hot_queued = q{SELECT count(*) >= 10 FROM parvacuum_queue WHERE state = 'queued' AND relation::text LIKE 'hot%' AND score > 20};
until_answer($hot_queued, 'true', 'his tables are queued, with high scores');
is(sql('SELECT ' . vacuum_sql('old')), 1, 'the table that becomes old was vacuumed once, by the test');
burn(90100);
until_answer('SELECT ' . vacuum_sql('old') . ' >= 2', 'true', 'past nine tenths of its age, the table is vacuumed');
until_answer('SELECT ' . vacuum_sql('old_large') . ' >= 1', 'true', 'large tables are vacuumed, too');
until_answer($hot_queued, 'true', 'his tables are queued all the time');
is(sql(q{SELECT age(relfrozenxid) < 50000 FROM pg_class WHERE relname = 'old'}), 't', 'the table is young again');
$bench->{handle}->kill_kill;

#
# While his large table has the only place for large tables
#
reload_with('parvacuum.scheduler_max_cost' => 0, 'parvacuum.scheduler_workers' => 2);
until_answer($active, 0, 'the queue becomes empty');
sql(map { "VACUUM FREEZE $_" } @hot, qw(hot_large old old_large));
until_answer($active, 0, 'no table needs a vacuum any more');
hold('hot_large');
sql('SET ROLE hostile', 'UPDATE hot_large SET id = id WHERE id % 15 = 0');
my $on_large = q{SELECT string_agg(relation::text, ' ' ORDER BY relation::text) FROM parvacuum_queue WHERE state = 'running' AND size_class = 'large'};
until_answer($on_large, 'hot_large', 'his large table is being vacuumed');
my $count = sql('SELECT ' . vacuum_sql('old_large'));
burn(90100);
reload_with('parvacuum.scheduler_workers' => 3);
until_answer('SELECT ' . vacuum_sql('old_large') . " > $count", 'true', 'with another place a large table past nine tenths of its age does not wait for it');
is(sql($on_large), 'hot_large', 'the vacuum of his table goes on');
reload_with('parvacuum.scheduler_workers' => 2);
$count = sql('SELECT ' . vacuum_sql('old'));
sql(q{SELECT parvacuum_enqueue('old')});
until_answer('SELECT ' . vacuum_sql('old') . " > $count", 'true', 'a worker for small tables is left');
is(sql($on_large), 'hot_large', 'the vacuum of his table still goes on');
release();
until_answer($active, 0, 'the queue becomes empty at the end');
is(pv_findings($node, $_), '', "$_ is whole") for qw(hot_1 hot_large old old_large);

#
# While functions of his many tables sleep: each worker is at one of them all the time.
#
sql(map { "DROP TABLE $_" } @hot, 'hot_large');
my @slow = map { "slow_$_" } 1 .. 30;
my $sleeps = q{CREATE OR REPLACE FUNCTION his.sleeps(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN %s; RETURN i; END'};
sql('SET ROLE hostile', sprintf($sleeps, 'NULL'),
	map({ ("CREATE TABLE $_ (id int) WITH (parvacuum.enabled, autovacuum_enabled = off)", "CREATE INDEX ON $_ (his.sleeps(id))", "INSERT INTO $_ SELECT generate_series(1, 100)") } @slow),
	sprintf($sleeps, 'IF i = 1 THEN PERFORM pg_sleep(2); END IF'), map { "ALTER TABLE $_ RESET (autovacuum_enabled)" } @slow);
my $asleep = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker' AND wait_event = 'PgSleep'};
until_answer($asleep, 2, 'all workers are at tables of his, whose functions sleep');
my $done = q{SELECT count(*) FROM pg_stat_user_tables WHERE relname ~ '^slow_' AND analyze_count > 0};
sql('CREATE TABLE witness (id int) WITH (parvacuum.enabled)', 'INSERT INTO witness SELECT generate_series(1, 1000)');
my $before = sql($done);
until_answer(q{SELECT analyze_count > 0 FROM pg_stat_user_tables WHERE relname = 'witness'}, 'true', 'a table of another owner is analyzed');
cmp_ok(sql($done) - $before, '<=', 6, 'it has waited for the scan, and for one table of each worker');
is(sql(q{SELECT count(*) > 10 FROM parvacuum_queue WHERE state = 'queued' AND relation::text ~ '^slow_'}), 't', 'most of his tables are still queued');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
