# Every kind of table with a small store, and then tables, workers and options made up at
# random.  Each table is compared with a twin that stock VACUUM has vacuumed.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(time);

# Random trials go on for this long.  They are the same each time, so that a failure comes
# from a change of the code; PV_SEED=$RANDOM tries others.
my $seconds = $ENV{PV_SECONDS} // 10;
my $seed = $ENV{PV_SEED} // 1;

my $node = pv_node('engine');
$node->start;
pv_setup($node);

my @kinds = qw(none fifth scattered all tail gaps few updates aborted locked multixacts
  snapshot unfinished frozen visible holes pages partitions);
my @indexes = qw(btree duplicates changing partial expression hash gist spgist gin brin);

# Several fillings of the store; sql/engine_heap.sql has one.  A row has four hundred bytes:
# 5000 rows fill three segments of 128 pages.
for my $kind (@kinds)
{
	is(pv_trial($node, "'$kind', '$kind', 5000, 3, 'small_store', ARRAY['btree', 'gin'], 400"),
		'', "$kind, with a small store");
}

# Runs of one and two pages that are skipped, with a store that is full at each border
# between segments
for my $workers (0, 1, 3)
{
	is(pv_trial($node, "'holes $workers', 'holes', 9000, $workers, 'skip_all no_sample empty_store', ARRAY['btree'], 400"),
		'', "holes $workers");
}

note "seed $seed";
srand($seed);
my $end = time + $seconds;
my $n = 0;

sub some
{
	my ($share, @of) = @_;
	return grep { rand() < $share } @of;
}

sub sql_array
{
	return "'{" . join(',', @_) . "}'";
}

while (time < $end)
{
	my $kind = $kinds[ int rand @kinds ];
	my $rows = int(10**(1 + rand 3.3));
	my $width = (-1, 0, 10, 100, 400, 1500)[ int rand 6 ];
	# Rows without an array or a point cannot be in all kinds of indexes.
	my @mine = some(rand 0.6, $width < 0 ? grep { !/gi|gist/ } @indexes : @indexes);
	my $fillfactor = 20 + 5 * int rand 17;
	my $workers = ('NULL', 0, 1, 2, 3, 5)[ int rand 6 ];
	my $unlogged = rand() < 0.2 ? 'UNLOGGED' : '';
	# Of two options that exclude each other, one
	my @wishes = some(0.2, qw(freeze analyze skip_locked freeze_young aggressive small_store no_workers),
		(qw(index_cleanup no_index_cleanup))[ int rand 2 ], (qw(truncate no_truncate))[ int rand 2 ]);
	push @wishes, 'no_skipping' if rand() < 0.2;

	# Pages that could be truncated, and an open transaction with a lock: both vacuums
	# would try to truncate for five seconds.
	push @wishes, 'no_truncate' if $kind =~ /snapshot|unfinished/ && !grep { /truncate/ } @wishes;
	@wishes = map { $_ eq 'truncate' && $kind =~ /snapshot|unfinished/ ? 'no_truncate' : $_ } @wishes;

	my $arguments = join ', ', "'random'", "'$kind'", $rows, $workers, "'@wishes'", sql_array(@mine), $width,
	  "'fillfactor = $fillfactor'", "'$unlogged'";
	my $found = pv_trial($node, $arguments);
	$n++;
	is($found, '', "seed $seed, trial $n: $arguments") or last;
}
note "$n trials by chance";

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
