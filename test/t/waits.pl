# Vacuums that have to wait: for the pin of a cursor, for a lock; and other sessions that
# wait for a vacuum.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('waits');
$node->append_conf('postgresql.conf', "deadlock_timeout = 100ms\n");
$node->start;
pv_setup($node);

# Four rows fill a page so far that it is not pruned when it is read.
sub new_table
{
	$node->safe_psql('postgres', q{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (id int, pad text) WITH (autovacuum_enabled = off);
		INSERT INTO t SELECT i, repeat('x', 1700) FROM generate_series(1, 2400) i;
		CREATE INDEX ON t (id);
		DELETE FROM t WHERE id % 4 = 2;
	});
	return;
}

sub start_cursor
{
	my ($at) = @_;
	my $session = $node->background_psql('postgres');
	$session->query_safe("BEGIN; DECLARE c CURSOR FOR SELECT id FROM t; MOVE $at IN c; FETCH 1 FROM c");
	return $session;
}

my $waits = q{SELECT count(*) FROM pg_stat_activity WHERE wait_event IN ('BufferPin', 'BufferCleanup')};

#
# An aggressive vacuum waits for a pin.  Each process that waits can be canceled, and
# goes on when the pin is released.
#
for my $workers (0, 2)
{
	new_table();
	my $cursor = start_cursor(700);
	my $run = pv_start_run($node, "SELECT tuples_removed, relfrozenxid_advanced FROM parvacuum_run('t', workers => $workers, freeze => true) WHERE relid = 't'::regclass");
	ok(pv_await($node, $waits, 1), "$workers workers: the vacuum waits for a pin");
	is($node->safe_psql('postgres', q{SELECT mode, started_by FROM pg_stat_progress_vacuum}), 'aggressive|manual',
		"$workers workers: the view shows the mode and who has started the vacuum") if $node->pg_version->major >= 19;
	is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT query, ', ') FROM pg_stat_activity WHERE backend_type IN ('parvacuum background leader', 'parallel worker')}),
		"VACUUM (FREEZE, PARALLEL $workers) public.t", "$workers workers: the text of all processes");
	$cursor->query_safe('COMMIT');
	ok(pv_finish($run), "$workers workers: the vacuum goes on when the pin is released") or diag $run->{err};
	is($run->{out}, '600|t', "$workers workers: the pinned page was pruned and frozen, too");
	$cursor->quit;

	for my $whom ('caller', 'the waiting process')
	{
		new_table();
		$cursor = start_cursor(700);
		$run = pv_start_run($node, "SELECT tuples_removed FROM parvacuum_run('t', workers => $workers, freeze => true) WHERE relid = 't'::regclass");
		ok(pv_await($node, $waits, 1), "$workers workers, cancel $whom: the process waits");
		my $which = $whom eq 'caller' ? "application_name = '$run->{tag}' AND backend_type = 'client backend'" : q{wait_event IN ('BufferPin', 'BufferCleanup')};
		is($node->safe_psql('postgres', "SELECT count(pg_cancel_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE $which LIMIT 1) x"),
			1, "$workers workers, cancel $whom: the signal is sent");
		ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('parvacuum background leader', 'parallel worker')}, 0),
			"$workers workers, cancel $whom: no process remains") or diag pv_processes($node);

		# now, so that a process which is still there does not wait forever
		$cursor->query_safe('COMMIT');
		$cursor->quit;
		ok(!pv_finish($run), "$workers workers, cancel $whom: the vacuum fails");
		is(pv_findings($node, 't'), '', "$workers workers, cancel $whom: the table is whole");
		is($node->safe_psql('postgres', "SELECT tuples_remaining FROM parvacuum_run('t', workers => $workers, freeze => true) WHERE relid = 't'::regclass"),
			1800, "$workers workers, cancel $whom: the next vacuum removes all dead rows");
	}
}

#
# A vacuum that is not aggressive does not wait: many cursors cause no delay.
#
new_table();
my @cursors = map { start_cursor($_ * 300) } 1 .. 5;
my ($removed, $remaining, $missed) = split /\|/, $node->safe_psql('postgres', q{SELECT tuples_removed, tuples_remaining, tuples_missed FROM parvacuum_run('t', workers => 2) WHERE relid = 't'::regclass});
cmp_ok($removed, '<=', 595, 'five pinned pages keep their dead rows');
cmp_ok($removed, '>=', 550, 'few other pages keep dead rows, which the cursors have read ahead from 17 on');
is($remaining + $missed, 2400 - $removed, 'all other dead rows are removed');
is($remaining, 1800, 'dead rows that remain are not counted as live');
$_->quit for @cursors;
is($node->safe_psql('postgres', q{SELECT tuples_removed, tuples_remaining FROM parvacuum_run('t', workers => 2, index_cleanup => 'on') WHERE relid = 't'::regclass}),
	(600 - $removed) . '|1800', 'the next vacuum removes the other dead rows');
is(pv_findings($node, 't'), '', 'the table is whole');

#
# The run waits for the lock of the table, as VACUUM does, and its caller can be
# canceled.
#
my $holder = $node->background_psql('postgres');
my $blocked = q{SELECT count(*) FROM pg_locks WHERE relation = 't'::regclass AND NOT granted};
for my $end ('COMMIT', 'cancel')
{
	$holder->query_safe('BEGIN; LOCK TABLE t IN SHARE UPDATE EXCLUSIVE MODE');
	my $run = pv_start_run($node, q{SELECT count(*) FROM parvacuum_run('t') WHERE relid = 't'::regclass});
	ok(pv_await($node, $blocked, 1), "$end: the run waits for the lock");
	if ($end eq 'COMMIT')
	{
		$holder->query_safe('COMMIT');
		ok(pv_finish($run), "$end: the run gets the lock") or diag $run->{err};
		is($run->{out}, 1, "$end: one table is vacuumed");
	}
	else
	{
		$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM (SELECT pid FROM pg_stat_activity
			WHERE application_name = '$run->{tag}' AND backend_type = 'client backend' LIMIT 1) x");
		ok(pv_await($node, $blocked, 0), "$end: no process waits any more");
		ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader'}, 0),
			"$end: the leader has ended while the lock is held");

		# now, so that a leader which is still there does not wait forever
		$holder->query_safe('COMMIT');
		ok(!pv_finish($run), "$end: the caller's statement ends");
	}
}

#
# An index build with CONCURRENTLY holds the lock that a vacuum needs, and waits for older
# snapshots.  The run waits for the build, and the build does not wait for the session that
# called the run, which shows itself as one that vacuums.
#
sub partitions_with_dead_rows
{
	$node->safe_psql('postgres', q{
		DROP TABLE IF EXISTS p, p1;
		CREATE TABLE p (id int, v int) PARTITION BY LIST (v);
		CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1) WITH (autovacuum_enabled = off);
		CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) WITH (autovacuum_enabled = off);
		INSERT INTO p SELECT i, v FROM generate_series(1, 1000) i, generate_series(1, 2) v;
		CREATE INDEX p1_id ON p1 (id);
		DELETE FROM p WHERE id % 2 = 0;
	});
	return;
}

my $awaits_transaction = q{SELECT count(*) FROM pg_locks WHERE locktype = 'virtualxid' AND NOT granted};
for my $build ('CREATE INDEX CONCURRENTLY p1_v ON p1 (v)', 'REINDEX INDEX CONCURRENTLY p1_id')
{
	for my $call (q{SELECT count(*) FROM parvacuum_run('p', workers => 1)}, q{CALL parvacuum('p', workers => 1)}, q{INSERT INTO done SELECT relid FROM parvacuum_run('p', workers => 1)})
	{
		my $what = "$build, $call";
		my $with_snapshot = $call =~ /^INSERT/;
		partitions_with_dead_rows();
		$node->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS done (relid regclass)');
		$holder->query_safe('BEGIN; UPDATE p1 SET id = -1 WHERE id = 1');
		my $builder = pv_start_run($node, $build);
		ok(pv_await($node, $awaits_transaction, 1), "$what: the index build waits for a transaction");
		my $caller = pv_start_run($node, $call);
		ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE relation = 'p1'::regclass AND mode = 'ShareUpdateExclusiveLock' AND NOT granted}, 1),
			"$what: the run waits for the index build");

		my $of_caller = "FROM pg_stat_activity WHERE application_name = '$caller->{tag}' AND backend_type = 'client backend'";
		is($node->safe_psql('postgres', "SELECT backend_xmin IS NOT NULL $of_caller"), $with_snapshot ? 't' : 'f', "$what: whether the caller holds a snapshot");
		is($node->safe_psql('postgres', "SELECT query $of_caller"), $with_snapshot ? $call : "VACUUM (PARALLEL 1) public.p /* $call */", "$what: the text of the caller");
		is($node->safe_psql('postgres', q{SELECT query FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader'}), 'VACUUM (PARALLEL 1) public.p', "$what: the text of its leader");
		$holder->query_safe('COMMIT');
		ok(pv_finish($builder), "$what: the index is built") or diag $builder->{err};
		if ($with_snapshot)
		{
			ok(!pv_finish($caller), "$what: a caller that holds a snapshot fails");
			like($caller->{err}, qr/ERROR:  deadlock detected
DETAIL:  Process \d+, which vacuums for this session, waits for process (\d+), .*
Process \g1: \Q$build\E
HINT:  .* use CALL parvacuum\(\.\.\.\)/, "$what: the error names the index build and the remedy");
		}
		else
		{
			ok(pv_finish($caller), "$what: the run goes on") or diag $caller->{err};
			is($node->safe_psql('postgres', q{SELECT string_agg(relname || ' ' || vacuum_count, ', ' ORDER BY relname) FROM pg_stat_user_tables WHERE relname IN ('p1', 'p2')}),
				'p1 1, p2 1', "$what: all partitions are vacuumed");
		}
	}
}

# DETACH PARTITION CONCURRENTLY waits for those who use the partitioned table.
for my $call (q{SELECT count(*) FROM parvacuum_run('p')}, q{CALL parvacuum('p')})
{
	partitions_with_dead_rows();
	$holder->query_safe('BEGIN; SELECT count(*) FROM p');
	my $detach = pv_start_run($node, 'ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY');
	ok(pv_await($node, $awaits_transaction, 1), "DETACH, $call: it waits for a transaction");
	my $caller = pv_start_run($node, $call);
	ok(pv_finish($caller), "DETACH, $call: the run does not wait for it") or diag $caller->{err};
	$holder->query_safe('COMMIT');
	ok(pv_finish($detach), "DETACH, $call: the partition is detached") or diag $detach->{err};
}

#
# While a vacuum truncates, it gives way to a session that waits for the table.  Here the
# table is locked already, so it never gets the lock.
#
$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 100');
$holder->query_safe('BEGIN; SELECT count(*) FROM t');
my $run = pv_start_run($node, q{SELECT pages_removed FROM parvacuum_run('t', workers => 2, truncate => true) WHERE relid = 't'::regclass});
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_progress_vacuum WHERE phase = 'truncating heap'}, 1), 'the run waits for the lock to truncate');
is($node->safe_psql('postgres', 'INSERT INTO t VALUES (1); SELECT count(*) FROM t'), 76, 'other sessions can use the table meanwhile');
$holder->query_safe('COMMIT');
ok(pv_finish($run), 'the run succeeds without truncation') or diag $run->{err};
is(pv_findings($node, 't'), '', 'the table is whole');

# It gets the lock, but many of the empty pages have got rows meanwhile.
$node->safe_psql('postgres', q{INSERT INTO t SELECT i, repeat('x', 1700) FROM generate_series(101, 2400) i; DELETE FROM t WHERE id > 100});
$holder->query_safe('BEGIN; SELECT count(*) FROM t');
$run = pv_start_run($node, q{SELECT pages_removed FROM parvacuum_run('t', workers => 2, truncate => true) WHERE relid = 't'::regclass});
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_progress_vacuum WHERE phase = 'truncating heap'}, 1), 'another run waits for the lock to truncate');
$node->safe_psql('postgres', q{INSERT INTO t SELECT i, repeat('x', 1700) FROM generate_series(101, 1300) i});
$holder->query_safe('COMMIT');
ok(pv_finish($run), 'the run succeeds') or diag $run->{err};
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 1276, 'no row is lost');
is(pv_findings($node, 't'), '', 'the table is whole');

# It can be canceled while it waits for the lock.
$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 100');
$holder->query_safe('BEGIN; SELECT count(*) FROM t');
$run = pv_start_run($node, 'VACUUM (VERBOSE, TRUNCATE) t', 'parvacuum.enabled' => 'on');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_progress_vacuum WHERE phase = 'truncating heap'}, 1), 'a VACUUM waits for the lock to truncate');
$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$run->{tag}'");
ok(!pv_finish($run), 'it fails when it is canceled');
like($run->{err}, qr/ERROR:  canceling statement due to user request/, 'the error has the reason');
unlike($run->{err}, qr/stopping truncate/, 'it does not wait any longer');
$holder->query_safe('COMMIT');
$holder->quit;
is(pv_findings($node, 't'), '', 'the table is whole');

# Rows that are inserted before the first page is pruned are in new pages after those that
# become empty.
$node->safe_psql('postgres', q{TRUNCATE t; INSERT INTO t SELECT i, repeat('x', 1700) FROM generate_series(1, 2400) i; DELETE FROM t WHERE id > 100});
my $gate = $node->background_psql('postgres');
$gate->query_safe('SELECT pg_advisory_lock(28790)');
$run = pv_start_run($node, q{SELECT pages_total, tuples_removed, pages_removed FROM parvacuum_run('t', workers => 0, truncate => true) WHERE relid = 't'::regclass},
	'parvacuum.wait_at' => 'leader\ scan');
ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 1), 'a run is about to scan');
$node->safe_psql('postgres', q{INSERT INTO t SELECT i, repeat('x', 1700) FROM generate_series(101, 200) i});
$gate->query_safe('SELECT pg_advisory_unlock(28790)');
ok(pv_finish($run), 'the run succeeds') or diag $run->{err};
is($run->{out}, '600|2300|0', 'nothing is truncated');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 200, 'no row of the new pages is lost');
is(pv_findings($node, 't'), '', 'the table is whole');

# A session begins to wait for the table while it is locked for the truncation.
$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 100');
$gate->query_safe('SELECT pg_advisory_lock(28790)');
$run = pv_start_run($node, 'VACUUM (VERBOSE, TRUNCATE) t', 'parvacuum.enabled' => 'on', 'parvacuum.wait_at' => 'truncate');
ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 1), 'a VACUUM has locked the table to truncate it');
my $other = pv_start_run($node, 'INSERT INTO t VALUES (1)');
ok(pv_await($node, $blocked, 1), 'another session waits for the table');
$gate->query_safe('SELECT pg_advisory_unlock(28790)');
$gate->quit;
ok(pv_finish($other), 'it gets the table') or diag $other->{err};
ok(pv_finish($run), 'the VACUUM succeeds') or diag $run->{err};
like($run->{err}, qr/table "t": suspending truncate due to conflicting lock request/, 'the truncation is suspended for that') or diag $run->{err};
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 101, 'no row is lost');
is(pv_findings($node, 't'), '', 'the table is whole');

# Dead rows on a page that is in use
{
	$node->safe_psql('postgres', q{CREATE TABLE used (id int, pad text) WITH (autovacuum_enabled = off); INSERT INTO used SELECT i, repeat('x', 1700) FROM generate_series(1, 40) i; DELETE FROM used WHERE id % 4 = 2});
	my $reader = $node->background_psql('postgres');
	$reader->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM used; MOVE 10 IN c; FETCH 1 FROM c');
	my ($rc, $out, $err) = $node->psql('postgres', q{CALL parvacuum('used')});
	like($err, qr/^DETAIL: .*  [12] dead rows were left on pages that were in use\./m, 'CALL says what it has left');
	$reader->quit;
}

# A participant waits for a pin while others come to the end of the table and fill the store.
# The free space of its range is found nevertheless.  A page of the free space map has that
# of 4069 pages.
{
	$node->safe_psql('postgres', q{
		CREATE UNLOGGED TABLE late (id int, pad text) WITH (autovacuum_enabled = off);
		ALTER TABLE late ALTER pad SET STORAGE PLAIN;
		INSERT INTO late SELECT i, repeat('x', 5000) FROM generate_series(1, 4600) i;
		CREATE INDEX ON late (id);
		DELETE FROM late WHERE id BETWEEN 300 AND 500 OR id > 4100});
	my $cursor = $node->background_psql('postgres');
	$cursor->query_safe('BEGIN; DECLARE c CURSOR FOR SELECT id FROM late; FETCH 1 FROM c');
	$run = pv_start_run($node, q{SELECT tuples_removed, index_scans > 1 FROM parvacuum_run('late', workers => 1, freeze => true, truncate => false) WHERE relid = 'late'::regclass},
		'parvacuum.store_limit' => 1);
	ok(pv_await($node, "SELECT (SELECT count(*) FROM parvacuum_progress WHERE phase = 'waiting for others') + ($waits)", 2), 'one participant waits for a pin, the other one for it')
	  or diag pv_processes($node);
	$cursor->query_safe('COMMIT');
	$cursor->quit;
	ok(pv_finish($run), 'the run goes on') or diag $run->{err};
	is($run->{out}, '701|t', 'in several index scans');
	is($node->safe_psql('postgres', q{INSERT INTO late SELECT i, repeat('x', 5000) FROM generate_series(1, 690) i; SELECT oracle.nblocks('late')}),
		4600, 'new rows are in the pages that have become free');
}

# Nobody may cut pages off that old snapshots can look at when they fail for their age.
SKIP:
{
	skip 'there is no old_snapshot_threshold', 2 if $node->pg_version >= 17;
	$node->safe_psql('postgres', 'DELETE FROM late WHERE id > 100');
	$node->append_conf('postgresql.conf', "old_snapshot_threshold = '1d'\n");
	$node->restart;
	my $run_of_late = q{SELECT pages_removed > 1000 FROM parvacuum_run('late', truncate => true) WHERE relid = 'late'::regclass};
	is($node->safe_psql('postgres', $run_of_late), 'f', 'with old_snapshot_threshold a table is not truncated');
	$node->append_conf('postgresql.conf', 'old_snapshot_threshold = -1');
	$node->restart;
	is($node->safe_psql('postgres', $run_of_late), 't', 'without, it is');
}

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
