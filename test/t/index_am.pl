# Indexes whose access methods know nothing of parallel vacuum, and assign transaction
# IDs while they vacuum.  What works with core works with the engine, with and without
# workers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('am');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
log_autovacuum_min_duration = 0
min_parallel_index_scan_size = 0
max_parallel_maintenance_workers = 4
parvacuum.min_parallel_pages = 0
parvacuum.autovacuum_workers = 2
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

if (($node->psql('postgres', 'CREATE EXTENSION parvacuum_test'))[0] != 0)
{
	$node->stop;
	plan skip_all => 'parvacuum_test is not installed';
}
for my $am (qw(xid_in_cleanup xid_in_bulkdelete uses_memory))
{
	sql("CREATE ACCESS METHOD $am TYPE INDEX HANDLER parvacuum_test_$am",
		"CREATE OPERATOR CLASS ${am}_ops DEFAULT FOR TYPE int USING $am AS STORAGE int");
}

# A table with such an index, and this many B-trees.  A third of its rows is dead.
sub new_table
{
	my ($am, $nbtrees, $options) = @_;
	sql('SET client_min_messages = warning; DROP TABLE IF EXISTS t',
		'CREATE TABLE t (id int, pad text) WITH (autovacuum_enabled = off' . ($options // '') . ')',
		q{INSERT INTO t SELECT i, repeat('p', 50) FROM generate_series(1, 70000) i},
		"CREATE INDEX t_x ON t USING $am (id)", ('CREATE INDEX ON t (id)') x $nbtrees,
		'DELETE FROM t WHERE id % 3 = 0');
	return;
}

# The number of bulk deletions is stored as the number of rows of the index.
my $deletions = q{SELECT reltuples::int - 100 FROM pg_class WHERE relname = 't_x'};

# Vacuum it.  Returns the results of psql.
sub run_with
{
	my ($workers, $more, $setting) = @_;
	return $node->psql('postgres', ($setting // '')
		  . "SELECT workers_launched, index_scans FROM parvacuum_run('t', workers => $workers, truncate => false $more) WHERE relid = 't'::regclass");
}

my $on = ", index_cleanup => 'on'";
my $no_xid = qr/cannot assign (XIDs|transaction IDs) during a parallel operation/;

# Other indexes are large enough for workers.  The cleanup runs when the workers have
# ended.
for my $workers (2, 0)
{
	my $what = "cleanup, $workers workers";
	new_table('xid_in_cleanup', 2);
	my ($rc, $out, $err) = run_with($workers, $on);
	is("$rc $out", "0 $workers|1", "$what: the table is vacuumed") or diag $err;
	like($err, qr/WARNING:  cleanup of "t_x" after 1 bulk deletions, for 46667 rows/, "$what: the cleanup gets the result of bulk deletion, and the number of rows");
	is(sql($deletions), 1, "$what: the result of the cleanup is stored");
	is(pv_findings($node, 't'), '', "$what: the table is whole");

	($rc, $out, $err) = run_with($workers, $on);
	is("$rc $out", "0 $workers|0", "$what: another vacuum without dead rows succeeds") or diag $err;
	like($err, qr/WARNING:  cleanup of "t_x" after 0 bulk deletions/, "$what: the cleanup gets no result");

	new_table('xid_in_cleanup', 2);
	($rc, $out, $err) = run_with($workers, $on, 'SET parvacuum.store_limit = 4; ');
	like($out, qr/^$workers\|[2-9]$/, "$what: with several index scans") or diag $err;
	my $rounds = (split /\|/, $out)[1];
	is(sql($deletions), $rounds, "$what: each bulk deletion gets the result of the one before");
	is(pv_findings($node, 't'), '', "$what: the table is whole");

	sql('DELETE FROM t WHERE id % 7 = 0');
	($rc, $out, $err) = run_with($workers, ", index_cleanup => 'off'");
	is("$rc $out", "0 $workers|0", "$what: without index cleanup, no bulk deletion is called");
	unlike($err, qr/cleanup of/, "$what: without index cleanup, no cleanup is called");
}

# Indexes that need memory share what a vacuum may have: each worker has its part.
{
	new_table('uses_memory', 2);
	sql(map { "CREATE INDEX t_x$_ ON t USING uses_memory (id)" } 1 .. 3);
	my ($rc, $out, $err) = run_with(2, $on, q{SET maintenance_work_mem = '8MB'; });
	is("$rc $out", '0 2|1', 'memory: the table is vacuumed') or diag $err;
	is(join(' ', sort keys %{ { map { $_ => 1 } $err =~ /WARNING:  bulk deletion by a (worker with \d+) kB/g } }), 'worker with 4096', 'memory: each worker has a part');
}

# Core has no workers if only one index is large enough.  So the engine has none.
for my $am (qw(xid_in_cleanup xid_in_bulkdelete))
{
	my $what = "$am, one B-tree";
	new_table($am, 1);
	my ($rc, $out, $err) = run_with(2, $on);
	is("$rc $out", '0 0|1', "$what: the table is vacuumed by one process") or diag $err;
	like($err, qr/NOTICE:  number of parallel workers for vacuum of "t" is reduced from 2 to 0\nDETAIL:  The access method of index "t_x" does not support parallel vacuum\./,
		"$what: the reason is reported");
	is(sql($deletions), 1, "$what: the index was vacuumed");
	is(pv_findings($node, 't'), '', "$what: the table is whole");
}

# Nor does core if the others are too small.
{
	new_table('xid_in_cleanup', 2);
	my ($rc, $out, $err) = run_with(2, $on, 'SET min_parallel_index_scan_size = 131072; ');
	is("$rc $out", '0 0|1', 'two small B-trees: the table is vacuumed by one process') or diag $err;
}

# What fails with core fails with the engine, and what succeeds succeeds.
for my $parallel (2, 0)
{
	my $what = "bulk deletion, PARALLEL $parallel";
	new_table('xid_in_bulkdelete', 2);
	my ($core_rc, $out, $core_err) = $node->psql('postgres', "VACUUM (PARALLEL $parallel, INDEX_CLEANUP on) t");
	new_table('xid_in_bulkdelete', 2);
	my ($rc, $ours, $err) = $node->psql('postgres', "ALTER TABLE t SET (parvacuum.enabled); VACUUM (PARALLEL $parallel, INDEX_CLEANUP on) t");
	is($rc, $core_rc, "$what: both vacuums end in the same way") or diag "$core_err $err";
	if ($parallel)
	{
		like($_, $no_xid, "$what: parallel mode forbids it") for $core_err, $err;
	}
	else
	{
		is(sql($deletions), 1, "$what: the index was vacuumed");
	}
	is(pv_findings($node, 't'), '', "$what: the table is whole");
}

# Autovacuum and the scheduler have no workers for such a table.
for my $who (qw(autovacuum scheduler))
{
	for my $am (qw(xid_in_cleanup xid_in_bulkdelete))
	{
		my $what = "$who, $am";
		new_table($am, 3, ', autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 1000000, parvacuum.enabled, parvacuum.workers = 2');
		pv_reload_with($node, $who eq 'autovacuum' ? ('autovacuum' => 'on') : ('parvacuum.scheduler' => 'on'));
		sql('ALTER TABLE t SET (autovacuum_enabled = on)');
		ok(pv_await($node, q{SELECT autovacuum_count + vacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 't'}, 'true'), "$what: the table is vacuumed")
		  or diag pv_processes($node);
		is(sql($deletions), 1, "$what: the index was vacuumed");
		pv_reload_with($node, 'autovacuum' => 'off', 'parvacuum.scheduler' => 'off');
		ok(pv_await($node, q{SELECT count(*) FROM pg_stat_progress_vacuum}, 0), "$what: no process is left");
		is(pv_findings($node, 't'), '', "$what: the table is whole");
	}
}

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
