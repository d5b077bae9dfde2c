# Autovacuum with our workers beside a busy application and DDL: no
# statement fails, DDL gets its locks, no row is lost, no deleted row is visible, and
# heap and indexes agree.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{PV_SECONDS} // 20;

my $node = pv_node('autovacuum_stress');
$node->append_conf('postgresql.conf', q{
autovacuum = on
autovacuum_naptime = 1s
autovacuum_vacuum_threshold = 200
autovacuum_vacuum_scale_factor = 0
autovacuum_vacuum_insert_threshold = 2000
autovacuum_vacuum_insert_scale_factor = 0
autovacuum_vacuum_cost_delay = 10ms
parvacuum.autovacuum_workers = 2
log_autovacuum_min_duration = 0
log_statement = none
deadlock_timeout = 100ms
});
$node->start;
pv_setup($node);

# The sum over both tables never changes.  The partitions follow the options of the
# parent.
pv_sql($node, q{
	CREATE TABLE account (id int PRIMARY KEY, k int, balance bigint, note text, tags int[]) WITH (parvacuum.enabled, fillfactor = 80);
	CREATE TABLE ledger (id int, amount bigint, pad text) PARTITION BY RANGE (id) WITH (parvacuum.enabled);
	CREATE TABLE ledger_low PARTITION OF ledger FOR VALUES FROM (0) TO (20001);
	CREATE TABLE ledger_high PARTITION OF ledger FOR VALUES FROM (20001) TO (40001);
	INSERT INTO account SELECT i, i % 1000, 1000, repeat('n', 60), ARRAY[i % 10, i] FROM generate_series(1, 40000) i;
	CREATE INDEX ON account (k);
	CREATE INDEX ON account USING hash (k);
	CREATE INDEX ON account USING gin (tags);
	CREATE INDEX ON ledger (id);
});

my %scripts = (
	%pv_money,
	undone => [ 4, q{
\set id random(1, 40000)
BEGIN;
UPDATE account SET note = 'undone' WHERE id = :id;
INSERT INTO ledger SELECT :id, 1000000, repeat('u', 200) FROM generate_series(1, 20) i;
ROLLBACK;
} ],
	look => [ 4, q{
\set k random(0, 999)
SELECT count(*) FROM account WHERE k = :k;
SELECT count(*) FROM account WHERE tags @> ARRAY[:k % 10];
} ]);
my $pgbench = pv_start_pgbench($node, $seconds, 4, %scripts);

# All of these need locks that a vacuum holds.
my @ddl = (
	'ALTER TABLE account ADD COLUMN more int',
	'ALTER TABLE account DROP COLUMN more',
	'CREATE INDEX another ON account (balance)',
	'DROP INDEX another',
	'ALTER TABLE ledger ADD COLUMN more int DEFAULT 7',
	'ALTER TABLE ledger DROP COLUMN more',
	'ALTER TABLE account SET (parvacuum.workers = 1)',
	'ALTER TABLE account RESET (parvacuum.workers)',
	'REINDEX INDEX account_k_idx',
	'ANALYZE account',
	'ALTER TABLE ledger SET (parvacuum.workers = 2)',
	'CREATE INDEX CONCURRENTLY another ON ledger_low (amount)',
	'DROP INDEX another',
	'BEGIN; LOCK TABLE account IN ACCESS EXCLUSIVE MODE; COMMIT',
	'VACUUM account');
my @failed;
my $n = 0;
my $longest = 0;
my $end = time + $seconds - 2;
while (time < $end)
{
	my $sql = $ddl[ $n++ % @ddl ];
	my $begun = time;
	my ($rc, $stdout, $stderr) = $node->psql('postgres', "SET lock_timeout = '1min';\n" . join(";\n", split /; /, $sql));
	$longest = time - $begun if time - $begun > $longest;
	push @failed, "$sql: $stderr" if $rc != 0;
	last if @failed > 3;
	sleep 0.5;
}
$pgbench->{handle}->finish;
my ($transactions) = $pgbench->{out} =~ /actually processed: (\d+)/;
note "$n statements of DDL beside " . ($transactions // 'no') . " transactions; the longest took $longest s";

my $log = slurp_file($node->logfile);
my $vacuums = () = $log =~ /of table "postgres\.public\.(?:account|ledger_low|ledger_high)"[^"]*(?:index "[^"]*"[^"]*)*engine: parvacuum/g;
my $helped = () = $log =~ /engine: parvacuum, [12] parallel workers launched/g;
my $canceled = () = $log =~ /canceling autovacuum task/g;
note "$vacuums vacuums by the engine under autovacuum, $helped with workers, $canceled gave way";

is_deeply(\@failed, [], 'no statement of DDL failed');
cmp_ok($n, '>', $seconds / 10, 'statements of DDL ran');
unlike($pgbench->{err}, qr/error|abort/i, 'no transaction failed') or diag $pgbench->{err};
cmp_ok($transactions // 0, '>', 200, 'transactions ran');
cmp_ok($vacuums, '>', 3, 'autovacuum ran');
cmp_ok($helped, '>', 3, 'autovacuum had workers');
cmp_ok($canceled, '>', 0, 'autovacuum gave way to locks');

my $sums = q{SELECT count(*), sum(balance) + (SELECT coalesce(sum(amount), 0) FROM ledger) FROM account};
is(pv_sql($node, $sums), '40000|40000000', 'no row is lost, and no deleted row is visible');

# Autovacuum is off for the oracle.
my @tables = qw(account ledger_low ledger_high);
pv_sql($node, join '; ', map { "ALTER TABLE $_ SET (autovacuum_enabled = off)" } @tables);
is(pv_findings($node, $_), '', "$_ is whole") for @tables;
pv_sql($node, "VACUUM (INDEX_CLEANUP on, DISABLE_PAGE_SKIPPING) $_") for @tables;
is(pv_sql($node, $sums), '40000|40000000', 'the last vacuum has lost no row');
is(pv_findings($node, $_), '', "$_ is whole after the last vacuum") for @tables;

for my $where ('id > 0', 'k = 77', 'tags @> ARRAY[3]')
{
	my $count = "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM account t WHERE $where";
	my $scan = pv_sql($node, "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; $count");
	is(pv_sql($node, "SET enable_seqscan = off; $count"), $scan, "by index and by sequential scan, where $where");
}

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
