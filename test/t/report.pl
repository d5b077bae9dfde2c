# The report of VACUUM (VERBOSE) about a table: it has each line that stock VACUUM has,
# with the same numbers and in the same order.  From 18 on, also the pages that are read
# only to be frozen early, with the budgets of both kinds, and the time slept.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('report');
$node->append_conf('postgresql.conf', 'autovacuum_naptime = 1s');
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

# The report of a vacuum, after settings for it
sub said
{
	my ($table, $options, @settings) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join ";\n", @settings, "VACUUM (VERBOSE $options) $table");
	is($rc, 0, "$table is vacuumed") or diag $err;
	return $err;
}

# The lines of the report, without those that differ between any two vacuums
sub facts
{
	my ($said) = @_;
	my @lines = grep { /^(?:INFO:  finished|pages|tuples|removable|new relminmxid|new relfrozenxid|frozen|visibility map|index scan|index ".*: pages|WAL usage)/ } split /\n/, $said;
	@lines = map { s/\b(?:stock|ours)/it/gr } @lines;
	s/^(removable cutoff|new rel\w+): .*/$1/ for @lines;
	s/\d+/some/g for grep { /^WAL usage/ } @lines;
	return @lines;
}

sub same_lines
{
	my ($what, $before, $options, @settings) = @_;
	my %facts;
	for my $twin (qw(stock ours))
	{
		sql(map { s/%s/$twin/gr } 'DROP TABLE IF EXISTS %s', @$before);
		sql('ALTER TABLE ours SET (parvacuum.enabled)') if $twin eq 'ours';
		$facts{$twin} = [ facts(said($twin, $options, @settings)) ];
	}
	my @stock = @{ $facts{stock} };
	my @all = @{ $facts{ours} };
	my %stock = map { s/:.*//r => 1 } @stock;
	my @ours = grep { $stock{s/:.*//r} } @all;
	cmp_ok(scalar @stock, '>=', 4, "$what: stock VACUUM has a report");
	is_deeply(\@ours, \@stock, "$what: each line is the same") or diag join "\n", @all;
	like(join("\n", @all), qr/^frozen: .*(?:\n.*)*\nvisibility map: /m, "$what: ours reports more on older servers");
	return @all;
}

# Consume transaction IDs.  The commits do not wait for WAL, and hint bits for them are
# not set before it is flushed, so a commit that flushes follows.
sub burn
{
	my ($n) = @_;
	return ("DO \$\$ BEGIN FOR i IN 1 .. $n LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END \$\$",
		'DROP TABLE IF EXISTS flushed', 'CREATE TABLE flushed ()');
}

my @rows = ('CREATE TABLE %s (a int, b int) WITH (autovacuum_enabled = off)', 'INSERT INTO %s SELECT i, i FROM generate_series(1, 20000) i');
same_lines('rows deleted, no index', [ @rows, 'DELETE FROM %s WHERE a % 3 = 0' ], '');
same_lines('rows deleted, two indexes', [ @rows, 'CREATE INDEX %s_a ON %s (a)', 'CREATE INDEX %s_b ON %s USING hash (b)', 'DELETE FROM %s WHERE a % 3 = 0' ], '');
same_lines('few of them', [ @rows, 'CREATE INDEX %s_a ON %s (a)', 'DELETE FROM %s WHERE a = 3' ], '');
same_lines('the indexes left out', [ @rows, 'CREATE INDEX %s_a ON %s (a)', 'DELETE FROM %s WHERE a % 3 = 0' ], ', INDEX_CLEANUP off');
same_lines('the end cut off', [ @rows, 'DELETE FROM %s WHERE a > 5000' ], '');
same_lines('workers', [ @rows, 'CREATE INDEX %s_a ON %s (a)', 'DELETE FROM %s WHERE a % 3 = 0' ], ', PARALLEL 2');
same_lines('an empty table', [ $rows[0] ], '');
my @all = same_lines('FREEZE', \@rows, ', FREEZE');
ok((grep { /^frozen: .*had 20000 tuples frozen/ } @all), 'FREEZE: frozen tuples are counted');
@all = same_lines('FREEZE after all-visible', [ @rows, 'VACUUM %s' ], ', FREEZE');
ok((grep { /^visibility map: 0 pages set all-visible, (\d+) pages set all-frozen \(\1 were all-visible\)/ } @all), 'FREEZE of all-visible pages: the bits are counted');

# From 16 on, all tuples of a page are frozen if one has to be, including multixacts.
same_lines('an old row and a multixact',
	[ $rows[0], 'INSERT INTO %s VALUES (1)', burn(200), 'INSERT INTO %s VALUES (2), (3)',
		'BEGIN', 'SELECT FROM %s WHERE a = 3 FOR KEY SHARE', 'SAVEPOINT s', 'SELECT FROM %s WHERE a = 3 FOR UPDATE', 'COMMIT' ],
	'', 'SET vacuum_freeze_min_age = 100');

#
# The times of each index
#
sub index_lines
{
	my %index;
	$index{$1} = { entries => $2, pages => $3, ms => $4, rest => $5 }
	  while $_[0] =~ /^index "(\w+)": (\d+) entries removed, (\d+) pages, took (\d+\.\d+) ms(.*)$/mg;
	return %index;
}

sql('CREATE TABLE timed (a int, b int, c int[]) WITH (autovacuum_enabled = off, parvacuum.enabled)', 'CREATE INDEX timed_a ON timed (a)', 'CREATE INDEX timed_b ON timed USING hash (b)',
	'CREATE INDEX timed_c ON timed USING gin (c)', 'CREATE INDEX timed_d ON timed (a) WHERE a < 10');
for my $workers (0, 2)
{
	my $what = "indexes, $workers workers";
	sql('TRUNCATE timed', 'INSERT INTO timed SELECT i, i, ARRAY[i] FROM generate_series(1, 60000) i', q{SELECT gin_clean_pending_list('timed_c')}, 'DELETE FROM timed WHERE a % 3 = 0');
	my $said = said('timed', ", PARALLEL $workers", 'SET vacuum_cost_delay = 5', 'SET vacuum_cost_limit = 200', 'SET vacuum_cost_page_hit = 5', 'SET vacuum_cost_page_dirty = 20');
	my %index = index_lines($said);
	my ($vacuum, $cleanup) = $said =~ /^phases: .*index vacuum (\S+) ms.*index cleanup (\S+) ms/m;
	my $sum = 0;
	$sum += $_->{ms} for values %index;

	is(join(' ', map { "$_:$index{$_}{entries}" } sort keys %index), 'timed_a:20000 timed_b:20000 timed_c:20000 timed_d:3', "$what: a line for each index, with its entries");
	is($index{$_}{pages}, sql("SELECT pg_relation_size('$_') / 8192"), "$what: pages of $_") for qw(timed_a timed_b timed_c);
	like($index{timed_a}{rest}, qr/^, vacuumed by several processes, the last \d+\.\d+ ms by one of them, pages visited again after splits: 0$/, "$what: several participants have vacuumed one index");
	is($index{$_}{rest}, '', "$what: one participant has vacuumed $_") for qw(timed_b timed_c timed_d);
	for my $index (qw(timed_a timed_b timed_c))
	{
		cmp_ok($index{$index}{ms}, '>', 20, "$what: real time of $index");
		cmp_ok($index{$index}{ms}, '<=', $vacuum + $cleanup, "$what: each time is within the times of the phases");
	}
	cmp_ok($sum, '>', ($vacuum + $cleanup) * 0.7, "$what: the sum is not less than the times of the phases");
	cmp_ok($sum, '<=', $vacuum + $cleanup, "$what: without workers, the sum is the time of the phases") if $workers == 0;
}
sql('DROP TABLE timed');

#
# The report of CALL: rows that remain, and the reason
#
{
	sql('CREATE TABLE called (a int, b text) WITH (autovacuum_enabled = off)', 'INSERT INTO called SELECT generate_series(1, 1000)');
	my $sees = $node->background_psql('postgres');
	$sees->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM called');
	sql('DELETE FROM called WHERE a <= 300', burn(5));
	my ($rc, $out, $err) = $node->psql('postgres', q{CALL parvacuum('called')});
	like($err, qr/NOTICE:  vacuumed table "public\.called"\nDETAIL:  0 rows were removed, 700 remain, and 300 are dead but not yet removable\.  The removable cutoff was transaction ID \d+, which is \d+ XIDs old now\./,
		'CALL: the rows that remain');
	my ($age) = $err =~ /which is (\d+) XIDs old/;
	cmp_ok($age // 0, '>=', 6, 'CALL: the age of the horizon');
	like($err, qr/HINT:  Old transactions, prepared transactions, replication slots, and standbys/, 'CALL: what may hold it back');
	my $toast = sql(q{SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'called'});
	like($err, qr/NOTICE:  vacuumed TOAST table "\Q$toast\E" of table "public\.called"\nDETAIL:  0 rows were removed, 0 remain, and 0 are dead/, 'CALL: a message for the TOAST table');
	$sees->query_safe('COMMIT');
	$sees->quit;
	($rc, $out, $err) = $node->psql('postgres', q{CALL parvacuum('called')});
	like($err, qr/DETAIL:  300 rows were removed, 700 remain, and 0 are dead but not yet removable\./, 'CALL: no rows remain in the next vacuum');
	unlike($err, qr/HINT:/, 'CALL: no hint without remaining rows');
	sql('INSERT INTO called SELECT generate_series(1001, 60000)', 'VACUUM called', 'DELETE FROM called WHERE a = 999');
	($rc, $out, $err) = $node->psql('postgres', q{CALL parvacuum('called')});
	like($err, qr/DETAIL:  1 rows were removed, about \d+ remain/, 'CALL: an estimate is reported as such');
	sql('DROP TABLE called');
}

#
# Pages that are frozen early
#

# 12000 pages of one row each, all-visible.  The first ones are older than the age from
# which pages count as old.
sub make_pages
{
	my ($table, $old) = @_;
	sql("CREATE TABLE $table (a int, b text) WITH (fillfactor = 10, autovacuum_enabled = off, parvacuum.enabled)",
		"INSERT INTO $table SELECT i, repeat('x', 500) FROM generate_series(1, $old) i",
		burn(200),
		"INSERT INTO $table SELECT i, repeat('x', 500) FROM generate_series($old + 1, 12000) i",
		"VACUUM $table", burn(20));
	return;
}

sub all_frozen { return sql("SELECT count(*) FILTER (WHERE all_frozen) FROM pg_visibility_map('$_[0]')"); }

# The decision about a page is made some time before it is visited.
my $ahead = 32;

SKIP:
{
	skip 'eager scanning came with 18', 1 if $node->pg_version < 18;
	my @old = ('SET vacuum_freeze_min_age = 100');
	my $eager = qr/, (\d+) eagerly scanned$/m;

	for my $workers (0, 2)
	{
		my $what = "$workers workers";
		my $most = $ahead * ($workers + 1);

		make_pages('early', 12000);
		is(all_frozen('early'), 0, "$what: no page is frozen yet");
		is(sql(q{SELECT count(*) FILTER (WHERE all_visible) FROM pg_visibility_map('early')}), 12000, "$what: all pages are all-visible");
		said('early', ", PARALLEL $workers", @old) =~ $eager or die 'nothing is said of it';
		cmp_ok($1, '>=', 2400, "$what: a fifth of the pages is read");
		cmp_ok($1, '<=', 2400 + $most, "$what: no more than a fifth is read");

		# The last page is always read.  If the last eager page is near the end of its
		# process's range of pages, the rest of the range is too short to be skipped.
		my ($read, $frozen) = ($1 + 1, all_frozen('early'));
		cmp_ok($frozen, '>=', $read, "$what: these pages are frozen, and the last page");
		cmp_ok($frozen, '<=', $read + 31 * $workers, "$what: no others are, but those that are not worth skipping");
		is(sql(q{SELECT relallfrozen FROM pg_class WHERE relname = 'early'}), $frozen, "$what: pg_class has the number of frozen pages");
		is(sql(q{SELECT * FROM oracle.check_table('early')}), '', "$what: the table is whole");

		make_pages('late', 10);
		said('late', ", PARALLEL $workers", @old) =~ $eager or die 'nothing is said of it';

		# three per cent of a region of 4096 pages, of which two are whole
		cmp_ok($1, '>=', 2 * 122, "$what: some pages that cannot be frozen are read");
		cmp_ok($1, '<=', 4 * (122 + $most), "$what: few pages that cannot be frozen are read");
		cmp_ok(all_frozen('late'), '<=', 10, "$what: these pages are not frozen");

		said('late', ", PARALLEL $workers", @old, 'SET vacuum_max_eager_freeze_failure_rate = 0') =~ $eager or die 'nothing is said of it';
		is($1, 0, "$what: no page is read early at a rate of 0");
		sql('DROP TABLE early, late');
	}

	make_pages('by_run', 12000);
	sql(@old, q{SELECT parvacuum_run('by_run', workers => 0)});
	cmp_ok(all_frozen('by_run'), '>=', 2400, 'parvacuum_run() freezes pages early, too');

	make_pages('option', 12000);
	sql('ALTER TABLE option SET (vacuum_max_eager_freeze_failure_rate = 0)');
	said('option', '', @old) =~ $eager or die 'nothing is said of it';
	is($1, 0, 'the option of the table applies');

	# by the scheduler, whichever engine vacuums the table
	make_pages($_, 12000) for qw(scheduled stock_engine);
	sql('ALTER TABLE stock_engine SET (parvacuum.enabled = off)',
		map({ "ALTER TABLE $_ SET (autovacuum_freeze_min_age = 100)" } qw(scheduled stock_engine)));
	pv_reload_with($node, 'parvacuum.scheduler' => 'on');
	for my $table (qw(scheduled stock_engine))
	{
		sql("SELECT parvacuum_enqueue('$table')");
		ok(pv_await($node, "SELECT count(*) FROM parvacuum_queue WHERE relid = '$table'::regclass", 0), "$table: it is vacuumed");
		cmp_ok(all_frozen($table), '>=', 2400, "$table: a fifth of the pages is frozen");
		cmp_ok(all_frozen($table), '<', 2400 + 1000, "$table: not all pages are frozen");
	}
	pv_reload_with($node, 'parvacuum.scheduler' => 'off');

	# the time that all participants have slept
	for my $workers (0, 2)
	{
		said('option', ", FREEZE, DISABLE_PAGE_SKIPPING, PARALLEL $workers", 'SET track_cost_delay_timing = on', 'SET vacuum_cost_delay = 1', 'SET vacuum_cost_limit = 500')
		  =~ /^delay time: (\d+\.\d+) ms$/m or die 'nothing is said of it';
		cmp_ok($1, '>', 20, "$workers workers: the time that all participants have slept");
	}
	unlike(said('option', ''), qr/delay time/, 'no time is reported without the setting');
}

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
