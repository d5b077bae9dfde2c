# REPACK, which PostgreSQL 19 added, beside vacuums by parvacuum and the scheduler: they wait
# for each other, or give way, as with stock VACUUM, and the options of the table and its
# rows are the same afterwards.  REPACK (CONCURRENTLY) locks a table as VACUUM does until it
# exchanges the files.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;

my $server = PostgreSQL::Test::Cluster->new('repack_version');
plan skip_all => 'REPACK came with PostgreSQL 19' if $server->pg_version->major < 19;

sched_start('repack', "wal_level = replica\nmax_wal_senders = 0\n");
create_table($_) for qw(waits_for waited_for gives_way sched);

# A table with dead rows and TOAST rows; its index and its primary key are B-trees
sub create_table
{
	my ($table) = @_;
	sql("CREATE TABLE $table (id int PRIMARY KEY, v int, pad text, fat text STORAGE EXTERNAL) WITH ($in, $low, $calm, autovacuum_vacuum_insert_threshold = -1, autovacuum_enabled = off)",
		"INSERT INTO $table SELECT i, i, repeat('x', 300), CASE WHEN i % 19 = 0 THEN repeat('f', 3000) END FROM generate_series(1, 6000) i",
		"CREATE INDEX ON $table (v)");
	sql("DELETE FROM $table WHERE id % 5 = 0");
	return;
}

# One test: this many sessions wait for a lock on the table, one of them for one of this mode.
sub until_waiting
{
	my ($table, $mode, $what, $sessions) = @_;
	return until_answer(sprintf("SELECT count(*) FILTER (WHERE mode = '$mode') > 0 AND count(*) = %d FROM pg_locks WHERE relation = '$table'::regclass AND NOT granted", $sessions // 1),
		'true', "$what waits for its lock");
}

# The table after both: it has its rows, its options, and its index entries, and its next
# vacuum is done by the engine.
sub is_well
{
	my ($table, $count, $what) = @_;
	is(sql("SELECT count(*), count(fat) FROM $table WHERE id <= 6000"), $count, "$what: the table has its rows");
	is(sql("SELECT enabled, enabled_from FROM parvacuum_table_options('$table')"), 't|table', "$what: the table has its options");
	my ($rc, $out, $err) = $node->psql('postgres', "VACUUM (VERBOSE, PARALLEL 2) $table");
	like($err, qr/engine: parvacuum, 2 parallel workers launched/, "$what: the engine vacuums the table");
	is(pv_findings($node, $table), '', "$what: the table is whole");
	return;
}

my $locker = $node->background_psql('postgres');

for my $how ('', ' (CONCURRENTLY)')
{
	# REPACK waits for the end of a vacuum.
	my $what = "REPACK$how after VACUUM";
	sql('UPDATE waits_for SET v = v + 1', 'CHECKPOINT');
	my $vacuum = pv_start_run($node, 'VACUUM (PARALLEL 2) waits_for', vacuum_cost_delay => '20ms', vacuum_cost_limit => 100);
	until_answer(q{SELECT heap_blks_scanned > 0 FROM pg_stat_progress_vacuum WHERE relid = 'waits_for'::regclass}, 'true', "$what: the vacuum has begun");
	my $repack = pv_start_run($node, "REPACK$how waits_for");
	until_waiting('waits_for', $how ? 'ShareUpdateExclusiveLock' : 'AccessExclusiveLock', $what);
	sql(q{SELECT parvacuum_cancel('waits_for')}) if $how;
	is(pv_finish($vacuum), !$how, "$what: the vacuum succeeds, or is canceled") or diag $vacuum->{err};
	ok(pv_finish($repack), "$what: it succeeds") or diag $repack->{err};
	is_well('waits_for', '4800|252', $what);
}

# A vacuum waits for REPACK, which waits for a reader before it exchanges the files.
my $what = 'VACUUM after REPACK (CONCURRENTLY)';
$locker->query_safe('BEGIN; SELECT count(*) FROM waited_for');
my $repack = pv_start_run($node, 'REPACK (CONCURRENTLY) waited_for USING INDEX waited_for_pkey');
until_waiting('waited_for', 'AccessExclusiveLock', 'REPACK (CONCURRENTLY)');
my $run = pv_start_run($node, q{SELECT count(*) FROM parvacuum_run('waited_for', workers => 2)});
until_waiting('waited_for', 'AccessExclusiveLock', $what, 2);
my ($rc, $out, $err) = $node->psql('postgres', 'VACUUM (SKIP_LOCKED) waited_for');
like($err, qr/skipping vacuum of "waited_for" --- lock not available/, "$what: VACUUM (SKIP_LOCKED) skips the table");
$locker->query_safe('COMMIT');
ok(pv_finish($repack), "$what: REPACK succeeds") or diag $repack->{err};
ok(pv_finish($run), "$what: it succeeds") or diag $run->{err};
cmp_ok($run->{out}, '>=', 1, "$what: the table is vacuumed");
is_well('waited_for', '4800|252', $what);

# The scheduler leaves a table that REPACK has locked for later.
$what = 'scheduler and REPACK (CONCURRENTLY)';
reload_with('parvacuum.scheduler' => 'on');
$locker->query_safe('BEGIN; SELECT count(*) FROM sched');
$repack = pv_start_run($node, 'REPACK (CONCURRENTLY) sched');
until_waiting('sched', 'AccessExclusiveLock', $what);
sql(q{SELECT parvacuum_enqueue('sched')});
until_item('sched', 'waiting lock', "$what: the table waits for the lock to be released");
$locker->query_safe('COMMIT');
ok(pv_finish($repack), "$what: REPACK succeeds") or diag $repack->{err};
until_vacuumed('sched', 1, "$what: the table is vacuumed later");
is_well('sched', '4800|252', $what);

# A vacuum of the scheduler gives way to REPACK, while rows change.
$what = 'REPACK (CONCURRENTLY) against the scheduler';
hold('gives_way');
sql('DELETE FROM gives_way WHERE id % 7 = 0', 'CHECKPOINT', q{SELECT parvacuum_enqueue('gives_way')});
until_held('gives_way', $what);
my $bench = pv_start_pgbench($node, 3, 2,
	rows => [ 1, "\\set id random(1, 6000)\nUPDATE gives_way SET v = v + 1 WHERE id = :id;\nDELETE FROM gives_way WHERE id = :id + 10000;\nINSERT INTO gives_way VALUES (:id + 10000, 1, 'y', NULL) ON CONFLICT (id) DO NOTHING;\n" ]);
$repack = pv_start_run($node, 'REPACK (CONCURRENTLY) gives_way');
ok(pv_finish($repack), "$what: REPACK succeeds") or diag $repack->{err};
like(slurp_file($node->logfile), qr/canceling statement due to user request\n.*CONTEXT:  (?:.*\n){0,2}.*parvacuum's scheduled vacuum of table "postgres\.public\.gives_way"/, "$what: the vacuum was canceled");
release();
$bench->{handle}->finish;
unlike($bench->{err}, qr/ERROR/, "$what: no statement fails");
sql('ALTER TABLE gives_way SET (autovacuum_enabled = on)');
until_vacuumed('gives_way', 1, "$what: the table is vacuumed later");
is_well('gives_way', '4114|216', $what);

$locker->quit;
pv_no_crash($node, 'the server');
$node->stop;
done_testing();
