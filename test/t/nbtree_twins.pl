# Several participants in B-trees against core: the indexes of a twin that stock VACUUM has
# vacuumed.  Mass deletions, all sorts of indexes, more indexes than are vacuumed together.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvNbtree;
use PvTest;
use Test::More;

nbtree_start('nbtree_twins');

#
# Twins, one of which core vacuums
#
sub on_both { return map { my $s = $_; map { $s =~ s/\$T/$_/gr } qw(stock ours) } @_; }

my $counts = q{
	SELECT replace(relname, '%1$s_', ''), relpages, reltuples, page_types(oid),
		(SELECT count(*) FROM pg_freespace(oid) WHERE avail > 0), (SELECT last_cleanup_num_delpages FROM bt_metap(relname))
	FROM pg_class WHERE relname LIKE '%1$s\_%%' AND relkind = 'i' ORDER BY 1};

# Vacuums both twins and compares them.  Returns the lines of stock VACUUM about the
# indexes, and sets the number of our index scans.
my $index_scans;

sub vacuum_twins
{
	my ($workers, $what, $setting) = @_;
	my %said;
	my %vacuum = (
		stock => 'VACUUM (VERBOSE, INDEX_CLEANUP on, TRUNCATE off, PARALLEL 0) stock',
		ours => ($setting // '') . "SELECT index_scans
			FROM parvacuum_run('ours', workers => $workers, index_cleanup => 'on', truncate => false, verbose => true) WHERE relid = 'ours'::regclass");

	sql('SELECT pg_current_xact_id()');
	for my $twin (qw(stock ours))
	{
		my ($rc, $out, $err) = $node->psql('postgres', $vacuum{$twin});
		is($rc, 0, "$what: $twin is vacuumed") or diag $err;
		$index_scans = $out;
		$said{$twin} = join "\n", sort map { /index "${twin}_(.*: pages: .*)/ ? $1 : () } split /\n/, $err;
	}
	is($said{ours}, $said{stock}, "$what: both vacuums report the same about all indexes");
	is(sql(q{
		SELECT * FROM oracle.compare('stock', 'ours', false, true) WHERE what NOT IN ('n_live_tup', 'n_dead_tup', 'vacuum_count')
		UNION ALL SELECT * FROM oracle.check_table('ours')}), '', "$what: the twins are equal and whole");
	is(sql(sprintf $counts, 'ours'), sql(sprintf $counts, 'stock'), "$what: the counts in the catalogs are equal");
	return $said{stock};
}

#
# Nine tenths of a range of keys are deleted, in an index where the keys are in the order of
# the heap, and in one where they are not and have duplicates.  Also with several index
# scans, for which the table has more segments than there are participants.
#
for my $case ([ 2, 0, '' ], [ 0, 0, '' ], [ 2, 1000, 'SET parvacuum.store_limit = 1; ' ])
{
	my ($workers, $width, $setting) = @$case;
	my $what = "mass delete, $setting$workers workers";
	sql('SET client_min_messages = warning', 'DROP TABLE IF EXISTS stock, ours', on_both(
		'CREATE TABLE $T (id int, d text, pad text, more text) WITH (autovacuum_enabled = off)',
		'CREATE INDEX $T_d ON $T (d)',
		"INSERT INTO \$T SELECT i, lpad((abs(hashint4(i)) % 2000)::text, 100, '0'), repeat('p', 180), repeat('m', $width)
			FROM generate_series(1, 6000) i ORDER BY hashint4(-i)",
		'CREATE INDEX $T_id ON $T (id, pad)',
		q{DELETE FROM $T WHERE d::int BETWEEN 100 AND 1899}));
	like(vacuum_twins($workers, "$what, disorder", $setting), qr/^d": .* [4-9]\d newly deleted, \d+ currently deleted, 0 reusable\n/,
		"$what, disorder: pages are deleted");
	cmp_ok($index_scans, $setting ? '>' : '==', 1, "$what, disorder: index scans");

	# Pages that were deleted are a reason to scan the index even if nothing is dead.  Such a
	# scan does not count what is in posting lists.
	vacuum_twins($workers, "$what, nothing dead", $setting);
	is($index_scans, 0, "$what, nothing dead: no index scan");
	sql(on_both('DELETE FROM $T WHERE id BETWEEN 300 AND 5699'));
	like(vacuum_twins($workers, "$what, order", $setting), qr/^d": .* [4-9]\d reusable\nid": .* 1\d\d newly deleted/,
		"$what, order: pages are deleted, others are recyclable");
	like(vacuum_twins($workers, "$what, no row", $setting), qr/^id": .* 1\d\d reusable/, "$what, no row: the pages deleted before are recyclable");
	is($index_scans, 0, "$what, no row: no index scan was needed");
}

#
# All sorts of indexes: partly dead posting lists, duplicates without posting lists, a
# unique index with nulls, several columns, an index too small for several participants.
#
my %sorts = (
	posting => '(k) WITH (fillfactor = 10)',
	single => '(k) WITH (fillfactor = 40, deduplicate_items = off)',
	columns => '(k DESC, id, pad)',
	small => '(k) WHERE id < 1000');
for my $workers (2, 0)
{
	my $what = "sorts, $workers workers";
	sql('SET client_min_messages = warning', 'DROP TABLE IF EXISTS stock, ours', on_both(
		'CREATE TABLE $T (id int, k int, u int, pad text) WITH (autovacuum_enabled = off)',
		q{INSERT INTO $T SELECT i, i % 100, nullif(i % 3, 1) * 10000 + i, repeat('p', 50) FROM generate_series(1, 9000) i},
		'CREATE UNIQUE INDEX $T_unique ON $T (u) WITH (fillfactor = 40)',
		map({ "CREATE INDEX \$T_$_ ON \$T $sorts{$_}" } sort keys %sorts),
		'DELETE FROM $T WHERE id % 7 < 3 OR k BETWEEN 5 AND 9'));
	is(sql(q{SELECT string_agg(substr(relname, 6), ' ' ORDER BY relname) FROM pg_class
		WHERE relname LIKE 'ours%' AND relkind = 'i' AND relpages >= 32}), 'columns posting single unique', "$what: all others are large enough");
	vacuum_twins($workers, $what);
}

# The same with splits
{
	my $what = 'sorts, with splits';
	my @large = map { "ours_$_" } qw(columns posting single unique);
	my %split;
	my $last = 9000;
	my $gone = sql('WITH gone AS (DELETE FROM ours WHERE id % 7 = 3 OR k = 50 RETURNING 1) SELECT count(*) FROM gone');

	close_gate();
	my $run = start_vacuum('ours', 2, 'range', %slow);
	all_stand(3, 0, "$what: all participants wait");
	do
	{
		if ($last < 20000)
		{
			sql("INSERT INTO ours SELECT i, 30 + i % 4, nullif(i % 3, 1) * 10000 + i, repeat('p', 50) FROM generate_series($last + 1, $last + 2000) i");
			$last += 2000;
		}
		for my $index (@large)
		{
			my $split = sql("SELECT stamped_pages('$index')");
			$split{$index} = $split if $split > ($split{$index} // 0);
		}
		step();
	} while (until_stopped() > 0);
	open_gate();
	note "$what: $last rows";
	cmp_ok($split{$_}, '>', 3, "$what: $_ has pages that were split") for @large;
	finish_vacuum($run, 2, $gone, 'ours', $what);
}

#
# More B-trees than may be vacuumed together: the largest ones are.
#
{
	my $what = 'many';
	my ($autovacuum, $special) = $node->pg_version >= 18 ? ('autovacuum_worker_slots', 2) : ('autovacuum_max_workers', $node->pg_version >= 17 ? 2 : 1);
	my $cap = sql(qq{SELECT (sum(setting::int) + $special) / 8 FROM pg_settings
		WHERE name IN ('max_connections', '$autovacuum', 'max_worker_processes', 'max_wal_senders')});
	cmp_ok($cap, '<', 20, "$what: the limit is below the number of indexes");
	sql('SET client_min_messages = warning', 'DROP TABLE IF EXISTS stock, ours', on_both(
		'CREATE TABLE $T (id int, pad text) WITH (autovacuum_enabled = off)',
		q{INSERT INTO $T SELECT i * 1000, lpad(i::text, 150, '0') FROM generate_series(1, 1800) i},
		map({ "CREATE INDEX \$T_$_ ON \$T (id, pad) WITH (fillfactor = " . (99 - 3 * $_) . ")" } 1 .. 24),
		'DELETE FROM $T WHERE id % 3 = 0'));
	is(sql(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'ours%' AND relkind = 'i' AND relpages >= 32}), 24, "$what: all indexes are large enough");
	vacuum_twins(2, $what);

	# A page of each index is split after the indexes that are vacuumed together have been
	# registered.
	my $gone = sql('WITH gone AS (DELETE FROM ours WHERE id % 7 = 0 RETURNING 1) SELECT count(*) FROM gone');
	close_gate();
	my $run = start_vacuum('ours', 2, 'range');
	all_stand(3, 0, "$what: all participants wait");
	sql(q{INSERT INTO ours SELECT 900000 + i, lpad(i::text, 150, '0') FROM generate_series(1, 100) i});
	is(sql(q{
		SELECT string_agg(together, ' ') FROM (
			SELECT i.relname || ':' || i.relpages AS together FROM pg_class i
			WHERE relname LIKE 'ours%' AND relkind = 'i' AND stamped_pages(i.oid) > 0 ORDER BY relpages DESC, oid) x}),
		sql(qq{
		SELECT string_agg(together, ' ') FROM (
			SELECT i.relname || ':' || i.relpages AS together FROM pg_class i
			WHERE relname LIKE 'ours%' AND relkind = 'i' ORDER BY relpages DESC, oid LIMIT $cap) x}),
		"$what: the largest indexes are vacuumed together");
	open_gate();
	finish_vacuum($run, 2, $gone, 'ours', $what);
}

unlike(slurp_file($node->logfile), qr/found deleted block|in an inconsistent state/, 'the log has no complaint of core');
pv_no_crash($node, 'the server');
nbtree_stop();
done_testing();
