# A GIN index keeps new entries in a pending list, which a vacuum empties when it first
# comes to the index.  If the store becomes full, the vacuum scans the index several
# times.  Later the pending list may have entries of rows that were inserted since then by
# an aborted transaction.  These rows are dead, and their line pointers are freed and
# reused, so their entries must be removed first.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('gin');
$node->start;
pv_setup($node);

# Only pages at the end of the table have room for a wide row, so such rows are inserted
# there, where the vacuum has not been yet.  The last row is kept, so that the table is
# not truncated.
pv_sql($node, q{
	CREATE TABLE t (id int, a int[], pad text) WITH (autovacuum_enabled = off);
	ALTER TABLE t ALTER pad SET STORAGE PLAIN;
	INSERT INTO t SELECT i, ARRAY[i % 10], repeat('x', 80) FROM generate_series(1, 300000) i;
	CREATE INDEX t_a ON t USING gin (a) WITH (fastupdate = on);
	DELETE FROM t WHERE id BETWEEN 290000 AND 299999});
pv_sql($node, "SELECT * FROM parvacuum_run('t', truncate => false, index_cleanup => 'on')");
pv_sql($node, 'DELETE FROM t WHERE id < 280000 AND hashint4(id) % 3 = 0');

# The vacuum is slow enough for changes in between.  The store is so small that it becomes
# full several times, although it needs little more than a bit for each row.
my $run = pv_start_run($node, "SELECT index_scans FROM parvacuum_run('t', workers => 0, index_cleanup => 'on') WHERE relid = 't'::regclass",
	'parvacuum.store_limit' => 1, vacuum_cost_delay => '4ms', vacuum_cost_limit => 200, vacuum_cost_page_hit => 4);
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_progress_vacuum
		WHERE relid = 't'::regclass AND index_vacuum_count > 0 AND heap_blks_scanned < heap_blks_total / 2}, 1),
	'the first index scan is completed');
pv_sql($node, q{BEGIN; INSERT INTO t SELECT i, ARRAY[4711], repeat('y', 6000) FROM generate_series(1, 80) i; ROLLBACK});
ok(pv_finish($run), 'the run succeeds') or diag $run->{err};
cmp_ok($run->{out}, '>', 2, 'the run has several index scans');

# Rows that reuse all free line pointers, with other keys
pv_sql($node, q{INSERT INTO t SELECT i, ARRAY[4712], repeat('z', 6000) FROM generate_series(1, 90) i});
my $dangling = q{SET enable_seqscan = off; SELECT count(*), min(a::text) FROM t WHERE a @> '{4711}'};
is(pv_sql($node, $dangling), '0|', 'no row is found by the key of the aborted rows');
is(pv_sql($node, q{SET enable_seqscan = off; SELECT count(*) FROM t WHERE a @> '{4712}'}),
	'90', 'the new rows are found by their keys');
is(pv_findings($node, 't'), '', 'the table is whole');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
