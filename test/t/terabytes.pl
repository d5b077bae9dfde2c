# Tables of more than 4 TB, of which a few megabytes are not sparse: every size that is computed
# from a number of pages has more than 32 bits.  The visibility map says that the pages in
# between are all-frozen.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $blocks = 4096 * 131072 + 8;    # 4 TB and 64 kB
my $first = $blocks - 8;           # from here on, the map has no bits

# Neither the map nor what the vacuum reads is displaced by other pages.
my $node = pv_node('terabytes');
$node->append_conf('postgresql.conf', 'shared_buffers = 512MB');
$node->start;
pv_sql($node, q{
	CREATE EXTENSION parvacuum;
	CREATE EXTENSION amcheck;
	CREATE EXTENSION pg_buffercache;
	CREATE TABLE t (id int, pad text) WITH (autovacuum_enabled = off, parvacuum.enabled);
	ALTER TABLE t ALTER pad SET STORAGE PLAIN;
	INSERT INTO t SELECT i, repeat('x', 1900) FROM generate_series(1, 12000) i;
	CREATE INDEX ON t (id);
	VACUUM (FREEZE) t;
});
my $path = pv_sql($node, q{SELECT pg_relation_filepath('t')});
$node->stop;

# A page of the map has a page header and two bits for each of 32672 blocks.
sub write_map
{
	my ($file, $n) = @_;
	my $header = pack 'x8 S S S S S S L', 0, 0, 24, 8192, 8192, 8192 | 4, 0;
	my $page = $header . "\xff" x 8168;

	open my $map, '>:raw', $file or die "$file: $!";
	print {$map} $page for 1 .. int($n / 32672);
	print {$map} $header . "\xff" x int($n % 32672 / 4) . "\0" x (8168 - int($n % 32672 / 4));
	close $map or die "$file: $!";
	return;
}

pv_lengthen($node, $path, $blocks);
pv_lengthen($node, "${path}_fsm", 140_000);
write_map($node->data_dir . "/${path}_vm", $first);
$node->start;

# The table has its rows at the beginning, and these at its end.
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
my $run = 'SELECT pages_total, pages_scanned, tuples_removed, relfrozenxid_advanced, index_scans > 1, workers_launched FROM parvacuum_run';
pv_sql($node, 'SELECT pg_current_xact_id()');
pv_sql($node, q{INSERT INTO t SELECT i, repeat('x', 1900) FROM generate_series(12001, 18000) i});
my $length = pv_sql($node, q{SELECT pg_relation_size('t') / 8192});
cmp_ok($length, '>', $blocks, 'rows are added at the end');
pv_sql($node, "$by_index DELETE FROM t WHERE id > 11000 AND id % 2 = 0");

my $at_end = $length - $first;
my $visited = 250 + $at_end;
is(pv_sql($node, q{SELECT pages_total, pages_to_scan FROM parvacuum_plan('t', workers => 2) WHERE relid = 't'::regclass}), "$length|$visited", 'the plan: pages');
is(pv_sql($node, "SET parvacuum.store_limit = 1; $run('t', workers => 2, index_cleanup => 'on') WHERE relid = 't'::regclass"),
	"$length|$visited|3500|t|t|2", 'with an index: pages, dead rows at both ends');
is(pv_sql($node, "$by_index SELECT count(*) FROM t WHERE id > 11000"), 3500, 'the other rows are there');
is(pv_sql($node, q{SELECT bt_index_check('t_id_idx')}), '', 'the index is whole');
is(pv_sql($node, q{SELECT max(pages_total) FROM parvacuum_history WHERE relid = 't'::regclass}), $length, 'the history: pages');

# Without indexes; pages of zeroes are read again each time
pv_sql($node, 'DROP INDEX t_id_idx');
pv_sql($node, "DELETE FROM t WHERE ctid >= '($first,0)' AND id % 4 = 1");
$node->restart;
# since PostgreSQL 16 the rows at the end are frozen
my $advanced = $node->pg_version >= 16 ? 't' : 'f';
is(pv_sql($node, "$run('t', workers => 0) WHERE relid = 't'::regclass"), "$length|$at_end|1500|$advanced|f|0", 'without an index: pages, dead rows');
cmp_ok(pv_sql($node, "SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0"),
	'>', 400, 'the vacuum of a large table uses a large ring');

is(pv_sql($node, q{SELECT relallvisible >= 536870912 AND relpages > 536870912 FROM pg_class WHERE relname = 't'}), 't', 'the statistics');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
