# Pruning and freezing page by page: tables whose rows have histories made up at random,
# each vacuumed by parvacuum and its twin by stock VACUUM.  Both must leave the same line
# pointers, the same tuples and the same figures.  Then rows that were committed
# asynchronously, and a broken HOT chain.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvPages;
use PvTest;
use Test::More;
use Time::HiRes qw(time);

# So many trials, however busy the machine is, or those of so many seconds
my $trials = 30;
my $seconds = $ENV{PV_SECONDS};

pages_node('pages', '');

connect_all();
my $end = $seconds ? time + $seconds : 0;
my $n = 0;
note "seed $seed";
while ($end ? time < $end : $n < $trials)
{
	trial($seed + $n++, 1) or last;
}
note "$n random trials";
disconnect_all();

#
# Rows of transactions that have committed asynchronously and are not flushed get no hint
# bits before the page is changed.  The page becomes all-visible nevertheless.
#
$node->append_conf('postgresql.conf', 'wal_writer_delay = 10s');
$node->reload;
for my $index ('', 'CREATE INDEX ON late (id);')
{
	is(pv_sql($node, qq{
			SET synchronous_commit = off;
			SET parvacuum.enabled = on;
			DROP TABLE IF EXISTS late;
			CREATE TABLE late (id int) WITH (autovacuum_enabled = off);
			$index
			INSERT INTO late SELECT generate_series(1, 5000);
			INSERT INTO late SELECT generate_series(5001, 6000);
			DELETE FROM late WHERE id % 3 = 0;
			VACUUM (PARALLEL 0) late;
			SELECT DISTINCT all_visible FROM pg_visibility_map('late');}),
		't', "rows that have just been committed are all-visible" . ($index ? ', with an index' : ''));
}

# Pages that are not changed get their hint bits because the vacuum flushes the WAL.
is(pv_sql($node, q{
		SET synchronous_commit = off;
		SET parvacuum.enabled = on;
		CREATE TABLE unchanged (id int) WITH (autovacuum_enabled = off);
		INSERT INTO unchanged SELECT generate_series(1, 1000);
		VACUUM (PARALLEL 0) unchanged;
		SELECT DISTINCT all_visible FROM pg_visibility_map('unchanged');}),
	't', 'rows that have just been committed are all-visible where nothing is pruned');
$node->append_conf('postgresql.conf', 'wal_writer_delay = 200ms');
$node->reload;
#
# A HOT chain without its middle, which only corruption can cause, has dead versions that
# pruning does not reach.  Before 17, stock VACUUM would not end.
#
fixed(100, 50);
for (1 .. 4)
{
	run(transaction('COMMIT', 'UPDATE $T SET v = v + 1 WHERE id = 7'));
}
run(transaction('COMMIT', 'DELETE FROM $T WHERE id = 7'));
run(q{SELECT heap_force_kill('ours', ARRAY['(0,102)'::tid])});
for my $workers (0, 2)
{
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT parvacuum_run('ours', workers => $workers)");
	isnt($rc, 0, "$workers workers: a vacuum of a broken chain fails");
	like($err, $version < 17 ? qr/page 0 of table "public\.ours" has dead row versions that cannot be removed/ :
		qr/dead heap-only tuple \(0, \d+\) is not linked to from any HOT chain/, "$workers workers: the error has the reason");
}
is(pv_sql($node, 'SELECT count(*) FROM ours'), 99, 'the other rows are there');

pv_no_crash($node, 'the server');
$node->stop;

done_testing();
