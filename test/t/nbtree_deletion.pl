# Deletion of B-tree pages by several participants: pages that get rows again before they
# are deleted, pages that a canceled deletion has left half-dead.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvNbtree;
use PvTest;
use Test::More;

nbtree_start('nbtree_deletion');
my $rows = 9000;

#
# Rows are inserted into pages that were found empty, before these are deleted.
#
for my $workers (2, 0)
{
	my $what = "deletion, $workers workers";
	my $gone = new_table('t', $rows, 180, 0.3);
	my $blocks = blocks('t_id');

	close_gate();
	my $run = start_vacuum('t', $workers, 'deletion');
	all_stand(1, 0, "$what: one participant is about to delete pages");
	is(scalar(dead_pages('t_id')), 0, "$what: no entry of a dead row remains");
	my @empty = numbers("SELECT empty_pages('t_id')");
	cmp_ok(scalar(@empty), '>', 20, "$what: the index has empty pages");

	# A few rows, and enough rows to split the page
	sql(q{INSERT INTO t SELECT 6350000 + g * 150000 + i, 0, lpad(nextval('pad')::text, 180, '0')
		FROM generate_series(1, 5) g, generate_series(1, g * g * 3) i},
		q{SELECT split_pages('t_id', array_agg(b)) FROM (
			SELECT blkno AS b FROM leaf_entries('t_id') GROUP BY 1 HAVING count(*) > 17 ORDER BY 1 LIMIT 5) x});
	my %still = map { $_ => 1 } numbers("SELECT empty_pages('t_id')");
	my @filled = grep { !$still{$_} } @empty;
	is(scalar(@filled), 5, "$what: some of these have rows again");
	cmp_ok(sql("SELECT stamped_pages('t_id')"), '>', 8, "$what: pages were split");
	open_gate();
	finish_vacuum($run, $workers, $gone, 't', $what);

	my $types = q{SELECT string_agg(DISTINCT type::text, ' ') FROM unnest('{%s}'::int[]) b, bt_page_stats('t_id', b)};
	is(sql(sprintf $types, join ',', @filled), 'l', "$what: the pages with rows are kept");
	is(sql(sprintf $types, join ',', keys %still), 'd', "$what: the empty pages are deleted");
	is(blocks('t_id'), $blocks, "$what: free pages were used");
	is(sql(q{SELECT count(*) FROM t WHERE id BETWEEN 6300000 AND 7199999 AND k = 0}), 165, "$what: no row is lost");
}

#
# Canceled deletions have left two pages half-dead, and the page to their right is empty.
# Core would go on from them to that page, where an assertion of core fails.
#
SKIP:
{
	my $what = 'half-dead pages';
	my ($rc) = $node->psql('postgres', 'CREATE EXTENSION parvacuum_test');
	skip 'parvacuum_test is not installed', 1 if $rc != 0;
	new_table('t', $rows, 180, 0.3);

	close_gate();
	my $run = start_vacuum('t', 0, 'deletion');
	all_stand(1, 0, "$what: one participant is about to delete pages");
	sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader'});
	ok(!pv_finish($run), "$what: the vacuum is canceled");
	open_gate();

	my @pages = split /\|/, sql(q{
		WITH empty AS (SELECT b, (bt_page_stats('t_id', b)).btpo_next AS next FROM empty_pages('t_id') b)
		SELECT x.b, x.next, y.next FROM empty x JOIN empty y ON y.b = x.next JOIN empty z ON z.b = y.next ORDER BY 1 LIMIT 1});
	is(scalar(@pages), 3, "$what: there are three empty pages in a row");
	for my $page (@pages[ 0, 1 ])
	{
		my ($failed, $out, $err) = $node->psql('postgres', "SELECT parvacuum_test_leave_half_dead('t_id', $page)");
		like($err, qr/canceling statement/, "$what: a deletion is canceled");
	}
	my $types = sprintf q{SELECT string_agg((bt_page_stats('t_id', b)).type::text, ' ') FROM unnest('{%s}'::int[]) b}, join ',', @pages;
	is(sql($types), 'e e l', "$what: two pages are half-dead");

	$run = start_vacuum('t', 2);
	ok(pv_finish($run), "$what: the next vacuum succeeds") or diag $run->{err};
	is(sql($types), 'd d d', "$what: all three are deleted");
	is(sql(q{SELECT count(*) FROM empty_pages('t_id')}), 0, "$what: all other empty pages are deleted");
	is(pv_findings($node, 't'), '', "$what: the table is whole");
	sql('DROP EXTENSION parvacuum_test');
}

unlike(slurp_file($node->logfile), qr/found deleted block|in an inconsistent state/, 'the log has no complaint of core');
pv_no_crash($node, 'the server');
nbtree_stop();
done_testing();
