# Sweeps, one after the other and several at once, while other sessions insert, update and
# delete, split pages, and stop on leaves in index-only scans; beside vacuums; on a server
# that has to read the heap from disk; before a crash; and replayed by a standby.  No entry
# of a visible row may be lost.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{PV_SECONDS} // 12;

my $node = pv_node('sweep', allows_streaming => 1);
$node->append_conf('postgresql.conf', "wal_keep_size = '2GB'\nparvacuum.max_workers = 4\n");
$node->start;
pv_setup($node);
$node->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nwal_retrieve_retry_interval = 100ms\nshared_buffers = 32MB\n");
$standby->start;

# The sum over account and ledger never changes, nor do the keys of account and the number
# of rows in event.  Most updates need an entry in each index.
pv_sql($node, q{
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

	CREATE TABLE swept (index regclass, pages_changed bigint, tuples_deleted bigint);

	-- Sweeps all B-trees of the tables, repeatedly.
	CREATE PROCEDURE sweep_for(seconds float8) LANGUAGE plpgsql AS $$
	DECLARE
		stop timestamptz := clock_timestamp() + make_interval(secs => seconds);
		indexes regclass[] := array(SELECT indexrelid::regclass FROM pg_index
			WHERE indrelid IN ('account'::regclass, 'ledger'::regclass, 'event'::regclass));
		i regclass;
	BEGIN
		WHILE clock_timestamp() < stop LOOP
			FOREACH i IN ARRAY indexes LOOP
				INSERT INTO swept SELECT i, r.pages_changed, r.tuples_deleted FROM parvacuum_sweep(i) r;
				COMMIT;
			END LOOP;
		END LOOP;
	END $$;
});

# Besides the transactions that move money: changes of the other tables, and scans that
# check their own result and divide by zero if a row is missing.
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

# Start pgbench with all scripts; all scans use indexes.
sub start_work
{
	my ($seconds) = @_;
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_=$by_index{$_}" } sort keys %by_index;
	return pv_start_pgbench($node, $seconds, 5, %scripts);
}

# Tests: no row is lost, the tables are whole, and each index finds the rows that a
# sequential scan finds.
sub all_is_whole
{
	my ($what) = @_;
	is(pv_sql($node, $sums), $right, "$what: no row is lost, and no deleted row is visible");
	is(pv_findings($node, $_), '', "$what: $_ is whole") for qw(account ledger event);
	for my $case ([ 'account', 'id > 0' ], [ 'account', 'k >= 0' ], [ 'account', 'k = 77' ], [ 'account', 'length(note) >= 0' ],
		[ 'account', 'k < 500 AND id > 0' ], [ 'ledger', 'id > 0' ], [ 'event', 'at > 0' ], [ 'event', 'id > 0' ])
	{
		my ($table, $where) = @$case;
		my $digest = "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM $table t WHERE $where";
		my $scan = pv_sql($node, "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; $digest");
		is(pv_sql($node, "SET enable_seqscan = off; SET enable_bitmapscan = off; $digest"), $scan, "$what: by index and by sequential scan, $table where $where");
	}
	return;
}

# Three tests: the standby has what the primary has, and its B-trees are whole.
sub standby_is_same
{
	my ($what) = @_;
	my @btrees = split /\n/, pv_sql($node, q{
		SELECT indexrelid::regclass FROM pg_index WHERE indrelid IN ('account'::regclass, 'ledger'::regclass, 'event'::regclass)});
	my $entries = join ' UNION ALL ', map { "SELECT '$_', count(*), sum(hashtextextended(t::text, 0)) FROM oracle.index_tids('$_') t" } @btrees;

	pv_catch_up($node, $standby);
	is(pv_sql($standby, $sums), $right, "$what: the standby has all rows");
	is(pv_sql($standby, $entries), pv_sql($node, $entries), "$what: the standby has the same index entries");
	is(pv_sql($standby, join '; ', map { "SELECT bt_index_check('$_', true)" } @btrees) =~ s/\n//gr, '', "$what: its B-trees are whole");
	return;
}

#
# Sweeps beside transactions and vacuums
#
my %checked = (wal_consistency_checking => 'btree');
my $size = q{SELECT pg_relation_size('event_at') + pg_relation_size('account_k')};
my $small = pv_sql($node, $size);
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
ok(pv_finish($_), 'a session that sweeps has ended without an error') or diag $_->{err} for @sweepers;
ok($pgbench->{handle}->finish, 'no scan missed a row');
unlike($pgbench->{err}, qr/ERROR|aborted/, 'no transaction failed');
my ($transactions) = $pgbench->{out} =~ /actually processed: (\d+)/;
my ($sweeps, $deleted) = split /\|/, pv_sql($node, 'SELECT count(*), sum(tuples_deleted) FROM swept');
note "$sweeps sweeps deleted $deleted entries beside $n vacuums and " . ($transactions // 'no') . ' transactions';

cmp_ok($n, '>', 5, 'vacuums ran beside the sweeps');
is_deeply($failed, [], 'no vacuum failed');
cmp_ok($transactions // 0, '>', 200, 'transactions ran beside the sweeps');
is(pv_sql($node, q{
	SELECT count(*) FROM pg_index WHERE indrelid IN ('account'::regclass, 'ledger'::regclass, 'event'::regclass)
		AND indexrelid NOT IN (SELECT index FROM swept WHERE tuples_deleted > 0)}), 0, 'sweeps deleted entries from each index');
cmp_ok(pv_sql($node, $size), '>', $small, 'pages were split');
all_is_whole('stress');
standby_is_same('stress');

#
# A query on the standby still needs entries that a sweep deletes.
#
my ($rc, $out, $err) = $standby->psql('postgres', q{SELECT parvacuum_sweep('account_k')});
isnt($rc, 0, 'no sweep on the standby');
like($err, qr/ERROR:  cannot execute parvacuum_sweep\(\) during recovery/, 'the error has the reason');

pv_sql($node, q{
	CREATE TABLE seen (id int PRIMARY KEY, k int) WITH (autovacuum_enabled = off);
	INSERT INTO seen SELECT i, i % 100 FROM generate_series(1, 20000) i;
	CREATE INDEX seen_k ON seen (k);
});
pv_catch_up($node, $standby);
my $reader = $standby->background_psql('postgres');
my $count = 'SELECT count(*), sum(id) FROM seen WHERE k >= 0';
$reader->query_safe("SET $_ = $by_index{$_}") for sort keys %by_index;
my $seen = $reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $count");
pv_sql($node, 'DELETE FROM seen WHERE id % 10 = 0');
pv_catch_up($node, $standby);
is(pv_sql($node, q{SELECT tuples_deleted FROM parvacuum_sweep('seen_k')}), 2000, 'standby: a sweep deletes entries that the query needs');
ok($standby->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'RecoveryConflictSnapshot'}),
	'standby: replay waits for the query');
is($reader->query_safe($count), $seen, 'standby: the query sees the same rows as before');
$reader->query_safe('COMMIT');
pv_catch_up($node, $standby);
isnt($reader->query_safe($count), $seen, 'standby: the next query sees the changes');
$reader->quit;

#
# With few buffers, the heap has to be read from disk.  Then the server crashes.
#
$node->append_conf('postgresql.conf', "shared_buffers = 2MB\nparvacuum.max_workers = 4\n");
$node->restart;
$pgbench = start_work(120);
@sweepers = map { pv_start_run($node, 'CALL sweep_for(120)', %checked) } 1 .. 2;
my $before = pv_sql($node, 'SELECT count(*) FROM swept');
ok(pv_await($node, "SELECT (count(*) - $before > 30)::text FROM swept", 'true'), 'crash: sweeps are running');
$node->stop('immediate');
ok(!pv_finish($_), 'crash: a session that sweeps has failed') for @sweepers;
$pgbench->{handle}->finish;
unlike($pgbench->{err}, qr/division by zero/, 'crash: no scan has missed a row');
my $offset = -s $node->logfile;
$node->start;
like(substr(slurp_file($node->logfile), $offset), qr/not properly shut down; automatic recovery in progress/, 'crash: the server recovers');
all_is_whole('crash');
standby_is_same('crash');

# The next vacuum removes all dead rows.
pv_sql($node, "VACUUM (INDEX_CLEANUP on) $_; SELECT parvacuum_run('$_', workers => 2, disable_page_skipping => true)") for qw(account ledger event);
all_is_whole('after a vacuum');

unlike(slurp_file($_->logfile), qr/inconsistent page/, 'each page was replayed with the same result') for $node, $standby;
pv_no_crash($node, 'the server');
pv_no_crash($standby, 'the standby');
$standby->stop;
$node->stop;
done_testing();
