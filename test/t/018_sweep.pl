# Sweeps one after the other and several at once, while other sessions insert,
# update and delete, split pages, and stop on leaves in index-only scans; beside
# vacuums; on a server that has to read the heap from disk; before a crash; and
# replayed by a standby.  No entry of a row that somebody sees may be lost.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(time usleep);

my $seconds = $ENV{PV_SECONDS} // 25;

my $node = pv_node('sweep', allows_streaming => 1);
$node->append_conf('postgresql.conf', "wal_keep_size = '2GB'\nparvacuum.max_workers = 4\n");
$node->start;
pv_setup($node);
$node->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nwal_retrieve_retry_interval = 100ms\nshared_buffers = 32MB\n");
$standby->start;

# The sum over account and ledger never changes, nor do the keys in account and
# the number of rows in event.  Most updates need an entry in each index.
$node->safe_psql('postgres', q{
	CREATE TABLE account (id int PRIMARY KEY, k int, balance bigint, note text) WITH (autovacuum_enabled = off);
	CREATE TABLE ledger (id int, amount bigint, pad text) WITH (autovacuum_enabled = off);
	CREATE TABLE event (id int, at int) WITH (autovacuum_enabled = off);
	INSERT INTO account SELECT i, i % 1000, 1000, repeat('n', i % 60) FROM generate_series(1, 40000) i;
	INSERT INTO event SELECT i, 1 + hashint4(i) & 1048575 FROM generate_series(1, 20000) i;
	CREATE INDEX account_k ON account (k);
	CREATE INDEX account_single ON account (k) WITH (deduplicate_items = off);
	CREATE INDEX account_length ON account (length(note));
	CREATE INDEX account_partial ON account (id, k) WHERE k < 500;
	CREATE INDEX ledger_id ON ledger (id);
	CREATE INDEX event_at ON event (at);
	CREATE INDEX event_id ON event (id) INCLUDE (at);

	CREATE TABLE swept (index regclass, workers int, launched int, pages_changed bigint, tuples_deleted bigint);

	-- Sweep every B-tree of the tables, over and over.
	CREATE PROCEDURE sweep_for(seconds float8) LANGUAGE plpgsql AS $$
	DECLARE
		stop timestamptz := clock_timestamp() + make_interval(secs => seconds);
		indexes regclass[] := array(SELECT indexrelid::regclass FROM pg_index
			WHERE indrelid IN ('account'::regclass, 'ledger'::regclass, 'event'::regclass));
		i regclass;
		w int := 0;
	BEGIN
		WHILE clock_timestamp() < stop LOOP
			FOREACH i IN ARRAY indexes LOOP
				w := 2 - w;
				INSERT INTO swept SELECT i, w, r.workers_launched, r.pages_changed, r.tuples_deleted FROM parvacuum_sweep(i, w) r;
				COMMIT;
			END LOOP;
			w := 2 - w;
		END LOOP;
	END $$;
});

# Besides what moves money: scans that find out by themselves if something is
# missing, and divide by zero then.
my %scripts = (
	%pv_money,
	replace => [ 10, q{
\set id random(2, 40000)
BEGIN;
WITH gone AS (DELETE FROM account WHERE id = :id RETURNING *)
INSERT INTO account SELECT id, (k + 7) % 1000, balance, note FROM gone;
COMMIT;
} ],
	move => [ 20, q{
\set at random(1, 1048576)
WITH gone AS (DELETE FROM event WHERE at BETWEEN :at AND :at + 1000 RETURNING id)
INSERT INTO event SELECT id, 1 + random() * 1048575 FROM gone;
} ],
	undone => [ 4, q{
\set id random(2, 40000)
BEGIN;
INSERT INTO ledger SELECT i, 1000000, 'u' FROM generate_series(1, 20) i;
INSERT INTO event SELECT i, i * 1000 FROM generate_series(1, 100) i;
UPDATE account SET k = k + 1000 WHERE id BETWEEN :id AND :id + 20;
ROLLBACK;
} ],
	range => [ 20, q{
\set id random(1, 39900)
SELECT 1 / (count(*) = 101)::int FROM account WHERE id BETWEEN :id AND :id + 100;
} ],
	all => [ 1, q{
SELECT 1 / (count(*) = 40000)::int FROM account WHERE k >= 0;
SELECT 1 / (count(*) = 20000)::int FROM event WHERE at > 0;
} ],
	cursor => [ 6, q{
\set id random(1, 39000)
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM account WHERE id > :id ORDER BY id;
FETCH 10 FROM c;
SELECT pg_sleep(0.01);
MOVE 300 IN c;
FETCH 1 FROM c \gset next_
SELECT 1 / (:next_id = :id + 311)::int;
COMMIT;
} ]);
my %by_index = (enable_seqscan => 'off', enable_bitmapscan => 'off', enable_sort => 'off');
my $sums = q{SELECT count(*), sum(balance) + (SELECT sum(amount) FROM ledger), (SELECT count(*) FROM event) FROM account};
my $right = '40000|40000000|20000';

# pgbench with all of that, all by index.
sub start_work
{
	my ($seconds) = @_;
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_=$by_index{$_}" } sort keys %by_index;
	return pv_start_pgbench($node, $seconds, 5, %scripts);
}

# No row is lost, the tables are whole, and an index finds what a scan finds.
sub all_is_whole
{
	my ($what) = @_;
	is($node->safe_psql('postgres', $sums), $right, "$what: no row is lost, none came back");
	is(pv_findings($node, $_), '', "$what: $_ is whole") for qw(account ledger event);
	for my $case ([ 'account', 'id > 0' ], [ 'account', 'k >= 0' ], [ 'account', 'k = 77' ], [ 'account', 'length(note) >= 0' ],
		[ 'account', 'k < 500 AND id > 0' ], [ 'ledger', 'id > 0' ], [ 'event', 'at > 0' ], [ 'event', 'id > 0' ])
	{
		my ($table, $where) = @$case;
		my $digest = "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM $table t WHERE $where";
		my $scan = $node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; $digest");
		is($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; $digest"), $scan, "$what: by index, $table where $where");
	}
	return;
}

# The standby has what the primary has, and its B-trees are whole.
sub standby_is_same
{
	my ($what) = @_;
	my @btrees = split /\n/, $node->safe_psql('postgres', q{
		SELECT indexrelid::regclass FROM pg_index WHERE indrelid IN ('account'::regclass, 'ledger'::regclass, 'event'::regclass)});
	my $entries = join ' UNION ALL ', map { "SELECT '$_', count(*), sum(hashtextextended(t::text, 0)) FROM oracle.index_tids('$_') t" } @btrees;

	pv_catch_up($node, $standby);
	is($standby->safe_psql('postgres', $sums), $right, "$what: the standby has all rows");
	is($standby->safe_psql('postgres', $entries), $node->safe_psql('postgres', $entries), "$what: and the same entries");
	is($standby->safe_psql('postgres', join '; ', map { "SELECT bt_index_check('$_', true)" } @btrees) =~ s/\n//gr, '', "$what: its B-trees are whole");
	return;
}

#
# Stress
#
my %checked = (wal_consistency_checking => 'btree');
my $size = q{SELECT pg_relation_size('event_at') + pg_relation_size('account_k')};
my $small = $node->safe_psql('postgres', $size);
my $pgbench = start_work($seconds);
my @sweepers = map { pv_start_run($node, 'CALL sweep_for(' . ($seconds - 1) . ')', %checked) } 1 .. 2;
my @vacuum = (
	q{VACUUM account},
	q{SELECT * FROM parvacuum_run('account', workers => 2)},
	q{SELECT * FROM parvacuum_run('event', workers => 2, index_cleanup => 'on')},
	q{VACUUM (INDEX_CLEANUP on) event, ledger},
	q{SELECT * FROM parvacuum_run('account', workers => 1, freeze => true)},
	q{CALL parvacuum('ledger', workers => 2, truncate => true)});
my ($n, $failed) = pv_repeat_until($node, time + $seconds - 1, @vacuum);
ok(pv_finish($_), 'a sweeper came to its end') or diag $_->{err} for @sweepers;
ok($pgbench->{handle}->finish, 'no scan missed anything');
unlike($pgbench->{err}, qr/ERROR|aborted/, 'nor did anything fail');
my ($transactions) = $pgbench->{out} =~ /actually processed: (\d+)/;
my ($sweeps, $deleted, $launched) = split /\|/, $node->safe_psql('postgres', 'SELECT count(*), sum(tuples_deleted), sum(launched) FROM swept');
note "$sweeps sweeps with $launched workers deleted $deleted entries beside $n vacuums and " . ($transactions // 'no') . ' transactions';

cmp_ok($n, '>', 5, 'vacuums ran');
is_deeply($failed, [], 'none failed');
cmp_ok($transactions // 0, '>', 200, 'transactions ran beside them');
is($node->safe_psql('postgres', q{
	SELECT count(*) FROM pg_index LEFT JOIN (SELECT index, array_agg(DISTINCT workers ORDER BY workers) w FROM swept WHERE tuples_deleted > 0 GROUP BY 1) s ON index = indexrelid
	WHERE indrelid IN ('account'::regclass, 'ledger'::regclass, 'event'::regclass) AND w IS DISTINCT FROM ARRAY[0, 2]}), 0,
	'sweeps without and with workers deleted entries from each index');
cmp_ok($node->safe_psql('postgres', $size), '>', $small, 'pages were split');
all_is_whole('stress');
standby_is_same('stress');

#
# The standby: a query there still needs what a sweep deletes
#
my ($rc, $out, $err) = $standby->psql('postgres', q{SELECT parvacuum_sweep('account_k')});
isnt($rc, 0, 'no sweep on the standby');
like($err, qr/ERROR:  cannot execute parvacuum_sweep\(\) during recovery/, 'which says why');

$node->safe_psql('postgres', q{
	CREATE TABLE seen (id int PRIMARY KEY, k int) WITH (autovacuum_enabled = off);
	INSERT INTO seen SELECT i, i % 100 FROM generate_series(1, 20000) i;
	CREATE INDEX seen_k ON seen (k);
});
pv_catch_up($node, $standby);
for my $workers (0, 2)
{
	my $reader = $standby->background_psql('postgres');
	my $count = 'SELECT count(*), sum(id) FROM seen WHERE k >= 0';
	$reader->query_safe("SET $_ = $by_index{$_}") for sort keys %by_index;
	my $before = $reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $count");
	$node->safe_psql('postgres', "DELETE FROM seen WHERE id % 10 = $workers");
	pv_catch_up($node, $standby);
	is($node->safe_psql('postgres', "SELECT tuples_deleted FROM parvacuum_sweep('seen_k', $workers)"), 2000, "standby, $workers workers: a sweep of what it sees");
	ok($standby->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'RecoveryConflictSnapshot'}),
		"standby, $workers workers: replay waits");
	is($reader->query_safe($count), $before, "standby, $workers workers: it sees what it saw");
	$reader->query_safe('COMMIT');
	pv_catch_up($node, $standby);
	isnt($reader->query_safe($count), $before, "standby, $workers workers: until it looks again");
	$reader->quit;
}

#
# Workers that end badly; the cost limits
#
$node->append_conf('postgresql.conf', "parvacuum.max_workers = 2\nparvacuum.cost_limit_scale = 0\n");
$node->reload;
ok(pv_await($node, 'SHOW parvacuum.max_workers', 2), 'two workers for all');
$node->safe_psql('postgres', q{
	CREATE TABLE slow (id int, k int, words tsvector) WITH (autovacuum_enabled = off);
	INSERT INTO slow SELECT i, i % 100 FROM generate_series(1, 50000) i;
	CREATE INDEX slow_id ON slow (id);
	DELETE FROM slow WHERE id % 5 = 0;

	CREATE FUNCTION try_sweep() RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM parvacuum_sweep('slow_id', 2);
		RETURN 'swept';
	EXCEPTION WHEN OTHERS THEN
		RETURN SQLERRM;
	END $$;
});

# Ten milliseconds a page, and as there are three to share, thirty
my %slow = (vacuum_cost_delay => '10ms', vacuum_cost_limit => 200, vacuum_cost_page_hit => 200, vacuum_cost_page_miss => 200, vacuum_cost_page_dirty => 0);
my $sweep = q{SELECT workers_launched FROM parvacuum_sweep('slow_id', 2)};

sub processes { return "SELECT count(*) FROM pg_stat_activity WHERE application_name = '$_[0]' AND $_[1]" }

sub all_workers_can_be_had
{
	my ($what) = @_;
	ok(pv_await($node, q{
		SELECT count(*) FROM (SELECT FROM pg_stat_activity WHERE backend_type = 'parallel worker'
			UNION ALL SELECT FROM pg_locks WHERE relation = 'slow'::regclass AND mode = 'RowExclusiveLock') x}, 0), "$what: nothing is left") or diag pv_processes($node);
	is($node->safe_psql('postgres', $sweep), 2, "$what: all workers can be had");
	return;
}

for my $case ([ terminate => 'parallel worker' ], [ terminate => 'client backend' ], [ cancel => 'parallel worker' ], [ cancel => 'client backend' ])
{
	my ($how, $whom) = @$case;
	my $what = "$how $whom";
	my $run = pv_start_run($node, $sweep, %slow);
	ok(pv_await($node, processes($run->{tag}, q{wait_event = 'VacuumDelay'}), 3), "$what: a sweep and its workers are delayed");
	is($node->safe_psql('postgres', $sweep), 0, "$what: nobody else has workers meanwhile");
	is($node->safe_psql('postgres', "SELECT count(pg_${how}_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
		WHERE application_name = '$run->{tag}' AND backend_type = '$whom' LIMIT 1) x"), 1, "$what: told to stop");
	ok(!pv_finish($run), "$what: the sweep fails");
	like($run->{err}, qr/terminating .*due to administrator command|canceling statement due to user request/, "$what: and says why");
	all_workers_can_be_had($what);
}

# In a subtransaction, and the transaction goes on.
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $tag = 'savepoint';
$session->query_safe("SET $_ = '$slow{$_}'") for sort keys %slow;
$session->query_safe("SET application_name = $tag; CREATE TABLE gin (words tsvector); CREATE INDEX gin_words ON gin USING gin (words) WITH (fastupdate = on); BEGIN");
$session->query_until(qr/begun/, "\\echo begun\nSELECT try_sweep();\n");
ok(pv_await($node, processes($tag, q{wait_event = 'VacuumDelay'}), 3), 'subtransaction: a sweep and its workers are delayed');
$node->safe_psql('postgres', 'SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE ' . "application_name = '$tag' AND backend_type = 'parallel worker'");
like($session->query_safe('SELECT 1'), qr/terminating .*due to administrator command/, 'subtransaction: the sweep fails');
is($node->safe_psql('postgres', $sweep), 2, 'subtransaction: another has both workers');
is($session->query_safe(q{SELECT current_setting('vacuum_cost_delay') || ' ' || current_setting('vacuum_cost_limit')}), '10ms 200', 'subtransaction: the cost limits are what they were');

# Would this session still be delayed, it would be for each page that this reads.
$session->query_safe(q{SET statement_timeout = '15s'; SET vacuum_cost_delay = '100ms'});
$session->query_safe(q{INSERT INTO gin SELECT to_tsvector('simple', string_agg(md5((i * 100 + j)::text), ' ')) FROM generate_series(1, 1000) i, generate_series(1, 20) j GROUP BY i});
like($session->query(q{SELECT gin_clean_pending_list('gin_words')}), qr/^\d{3,}$/, 'subtransaction: and the delay is over');
is($session->query("SET vacuum_cost_delay = 0; $sweep"), 2, 'subtransaction: the next sweep has both workers');
is($node->safe_psql('postgres', $sweep), 2, 'subtransaction: and then again another');
$session->query('COMMIT');
$session->quit;
all_workers_can_be_had('subtransaction');

# One process that sleeps for each page takes that long at least.
my $run = pv_start_run($node, q{SELECT elapsed_ms >= 9.5 * (pages_total - 1) FROM parvacuum_sweep('slow_id', 0)}, %slow);
ok(pv_await($node, processes($run->{tag}, q{wait_event = 'VacuumDelay'}), 1), 'a sweep without workers is delayed');
ok(pv_finish($run), 'and ends') or diag $run->{err};
is($run->{out}, 't', 'when it should');

# What all three have read is counted: each page of the index, and each of the heap.
$run = pv_start_run($node, q{EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT parvacuum_sweep('slow_id', 2); SHOW vacuum_cost_delay; SHOW vacuum_cost_limit}, %slow);
ok(pv_await($node, processes($run->{tag}, q{wait_event = 'VacuumDelay'}), 3), 'a sweep with workers is delayed');
ok(pv_finish($run), 'and ends') or diag $run->{err};
my $blocks = 0;
for my $kind (qw(Hit Read)) { $blocks += $1 if $run->{out} =~ /"Shared $kind Blocks": (\d+)/; }
cmp_ok($blocks, '>=', $node->safe_psql('postgres', q{SELECT oracle.nblocks('slow_id') - 1 + oracle.nblocks('slow')}), 'and says what it has read');
like($run->{out}, qr/\n10ms\n200$/, 'the limits are what they were');

#
# Sweeps that are stopped anywhere, by a signal that the process does not notice,
# while a vacuum goes through the table and new rows take what places it frees.
# If the sweep has found out what is dead on a page and has not deleted it yet,
# its pin must keep the vacuum from freeing these.
#
$node->safe_psql('postgres', q{
	CREATE TABLE frozen (id int, k int, pad text) WITH (autovacuum_enabled = off);
	INSERT INTO frozen SELECT i, hashint4(i) & 31, repeat('x', 100) FROM generate_series(1, 60000) i;
	CREATE INDEX frozen_k ON frozen (k);

	-- What has become of a statement: it is done, or waits and will not stop doing so.
	CREATE FUNCTION outcome(session int, statement text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		a record;
		before text := '';
		n int := 0;
	BEGIN
		FOR i IN 1 .. 6000 LOOP
			PERFORM pg_stat_clear_snapshot();
			SELECT state, wait_event INTO a FROM pg_stat_activity WHERE pid = session AND query = statement;
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
my $usecs = 1000 * $session{sweeper}->query_safe(q{SELECT elapsed_ms FROM parvacuum_sweep('frozen_k', 0)});
my %seen = (BufferPin => 0, BufferContent => 0, done => 0, missed => 0);
my @lost;
my $end = time + 60;
for (my $round = 1; $seen{BufferPin} < 8 && time < $end; $round++)
{
	my ($sweep, $vacuum) = ("SELECT tuples_deleted FROM parvacuum_sweep('frozen_k', 0) /* $round */", "VACUUM frozen /* $round */");
	my $insert = "INSERT INTO frozen SELECT i, hashint4(i) & 31, repeat('x', 100) FROM generate_series($round % 4, 60000, 4) i WHERE i > 0 /* $round */";

	$session{writer}->query_safe("DELETE FROM frozen WHERE id % 4 = $round % 4");
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
	push @lost, "round $round, vacuum and $outcome: " . ($out || $err) if $out ne '60000|';
	last if @lost > 3;
}
$_->quit for values %session;
note 'a vacuum beside a sweep that was stopped: ', join ', ', map { "$_ $seen{$_}" } sort keys %seen;
cmp_ok($seen{BufferPin}, '>=', 3, 'vacuums waited for the pin of a sweep that was stopped');
is_deeply(\@lost, [], 'no entry was lost');
is(pv_findings($node, 'frozen'), '', 'the table is whole');

#
# Few buffers, so that the heap must be read from disk, and a crash
#
$node->append_conf('postgresql.conf', "shared_buffers = 2MB\nparvacuum.max_workers = 4\n");
$node->restart;
$pgbench = start_work(120);
@sweepers = map { pv_start_run($node, 'CALL sweep_for(120)', %checked) } 1 .. 2;
my $before = $node->safe_psql('postgres', 'SELECT count(*) FROM swept');
ok(pv_await($node, "SELECT (count(*) - $before > 30)::text FROM swept", 'true'), 'crash: sweeps are going on');
ok(pv_await($node, "SELECT (count(*) > 0)::text FROM pg_stat_activity WHERE application_name IN ('$sweepers[0]{tag}', '$sweepers[1]{tag}') AND backend_type = 'parallel worker'", 'true'),
	'crash: with workers');
$node->stop('immediate');
ok(!pv_finish($_), 'crash: a sweeper failed') for @sweepers;
$pgbench->{handle}->finish;
unlike($pgbench->{err}, qr/division by zero/, 'crash: no scan had missed anything');
my $offset = -s $node->logfile;
$node->start;
like(substr(slurp_file($node->logfile), $offset), qr/not properly shut down; automatic recovery in progress/, 'crash: the server recovers');
all_is_whole('crash');
is($node->safe_psql('postgres', "SET client_min_messages = error; $sweep"), 2, 'crash: all workers can be had');
standby_is_same('crash');

# what is dead goes with the next vacuum, as ever
$node->safe_psql('postgres', "VACUUM (INDEX_CLEANUP on) $_; SELECT parvacuum_run('$_', workers => 2, disable_page_skipping => true)") for qw(account ledger event);
all_is_whole('in the end');

unlike(slurp_file($_->logfile), qr/inconsistent page/, 'each page was replayed as it had been') for $node, $standby;
pv_no_crash($node, 'the server');
pv_no_crash($standby, 'the standby');
$standby->stop;
$node->stop;
done_testing();
