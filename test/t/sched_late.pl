# Databases to which no session can connect for a while, because their owner is renaming
# them: workers that wait for them are ended, and other databases get workers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('scheduler_late');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_threshold = 10
autovacuum_vacuum_scale_factor = 0
max_worker_processes = 8
max_parallel_workers = 2
parvacuum.scheduler_workers = 3
});
$node->start;
pv_setup($node);

my $n = 5;
pv_sql($node, 'CREATE ROLE mallory LOGIN CREATEDB');
for my $i (1 .. $n)
{
	pv_sql($node, "CREATE DATABASE locked_$i OWNER mallory");
	$node->safe_psql("locked_$i", 'CREATE TABLE t (i int); INSERT INTO t SELECT 1');
}
pv_sql($node, 'CREATE TABLE t (i int) WITH (parvacuum.enabled)');

my $owner = $node->background_psql('postgres');
$owner->query_safe('SET SESSION AUTHORIZATION mallory; BEGIN');
$owner->query_safe("ALTER DATABASE locked_$_ RENAME TO renamed_$_") for 1 .. $n;

my $waiting = q{SELECT count(*) FROM pg_locks WHERE NOT granted AND classid = 'pg_database'::regclass};
pv_reload_with($node, 'parvacuum.scheduler' => 'on');
ok(pv_await($node, "SELECT ($waiting) >= 3", 'true'), 'all workers wait');
my $most = 0;
# Long enough for each of them to fail once, three at a time for ten seconds
for my $second (1 .. 25)
{
	sleep 1;
	my $now = pv_sql($node, $waiting);
	$most = $now if $now > $most;
}
cmp_ok($most, '<=', 3, 'never more workers than the setting allows');

pv_sql($node, 'INSERT INTO t SELECT generate_series(1, 1000); DELETE FROM t');
ok(pv_await($node, q{SELECT vacuum_count > 0 FROM pg_stat_all_tables WHERE relid = 't'::regclass}, 'true'), 'another database is served meanwhile');

# From then on they share one worker.
ok(pv_await($node, "SELECT ($waiting) <= 1", 'true'), 'only one worker waits for locked databases then');
$most = 0;
for my $second (1 .. 8)
{
	sleep 1;
	my $now = pv_sql($node, $waiting);
	$most = $now if $now > $most;
}
cmp_ok($most, '<=', 1, 'never more than one worker waits for locked databases');
is(pv_sql($node, q{SELECT count(*) FROM pg_locks WHERE granted AND classid = 'pg_database'::regclass AND mode = 'AccessExclusiveLock'}), $n, 'the databases are still locked');
is(pv_sql($node, 'SELECT no_process FROM parvacuum_scheduler_stats()'), 0, 'the server has free slots');

$owner->query_safe('ROLLBACK');
$owner->quit;
$node->safe_psql("locked_1", 'CREATE TABLE wanted (i int) WITH (parvacuum.enabled); INSERT INTO wanted SELECT generate_series(1, 1000); DELETE FROM wanted');
ok($node->poll_query_until('locked_1', q{SELECT vacuum_count > 0 FROM pg_stat_all_tables WHERE relid = 'wanted'::regclass}), 'a database that was locked is served later');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
