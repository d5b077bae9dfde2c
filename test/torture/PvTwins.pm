# Large twins: tables of some thousand pages with histories made up at random by few
# statements for many rows, several times vacuumed, one by parvacuum and one by stock VACUUM,
# and compared page by page after each vacuum.  The comparison is a C function of
# test/modules/parvacuum_test (pvt_twins.c), because SQL is too slow for millions of pages.
# PvPages.pm goes deeper, with few pages.
package PvTwins;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(time);

our @EXPORT = qw(twins_connect twins_disconnect twins_round %done);

# What all rounds have compared, in total
our %done = (map { $_ => 0 } qw(tables pages changed entries apart));

my ($node, $version);
my %session;    # main does most; a and b have transactions that stay open, hold a snapshot
my %open;
my @log;
my $next_id;
my $pad;
my $per_page;   # rows
our $whose;     # rows of one remainder by 5 belong to an open transaction

sub twins_connect
{
	($node) = @_;
	$version = $node->pg_version;
	pv_sql($node, 'CREATE EXTENSION IF NOT EXISTS parvacuum_test');
	%session = map { $_ => pv_session($node) } qw(main a b hold);
	$session{$_}->query_safe('SET client_min_messages = error; SET parvacuum.enabled = off;') for sort keys %session;
	# 18 begins to scan all-visible pages eagerly at a random page
	$session{main}->query_safe('SET vacuum_max_eager_freeze_failure_rate = 0') if $version >= 18;
	return;
}

sub twins_disconnect { $_->quit for values %session; return; }

sub in_session
{
	my ($name, $sql) = @_;
	push @log, "$name: $sql";
	return $session{$name}->query_safe("$sql;");
}

# Each statement for both tables, in one transaction; $T stands for the name.  Without an
# ending it stays open.
sub transaction
{
	my ($name, $ending, @sql) = @_;
	my @both = map { my $sql = $_; $sql =~ /\$T/ ? map { $sql =~ s/\$T/$_/gr } qw(stock ours) : $sql } @sql;
	return in_session($name, join '; ', 'BEGIN', @both, $ending || ());
}

sub ending { return chance(0.3) ? 'ROLLBACK' : 'COMMIT'; }

#
# Statements
#

# A condition for about this many rows of each page, one or two without a number
sub some
{
	my ($rows) = @_;
	my $of = int($per_page / ($rows // 1 + rand)) || 1;
	return sprintf '%s AND id %% 5 %s', ($of < 2 ? 'true' : "id % $of = " . int rand $of), $whose;
}

sub insert
{
	my ($n) = @_;
	my ($from, $to) = ($next_id + 1, $next_id += $n);
	return "INSERT INTO \$T SELECT i, i % 10, 0, $pad FROM generate_series($from, $to) i";
}

sub hot { return 'UPDATE $T SET v = v + 1 WHERE ' . some(@_); }
sub key { return 'UPDATE $T SET id = id + 5000000, k = k + 1 WHERE ' . some(@_); }
sub del { return 'DELETE FROM $T WHERE ' . some(@_); }
sub lock_for { return "SELECT count(*) FROM (SELECT FROM \$T WHERE " . some() . " FOR $_[0]) x"; }
sub any_lock { return lock_for(one_of('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE')); }
sub change { return one_of(hot(), hot(), key(), del()); }

#
# Histories
#

# Each step is a history of one or more transactions on the twins.
my %step = (
	delete => sub { transaction('main', ending(), del()) },
	hot => sub { transaction('main', 'COMMIT', hot()) for 1 .. 1 + int rand 3 },
	hot_aborted => sub { transaction('main', 'ROLLBACK', hot()); transaction('main', 'COMMIT', hot()) if chance(0.5) },
	hot_in_one => sub { my $hot = hot(); transaction('main', ending(), $hot, $hot) },
	hot_and_delete => sub {
		my $rows = some();
		transaction('main', 'COMMIT', "UPDATE \$T SET v = v + 1 WHERE $rows");
		transaction('main', ending(), "DELETE FROM \$T WHERE $rows" . one_of('', ' AND k < 5'));
	},
	key => sub { transaction('main', ending(), key()) },
	subtransactions => sub {
		transaction('main', ending(), 'SAVEPOINT s', change(), one_of('ROLLBACK TO s', 'RELEASE s'), hot(),
			one_of([], ['SAVEPOINT t', change(), one_of('ROLLBACK TO t', 'RELEASE t')])->@*)
	},
	insert => sub { transaction('main', ending(), insert(1 + int rand 20 * $per_page)) },
	insert_and_undo => sub {
		my $first = $next_id + 1;
		transaction('main', ending(), insert(10 + int rand 20 * $per_page), "DELETE FROM \$T WHERE id BETWEEN $first AND $next_id AND id % 3 = 0");
	},
	locked => sub { transaction('main', ending(), any_lock(), chance(0.3) ? hot() : ()) },
	# One session locks rows, another one locks or updates them.
	multixacts => sub {
		return if $open{a};
		my $rows = some();
		transaction('a', '', "SELECT count(*) FROM (SELECT FROM \$T WHERE $rows FOR KEY SHARE) x");
		transaction('main', ending(), one_of("UPDATE \$T SET v = v + 1 WHERE $rows", "SELECT count(*) FROM (SELECT FROM \$T WHERE $rows FOR SHARE) x"));
		in_session('a', ending());
	},
	multixact_in_one => sub {
		my $rows = some();
		transaction('main', ending(), "SELECT count(*) FROM (SELECT FROM \$T WHERE $rows FOR KEY SHARE) x", 'SAVEPOINT s',
			"UPDATE \$T SET v = v + 1 WHERE $rows", one_of('RELEASE s', 'ROLLBACK TO s'));
	},
	xids => sub { in_session('main', 'DO $$ BEGIN FOR i IN 1 .. ' . (1 + int rand 30) . ' LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$') },
	hold => sub {
		return if $open{hold}++;
		in_session('hold', 'BEGIN ISOLATION LEVEL REPEATABLE READ; DO $$ BEGIN PERFORM count(*) FROM pg_class; END $$');
	},
	# The end of the table, for the truncation
	tail => sub { transaction('main', ending(), "DELETE FROM \$T WHERE ctid >= '(" . int(rand 6000) . ",0)' AND id % 5 $whose") },
	# A transaction that is open during the vacuum.  Later steps do not touch its rows.
	undone => sub {
		my ($name, $mine) = one_of([a => '= 0'], [b => '= 1'])->@*;
		return if $open{$name}++;
		{
			local $whose = $mine;
			transaction($name, '', map { one_of(hot(3), del(3), key(2), insert(50), any_lock(), 'SAVEPOINT s') } 1 .. 2);
		}
		$whose = '> 1';
	},
	checkpoint => sub { in_session('main', 'CHECKPOINT') });
my @steps = (sort(keys %step), qw(delete hot hot key hot_and_delete subtransactions undone));

# Create the twins and their first rows.  Returns the names of their indexes.
sub create
{
	my $width = one_of(0, 30, 100, 300, 300, 1000, 1500, 3900, 3900, 7000);
	my $fillfactor = one_of(50, 80, 90, 100);
	my $unlogged = chance(0.1) ? 'UNLOGGED' : '';
	my @indexes = one_of([], [qw(id)], [qw(id k)])->@*;

	$per_page = int(8100 * $fillfactor / 100 / (40 + $width)) || 1;
	my $pages = 30000 / $per_page;
	$pages = $pages < 300 ? 300 : $pages > 4000 ? 4000 : $pages;
	$next_id = 0;
	$whose = '>= 0';
	$pad = $width ? "repeat('x', $width)" : 'NULL';
	in_session('main', 'DROP TABLE IF EXISTS stock, ours');
	transaction('main', 'COMMIT', "CREATE $unlogged TABLE \$T (id int, k int, v int, pad text) WITH (autovacuum_enabled = off, fillfactor = $fillfactor)",
		'ALTER TABLE $T ALTER pad SET STORAGE PLAIN');
	transaction('main', 'COMMIT', insert(int $per_page * $pages * (0.5 + rand)));
	# else a page with updated rows would be pruned as soon as it is read
	transaction('main', 'COMMIT', 'ALTER TABLE $T SET (fillfactor = 100)') if chance(0.7);
	transaction('main', 'COMMIT', map { "CREATE INDEX \$T_$_ ON \$T ($_)" } @indexes) if @indexes;
	in_session('main', 'ALTER TABLE ours SET (parvacuum.enabled)');
	return @indexes;
}

# Compare the twins: the number of pages, how many of them changed since a position of the
# WAL, and the differences.
sub compare
{
	my ($vacuumed, $alike, $since) = @_;
	my ($pages, $changed, $differences) = split / /,
	  in_session('main', "SELECT pages || ' ' || changed || ' ' || coalesce(differences, '') FROM parvacuum_test_compare_pages('stock', 'ours', $vacuumed, $alike, '$since')"), 3;
	return ($pages, $changed, $differences);
}

# Vacuum both twins with the same options.  Returns whether both skip the same pages.
sub vacuum_twins
{
	my ($alike) = @_;
	my $truncate = chance(0.3) && !grep { $_ } values %open;
	my $shortest = one_of(32, 32, 32, 32, 1);
	my $table_age = one_of(150000000, 0);
	my %set = (
		vacuum_freeze_min_age => one_of(50000000, 50000000, 0, int rand 20, int rand 60),
		vacuum_multixact_freeze_min_age => one_of(5000000, 0, int rand 4),
		vacuum_freeze_table_age => $table_age,
		'parvacuum.shortest_skip' => $shortest);
	my $options = join ', ', 'TRUNCATE ' . ($truncate ? 'true' : 'false'), 'INDEX_CLEANUP ' . one_of(qw(auto on on off)),
	  (chance(0.15) ? 'FREEZE' : ()), (chance(0.2) ? 'DISABLE_PAGE_SKIPPING' : ());

	# Flush asynchronous commits, so that stock VACUUM can set its hint bits.
	in_session('main', join '; ', (map { "SET $_ = '$set{$_}'" } sort keys %set), q{DO $$ BEGIN PERFORM pg_logical_emit_message(true, 'pages', 'x'); END $$});
	my $next = in_session('main', 'SELECT pg_snapshot_xmax(pg_current_snapshot())');
	in_session('main', "VACUUM (PARALLEL 0, $options) stock");
	# Stock VACUUM uses an XID to truncate; ours is to freeze up to the same XID.
	my $used = in_session('main', 'SELECT pg_snapshot_xmax(pg_current_snapshot())') - $next;
	in_session('main', 'SET vacuum_freeze_min_age = ' . ($set{vacuum_freeze_min_age} + $used)) if $used > 0;
	in_session('main', 'VACUUM (PARALLEL ' . one_of(0, 0, 1, 2) . ", $options) ours");
	return $alike && $shortest == 32;
}

sub end_all
{
	in_session($_, ending()) for grep { $open{$_} } sort keys %open;
	%open = ();
	$whose = '>= 0';
	return;
}

# The vacuums and comparisons of one round.  Returns what is wrong, as text.
sub passes
{
	my @indexes = create();
	my $alike = 1;
	my $since = '0/0';
	my $log_before;

	for my $pass (1 .. 2 + int rand 4)
	{
		$step{ one_of(@steps) }->() for 1 .. 1 + int rand 4;
		my (undef, undef, $apart) = compare($pass == 1 ? 'false' : 'true', 'false', $since);
		return "no twins: $apart" if $apart && $pass == 1;
		$done{apart}++, return '' if $apart =~ /line pointers|tuple:/;

		$alike = vacuum_twins($alike);
		my ($pages, $changed, $differences) = compare('true', $alike ? 'true' : 'false', $since);
		return "pass $pass: $differences" if $differences;
		$done{pages} += $pages;
		$done{changed} += $changed;
		for my $index (chance(0.5) ? @indexes : ())
		{
			my ($entries, $difference) = split / /, in_session('main',
				"SELECT entries || ' ' || coalesce(difference, '') FROM parvacuum_test_compare_btrees('stock_$index', 'ours_$index')"), 2;
			return "pass $pass, index on $index: $difference" if $difference;
			$done{entries} += $entries;
		}
		$since = in_session('main', 'SELECT pg_current_wal_insert_lsn()');
		end_all() if chance(0.5);
	}
	return '';
}

# One round, determined by a seed.  Returns whether it has passed.
sub twins_round
{
	my ($number) = @_;

	srand $number;
	@log = ();
	my $found = eval { passes() } // "a statement failed: $@";
	my $good = $found eq '';
	is($found, '', "large twins by seed $number") if !$good;
	diag join "\n", @log if !$good;
	end_all() if $good;
	$done{tables}++;
	return $good;
}

1;
