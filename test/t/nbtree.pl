# Several participants in one B-tree, while other sessions split its pages or hold pins on
# them.  No entry of a dead row may remain, no row may be lost, and the counts must be
# right.
#
# Vacuums are stopped at places that parvacuum.wait_at names, by an advisory lock.  Each
# test makes the event happen that it is about, and checks that it has happened.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvNbtree;
use PvTest;
use Test::More;

nbtree_start('nbtree');
my $rows = 9000;

#
# Pages are split between the ranges.  Their right halves go to pages that were visited
# while they were free.
#
for my $workers (2, 0)
{
	my $what = "ranges, $workers workers";
	my ($moved, $stops) = (0, 0);
	my $gone = new_table('t', $rows, 180, 0.3);
	my $blocks = blocks('t_id');
	my $first = first_page('t_id');
	cmp_ok(free_pages('t_id'), '>', 60, "$what: the index has free pages");

	close_gate();
	my $run = start_vacuum('t', $workers, 'range', $workers > 0 ? %slow : ());
	all_stand($workers + 1, 0, "$what: all participants wait");
	do
	{
		my @dead = dead_pages('t_id');
		my @ahead = grep { $_ >= $first } @dead;

		# the first page was visited, so all pages before it were
		if (@ahead && $ahead[0] > $first)
		{
			split_pages('t_id', map { $ahead[ int($_ * $#ahead) ] } 0.3, 0.7);
			$moved += grep { $_ < $first } dead_pages('t_id');
			$moved -= grep { $_ < $first } @dead;
		}
		$stops++;
		step();
	} while (until_stopped() > 0);
	open_gate();

	note "$what: $stops stops, $moved pages with moved entries";
	cmp_ok($stops, '>', 3, "$what: the participants were stopped several times");
	cmp_ok($moved, '>', 5, "$what: splits have moved entries to visited pages");
	is(blocks('t_id'), $blocks, "$what: the index did not grow");
	finish_vacuum($run, $workers, $gone, 't', $what);
}

#
# A page with moved entries is split itself while it waits for another visit: before the
# new pages of the index are visited, and after.
#
for my $case ([ 2, 0.3, 5400500 ], [ 0, 0.1, 1350500 ])
{
	my ($workers, $share, $row_ahead) = @$case;
	my $what = "finish, $workers workers";
	my $gone = new_table('t', $rows, 180, $share);
	my $first = first_page('t_id');

	# A participant is stopped by a pin, and pages that it has not visited yet are split.
	# Their right halves go to another range, or to the same one.
	my $pin = pin('t', $row_ahead);
	close_gate();
	my $run = start_vacuum('t', $workers, 'finish');
	all_stand(0, 1, "$what: one participant waits for a pin, the others for it");
	my @ahead = dead_pages('t_id');
	cmp_ok($ahead[0] // 0, '>', $first, "$what: the free pages have been visited");
	split_pages('t_id', @ahead[ 0 .. ($#ahead > 3 ? 3 : $#ahead) ]);
	$pin->quit;

	all_stand(1, 0, "$what: all ranges are visited");
	my @moved = dead_pages('t_id');
	cmp_ok(scalar(@moved), '>', 1, "$what: moved entries remain");
	is(scalar(grep { $_ >= $first } @moved), 0, "$what: no other entries remain");

	# The entries are moved again, to recycled pages and to new ones.
	split_pages('t_id', $moved[0]);
	cmp_ok(scalar(dead_pages('t_id')), '>', scalar(@moved), "$what: they are moved to more pages");
	my $blocks = blocks('t_id');
	sql("INSERT INTO t SELECT 20000000 + i, 0, lpad(nextval('pad')::text, 180, '0') FROM generate_series(1, 4000) i");
	cmp_ok(blocks('t_id'), '>', $blocks, "$what: the index has no free pages any more");
	my @rows_moved = numbers(q{
		SELECT min(r.id) FROM dead_entries('t_id') d JOIN leaf_entries('t_id') e USING (blkno) JOIN t r ON r.ctid = e.t
		WHERE r.id % 1000 = 0 GROUP BY d.blkno ORDER BY 1});
	cmp_ok(scalar(@rows_moved), '>', 1, "$what: entries of dead rows are on several pages");
	my $page_of = "SELECT blkno FROM leaf_entries('t_id') e JOIN t r ON r.ctid = e.t WHERE r.id =";
	split_pages('t_id', sql("$page_of $rows_moved[-1]"));
	cmp_ok((dead_pages('t_id'))[-1], '>', $blocks, "$what: some are moved to new pages at the end");

	# The leftmost page in the order of keys is not found by going to the right.
	$pin = pin('t', $rows_moved[0]);
	open_gate();
	all_stand(0, 1, "$what: a page is to be visited again, but is pinned");
	$blocks = blocks('t_id');
	split_pages('t_id', sql("$page_of $rows_moved[0]"));
	cmp_ok((dead_pages('t_id'))[-1], '>=', $blocks, "$what: entries are moved to pages that did not exist before");
	$pin->quit;
	finish_vacuum($run, $workers, $gone, 't', $what);
}
#
# The right halves of split pages go to a range that comes later, and that another
# participant has visited before, while its pages were free.
#
for my $workers (1, 2)
{
	my $what = "later range, $workers workers";
	my $gone = new_table('t', $rows, 180, -0.3);
	my $last = sql(q{SELECT max(blkno) FROM leaf_entries('t_id')});
	cmp_ok(sql("SELECT count(*) FROM pg_freespace('t_id') WHERE avail > 0 AND blkno > $last"), '>', 60, "$what: the index has free pages at its end");

	my $pin = pin('t', 2250500);
	my $run = start_vacuum('t', $workers);
	all_stand(0, 1, "$what: one participant waits for a pin, the others for it");
	my @ahead = dead_pages('t_id');
	cmp_ok(scalar(@ahead), '>', 0, "$what: pages of its range are not visited yet");
	cmp_ok($ahead[-1] // 0, '<', $last - 20, "$what: all pages near the end are visited");
	split_pages('t_id', @ahead[ 0 .. ($#ahead > 3 ? 3 : $#ahead) ]);
	cmp_ok(scalar(grep { $_ > $last } dead_pages('t_id')), '>', 1, "$what: splits have moved entries to free pages at the end");
	$pin->quit;
	finish_vacuum($run, $workers, $gone, 't', $what);
}

#
# An index scan pins a page.  The participant that needs the page waits, and the others go
# on with this index and with the next one.
#
{
	my $what = 'pin';
	my $gone = new_table('t', $rows, 180, 0.3, 'pad');
	my $pin = pin('t', 5400500);
	my $run = start_vacuum('t', 2);
	all_stand(0, 1, "$what: one participant waits, the others have nothing left to do");
	my @left = dead_pages('t_id');
	my $first = first_page('t_id');
	cmp_ok(scalar(@left), '>', 0, "$what: entries of its range remain");
	cmp_ok(scalar(@left), '<', (blocks('t_id') - $first) / 4, "$what: all other ranges are visited");
	is(scalar(dead_pages('t_pad_idx')), 0, "$what: the next index is vacuumed");
	is(sql('SELECT count(*) FROM pg_stat_progress_vacuum WHERE index_vacuum_count > 0'), 0, "$what: the second heap pass has not begun");
	$pin->quit;
	finish_vacuum($run, 2, $gone, 't', $what);
}

#
# The index grows by more pages than the bitmaps have room for: an eighth and 1024.
#
{
	my $what = 'growth';
	my $gone = new_table('t', 500, 1500, 0.3);
	my $first = first_page('t_id');
	my $foreseen = int(blocks('t_id') * 9 / 8) + 1024;

	close_gate();
	my $run = start_vacuum('t', 2, 'range', %slow);
	all_stand(3, 0, "$what: all participants wait");
	my @ahead;
	do
	{
		step();
		until_stopped();
		@ahead = dead_pages('t_id');
	} while ($ahead[0] == $first);

	# The first splits move entries to visited pages, the next ones to pages between these
	# and the original ones.
	my @split = @ahead[ -10 .. -1 ];
	split_pages('t_id', @split);
	my @moved = grep { $_ < $first } dead_pages('t_id');
	cmp_ok(scalar(@moved), '>', 3, "$what: entries are moved to visited pages");
	while (blocks('t_id') < $foreseen)
	{
		sql("INSERT INTO t SELECT 1000000 + i, 0, lpad(nextval('pad')::text, 1500, '0') FROM generate_series(1, 1000) i");
	}
	split_pages('t_id', @split, @ahead[ -20 .. -11 ]);
	cmp_ok(sql("SELECT count(*) FROM dead_entries('t_id') d, bt_page_stats('t_id', d.blkno) s WHERE d.blkno < $first AND s.btpo_prev > $foreseen"),
		'>', 3, "$what: visited pages have entries to the right of pages beyond the bitmaps");
	cmp_ok(sql("SELECT count(*) FROM dead_entries('t_id') WHERE blkno > $foreseen"), '>', 3, "$what: other entries are moved to pages beyond the bitmaps");
	open_gate();
	finish_vacuum($run, 2, $gone, 't', $what);
}

unlike(slurp_file($node->logfile), qr/found deleted block|in an inconsistent state/, 'the log has no complaint of core');
pv_no_crash($node, 'the server');
nbtree_stop();
done_testing();
