# A background worker that a signal ends inside a critical section takes down the whole
# server.  So workers and background leaders are terminated hundreds of times during both
# heap passes, without sleeps, where a signal would be harmless.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(time);

# As many in each phase, as far as the time allows
my $wanted = $ENV{PV_TERMINATIONS} // 60;
my $seconds = $ENV{PV_SECONDS} // 60;

my $node = pv_node('many');
$node->start;
pv_setup($node);

# Fifteen thousand pages with few rows, half of which get a new version for each run:
# much work for both heap passes, little for the index.
pv_sql($node, q{
	CREATE TABLE t (id int, v int, pad text) WITH (autovacuum_enabled = off, fillfactor = 10);
	INSERT INTO t SELECT i, 0, repeat('x', 100) FROM generate_series(1, 100000) i;
	CREATE INDEX ON t (v);
	CREATE TABLE done (phase text, n int);

	-- Terminate all processes of a run that shows the phase, repeatedly.  The pause
	-- before it has a random length, and is so short that the phase goes on.
	CREATE PROCEDURE terminate_in(seen text, wanted int, seconds int) LANGUAGE plpgsql AS $$
	DECLARE
		total int := 0;
		hit int;
		stop timestamptz := clock_timestamp() + make_interval(secs => seconds);
	BEGIN
		WHILE total < wanted AND clock_timestamp() < stop LOOP
			PERFORM pg_stat_clear_snapshot();
			IF EXISTS (SELECT FROM pg_stat_progress_vacuum WHERE phase = seen AND relid = 't'::regclass) THEN
				PERFORM pg_sleep(random() * 0.02);
				SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) INTO hit FROM pg_stat_activity
				WHERE backend_type = 'parallel worker' OR backend_type = 'parvacuum background leader' AND random() < 0.3;
				total := total + hit;
			END IF;
			COMMIT;
			PERFORM pg_sleep(0.001);
		END LOOP;
		INSERT INTO done VALUES (seen, total);
	END $$;
});
my $born = pv_sql($node, 'SELECT pg_postmaster_start_time()');

# One run after the other, each with new dead rows, until the file tells the session to
# stop
my $runs = join '', map {
	"UPDATE t SET v = v + 1 WHERE id % 2 = $_ % 2;\nSELECT elapsed_ms FROM parvacuum_run('t', workers => 8, truncate => false) WHERE relid = 't'::regclass;\n"
} 1 .. 20;

for my $phase ('scanning heap', 'vacuuming heap')
{
	my $killer = pv_start_run($node, "CALL terminate_in('$phase', $wanted, $seconds)");
	my ($finished, $failed) = (0, 0);

	while (pv_sql($node, "SELECT count(*) FROM done WHERE phase = '$phase'") eq '0')
	{
		my ($rc, $out, $err) = $node->psql('postgres', $runs, on_error_stop => 0);
		$finished += () = $out =~ /^\d/mg;
		$failed += () = $err =~ /ERROR:/g;

		last if $rc != 0 && $rc != 3;    # the server has gone
	}
	ok(pv_finish($killer), "$phase: terminated") or diag $killer->{err};

	my $n = pv_sql($node, "SELECT n FROM done WHERE phase = '$phase'");
	note "$phase: $n processes terminated, $failed runs ended by it, $finished not";
	cmp_ok($n, '>=', 50, "$phase: many processes were terminated");
	cmp_ok($failed, '>=', 5, "$phase: runs have failed");

	ok(pv_await($node, q{
		SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('parvacuum background leader', 'parallel worker')}, 0),
		"$phase: no process remains") or diag pv_processes($node);
	is(pv_findings($node, 't'), '', "$phase: the table is whole");
	is(pv_sql($node, 'SELECT count(*), sum(id) FROM t'), '100000|5000050000', "$phase: no row is lost");
}

is(pv_sql($node, "SELECT workers_launched FROM parvacuum_run('t', workers => 8) WHERE relid = 't'::regclass"), 8,
	'all workers are available at the end');
is(pv_findings($node, 't'), '', 'the table is whole at the end');
is(pv_sql($node, 'SELECT pg_postmaster_start_time()'), $born, 'the server was not restarted');
pv_no_crash($node, 'the server');

$node->stop;
done_testing();
