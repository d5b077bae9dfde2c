# The visibility map of a small table is created without an immediate invalidation for
# all sessions.  A session that has seen the table without a map changes it meanwhile, and
# learns of the map when the vacuum has ended, in whatever way.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('small_map');
$node->start;
pv_setup($node);

# A vacuum is held when it has scanned all pages.
my %held = ('parvacuum.wait_at' => 'cleanup');
my $scanned = q{SELECT count(*) FROM pg_stat_progress_vacuum WHERE heap_blks_scanned > 50};
my $index_only = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';

# 30 rows on each of 100 pages, and a session that has seen that there is no map
sub make_table
{
	my ($table) = @_;
	pv_sql($node, qq{
		CREATE TABLE $table (id int PRIMARY KEY, v int, pad char(220)) WITH (autovacuum_enabled = off);
		ALTER TABLE $table SET (parvacuum.enabled);
		INSERT INTO $table SELECT i, 0, 'x' FROM generate_series(1, 3000) i;
		ANALYZE $table});
	my $session = $node->background_psql('postgres');
	$session->query_safe($index_only);
	is(rows_of($session, $table), 20, "$table: rows without a map");
	isnt(fetches_of($session, $table), 0, "$table: the session has read the rows");
	return $session;
}

sub rows_of { return $_[0]->query_safe("SELECT count(*) FROM $_[1] WHERE id BETWEEN 11 AND 30"); }
sub fetches_of
{
	my $plan = $_[0]->query_safe("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM $_[1] WHERE id BETWEEN 11 AND 30");
	return $plan =~ /Heap Fetches: (\d+)/ ? $1 : $plan;
}
sub is_visible { return pv_sql($node, "SELECT all_visible FROM pg_visibility_map('$_[0]', $_[1])"); }

my $session = make_table('changed');
my $holder = pv_hold($node, 'changed');
my $run = pv_start_run($node, 'VACUUM changed', %held);
ok(pv_await($node, $scanned, 1), 'changed: a vacuum is running');
is(is_visible('changed', 1), 't', 'changed: pages are all-visible already');
$session->query_safe('UPDATE changed SET v = 1 WHERE id = 1');
$session->query_safe('DELETE FROM changed WHERE id = 11');
is(rows_of($session, 'changed'), 19, 'changed: the session sees its changes');
is(pv_sql($node, $scanned), 1, 'changed: the vacuum is still running');
$holder->quit;
ok(pv_finish($run), 'changed: the vacuum succeeds') or diag $run->{err};
is(is_visible('changed', 0), 'f', 'changed: the changed page is not all-visible');
is(is_visible('changed', 1), 't', 'changed: other pages are all-visible');
is(pv_sql($node, "$index_only SELECT count(*) FROM changed WHERE id BETWEEN 11 AND 30"), 19, 'changed: other sessions see the changes');
is(pv_findings($node, 'changed'), '', 'changed: the table is whole');
$session->quit;

$session = make_table('canceled');
$holder = pv_hold($node, 'canceled');
$run = pv_start_run($node, 'VACUUM canceled', %held);
ok(pv_await($node, $scanned, 1), 'canceled: a vacuum is running');
pv_sql($node, 'SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum');
ok(!pv_finish($run), 'canceled: the vacuum fails');
$holder->quit;
is(fetches_of($session, 'canceled'), 0, 'canceled: the session has learned of the map');
is(pv_findings($node, 'canceled'), '', 'canceled: the table is whole');
$session->quit;

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
