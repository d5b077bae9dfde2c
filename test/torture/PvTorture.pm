# What the files of test/torture share: how long they run, what they make up at random, and
# the figures that they report.
#
# PV_SECONDS is how long a file repeats its rounds; preparation and the last checks come on
# top.  Without it a file runs for a few seconds, as CI has it.  PV_SEED is the
# beginning of all that is random.  The same seed makes the same statements in the same
# order; which process comes first is not repeated.
package PvTorture;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

our @EXPORT = qw($seed pv_seconds pv_figure one_of chance);

our $seed = $ENV{PV_SEED} // 1;
srand $seed;
note "seed $seed";

# How many seconds a loop of a file may take that has this share of the time of the file;
# the second argument is the time of the loop without PV_SECONDS.
sub pv_seconds
{
	my ($share, $short) = @_;
	return $ENV{PV_SECONDS} ? $ENV{PV_SECONDS} * $share : $short;
}

# Report what was done, as a number of things: scripts/check shows these lines at the end,
# and docs/reliability.md quotes them.
sub pv_figure
{
	my ($number, $things) = @_;
	my ($file) = $0 =~ m{([^/]+)\.pl$};
	note "figure: $file: $number $things";
	return;
}

sub one_of { return $_[ int rand @_ ]; }

# True in this share of the calls
sub chance { return rand() < $_[0]; }

1;
