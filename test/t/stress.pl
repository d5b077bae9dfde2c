# Vacuums one after the other while other sessions insert, update, delete, lock and read
# the same rows, and hold cursors on pages that the vacuum would prune.  No row may be
# lost, no deleted row may be visible, and heap and indexes must agree.

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

my $node = pv_node('stress');
$node->start;
pv_setup($node);

# The sum over both tables never changes: what is taken from account is added to ledger
# by the same transaction.  Updates of note are HOT, those of k and at are not.
pv_sql($node, q{
	CREATE TABLE account (id int PRIMARY KEY, k int, balance bigint, note text, tags int[], at point)
		WITH (autovacuum_enabled = off, fillfactor = 80);
	CREATE TABLE ledger (id int, amount bigint, pad text) WITH (autovacuum_enabled = off);
	INSERT INTO account SELECT i, i % 1000, 1000, repeat('n', 60), ARRAY[i % 10, i], point(i % 100, i)
		FROM generate_series(1, 40000) i;
	CREATE INDEX ON account (k);
	CREATE INDEX ON account USING hash (k);
	CREATE INDEX ON account USING gin (tags);
	CREATE INDEX ON account USING gist (at);
	CREATE INDEX ON ledger (id);
});

my %scripts = (
	%pv_money,
	replace => [ 10, q{
\set id random(2, 40000)
BEGIN;
WITH gone AS (DELETE FROM account WHERE id = :id RETURNING *)
INSERT INTO account SELECT id, k, balance, note, tags, point(id % 100, id + 1) FROM gone;
COMMIT;
} ],
	undone => [ 4, q{
\set id random(1, 40000)
BEGIN;
INSERT INTO ledger SELECT i, 1000000, repeat('u', 200) FROM generate_series(1, 20) i;
UPDATE account SET note = 'undone' WHERE id BETWEEN :id AND :id + 20;
ROLLBACK;
} ],
	locks => [ 10, q{
\set id random(1, 40000)
BEGIN;
SELECT FROM account WHERE id = :id FOR KEY SHARE;
SAVEPOINT s;
SELECT FROM account WHERE id = :id FOR UPDATE;
UPDATE account SET note = repeat('l', 50) WHERE id = :id;
COMMIT;
} ],
	cursor => [ 4, q{
\set id random(1, 30000)
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM account WHERE k > 0;
MOVE :id IN c;
FETCH 1 FROM c;
SELECT pg_sleep(0.02);
COMMIT;
} ]);
my $pgbench = pv_start_pgbench($node, $seconds, 5, %scripts);

my @run = (
	q{SELECT * FROM parvacuum_run('account', workers => 2)},
	q{SELECT * FROM parvacuum_run('ledger', workers => 1)},
	q{SELECT * FROM parvacuum_run('account', workers => 3, freeze => true)},
	q{CALL parvacuum('account', workers => 2, disable_page_skipping => true)},
	q{SELECT * FROM parvacuum_run('ledger', workers => 3, index_cleanup => 'on', truncate => true)},
	q{SET parvacuum.store_limit = 1; SELECT * FROM parvacuum_run('account', workers => 2, index_cleanup => 'on')},
	q{SELECT * FROM parvacuum_run('account', workers => 0)},
	q{SET vacuum_freeze_min_age = 0; SELECT * FROM parvacuum_run('account', workers => 2, "analyze" => true)},
	q{VACUUM account});
my ($n, $failed) = pv_repeat_until($node, time + $seconds - 1, @run);
$pgbench->{handle}->finish;
my ($transactions) = $pgbench->{out} =~ /actually processed: (\d+)/;
note "$n vacuums beside " . ($transactions // 'no') . ' transactions';

cmp_ok($n, '>', 10, 'vacuums ran beside transactions');
is_deeply($failed, [], 'no vacuum failed');
cmp_ok($transactions // 0, '>', 200, 'transactions ran beside vacuums');

my $sums = q{SELECT count(*), sum(balance) + (SELECT sum(amount) FROM ledger) FROM account};
is(pv_sql($node, $sums), '40000|40000000', 'no row is lost, and no deleted row is visible');
is(pv_findings($node, $_), '', "$_ is whole") for qw(account ledger);

# One more vacuum when no other session is active: all dead rows can be removed.
pv_sql($node, "SELECT parvacuum_run('$_', workers => 2, index_cleanup => 'on', disable_page_skipping => true)")
  for qw(account ledger);
is(pv_sql($node, $sums), '40000|40000000', 'the last vacuum has lost no row');
is(pv_findings($node, $_), '', "$_ is whole after the last vacuum") for qw(account ledger);
is(pv_sql($node, q{
	SELECT count(*) FROM generate_series(0, oracle.nblocks('account') - 1) b,
		heap_page_items(get_raw_page('account', 'main', b)) i WHERE i.lp_flags = 3}), 0, 'no dead line pointer remains');

# An index finds the rows that a sequential scan finds.
for my $where ('id > 0', 'k = 77', 'tags @> ARRAY[3]', "at <\@ box '((10,10),(60,20000))'")
{
	my $count = "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM account t WHERE $where";
	my $scan = pv_sql($node, "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; $count");
	is(pv_sql($node, "SET enable_seqscan = off; $count"), $scan, "by index and by sequential scan, where $where");
}

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
