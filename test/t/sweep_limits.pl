# What a sweep costs others: how long it holds the lock of a leaf, how many buffers it
# uses, how fast it may work, and which rows it keeps from being removed.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('sweep_limits');
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

# Each leaf of these indexes has entries of hundreds of heap pages.
sql('CREATE EXTENSION pg_buffercache', q{
	CREATE TABLE spread (id int, k int, pad text) WITH (autovacuum_enabled = off);
	CREATE INDEX spread_k ON spread (k);
	CREATE INDEX spread_hash ON spread (hashint4(id))});
my ($heap, %leaves);
sub fill
{
	sql('TRUNCATE spread', "INSERT INTO spread SELECT i, hashint4(i) & 31, repeat('x', 100) FROM generate_series(1, 60000) i", 'REINDEX TABLE spread');
	$heap = sql(q{SELECT oracle.nblocks('spread')});
	%leaves = map { $_ => sql("SELECT oracle.nblocks('$_')") } qw(spread_k spread_hash);
	return;
}
fill();

# Sweep.  Returns the messages and the numbers of EXPLAIN.
sub sweep
{
	my ($index, %settings) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join ";\n",
		map({ "SET $_ = '$settings{$_}'" } sort keys %settings),
		"SELECT FROM pg_stat_clear_snapshot(), parvacuum_sweep('pg_toast.pg_toast_' || 'spread'::regclass::oid || '_index')",    # fills the caches
		'SET client_min_messages = debug1',
		"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM parvacuum_sweep('$index')");
	my %counted = (hit => 0, read => 0, dirtied => 0);
	for my $kind (keys %counted) { $counted{$kind} = $1 if $out =~ /"Shared \u$kind Blocks": (\d+)/; }
	($counted{ms}) = $out =~ /"Execution Time": ([\d.]+)/;
	@counted{qw(holds pages reads slept)} =
	  $err =~ /sweep of index "$index": deleted under (\d+) write locks of leaf pages, at most (\d+) heap pages under one lock, (\d+) reads under all of them, slept (\d+) us/
	  or die "$rc $out $err";
	return \%counted;
}

# The number of entries of deleted rows in an index
sub dead { return sql("SELECT count(*) FROM oracle.index_tids('$_[0]') t WHERE t NOT IN (SELECT ctid FROM spread)"); }

#
# The lock of a leaf
#
my $most = 32;
sql('DELETE FROM spread WHERE id % 4 = 0');
my %dead = map { $_ => dead($_) } sort keys %leaves;
for my $index (sort keys %leaves)
{
	is($dead{$index}, 15000, "$index: it has entries of deleted rows");
	my $pages = sql("WITH leaf AS (SELECT b, count(DISTINCT (t::text::point)[0]) n FROM generate_series(1, $leaves{$index} - 1) b, bt_page_items('$index', b) i,
		unnest(coalesce(i.tids, ARRAY[i.htid])) t GROUP BY b) SELECT max(n) FROM leaf");
	cmp_ok($pages, '>', 4 * $most, "$index: a leaf has entries of many heap pages");
	my $s = sweep($index);
	cmp_ok($s->{pages}, '<=', $most, "$index: no more than $most heap pages are visited under the lock of a leaf");
	cmp_ok($s->{pages}, '>', $most / 2, "$index: heap pages are visited in batches");
	cmp_ok($s->{holds}, '>=', $leaves{$index} / 2 * 4, "$index: the number of times that the lock is held");
	is($s->{reads}, 0, "$index: no heap page is read from disk under the lock");
	is(dead($index), 0, "$index: all of those entries are deleted");
}
is(pv_findings($node, 'spread'), '', 'the table is whole');

#
# vacuum_cost_delay: a leaf costs many times the limit.
#
my %slow = (vacuum_cost_delay => '1ms', vacuum_cost_limit => 40, vacuum_cost_page_hit => 1, vacuum_cost_page_miss => 2, vacuum_cost_page_dirty => 3);
fill();
sql('DELETE FROM spread WHERE id % 4 = 1');
for my $index (qw(spread_k spread_hash))
{
	my $s = sweep($index, %slow);
	my $units = $s->{hit} + 2 * $s->{read} + 3 * $s->{dirtied};
	my $owed = $units / 40;
	note "$index: $units cost units, $s->{ms} ms, slept $s->{slept} us";
	cmp_ok($units / $leaves{$index}, '>', 5 * 40, "$index: a leaf costs many times the limit");
	cmp_ok($s->{ms}, '>=', 0.9 * $owed, "$index: the sweep takes the time of its cost");
	cmp_ok($s->{slept} / 1000, '>=', 0.9 * $owed, "$index: the process has slept for its cost");
	cmp_ok($s->{slept} / 1000, '<=', 1.1 * $owed, "$index: the process has not slept longer");
	is(dead($index), 0, "$index: all dead entries are deleted");
}

# A process that sleeps for long can be stopped.
my %slower = (%slow, vacuum_cost_delay => '100ms', vacuum_cost_limit => 1);
my $run = pv_start_run($node, q{SELECT parvacuum_sweep('spread_k')}, %slower);
my $asleep = qq{SELECT count(*) FROM pg_stat_activity WHERE application_name = '$run->{tag}' AND wait_event = 'VacuumDelay'};
ok(pv_await($node, $asleep, 1), 'a sweep sleeps for a minute');
is(sql("SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('spread_k') AND pinning_backends > 0"), 0, 'no leaf is pinned while it sleeps');
is(sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$run->{tag}'"), 't', 'the sleeping sweep is canceled');
ok(!pv_finish($run), 'the canceled sweep fails');
like($run->{err}, qr/canceling statement due to user request/, 'soon');

# The procedure does not hold back the horizon while it sleeps.
$run = pv_start_run($node, q{CALL parvacuum_sweep_index('spread_hash')}, %slower);
$asleep = qq{SELECT count(*) FROM pg_stat_activity WHERE application_name = '$run->{tag}' AND wait_event = 'VacuumDelay'};
ok(pv_await($node, "$asleep AND backend_xmin IS NULL AND backend_xid IS NULL", 1), 'the procedure sleeps without a snapshot');
sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$run->{tag}'");
ok(!pv_finish($run), 'the sleeping sweep is canceled');

#
# The ring of buffers
#
sub cached { return sql(q{SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('spread') AND relforknumber = 0}); }
fill();
my $round = 0;
for my $case ([ '256kB', 32 ], [ '2MB', 256 ], [ 0, undef ])
{
	my ($limit, $buffers) = @$case;
	sql('DELETE FROM spread WHERE id % 20 = ' . $round++);
	$node->restart;
	is(cached(), 0, "ring of $limit: nothing of the table is in shared buffers");
	my $s = sweep('spread_k', 'parvacuum.buffer_usage_limit' => $limit);
	if ($buffers)
	{
		# A buffer that the background writer inspects when the ring comes round is left
		# to it.
		cmp_ok(cached(), '<=', $buffers + 4, "ring of $limit: the table has no more buffers than that");
		cmp_ok($s->{read}, '>', $heap, "ring of $limit: it was read more than once");
	}
	else
	{
		is(cached(), $heap, 'no ring: the table has as many buffers as it needs');
	}
	is($s->{reads}, 0, "ring of $limit: no heap page is read under the lock of a leaf");
	is(dead('spread_k'), 0, "ring of $limit: all dead entries are deleted");
}
sql('ALTER TABLE spread SET (parvacuum.buffer_usage_limit = 256)');
$node->restart;
sweep('spread_k');
cmp_ok(cached(), '<=', 32 + 4, 'the option of the table applies');
SKIP:
{
	skip 'there is no vacuum_buffer_usage_limit', 2 if $node->pg_version < 16;
	$node->restart;
	sweep('spread_k', vacuum_buffer_usage_limit => '512kB');
	cmp_ok(cached(), '<=', 64 + 4, 'vacuum_buffer_usage_limit overrides the option');
	cmp_ok(cached(), '>', 32 + 4, 'vacuum_buffer_usage_limit is used');
}

# With few buffers, of which others need some, not all heap pages of a leaf can be kept.
$node->append_conf('postgresql.conf', "shared_buffers = 2MB\n");
$node->restart;
fill();
sql('DELETE FROM spread WHERE id % 4 = 3');
my $dead = dead('spread_hash');
cmp_ok($dead, '>', 5000, 'few buffers: the index has enough dead entries');
my $s = sweep('spread_hash');
is($s->{reads}, 0, 'few buffers: no heap page is read under the lock of a leaf');
cmp_ok($s->{pages}, '<', $most, 'few buffers: fewer are pinned');
is(dead('spread_hash'), 0, 'few buffers: all of those entries are deleted');
is(pv_findings($node, 'spread'), '', 'the table is whole');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
