# Sweeps that are stopped: they are canceled or terminated, delayed by cost limits, or
# stopped anywhere while a vacuum goes through the table.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = pv_node('sweep_stops');
$node->start;
pv_setup($node);

#
# Sweeps that are ended, and cost limits
#
pv_sql($node, q{
	CREATE TABLE slow (id int, k int, words tsvector) WITH (autovacuum_enabled = off);
	INSERT INTO slow SELECT i, i % 100 FROM generate_series(1, 50000) i;
	CREATE INDEX slow_id ON slow (id);
	DELETE FROM slow WHERE id % 5 = 0;

	CREATE FUNCTION try_sweep() RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM parvacuum_sweep('slow_id');
		RETURN 'swept';
	EXCEPTION WHEN query_canceled THEN
		RETURN SQLERRM;
	END $$;
});

# A page costs ten milliseconds.
my %slow = (vacuum_cost_delay => '10ms', vacuum_cost_limit => 200, vacuum_cost_page_hit => 200, vacuum_cost_page_miss => 200, vacuum_cost_page_dirty => 0);
my $sweep = q{SELECT pages_total > 0 FROM parvacuum_sweep('slow_id')};

sub processes { return "SELECT count(*) FROM pg_stat_activity WHERE application_name = '$_[0]' AND $_[1]" }

for my $how (qw(terminate cancel))
{
	my $run = pv_start_run($node, $sweep, %slow);
	ok(pv_await($node, processes($run->{tag}, q{wait_event = 'VacuumDelay'}), 1), "$how: a sweep is delayed");
	is(pv_sql($node, "SELECT count(pg_${how}_backend(pid)) FROM pg_stat_activity WHERE application_name = '$run->{tag}'"), 1, "$how: the signal is sent");
	ok(!pv_finish($run), "$how: the sweep fails");
	like($run->{err}, qr/terminating .*due to administrator command|canceling statement due to user request/, "$how: the error has the reason");
	ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE relation = 'slow'::regclass AND mode = 'RowExclusiveLock'}, 0), "$how: no lock remains") or diag pv_processes($node);
}

# A sweep fails in a subtransaction, and the transaction goes on.
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $tag = 'savepoint';
$session->query_safe("SET $_ = '$slow{$_}'") for sort keys %slow;
$session->query_safe("SET application_name = $tag; CREATE TABLE gin (words tsvector); CREATE INDEX gin_words ON gin USING gin (words) WITH (fastupdate = on); BEGIN");
$session->query_until(qr/begun/, "\\echo begun\nSELECT try_sweep();\n");
ok(pv_await($node, processes($tag, q{wait_event = 'VacuumDelay'}), 1), 'subtransaction: a sweep is delayed');
pv_sql($node, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = '$tag'");
like($session->query_safe('SELECT 1'), qr/canceling statement due to user request/, 'subtransaction: the sweep fails');
is($session->query_safe(q{SELECT current_setting('vacuum_cost_delay') || ' ' || current_setting('vacuum_cost_limit')}), '10ms 200', 'subtransaction: the cost limits are the same as before');

# If this session were still delayed, it would sleep for each page that this reads.
$session->query_safe(q{SET statement_timeout = '15s'; SET vacuum_cost_delay = '100ms'});
$session->query_safe(q{INSERT INTO gin SELECT to_tsvector('simple', string_agg(md5((i * 100 + j)::text), ' ')) FROM generate_series(1, 1000) i, generate_series(1, 20) j GROUP BY i});
like($session->query(q{SELECT gin_clean_pending_list('gin_words')}), qr/^\d{3,}$/, 'subtransaction: cost-based delay is off again');
is($session->query("SET vacuum_cost_delay = 0; $sweep"), 't', 'subtransaction: the next sweep succeeds');
$session->query('COMMIT');
$session->quit;

# The time that it takes at least if it sleeps for each page
my $run = pv_start_run($node, q{SELECT elapsed_ms >= 9.5 * (pages_total - 1) FROM parvacuum_sweep('slow_id')}, %slow);
ok(pv_await($node, processes($run->{tag}, q{wait_event = 'VacuumDelay'}), 1), 'a sweep is delayed');
ok(pv_finish($run), 'a delayed sweep succeeds') or diag $run->{err};
is($run->{out}, 't', 'a delayed sweep took the expected time');

#
# Sweeps are stopped anywhere, by SIGSTOP, while a vacuum goes through the table and new
# rows reuse the line pointers that it frees.  If the sweep has determined the dead entries
# of a page and has not deleted them yet, its pin must keep the vacuum from freeing their
# line pointers.
#
pv_sql($node, q{
	CREATE TABLE frozen (id int, k int, pad text) WITH (autovacuum_enabled = off);
	INSERT INTO frozen SELECT i, hashint4(i) & 31, repeat('x', 100) FROM generate_series(1, 60000) i;
	CREATE INDEX frozen_k ON frozen (k);

	-- The state of a statement: done, or the wait event that it stays in.
	CREATE FUNCTION outcome(session int, statement text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		a record;
		before text := '';
		n int := 0;
	BEGIN
		FOR i IN 1 .. 6000 LOOP
			PERFORM pg_stat_clear_snapshot();
			-- 19 renamed the waits for buffers
			SELECT state, CASE WHEN wait_event = 'BufferCleanup' THEN 'BufferPin' WHEN wait_event ~ '^Buffer(Share|Exclusive)' THEN 'BufferContent'
				ELSE wait_event END AS wait_event INTO a FROM pg_stat_activity WHERE pid = session AND query = statement;
			IF a.state = 'idle' THEN
				RETURN 'done';
			END IF;
			n := CASE WHEN a.wait_event = before THEN n + 1 ELSE 0 END;
			IF n >= 20 THEN
				RETURN a.wait_event;
			END IF;
			before := coalesce(a.wait_event, '');
			PERFORM pg_sleep(0.005);
		END LOOP;
		RETURN 'nothing';
	END $$;
});
my %session = map { $_ => $node->background_psql('postgres') } qw(sweeper vacuumer writer looker);
my %pid = map { $_ => $session{$_}->query_safe('SELECT pg_backend_pid()') } keys %session;
my $stopped;

END { kill 'CONT', $stopped if $stopped; }

# Start a statement and return at once.
sub start
{
	my ($who, $statement) = @_;
	$session{$who}->query_until(qr/begun/, "\\echo begun\n$statement;\n");
	return;
}

sub outcome
{
	my ($who, $statement) = @_;
	return $session{looker}->query_safe("SELECT outcome($pid{$who}, \$\$$statement;\$\$)");
}

my $missing = q{SELECT count(*), bt_index_check('frozen_k', true) FROM frozen};
my $usecs = 1000 * $session{sweeper}->query_safe(q{SELECT elapsed_ms FROM parvacuum_sweep('frozen_k')});
my %seen = (BufferPin => 0, BufferContent => 0, done => 0, missed => 0);
my @lost;
my $end = time + 60;
for (my $turn = 1; $seen{BufferPin} < 8 && time < $end; $turn++)
{
	my ($sweep, $vacuum) = ("SELECT tuples_deleted FROM parvacuum_sweep('frozen_k') /* $turn */", "VACUUM frozen /* $turn */");
	my $insert = "INSERT INTO frozen SELECT i, hashint4(i) & 31, repeat('x', 100) FROM generate_series($turn % 4, 60000, 4) i WHERE i > 0 /* $turn */";

	$session{writer}->query_safe("DELETE FROM frozen WHERE id % 4 = $turn % 4");
	start('sweeper', $sweep);
	usleep(rand($usecs));    # anywhere in it
	$stopped = $pid{sweeper};
	kill 'STOP', $stopped;
	my $found = $session{looker}->query_safe("SELECT state FROM pg_stat_activity WHERE pid = $stopped AND query = \$\$$sweep;\$\$");
	start('vacuumer', $vacuum);
	my $outcome = outcome('vacuumer', $vacuum);
	start('writer', $insert);
	outcome('writer', $insert);
	kill 'CONT', $stopped;
	undef $stopped;
	$session{$_}->query_safe('SELECT 1') for qw(sweeper vacuumer writer);

	$seen{ $found eq 'active' ? $outcome : 'missed' }++;
	my ($rc, $out, $err) = $node->psql('postgres', "SET enable_indexscan = off; SET enable_indexonlyscan = off; $missing");
	push @lost, "turn $turn, vacuum and $outcome: " . ($out || $err) if $out ne '60000|';
	last if @lost > 3;
}
$_->quit for values %session;
note 'vacuums beside a stopped sweep: ', join ', ', map { "$_ $seen{$_}" } sort keys %seen;
cmp_ok($seen{BufferPin}, '>=', 3, 'vacuums waited for the pin of a stopped sweep');
is_deeply(\@lost, [], 'no entry was lost');
is(pv_findings($node, 'frozen'), '', 'the table is whole');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
