# What changes the scheduler's queue from outside: parvacuum_cancel() and
# parvacuum_enqueue(), options that change while tables are queued, and reloads.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;

sched_start('scheduler_commands');
make_bell();

# What parvacuum_enqueue() can name: a table with a TOAST table, partitions, a materialized
# view, a table that opted in and one that did not.  All have been vacuumed once.
sql('CREATE TABLE fat_off (id int, pad text)', 'ALTER TABLE fat_off ALTER pad SET STORAGE EXTERNAL',
	q{INSERT INTO fat_off SELECT i, repeat('x', 9000) FROM generate_series(1, 200) i}, "ALTER TABLE fat_off SET ($in, autovacuum_enabled = off)",
	"CREATE TABLE parted (id int, name text) PARTITION BY LIST (name) WITH ($in)",
	q{CREATE TABLE part PARTITION OF parted FOR VALUES IN ('part')}, "CREATE TABLE part_no PARTITION OF parted FOR VALUES IN ('part_no') WITH ($in = off)",
	q{INSERT INTO parted SELECT i, CASE WHEN i <= 1000 THEN 'part' ELSE 'part_no' END FROM generate_series(1, 2000) i},
	'CREATE TABLE base AS SELECT i FROM generate_series(1, 1000) i', 'CREATE MATERIALIZED VIEW seen AS SELECT * FROM base', "ALTER MATERIALIZED VIEW seen SET ($in)",
	'CREATE TABLE out (id int) WITH (vacuum_truncate = off)', "CREATE TABLE dead (id int) WITH ($in, $calm)",
	map { "INSERT INTO $_ SELECT generate_series(1, 1000)" } qw(out dead));
sql(map { "VACUUM ANALYZE $_" } qw(fat_off part part_no seen out dead));
sql('DELETE FROM out', 'DELETE FROM dead WHERE id <= 251');
make_tables(200, qw(gives stops));
reload_with('parvacuum.scheduler' => 'on');
until_vacuumed('dead', 2, 'enqueue: a table that needs a vacuum is vacuumed');
my $count;

#
# parvacuum_cancel() and parvacuum_enqueue()
#
start_held('stops', 'cancel');
naptime(3600);
is(sql(q{SELECT parvacuum_cancel('stops'::regclass)}), 't', 'cancel: by the name of the table');
until_item('stops', 'waiting canceled', 'cancel: the table waits');
is(sql(q{SELECT parvacuum_cancel('stops'::regclass)}), 'f', 'cancel: false if there is nothing to cancel');
my $stale = $node->background_psql('postgres');
$stale->query_safe('BEGIN; SELECT count(*) FROM pg_stat_activity');
sql(q{SELECT parvacuum_enqueue('stops')});
until_item('stops', 'running', 'enqueue: the table is vacuumed again at once');
is($stale->query_safe('SELECT parvacuum_cancel(' . worker_of('stops') . ')'), 't', 'cancel: by a process that started after the snapshot of pg_stat_activity');
$stale->quit;
until_item('stops', 'waiting canceled', 'cancel: the table waits again');
is(stat_of('errors'), 0, 'cancel: not counted as an error');

# A request during the vacuum causes another vacuum.
release();
$count = vacuums('stops');
sql(q{SELECT parvacuum_enqueue('stops')});
until_vacuumed('stops', $count + 1, 'enqueue: the table is vacuumed');
hold('stops');
make_dead('stops');
sql(q{SELECT parvacuum_enqueue('stops')});
until_item('stops', 'running', 'enqueue: the table is being vacuumed');
sql(q{SELECT parvacuum_enqueue('stops', urgent => true)});
is(sql(q{SELECT urgent, state FROM parvacuum_queue WHERE relid = 'stops'::regclass}), 't|running', 'enqueue: the entry becomes urgent, and stays running');
release();
until_vacuumed('stops', $count + 3, 'enqueue: the table is vacuumed twice');

# A table is vacuumed with its TOAST table and all partitions, even if the scheduler does
# not vacuum it of itself.
$count = vacuums('toast of fat_off');
my $of_part = vacuums('part');
my $of_part_no = vacuums('part_no');
sql(q{SELECT parvacuum_enqueue('fat_off'), parvacuum_enqueue('parted'), parvacuum_enqueue('out'), parvacuum_enqueue('seen')});
until_vacuumed('toast of fat_off', $count + 1, 'enqueue: a TOAST table');
until_vacuumed('part', $of_part + 1, 'enqueue: a partition');
until_vacuumed('part_no', $of_part_no + 1, 'enqueue: a partition that opted out');
until_vacuumed('out', 2, 'enqueue: a table that did not opt in, by the engine of core');
cmp_ok(sql(q{SELECT pg_relation_size('out')}), '>', 0, 'enqueue: the options of the table apply to that, too');
is(sql(q{CREATE TEMP TABLE child () INHERITS (out)}, q{SELECT coalesce(max(result) FILTER (WHERE relid = 'child'::regclass), 'no row') FROM parvacuum_enqueue('out')}, q{SELECT count(*) FROM parvacuum_queue WHERE relid = 'child'::regclass}), ($node->pg_version >= 18 ? 'temporary' : 'no row') . "\n0",
	'enqueue: a temporary table is refused');
until_vacuumed('out', 3, 'enqueue: its parent is vacuumed');
reload_with('parvacuum.engine' => 'off');
sql(q{SELECT parvacuum_enqueue('dead')});
until_vacuumed('dead', 3, 'enqueue: with parvacuum.engine = off');
reload_with('parvacuum.engine' => 'on');

# A table that waits in the queue behind another
reload_with('parvacuum.scheduler_workers' => 1);
hold('gives');
make_dead('gives');
sql(q{SELECT parvacuum_enqueue('gives')});
until_item('gives', 'running', 'cancel: the only worker is busy');
sql(q{SELECT parvacuum_enqueue('stops')});
until_item('stops', 'queued', 'cancel: another table is queued');
is(sql(q{SELECT parvacuum_cancel('stops'::regclass)}), 't', 'cancel: a queued table');
until_item('stops', 'waiting canceled', 'cancel: the queued table waits');
release();

# A shorter autovacuum_naptime takes effect at once.
ok(pv_await($node, $active, 0), 'the queue is empty');
my $scans = stat_of('database_scans');
naptime(1);
ok(pv_await($node, "SELECT database_scans > $scans FROM parvacuum_scheduler_stats()", 'true'), 'a shorter autovacuum_naptime takes effect at once');
two_scans();

#
# Options that change while tables are queued are noticed without another database scan.
#
my @changes = map { "changes_$_" } 1 .. 3;
make_tables(200, @changes);
hold(@changes);
reload_with('parvacuum.scheduler' => 'off');
make_dead(@changes);
reload_with('parvacuum.scheduler' => 'on');
ok(pv_await($node, $running, 1), 'changes: one table is being vacuumed');
ok(pv_await($node, $active, 3), 'changes: two more are queued');
naptime(3600);
my ($out, $shut) = split /\n/, sql(q{SELECT relation FROM parvacuum_queue WHERE state = 'queued'});
sql("ALTER TABLE $out SET ($in = off)", qq{ALTER TABLE $shut SET (parvacuum."window" = 'never')});
release();
ok(pv_await($node, $active, 0), 'changes: the queue is empty');
is(join('|', map { vacuums($_) } $out, $shut), '1|1', 'changes: neither the table that opted out is vacuumed nor the one whose window is closed');
is(sql('SELECT ' . item($out)), '', 'changes: the table that opted out has no entry');
is(sql('SELECT ' . item($shut)), 'waiting window', 'changes: the other one waits for its window');
naptime(1);
sql('DROP TABLE ' . join ', ', @changes);

#
# Reloads while tables are queued
#
my @queued = map { "queued_$_" } 1 .. 8;
make_tables(200, @queued);
hold(@queued);
make_dead(@queued);
ok(pv_await($node, $running, 1), 'scheduler_workers = 1: one worker');
reload_with('parvacuum.scheduler_workers' => 4);
ok(pv_await($node, $running, 4), 'scheduler_workers = 4: four workers');
reload_with('parvacuum.scheduler_workers' => 2);
release((split /\n/, sql(q{SELECT relation FROM parvacuum_queue WHERE state = 'running'}))[ 0, 1 ]);
ok(pv_await($node, $running, 2), 'scheduler_workers = 2: two workers, when the others have completed their tables');
reload_with('parvacuum.scheduler' => 'off');
release();
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker'}, 0), 'scheduler off: all workers end after their present table');
my $of_queued = q{SELECT %s FROM pg_stat_user_tables WHERE relname LIKE 'queued%%'};
cmp_ok(sql(sprintf $of_queued, 'sum(vacuum_count)'), '<', 2 * @queued, 'scheduler off: some tables are left');
like(($node->psql('postgres', q{SELECT parvacuum_enqueue('bell')}))[2], qr/the scheduler is not running/, 'scheduler off: parvacuum_enqueue() fails');
reload_with('parvacuum.scheduler' => 'on');
ok(pv_await($node, sprintf($of_queued, 'min(vacuum_count)'), 2), 'scheduler on again: the other tables are vacuumed');
two_scans();
is(sql(sprintf $of_queued, 'sum(vacuum_count)'), 2 * @queued, 'scheduler on again: each table was vacuumed once');
sql('DROP TABLE ' . join ', ', @queued);

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
