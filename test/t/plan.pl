# parvacuum_plan() against the vacuums that follow, in tables of which it can read only a
# sample; what holds back the horizon; a standby; tables that change while it waits.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('plan', allows_streaming => 1);
$node->append_conf('postgresql.conf', "wal_keep_size = '1GB'\n");
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

# Plans a vacuum of a table and then vacuums it.  The figures differ by less than 30 %,
# or by less than a small number: of pages that both may choose at random.
sub compare
{
	my ($what, $table, $workers, @settings) = @_;
	my %slack = (pages => 20, tuples => 20, items => 20, scans => 0, memory => 8192);
	my @names = qw(pages tuples items scans memory);
	my $plan = sql(join "\n", @settings, "SELECT pages_to_scan, tuples_to_remove, dead_items, index_scans, dead_tuple_bytes FROM parvacuum_plan('$table', workers => $workers) WHERE relid = '$table'::regclass");
	my $run = sql(join "\n", @settings, "SELECT pages_scanned, tuples_removed, dead_items, index_scans, dead_tuple_bytes FROM parvacuum_run('$table', workers => $workers, truncate => false) WHERE relid = '$table'::regclass");
	my (@plan, @run);
	@plan = split /\|/, $plan;
	@run = split /\|/, $run;
	my @wrong = grep { abs($plan[$_] - $run[$_]) > 0.3 * $run[$_] + $slack{ $names[$_] } } 0 .. $#names;
	is(join(', ', map { "$names[$_]: $plan[$_] planned, $run[$_] in the run" } @wrong), '', "$what: the plan and the run agree");
	note("$what: planned $plan, run $run");
	return;
}

# The rows of the update before are on a page of their own, a tenth of all dead rows now.
# That page is in some of the samples, and each plan must be right.
sub all_plans
{
	my ($updated) = @_;
	is(sql("SELECT min(tuples_to_remove) > 0.7 * $updated, max(tuples_to_remove) < 1.3 * $updated, max(pages_to_scan) < 1.3 * min(pages_to_scan) FROM generate_series(1, 60) i, parvacuum_plan('skipping', workers => i - i) WHERE relid = 'skipping'::regclass"),
		't|t|t', 'a page with many of the dead rows: all plans are alike');
	return;
}

my $off = 'autovacuum_enabled = off';

#
# The workloads of the benchmarks, small
#
sql("CREATE UNLOGGED TABLE w1 (a int) WITH ($off)", 'INSERT INTO w1 SELECT generate_series(1, 300000)', 'DELETE FROM w1 WHERE a % 5 = 0');
compare('W1', 'w1', 0);
sql("CREATE TABLE w2 (a int) WITH ($off)", 'INSERT INTO w2 SELECT generate_series(1, 300000)', 'CREATE INDEX ON w2 (a)', 'DELETE FROM w2 WHERE a % 5 = 0');
compare('W2', 'w2', 1);
sql("CREATE TABLE w2b (a int, b int, c text) WITH ($off)", "INSERT INTO w2b SELECT i, hashint4(i), 'text ' || i FROM generate_series(1, 200000) i",
	'CREATE INDEX ON w2b (a)', 'CREATE INDEX ON w2b (b)', 'DELETE FROM w2b WHERE a % 5 = 0');
compare('W2b', 'w2b', 0);
sql("CREATE TABLE w3 (a int) WITH ($off, fillfactor = 25)", 'INSERT INTO w3 SELECT i % 3 FROM generate_series(1, 100000) i', 'UPDATE w3 SET a = 5 WHERE a = 1');
compare('W3', 'w3', 0);
sql("CREATE TABLE skipping (a int, b text) WITH ($off)", "INSERT INTO skipping SELECT i, lpad(i::text, 40, '.') FROM generate_series(1, 500000) i", 'VACUUM (FREEZE) skipping');
for my $percent (0.02, 0.2, 2)
{
	my $updated = sql("WITH u AS (UPDATE skipping SET b = b WHERE (hashint4extended(a, 1) & 4294967295) < ($percent * 42949672.96)::bigint RETURNING 1) SELECT count(*) FROM u");
	all_plans($updated) if $percent == 0.2;
	compare("skipping, $percent %", 'skipping', 0);
	sql('VACUUM (FREEZE) skipping');
}

# Several index scans, by the number of items and by memory
sql("CREATE TABLE several (a int) WITH ($off)", 'INSERT INTO several SELECT generate_series(1, 400000)', 'CREATE INDEX ON several (a)', 'DELETE FROM several WHERE a % 2 = 0');
compare('several index scans', 'several', 0, "SET parvacuum.store_limit = '256kB';");
sql("CREATE TABLE scattered (a int) WITH ($off)", 'INSERT INTO scattered SELECT generate_series(1, 2000000)', 'CREATE INDEX ON scattered (a)',
	'DELETE FROM scattered WHERE hashint4(a) % 5 = 0');
compare('scattered dead items', 'scattered', 0, "SET maintenance_work_mem = '1MB';");

# Dead rows on few pages
sql("CREATE TABLE rare (a int) WITH ($off)", 'INSERT INTO rare SELECT generate_series(1, 500000)', 'CREATE INDEX ON rare (a)');
sql('DELETE FROM rare WHERE a BETWEEN 200000 AND 250000');
compare('rare dead rows', 'rare', 0);

#
# What makes a run useless
#
sub useless { return sql("SELECT useless, coalesce(reason, '') FROM parvacuum_plan('$_[0]') LIMIT 1"); }
sql("CREATE TABLE held (a int) WITH ($off)", 'INSERT INTO held SELECT generate_series(1, 50000)', 'VACUUM held');
sql('BEGIN', 'CREATE TABLE in_prepared (a int)', q{PREPARE TRANSACTION 'holder'});
sql('DELETE FROM held WHERE a % 2 = 0');
like(useless('held'), qr/^t\|About \d{5} dead rows may still be seen/, 'a prepared transaction: a run would be useless');
is(sql(q{SELECT tuples_removed FROM parvacuum_run('held')}), 0, 'a prepared transaction: it is');
sql(q{COMMIT PREPARED 'holder'});
is(useless('held'), 'f|', 'without it: a run would be of use');
compare('without it', 'held', 0);
is(useless('held'), q{t|There is nothing to remove, to freeze, or to set all-visible.}, 'after the run: there is nothing to do');
pv_reload_with($node, 'parvacuum.engine' => 'off');
is(useless('held'), q{t|PostgreSQL's own VACUUM would vacuum the table.  The setting parvacuum.engine is off.}, 'the engine is off');
pv_reload_with($node, 'parvacuum.engine' => 'on');

#
# The times of a vacuum that has slept for cost limits are not those of one that a session asks for.
#
sql("CREATE TABLE slept (a int) WITH ($off, parvacuum.enabled, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 20, autovacuum_vacuum_cost_limit = 4)",
	'INSERT INTO slept SELECT generate_series(1, 100000)', 'DELETE FROM slept WHERE a % 5 = 0', 'ALTER TABLE slept SET (autovacuum_enabled)');
pv_reload_with($node, autovacuum => 'on', autovacuum_naptime => '1s');
ok(pv_await($node, q{SELECT count(*) FROM parvacuum_history WHERE relation = 'slept'::regclass AND started_by = 'autovacuum'}, 1), 'a vacuum that slept: autovacuum has done it');
sql("ALTER TABLE slept SET ($off)", 'DELETE FROM slept WHERE a % 5 = 1');
is(sql(q{SELECT count(p.heap_scan_ms), count(p.elapsed_ms) FROM parvacuum_history h, parvacuum_plan('slept') p WHERE h.relation = 'slept'::regclass}), '0|0', 'a vacuum that slept: a plan does not go by its times');
sql(q{SELECT parvacuum_run('slept')}, 'DELETE FROM slept WHERE a % 5 = 2');
is(sql(q{SELECT p.elapsed_ms < max(h.elapsed_ms) / 10 FROM parvacuum_history h, parvacuum_plan('slept') p WHERE h.relation = 'slept'::regclass GROUP BY p.elapsed_ms}), 't', 'a vacuum that slept: a run tells how long the next one takes');

#
# Tables that change while the session waits for a lock
#
sub while_locked
{
	my ($change, $role) = @_;
	my $holder = $node->background_psql('postgres');
	$holder->query_safe("BEGIN; $change");
	my $run = pv_start_run($node, qq{SELECT parvacuum_plan('changing')}, role => $role);
	$node->poll_query_until('postgres', qq{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = '$run->{tag}' AND wait_event_type = 'Lock'}) or die 'it does not wait';
	$holder->query_safe('COMMIT');
	$holder->quit;
	pv_finish($run);
	return $run->{err};
}
sql('CREATE ROLE pv_was', 'CREATE ROLE pv_is', 'CREATE TABLE changing (a int)', 'ALTER TABLE changing OWNER TO pv_was');
like(while_locked('ALTER TABLE changing OWNER TO pv_is', 'pv_was'), qr/permission denied to plan a vacuum of table "changing"/, 'a table that gets another owner');
like(while_locked('DROP TABLE changing', 'pv_is'), qr/relation with OID \d+ does not exist/, 'a table that is dropped');

#
# Indexes that are not finished: the plan waits for none, and counts those that a vacuum would
# vacuum.
#
sub indexes { return sql("SELECT indexes, dead_items FROM parvacuum_plan('building')"); }
sql("CREATE TABLE building (a int) WITH ($off)", 'INSERT INTO building SELECT i / 2 FROM generate_series(1, 10000) i', 'DELETE FROM building WHERE a % 5 = 0');
my $writer = $node->background_psql('postgres');
$writer->query_safe('BEGIN; INSERT INTO building VALUES (-1)');
my $builder = pv_start_run($node, 'CREATE UNIQUE INDEX CONCURRENTLY building_a ON building (a)');
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'CREATE UNIQUE INDEX%' AND wait_event_type = 'Lock'}) or die 'it does not wait';
is(indexes(), '0|2000', 'an index that is being built');
$writer->query_safe('COMMIT');
$writer->quit;
pv_finish($builder);
like($builder->{err}, qr/could not create unique index/, 'the index cannot be built');
my $ready = sql(q{SELECT count(*) FROM pg_index WHERE indrelid = 'building'::regclass AND indisready AND NOT indisvalid});
is(indexes(), "$ready|2000", 'an invalid index');
sql('DROP INDEX building_a', 'CREATE INDEX building_a ON building (a)', q{UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'building_a'::regclass});
is(indexes(), '1|2000', 'an invalid index that gets new entries');
compare('an invalid index', 'building', 0);

#
# A standby
#
sql("CREATE TABLE far (a int, b text) WITH ($off)", "INSERT INTO far SELECT i, repeat('x', 50) FROM generate_series(1, 20000) i", 'CREATE INDEX ON far (a)', 'DELETE FROM far WHERE a % 4 = 0');
sql("CREATE UNLOGGED TABLE unlogged AS SELECT 1 AS a");
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('plan_standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
pv_catch_up($node, $standby);
my $columns = q{pages_total, pages_to_scan, workers_planned, indexes, aggressive};
is(pv_sql($standby, "SELECT $columns FROM parvacuum_plan('far', workers => 1)"), sql("SELECT $columns FROM parvacuum_plan('far', workers => 1)"), 'a standby: what the map shows');
is(pv_sql($standby, q{SELECT tuples_to_remove BETWEEN 4000 AND 6000, dead_items BETWEEN 4000 AND 6000, index_scans, useless, reason FROM parvacuum_plan('far') LIMIT 1}),
	't|t|1|t|The server is in recovery.  Only its primary can vacuum the table.', 'a standby: what the sample shows');
is(pv_sql($standby, q{SELECT pages_total IS NULL, useless, reason FROM parvacuum_plan('unlogged')}), 't|t|The server is in recovery.  It has no contents of unlogged tables.', 'a standby: an unlogged table');
$standby->stop;

#
# A damaged page with more line pointers than a page can have, all dead
#
sub overwrite
{
	my ($file, $block, %bytes) = @_;
	open(my $handle, '+<:raw', $node->data_dir . "/$file") or die "$file: $!";
	for my $offset (keys %bytes)
	{
		seek $handle, $block * 8192 + $offset, 0;
		print $handle $bytes{$offset};
	}
	close $handle or die "$file: $!";
	return;
}
use constant { LOWER => 12, LINE_POINTERS => 24, MOST_LINE_POINTERS => 291, DEAD_LINE_POINTER => 3 << 15 };
sql("CREATE TABLE damaged (a int) WITH ($off)", 'INSERT INTO damaged SELECT generate_series(1, 5000)', 'CREATE INDEX damaged_a ON damaged (a)', 'CHECKPOINT');
my $file = sql(q{SELECT pg_relation_filepath('damaged')});
$node->stop;
overwrite($file, 1, LOWER, pack('SSS', LINE_POINTERS + 4 * 1500, 8192, 8192), LINE_POINTERS, pack('L', DEAD_LINE_POINTER) x 1500);
$node->start;
is(sql(q{SELECT indexes, dead_items FROM parvacuum_plan('damaged')}), '1|' . MOST_LINE_POINTERS, 'a damaged page: there is a plan');

pv_no_crash($node, 'the server');
pv_no_crash($standby, 'the standby');
done_testing();
