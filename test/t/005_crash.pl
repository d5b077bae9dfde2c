# What a vacuum writes to WAL: a server that is stopped at once in the middle of
# each phase comes back with a whole table, and a standby that replays it has
# the same table, page by page.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $primary = pv_node('primary', allows_streaming => 1);

# Replay compares each page with an image of it; differences are fatal there.
$primary->append_conf('postgresql.conf',
	"wal_consistency_checking = 'all'\nfull_page_writes = on\nrestart_after_crash = off\n");
$primary->start;
pv_setup($primary);
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

# A table with all that vacuum does to pages: dead rows and HOT chains, aborted
# rows, multixacts, empty and all-visible pages, indexes of several kinds, TOAST.
sub make_table
{
	my ($name) = @_;
	$primary->safe_psql('postgres', qq{
		DROP TABLE IF EXISTS $name;
		CREATE TABLE $name (id int, v int, a int[], pad text) WITH (autovacuum_enabled = off, fillfactor = 80);
		INSERT INTO $name SELECT i, i % 1000, ARRAY[i % 10], repeat('x', 150) FROM generate_series(1, 40000) i;
		INSERT INTO $name SELECT i, i, ARRAY[i], string_agg(md5((i * j)::text), '')
			FROM generate_series(40001, 40200) i, generate_series(1, 150) j GROUP BY i;
		CREATE INDEX ON $name (id);
		CREATE INDEX ON $name (v);
		CREATE INDEX ON $name USING hash (v);
		CREATE INDEX ON $name USING gin (a);
		CREATE INDEX ON $name USING brin (id);
		VACUUM $name;
		UPDATE $name SET pad = pad || 'y' WHERE id % 7 = 0;
		UPDATE $name SET v = v + 1 WHERE id % 11 = 0;
		BEGIN; UPDATE $name SET v = v + 2 WHERE id % 13 = 0; INSERT INTO $name SELECT * FROM $name LIMIT 1000; ROLLBACK;
		BEGIN; SELECT count(*) FROM (SELECT 1 FROM $name WHERE id % 17 = 0 FOR SHARE) s;
		SAVEPOINT s; UPDATE $name SET pad = 'z' WHERE id % 34 = 0; COMMIT;
		DELETE FROM $name WHERE id % 3 = 0 OR id BETWEEN 10000 AND 20000 OR id > 40100});
	return;
}

# -- a standby

for my $run (
	"workers => 0", "workers => 2", "workers => 3, freeze => true",
	"workers => 2, disable_page_skipping => true, index_cleanup => 'off'")
{
	make_table('replayed');
	$primary->safe_psql('postgres', "SELECT * FROM parvacuum_run('replayed', $run)");
	$primary->wait_for_catchup($standby);
	is(pv_findings($primary, 'replayed'), '', "$run: whole on the primary");
	my $pages = q{
		SELECT md5(string_agg(oracle.items('replayed', blk), '' ORDER BY blk)) FROM generate_series(0, oracle.nblocks('replayed') - 1) blk};
	is($standby->safe_psql('postgres', $pages), $primary->safe_psql('postgres', $pages), 'the same line pointers on the standby');
	my ($rc, $out, $err) = $standby->psql('postgres', q{
		SELECT * FROM verify_heapam('replayed');
		SELECT bt_index_check(indexrelid, true) FROM pg_index JOIN pg_class c ON c.oid = indexrelid
		WHERE indrelid = 'replayed'::regclass AND relam = 403});
	is("$out$err" =~ s/\n//gr, '', 'amcheck finds nothing on the standby');
	is( $standby->safe_psql('postgres', "SELECT count(*), sum(id), sum(v) FROM replayed"),
		$primary->safe_psql('postgres', "SELECT count(*), sum(id), sum(v) FROM replayed"),
		'and it has the same rows');
}

my ($rc, $out, $err) = $standby->psql('postgres', "SELECT * FROM parvacuum_run('replayed')");
isnt($rc, 0, 'a standby is not vacuumed');
like($err, qr/ERROR:.*recovery/, 'and says why');

# A query there conflicts with the removal of rows it may see: it is cancelled
# or waited for, and gets no wrong answer meanwhile.
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nhot_standby_feedback = off\n");
$standby->reload;
make_table('replayed');
$primary->wait_for_catchup($standby);
my $reader = $standby->background_psql('postgres');
my $seen = "SELECT count(*) || ' ' || sum(id) FROM replayed";
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $before = $reader->query_safe($seen);
$primary->safe_psql('postgres', "DELETE FROM replayed WHERE id % 2 = 0");
$primary->safe_psql('postgres', "SELECT * FROM parvacuum_run('replayed', workers => 2)");
is($reader->query_safe($seen), $before, 'a snapshot on the standby keeps its rows');
$reader->query_safe('COMMIT');
$reader->quit;
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $seen), $primary->safe_psql('postgres', $seen), 'and the standby catches up');
$standby->stop;

# -- stopped at once in each phase

my %slow = (vacuum_cost_delay => '1', vacuum_cost_limit => '10');
for my $phase ('scanning heap', 'vacuuming indexes', 'vacuuming heap')
{
	make_table('crashed');
	$primary->safe_psql('postgres', 'CHECKPOINT');
	my $run = pv_start_run($primary, "SELECT * FROM parvacuum_run('crashed', workers => 2)", %slow);
	ok( pv_await($primary,
			"SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = 'crashed'::regclass AND phase = '$phase'", 1),
		"a vacuum is $phase");
	$primary->stop('immediate');
	pv_finish($run);
	$primary->start;
	is(pv_findings($primary, 'crashed'), '', 'after recovery the table is whole');
	$primary->safe_psql('postgres', "SELECT * FROM parvacuum_run('crashed', workers => 2)");
	is(pv_findings($primary, 'crashed'), '', 'and so it is after another run');
	is($primary->safe_psql('postgres', "SELECT count(*) > 0 AND count(*) = count(*) FILTER (WHERE id % 3 <> 0) FROM crashed"),
		't', 'which has the rows it should have');
}

ok(!-s $primary->data_dir . '/core', 'no core dump');
$primary->stop;
for my $node ($primary, $standby)
{
	unlike(slurp_file($node->logfile), qr/PANIC:|TRAP:|inconsistent page found/, 'nothing bad in the log of ' . $node->name);
}
done_testing();
