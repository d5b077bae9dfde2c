# The numbers of rows that VACUUM leaves in pg_class and in the statistics.  Pages that we
# skip are not counted, and are not typical for the table, so ours are estimates where
# those of stock VACUUM are counts or other estimates.  Over ten vacuums of each pattern
# of changes, ours must not be further from the truth than those of stock VACUUM, except
# for the error of a sample and a twentieth of the error of stock VACUUM: the borders of
# the workers' ranges cut some of the long runs that stock VACUUM skips, so the two do
# not estimate the same pages.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

# More pages than the rule of core needs, also if half of them are changed, but few
# enough for a quick test
my $pages = $ENV{PV_PAGES} // 1500;

my $node = pv_node('reltuples');
$node->start;
pv_sql($node, 'CREATE EXTENSION parvacuum; ' . slurp_file("$FindBin::RealBin/../reltuples.sql"));

# How much further ours is than stock VACUUM at worst, in percent of the rows, and how
# much further it may be; a line for each relation, table and TOAST table.
my $verdict_sql = q{
	WITH error AS (
		SELECT pattern, step, tab, rel, truth, r.pages,
			100 * abs(reltuples - truth) / truth AS in_class, 100 * abs(n_live_tup - truth) / truth AS in_stats
		FROM reltuples.result r WHERE pattern = '%s')
	SELECT o.tab, o.rel, count(*), min(o.pages), max(o.in_class - 1.05 * s.in_class) <= min(p.noise) AND max(o.in_stats - 1.05 * s.in_stats) <= min(p.noise),
		format('further in pg_class by %%s %%%%, in the statistics by %%s %%%%, allowed %%s; stock is off by %%s',
			max(o.in_class - s.in_class), max(o.in_stats - s.in_stats), min(p.noise), max(s.in_class))
	FROM error o JOIN error s USING (pattern, step, rel) JOIN reltuples.pattern p USING (pattern)
	WHERE s.tab = 'stock' AND o.tab <> 'stock' GROUP BY 1, 2 ORDER BY 1, 2};

my $most_pages = 0;
my @patterns = split /\n/, pv_sql($node, 'SELECT pattern FROM reltuples.pattern ORDER BY ord');
cmp_ok(scalar @patterns, '>=', 20, 'the script has patterns');
for my $n (0 .. $#patterns)
{
	my $pattern = $patterns[$n];
	my $tabs = $n % 2 ? 'stock,workers' : 'stock,ours';
	pv_sql($node, qq{
		SET client_min_messages = warning;
		\\o /dev/null
		SELECT s FROM reltuples.statements('$pattern', $pages, 10, '{$tabs}') WITH ORDINALITY s(s, n) ORDER BY n \\gexec});
	my @verdicts = split /\n/, pv_sql($node, sprintf $verdict_sql, $pattern);
	note "$pattern: $_" for @verdicts;
	cmp_ok(scalar @verdicts, '>', 0, "$pattern: measured");
	for (@verdicts)
	{
		my ($tab, $rel, $vacuums, $least_pages, $good, $detail) = split /\|/;
		is("$vacuums $good", '10 t', "$pattern: $rel, $tab: never further from the truth than stock VACUUM") or diag $detail;
		$most_pages = $least_pages if $least_pages > $most_pages;
	}
}
cmp_ok($most_pages, '>', 1024, 'the tables are large enough for short runs to be skipped');

# Skipped pages are not read, and pages that are read are reported: the sample is part of
# them.  A fifth of the pages has to be read.
my $skipped_sql = q{
	CREATE TABLE reading (id int, v int, pad text) WITH (autovacuum_enabled = off);
	INSERT INTO reading SELECT g, 0, repeat('x', 1800) FROM generate_series(0, 23999) g;
	VACUUM (FREEZE) reading;
	DELETE FROM reading WHERE id % 20 = 0};
pv_sql($node, $skipped_sql);
my @read;
for my $setting ('sample_pages = 0', 'sample_pages = 512', "shortest_skip = 32")
{
	push @read, pv_sql($node, qq{
		SET parvacuum.$setting;
		SELECT pages_scanned, tuples_remaining FROM parvacuum_run('reading', workers => 0) WHERE relid = 'reading'::regclass;
		UPDATE reading SET v = v + 1 WHERE id % 20 = 1});
}
my ($none, $sample, $core) = map { (split /\|/)[0] } @read;
my @rows = map { (split /\|/)[1] } @read;
cmp_ok($none, '<=', 1220, 'without a sample, only pages that have to be read are read, and a few at the ends of ranges');
cmp_ok($sample, '>', $none + 120, 'a sample is read as well');
cmp_ok($sample, '<', $none + 450, 'the sample is small');
cmp_ok($core, '>=', 6000, 'by the rule of core, all pages are read');
is($rows[1], 22800, 'with equal pages the estimate is exact');
is($rows[2], 22800, 'the count of all pages is exact');

done_testing();
