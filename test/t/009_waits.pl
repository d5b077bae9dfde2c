# Vacuums that have to wait: for the pin of a cursor, for a lock, and others
# that wait for them.

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

# Four rows fill a page so far that it is not pruned by reading it.
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

my $waits = q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'BufferPin'};

#
# A vacuum that must freeze everything waits for the pin; whoever waits can be
# cancelled there, and ends by itself when the pin is gone.
#
for my $workers (0, 2)
{
	new_table();
	my $cursor = start_cursor(700);
	my $run = pv_start_run($node, "SELECT tuples_removed, relfrozenxid_advanced FROM parvacuum_run('t', workers => $workers, freeze => true) WHERE relid = 't'::regclass");
	ok(pv_await($node, $waits, 1), "$workers workers: the vacuum waits for a pin");
	$cursor->query_safe('COMMIT');
	ok(pv_finish($run), "$workers workers: and goes on") or diag $run->{err};
	is($run->{out}, '600|t', "$workers workers: and froze and pruned that page too");
	$cursor->quit;

	for my $whom ('caller', 'whoever waits')
	{
		new_table();
		$cursor = start_cursor(700);
		$run = pv_start_run($node, "SELECT tuples_removed FROM parvacuum_run('t', workers => $workers, freeze => true) WHERE relid = 't'::regclass");
		ok(pv_await($node, $waits, 1), "$workers workers, cancel $whom: it waits");
		my $which = $whom eq 'caller' ? "application_name = '$run->{tag}' AND backend_type = 'client backend'" : q{wait_event = 'BufferPin'};
		is($node->safe_psql('postgres', "SELECT count(pg_cancel_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE $which LIMIT 1) x"),
			1, "$workers workers, cancel $whom: told to stop");
		ok(!pv_finish($run), "$workers workers, cancel $whom: it stopped");
		ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('parvacuum background leader', 'parallel worker')}, 0),
			"$workers workers, cancel $whom: all of it") or diag pv_processes($node);
		$cursor->query_safe('COMMIT');
		$cursor->quit;
		is(pv_findings($node, 't'), '', "$workers workers, cancel $whom: the table is whole");
		is($node->safe_psql('postgres', "SELECT tuples_remaining FROM parvacuum_run('t', workers => $workers, freeze => true) WHERE relid = 't'::regclass"),
			1800, "$workers workers, cancel $whom: the next does it all");
	}
}

#
# A vacuum that need not freeze does not wait: many cursors, no delay.
#
new_table();
my @cursors = map { start_cursor($_ * 300) } 1 .. 5;
my ($removed, $remaining, $missed) = split /\|/, $node->safe_psql('postgres', q{SELECT tuples_removed, tuples_remaining, tuples_missed FROM parvacuum_run('t', workers => 2) WHERE relid = 't'::regclass});
cmp_ok($removed, '<=', 595, 'five pinned pages keep their dead rows');
cmp_ok($removed, '>=', 550, 'and few others, which the cursors have read ahead, from 17 on');
is($remaining + $missed, 2400 - $removed, 'all others are removed');
is($remaining, 1800, 'those that stay are not counted among the living');
$_->quit for @cursors;
is($node->safe_psql('postgres', q{SELECT tuples_removed, tuples_remaining FROM parvacuum_run('t', workers => 2, index_cleanup => 'on') WHERE relid = 't'::regclass}),
	(600 - $removed) . '|1800', 'until they can be had');
is(pv_findings($node, 't'), '', 'the table is whole');

#
# The lock of the table: the run waits for it, as VACUUM does, and its caller
# can be cancelled.
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
		ok(pv_finish($run), "$end: and gets it") or diag $run->{err};
		is($run->{out}, 1, "$end: one table vacuumed");
	}
	else
	{
		$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM (SELECT pid FROM pg_stat_activity
			WHERE application_name = '$run->{tag}' AND backend_type = 'client backend' LIMIT 1) x");
		ok(!pv_finish($run), "$end: the caller is free");
		ok(pv_await($node, $blocked, 0), "$end: nobody waits any more");
		$holder->query_safe('COMMIT');
	}
}

#
# While it truncates, the vacuum gives way to who waits for the table: here it
# has to, as it never gets the lock.
#
$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 100');
$holder->query_safe('BEGIN; SELECT count(*) FROM t');
my $run = pv_start_run($node, q{SELECT pages_removed FROM parvacuum_run('t', workers => 2, truncate => true) WHERE relid = 't'::regclass});
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_progress_vacuum WHERE phase = 'truncating heap'}, 1), 'the run wants to truncate');
is($node->safe_psql('postgres', 'INSERT INTO t VALUES (1); SELECT count(*) FROM t'), 76, 'meanwhile the table can be used');
$holder->query_safe('COMMIT');
ok(pv_finish($run), 'the run ends') or diag $run->{err};
$holder->quit;
is(pv_findings($node, 't'), '', 'the table is whole');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
