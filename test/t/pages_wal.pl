# What freezing costs in WAL: parvacuum freezes pages where that needs no more records and
# no more bytes than stock VACUUM writes.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvPages;
use PvTest;
use Test::More;

pages_node('pages_wal', '');

# One test: vacuum both twins.  Returns the WAL records and bytes of each vacuum, and our
# records of the heap as text.
sub vacuum_for_wal
{
	my (%set) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join "\n", (map { "SET $_ = $set{$_};" } sort keys %set), q{
		SELECT pg_current_wal_insert_lsn() AS l1 \gset
		VACUUM (VERBOSE, INDEX_CLEANUP on) stock;
		SELECT pg_current_wal_insert_lsn() AS l2 \gset
		SELECT wal_records, wal_bytes FROM parvacuum_run('ours', workers => 2, index_cleanup => 'on') WHERE relid = 'ours'::regclass;
		SELECT pg_logical_emit_message(true, 'pages', 'x'), pg_current_wal_insert_lsn() AS l3 \gset
		SELECT string_agg(format('%s %s/%s', kind, records, images), ', ' ORDER BY kind) FROM pages.records('ours', :'l2', :'l3')
			WHERE kind IN ('PRUNE', 'VACUUM', 'FREEZE_PAGE');
	});
	is($rc, 0, 'both vacuums succeed') or diag $err;
	my %wal;
	(@wal{qw(ours_records ours_bytes heap)}) = $out =~ /(\d+)\|(\d+)\n(.*)/;
	(@wal{qw(stock_records stock_bytes)}) = $err =~ /WAL usage: (\d+) records, \d+ full page images, (\d+) bytes/;
	return %wal;
}

sub cost_is
{
	my ($what, $heap, %wal) = @_;
	is($wal{heap}, $heap, "$what: records of the heap, and the number of those with images");
	cmp_ok($wal{ours_records}, '<=', $wal{stock_records}, "$what: no more records than stock VACUUM");
	cmp_ok($wal{ours_bytes}, '<=', $wal{stock_bytes}, "$what: no more bytes than stock VACUUM");
	is(pv_sql($node, q{SELECT * FROM oracle.check_table('ours')}), '', "$what: the table is whole");
	return;
}

# From 19 on the records of the heap also set the visibility map, and the first one of
# them has an image of its page.
my $sets_map = $version->major >= 19 ? 1 : 0;

# About twenty pages, each with dead rows
for my $change ('DELETE FROM $T WHERE id % 10 = 0', 'UPDATE $T SET v = 1 WHERE id % 10 = 0')
{
	my $verb = $change =~ /^(\w+)/ ? $1 : '';

	# Pruning logs an image of the page.  From 16 on the page is then frozen by another
	# record, and from 17 on by the same one.
	fixed(4000, 80);
	run(transaction('COMMIT', $change));
	run('CHECKPOINT');
	my %wal = vacuum_for_wal();
	my ($pages) = frozen_pages('ours') =~ /of (\d+)/;
	cost_is("$verb, images due", ($version >= 16 && $version < 17 ? "FREEZE_PAGE $pages/0, " : '')
		  . "PRUNE $pages/$pages" . ($verb eq 'DELETE' ? ", VACUUM $pages/$sets_map" : ''), %wal);
	is(frozen_pages('ours'), ($version < 16 ? 0 : $pages) . " of $pages", "$verb, images due: all-frozen pages");

	# The image was logged by the statement that made rows dead.  Freezing would need one
	# more record.
	fixed(4000, 80);
	run('CHECKPOINT');
	run(transaction('COMMIT', $change));
	%wal = vacuum_for_wal();
	cost_is("$verb, no images due", "PRUNE $pages/" . ($verb eq 'DELETE' ? "0, VACUUM $pages/$sets_map" : $sets_map), %wal);
	is(pv_sql($node, q{SELECT count(*) FROM pages.tuples('ours') WHERE mask & 768 = 768}), 0, "$verb, no images due: no row is frozen");
}

for my $image (0, 1)
{
	my $what = 'old and young' . ($image ? ', images due' : '');

	# On 15, all rows of a page are frozen only if the record has an image instead of plans.
	my $whole = $version >= 16 || $image;
	old_and_young();
	run(transaction('COMMIT', 'INSERT INTO $T SELECT i, 0 FROM generate_series(2001, 6000) i'));
	run('CHECKPOINT') if $image;
	my %wal = vacuum_for_wal(vacuum_freeze_min_age => 30);
	my $old = pv_sql($node, q{SELECT count(DISTINCT (ctid::text::point)[0]) FROM ours WHERE id <= 2000});
	my $all = pv_sql($node, q{SELECT oracle.nblocks('ours')});
	cost_is($what, ($version < 17 ? 'FREEZE_PAGE' : 'PRUNE') . ' ' . ($sets_map ? $all : $old) . '/' . ($image ? $old : 0), %wal);
	is(pv_sql($node, $of_ages =~ s/\$T/ours/gr), $whole ? 'f f f, t t t' : 'f f f, t t f', "$what: frozen rows in pages without and with old ones");
	is(pv_sql($node, $of_ages =~ s/\$T/stock/gr), $version < 16 ? 'f f f, t t f' : 'f f f, t t t', "$what: the same by stock VACUUM");
}

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
