# Tables whose rows have histories made up at random: each is vacuumed by parvacuum, and its
# twin by stock VACUUM.  Both must leave the same line pointers, tuples, page headers and maps,
# page by page.  Small twins are compared in SQL, with their figures and WAL records, and
# large ones in C.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvPages qw(pages_node connect_all disconnect_all trial $node);
use PvTest;
use PvTorture;
use PvTwins;
use Test::More;
use Time::HiRes qw(time);

# A checkpoint that comes by itself would pin pages while one of the twins is vacuumed, and
# so would a process that looks for a buffer to evict.
pages_node('torture_pages', "max_wal_size = 8GB\nshared_buffers = 1GB\n");

# Small twins first: their share of the time is small, but each of them is looked at closely.
my $n = 0;
if (pv_sql($node, "SELECT count(*) FROM pg_available_extensions WHERE name = 'parvacuum_test'"))
{
	my $end = time + pv_seconds(0.85, 5);
	twins_connect($node);
	while (time < $end)
	{
		twins_round($seed + $n++) or last;
	}
	twins_disconnect();
	is($done{apart} <= 1 + $n / 20, 1, "nearly all twins stay twins until they are vacuumed ($done{apart} of $n do not)");
}
else
{
	note 'not tested: large twins, because parvacuum_test is not installed';
}

connect_all();
my $end = time + pv_seconds(0.15, 2);
$n = 0;
while (time < $end)
{
	trial($seed + $n++, 1) or last;
}
disconnect_all();
pv_figure($done{pages}, 'pages compared with those of stock VACUUM');
pv_figure($done{changed}, 'of these pages had changed since they were compared before');
pv_figure($done{entries}, 'index entries compared with those of stock VACUUM');
pv_figure($n, 'small tables with random histories compared in SQL, with their WAL records');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
