# The order in which indexes are vacuumed, and the processes that do it.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('units');
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

my $gate = $node->background_psql('postgres');
$gate->set_query_timer_restart;

# One test: this many processes wait at the gate, and all others for them.
sub all_stand
{
	my ($n, $what) = @_;
	ok(pv_await($node, q{
		SELECT count(*) FILTER (WHERE wait_event = 'advisory') || ' ' || count(*) FILTER (WHERE coalesce(wait_event_type, '') <> 'Extension' AND coalesce(wait_event, '') <> 'advisory')
		FROM pg_stat_activity WHERE backend_type IN ('parvacuum background leader', 'parallel worker')}, "$n 0"), $what)
	  or diag pv_processes($node);
	return;
}

#
# A B-tree, which all processes can vacuum together, and a GIN index that is a little
# smaller, which one process can vacuum.  When a page of the B-tree is to be visited, a
# process has begun with the GIN index.  That shows by its pending list, which is emptied
# first.
#
for my $workers (0, 1)
{
	my $what = "GIN and B-tree, $workers workers";
	sql('DROP TABLE IF EXISTS t',
		'CREATE TABLE t (id int, k int[], pad text) WITH (autovacuum_enabled = off)',
		q{INSERT INTO t SELECT i, ARRAY[i, i % 1000 + 100000, i % 7 + 200000], repeat('p', 60) FROM generate_series(1, 6000) i},
		'CREATE INDEX t_gin ON t USING gin (k) WITH (gin_pending_list_limit = 1000000)',
		'CREATE INDEX t_btree ON t (id, pad)',
		q{INSERT INTO t SELECT i, ARRAY[i], repeat('p', 60) FROM generate_series(6001, 6200) i},
		'DELETE FROM t WHERE id % 5 = 0');
	my ($gin, $btree) = split /\|/, sql(q{SELECT oracle.nblocks('t_gin'), oracle.nblocks('t_btree')});
	cmp_ok($gin, '>', 0.6 * $btree, "$what: the GIN index is not much smaller");
	cmp_ok($gin, '<', $btree, "$what: the GIN index is smaller");
	my $pending = q{SELECT n_pending_tuples FROM gin_metapage_info(get_raw_page('t_gin', 0))};
	cmp_ok(sql($pending), '>', 0, "$what: rows are in the pending list");

	$gate->query_safe('SELECT pg_advisory_lock(28790)');
	my $run = pv_start_run($node, "SELECT workers_launched, tuples_removed FROM parvacuum_run('t', workers => $workers, index_cleanup => 'on') WHERE relid = 't'::regclass",
		'parvacuum.wait_at' => 'nbtree\ range');
	all_stand($workers + 1, "$what: all processes wait at the B-tree");
	is(sql($pending), 0, "$what: the GIN index was begun before");
	is(sql(q{SELECT indexes_processed FROM pg_stat_progress_vacuum}), 1, "$what: the GIN index is vacuumed") if $workers == 0 && $node->pg_version >= 17;
	$gate->query_safe('SELECT pg_advisory_unlock(28790)');
	ok(pv_finish($run), "$what: the vacuum succeeds") or diag $run->{err};
	is($run->{out}, "$workers|1240", "$what: the rows are removed");
	is(pv_findings($node, 't'), '', "$what: the table is whole");
}

#
# Two B-trees of one size and two processes: each process begins with another one.  So the
# deletion of pages of one, by one process, goes along with the visits of the other.
#
{
	my $what = 'two B-trees';
	sql('DROP TABLE IF EXISTS t',
		'CREATE TABLE t (a int, b int, pad text) WITH (autovacuum_enabled = off)',
		q{INSERT INTO t SELECT i, i, repeat('p', 60) FROM generate_series(1, 9000) i},
		'CREATE INDEX t_a ON t (a, pad)', 'CREATE INDEX t_b ON t (b, pad)',
		'DELETE FROM t WHERE a > 1000');
	$gate->query_safe('SELECT pg_advisory_lock(28790)');
	my $run = pv_start_run($node, "SELECT workers_launched, tuples_removed FROM parvacuum_run('t', workers => 1, index_cleanup => 'on') WHERE relid = 't'::regclass",
		'parvacuum.wait_at' => 'nbtree\ deletion');
	all_stand(2, "$what: both processes are about to delete pages");
	$gate->query_safe('SELECT pg_advisory_unlock(28790)');
	ok(pv_finish($run), "$what: the vacuum succeeds") or diag $run->{err};
	is($run->{out}, '1|8000', "$what: the rows are removed");
	is(pv_findings($node, 't'), '', "$what: the table is whole");
}

#
# A worker is the one that deletes pages, and the leader, which waits for it, is canceled.
# Either may be that one, so this is repeated until it is the worker.  It goes slowly, so that
# the leader has not done all before the worker is there.
#
{
	my $what = 'a leader that waits';
	sql('DROP TABLE IF EXISTS t', 'CREATE TABLE t (a int, pad text) WITH (parvacuum.enabled, autovacuum_enabled = off)',
		q{INSERT INTO t SELECT i, repeat('p', 60) FROM generate_series(1, 9000) i}, 'CREATE INDEX t_a ON t (a, pad)', 'DELETE FROM t WHERE a > 1000');
	my $said = '';
	for (1 .. 30)
	{
		$gate->query_safe('SELECT pg_advisory_lock(28790)');
		my $run = pv_start_run($node, 'VACUUM (PARALLEL 1, INDEX_CLEANUP on) t', vacuum_cost_delay => '2ms', vacuum_cost_limit => 20, 'parvacuum.wait_at' => 'nbtree\ deletion');
		my $me = "application_name = '$run->{tag}'";
		pv_await($node, "SELECT count(*) FROM pg_stat_activity WHERE $me AND wait_event = 'advisory'", 1);
		my $leader_waits = sql("SELECT count(*) FROM pg_stat_activity WHERE $me AND wait_event = 'advisory' AND backend_type = 'parallel worker'");
		pv_await($node, "SELECT wait_event_type FROM pg_stat_activity WHERE $me AND backend_type = 'client backend'", 'Extension') if $leader_waits;
		sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE $me AND backend_type = 'client backend'");
		pv_finish($run);
		$gate->query_safe('SELECT pg_advisory_unlock(28790)');
		$said = $run->{err} and last if $leader_waits;
	}
	like($said, qr/ERROR:  canceling statement due to user request\nCONTEXT:  while vacuuming indexes of relation "public\.t"/, "$what: the error says at what");
}

$gate->quit;
pv_no_crash($node, 'the server');
$node->stop;
done_testing();
