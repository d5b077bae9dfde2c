# Pages whose bits are wrong: the visibility map says that a page is all-visible and the
# page does not, or a page is marked all-visible although it has dead items or rows that
# not all may see.  Also hints for pruning that are out of date.  Such pages are written
# while the server is down.  parvacuum gives the warnings of stock VACUUM and leaves the
# page and the map as stock VACUUM does, with the same images in WAL.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvPages;
use PvTest;
use Test::More;

use constant { BLOCK => 8192, FLAGS => 10, PRUNE_XID => 20, ALL_VISIBLE => 4 };

# Hints are logged, so a page that is changed by a hint after a checkpoint gets an image
pages_node('pages_repair', "wal_log_hints = on\n");
my $major = $node->pg_version->major;

sub sql { return pv_sql($node, @_); }

# Change bytes of a file of the server that is down.
sub patch
{
	my ($file, $offset, $format, $change) = @_;
	my $length = length pack $format, 0;
	open(my $handle, '+<:raw', $node->data_dir . "/$file") or die "$file: $!";
	seek $handle, $offset, 0;
	read($handle, my $bytes, $length) == $length or die "$file: $!";
	seek $handle, $offset, 0;
	print $handle pack $format, $change->(unpack $format, $bytes);
	close $handle or die "$file: $!";
	return;
}

# What may be wrong with page 1 of a table
my %wrong = (
	page_is_marked => sub { patch($_[0], BLOCK + FLAGS, 'S', sub { $_[0] | ALL_VISIBLE }) },
	page_is_unmarked => sub { patch($_[0], BLOCK + FLAGS, 'S', sub { $_[0] & ~ALL_VISIBLE }) },
	map_is_set => sub { patch("$_[0]_vm", 24, 'C', sub { $_[0] | 4 }) },
	item_leads_nowhere => sub { patch($_[0], BLOCK + 24 + 4 * 2, 'L', sub { 100 | 2 << 15 }) },
	item_leads_to_zero => sub { patch($_[0], BLOCK + 24 + 4 * 2, 'L', sub { 2 << 15 }) },
	item_leads_to_row => sub { patch($_[0], BLOCK + 24 + 4 * 2, 'L', sub { 7 | 2 << 15 }) },
	item_leads_back => sub { patch($_[0], BLOCK + 24 + 4 * 2, 'L', sub { 2 | 2 << 15 }) },
	item_has_length => sub { patch($_[0], BLOCK + 24 + 4 * 2, 'L', sub { 7 | 2 << 15 | 1 << 17 }) },
	item_leads_to_dead => sub { patch($_[0], BLOCK + 24 + 4 * 2, 'L', sub { 5 | 2 << 15 }) },
	too_many_items => sub { patch($_[0], BLOCK + 12, 'S', sub { 24 + 4 * 400 }) },
	version_follows_itself => sub {
		my ($file) = @_;
		my $place;
		patch($file, BLOCK + 24 + 4 * 16, 'L', sub { $place = $_[0] & 0x7fff; $_[0] });
		patch($file, BLOCK + $place + 16, 'S', sub { 17 });
	},
	xmin_is_old => sub {
		my ($file) = @_;
		my $place;
		patch($file, BLOCK + 24 + 4 * 15, 'L', sub { $place = $_[0] & 0x7fff; $_[0] });
		patch($file, BLOCK + $place, 'L', sub { 4 });
		patch($file, BLOCK + $place + 20, 'S', sub { $_[0] | 0x100 });
	},
	hint_is_stale => sub { patch($_[0], BLOCK + PRUNE_XID, 'L', sub { 10 }) });

# The cases.  Two rows of page 1 are deleted, the 3rd and the 5th; "before" comes after
# that, in its own transaction.  19: what core of 19 warns of, with its tuple;
# old: what it warns of before.
my $unmarked = 'page is not marked all-visible but visibility map bit is set';
my $dead = 'dead line pointer found on page marked all-visible';
my $invisible = 'tuple not visible to all transactions found on page marked all-visible';
my $delete = 'DELETE FROM $T WHERE ctid IN (\'(1,3)\', \'(1,5)\')';
my $to_dead = 'VACUUM (INDEX_CLEANUP off) $T';
my @cases = (
	{ name => 'map', before => [], wrong => ['page_is_unmarked'], 19 => $unmarked, old => 1 },
	{ name => 'map_frozen', before => ['VACUUM (FREEZE) $T'], wrong => ['page_is_unmarked'], 19 => $unmarked, old => 1 },
	{ name => 'dead_items', before => [ $delete, $to_dead ], wrong => ['page_is_marked'], 19 => "$dead 5", old => 1 },
	{ name => 'dead_items_map', before => [ $delete, $to_dead ], wrong => [ 'page_is_marked', 'map_is_set' ], 19 => "$dead 5", old => 1 },
	{ name => 'dead_items_unmarked', before => [ $delete, $to_dead ], wrong => ['map_is_set'], 19 => $unmarked, old => 1 },
	{ name => 'dead_rows', before => [$delete], wrong => [ 'page_is_marked', 'map_is_set' ], 19 => "$dead 3", old => 1 },
	{ name => 'dead_chain', before => ['UPDATE $T SET v = 1 WHERE ctid = \'(1,2)\'', $delete, 'DELETE FROM $T WHERE v = 1'],
		wrong => ['page_is_marked'], 19 => "$dead 2", old => 1 },
	{ name => 'redirect', before => [ 'UPDATE $T SET v = 1 WHERE ctid = \'(1,2)\'', $to_dead, $delete, 'DELETE FROM $T WHERE v = 1' ],
		wrong => ['page_is_marked'], 19 => "$dead 2", old => 1 },
	{ name => 'in_progress', before => ["BEGIN; $delete; PREPARE TRANSACTION 'in_progress_\$T'"], wrong => ['page_is_marked'], 19 => "$invisible 3" },
	{ name => 'in_progress_map', before => ["BEGIN; $delete; PREPARE TRANSACTION 'in_progress_map_\$T'"],
		wrong => [ 'page_is_marked', 'map_is_set' ], 19 => "$invisible 3" },
	{ name => 'both', before => [ 'DELETE FROM $T WHERE ctid = \'(1,7)\'', "BEGIN; $delete; PREPARE TRANSACTION 'both_\$T'" ],
		wrong => ['page_is_marked'], 19 => "$invisible 3", old => 1 },
	{ name => 'both_dead_first', before => [ 'DELETE FROM $T WHERE ctid = \'(1,2)\'', "BEGIN; $delete; PREPARE TRANSACTION 'first_\$T'" ],
		wrong => ['page_is_marked'], 19 => "$dead 2", old => 1 },
	{ name => 'no_index', before => [ 'DROP INDEX $T_k', $delete ], wrong => ['page_is_marked'], 19 => "$dead 3" },
	{ name => 'no_index_items', before => [ $delete, $to_dead, 'DROP INDEX $T_k' ], wrong => ['page_is_marked'] },
	{ name => 'redirect_nowhere', before => [ $delete, $to_dead ], wrong => ['item_leads_nowhere'] },
	{ name => 'redirect_to_zero', before => [ $delete, $to_dead ], wrong => ['item_leads_to_zero'] },
	{ name => 'redirect_to_dead', before => [ $delete, $to_dead ], wrong => ['item_leads_to_dead'] },
	{ name => 'hint', before => [], wrong => ['hint_is_stale'] },
	{ name => 'hint_frozen', before => ['VACUUM (FREEZE) $T'], wrong => ['hint_is_stale'] },
	{ name => 'hint_unset', before => [$delete], wrong => ['hint_is_stale'] });

# Damage on which core fails an assertion, or writes where it should not.  Our vacuum
# leaves these line pointers unused, or fails with this error.
my @alone = (
	{ name => 'redirect_to_row', before => [ $delete, $to_dead, 'DELETE FROM $T WHERE ctid = \'(1,7)\'' ], wrong => ['item_leads_to_row'], unused => [ 3, 5, 7 ] },
	{ name => 'redirect_back', before => [ $delete, $to_dead, 'DELETE FROM $T WHERE ctid = \'(1,2)\'' ], wrong => ['item_leads_back'], unused => [ 2, 3, 5 ] },
	{ name => 'redirect_to_chain', before => [ $delete, $to_dead, 'UPDATE $T SET v = 1 WHERE ctid = \'(1,7)\'' ], wrong => ['item_leads_to_row'], unused => [ 3, 5 ] },
	{ name => 'redirect_to_live', before => [ $delete, $to_dead, 'DELETE FROM $T WHERE ctid = \'(1,8)\'' ], wrong => ['item_leads_to_row'], unused => [ 5, 8 ], asserts => 1 },
	{ name => 'redirect_back_to_live', before => [ $delete, $to_dead ], wrong => ['item_leads_back'], unused => [5], asserts => 1 },
	{ name => 'redirect_with_length', before => [ $delete, $to_dead, 'DELETE FROM $T WHERE ctid = \'(1,8)\'' ], wrong => ['item_has_length'], unused => [ 3, 5, 8 ], asserts => 1 },
	{ name => 'mark_of_dead_items', before => [ $delete, $to_dead ], wrong => ['page_is_marked'], left => 1 },
	{ name => 'many_items', before => [], wrong => ['too_many_items'], error => 'has 400 line pointers, which is more than it has room for' },
	{ name => 'old_inserter', before => ['UPDATE $T SET v = 1 WHERE ctid = \'(1,2)\''], wrong => ['xmin_is_old'], core_error => qr/found xmin 4 from before relfrozenxid \d/ },
	{ name => 'endless_chain', before => [ $delete, $to_dead, 'BEGIN; UPDATE $T SET v = 1 WHERE ctid = \'(1,2)\'; UPDATE $T SET v = 2 WHERE v = 1; COMMIT' ],
		wrong => [ 'item_leads_nowhere', 'version_follows_itself' ], error => 'has a chain of row versions that does not end' });

# Core asserts that a page which it changes has no such damage.
@alone = grep { !$_->{asserts} } @alone if sql('SHOW debug_assertions') eq 'on';

# A page that becomes all-visible is written although nothing else changes it.  The restart
# replays no WAL.
sql('CREATE TABLE marked (id int) WITH (autovacuum_enabled = off, parvacuum.enabled = on)', 'INSERT INTO marked SELECT generate_series(1, 1000)');
sql('SELECT count(*) FROM marked', 'CHECKPOINT');
sql('VACUUM (PARALLEL 0) marked');
$node->restart;
is(sql(q{SELECT count(*), count(*) FILTER (WHERE all_visible), count(*) FILTER (WHERE pd_all_visible) FROM pg_visibility('marked')}), '5|5|5',
	'pages that become all-visible stay so');

# A page without rows may never have been logged.  Its image is logged before a record that
# marks it, because a standby does not have the page.
sql('CREATE TABLE blank (id int) WITH (autovacuum_enabled = off, parvacuum.enabled = on)', q{SELECT oracle.append_pages('blank', 5, 'empty')});
my $since = sql('SELECT pg_current_wal_insert_lsn()');
sql('VACUUM (PARALLEL 0, TRUNCATE off) blank');
sql(q{SELECT pg_logical_emit_message(true, 'repair', 'x')});
is(sql(qq{SELECT count(DISTINCT blk) FROM pages.log('blank', '$since', pg_current_wal_flush_lsn()) WHERE image}), 5, 'pages without rows: images are logged');

# Three pages each, all-visible at first, which are not full enough to be pruned by readers.
# Transactions that stay open begin last.
for my $case (@cases, @alone)
{
	for my $kind (qw(stock ours))
	{
		my $table = "$case->{name}_$kind";
		sql("CREATE TABLE $table (id int, v int, pad text) WITH (fillfactor = 50, autovacuum_enabled = off, parvacuum.enabled = " . ($kind eq 'ours' ? 'on' : 'off') . ')',
			"INSERT INTO $table SELECT i, 0, repeat('x', 200) FROM generate_series(1, 45) i",
			"CREATE INDEX ${table}_k ON $table (id)");
		sql("VACUUM $table");
		$case->{$kind} = { file => sql("SELECT pg_relation_filepath('$table')"), table => $table };
	}
}
for my $prepared (0, 1)
{
	sql("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'older'") if $prepared;
	for my $case (@cases, @alone)
	{
		for my $kind (qw(stock ours))
		{
			sql($_ =~ s/\$T/$case->{$kind}{table}/gr) for grep { /PREPARE|COMMIT/ ? $prepared : !$prepared } @{ $case->{before} };
		}
	}
}
$node->stop;
for my $case (@cases, @alone)
{
	for my $kind (qw(stock ours))
	{
		$wrong{$_}->($case->{$kind}{file}) for @{ $case->{wrong} };
	}
}
$node->start;

# The warnings of a vacuum with their contexts, without the names of the twins; tests which
# engine it was.  The session has logged something before: else core does not know that
# images are due.
sub warnings_of
{
	my ($name, $kind) = @_;
	my ($rc, $out, $err) = $node->psql('postgres',
		"\\set SHOW_CONTEXT always\nSELECT pg_logical_emit_message(false, 'repair', 'x');\nVACUUM (VERBOSE, DISABLE_PAGE_SKIPPING, INDEX_CLEANUP on, PARALLEL 0) ${name}_$kind");
	is($rc, 0, "$name: the vacuum of $kind succeeds") or diag $err;
	is(!!($err =~ /engine: parvacuum/), $kind eq 'ours', "$name: the engine of $kind");
	my $warnings = join "\n", $err =~ /WARNING:  (.*(?:\n(?:CONTEXT:  |while |relation ).*)*)/g;
	return $warnings =~ s/${name}_$kind/TABLE/gr;
}

# The pages with their marks in the page and in the map; prune_xid only by its being set
sub pages_of
{
	my ($table) = @_;
	return sql(qq{
		SELECT b, h.lower, h.upper, h.flags & 7, h.prune_xid <> '0', m.all_visible, m.all_frozen
		FROM generate_series(0, oracle.nblocks('$table') - 1) b, page_header(get_raw_page('$table', 'main', b)) h, pg_visibility_map('$table', b) m
		ORDER BY 1});
}

for my $case (@cases)
{
	my $name = $case->{name};
	my (%warnings, %pages, %log);
	for my $kind (qw(stock ours))
	{
		my $table = $case->{$kind}{table};
		sql('CHECKPOINT');
		my $since = sql('SELECT pg_current_wal_insert_lsn()');
		$warnings{$kind} = warnings_of($name, $kind);
		$pages{$kind} = pages_of($table);
		sql(q{SELECT pg_logical_emit_message(true, 'repair', 'x')});
		$log{$kind} = sql(qq{
			SELECT blk, kind, image, count(*) FROM pages.log('$table', '$since', pg_current_wal_flush_lsn()) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3});
	}
	is($warnings{ours}, $warnings{stock}, "$name: the warnings of stock VACUUM");
	my $expected = $major >= 19 ? $case->{19} : $case->{old} ? 'page ' : '';
	my ($message, $tuple) = ($expected // '') =~ /^(.*?)(?: (\d+))?$/;
	like($warnings{ours}, $message eq '' ? qr/^$/ : defined $tuple ? qr/^\Q$message\E\n(?:.*\n)*.*page 1, tuple $tuple$/m : qr/^\Q$message\E/,
		"$name: the warnings as expected");

	my %items = map { $_ => sql("SELECT oracle.items('$case->{$_}{table}', 1)") } qw(ours stock);
	is($items{ours}, $items{stock}, "$name: line pointers as after stock VACUUM");

	# Before 19 core sets the map again in the next vacuum, and ours at once.
	if ($major >= 19)
	{
		is($pages{ours}, $pages{stock}, "$name: pages and map as after stock VACUUM");
		is($log{ours}, $log{stock}, "$name: WAL records as of stock VACUUM");
	}
	is(warnings_of($name, 'ours'), '', "$name: the next vacuum finds nothing wrong");

	# Before 19 core does not ask whether an all-visible page has such rows.
	next if $major < 19 && $name eq 'in_progress_map';
	is(sql("SELECT count(*) FROM pg_check_visible('$case->{ours}{table}')"), 0, "$name: the map is right");
	is(pv_findings($node, $case->{ours}{table}), '', "$name: the table is whole");
}

for my $case (@alone)
{
	my ($name, $table) = ($case->{name}, $case->{ours}{table});
	if ($case->{left})
	{
		# Nothing else changes the page, so it is not written for another reason.
		sql("VACUUM (DISABLE_PAGE_SKIPPING, INDEX_CLEANUP off, PARALLEL 0) $table");
		$node->restart;
		is(sql("SELECT flags & 4 FROM page_header(get_raw_page('$table', 'main', 1))"), 0, "$name: the mark does not come back");
		is(pv_findings($node, $table), '', "$name: the table is whole");
		next;
	}
	my ($rc, $out, $err) = $node->psql('postgres', "VACUUM (DISABLE_PAGE_SKIPPING, INDEX_CLEANUP on, PARALLEL 0) $table");
	if (my $error = $case->{core_error} // ($case->{error} && qr/page 1 of table "public\.$table" \Q$case->{error}\E/))
	{
		like($err, qr/ERROR:  $error/, "$name: an error");
		next;
	}
	is($rc, 0, "$name: the vacuum succeeds") or diag $err;
	is(sql("SELECT array_agg(lp ORDER BY lp) FROM heap_page_items(get_raw_page('$table', 'main', 1)) WHERE lp_flags = 0"),
		'{' . join(',', @{ $case->{unused} }) . '}', "$name: the line pointers that are unused");
	is(sql("SELECT * FROM oracle.check_dangling('$table')"), '', "$name: no index entry leads to them");
	is(warnings_of($name, 'ours'), '', "$name: the next vacuum finds nothing wrong");
}

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
