# What the tests of pages share: twins whose rows have histories made up at random, one
# vacuumed by parvacuum and one by stock VACUUM, and their comparison page by page: line
# pointers, tuples, page headers, WAL records.
package PvPages;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

our @EXPORT = qw($node $version $seed $of_ages pages_node connect_all disconnect_all both transaction run trial
  fixed frozen_pages old_and_young);

our ($node, $version);

# The seed of the first random trial; each trial has a seed, and is the first if the test
# is started with that.  The seeds are the same each time, so that a failure comes from a
# change of the code; PV_SEED=$RANDOM tries others.
our $seed = $ENV{PV_SEED} // 1;

# Both vacuums leave a page for the next vacuum while another process has pinned it.  The
# background writer must not be that process.
my $settings = "bgwriter_lru_maxpages = 0\nlock_timeout = 10s\n";

# A file that COPY writes and reads; set when the test runs
my $csv;

# Start a server with these settings, both extensions and the functions above.
sub pages_node
{
	my ($name, $conf, %params) = @_;
	$node = pv_node($name, %params);
	$version = $node->pg_version;
	$csv = PostgreSQL::Test::Utils::tempdir . '/rows';
	$node->append_conf('postgresql.conf', $settings . $conf);
	$node->start;
	pv_setup($node);
	$node->safe_psql('postgres', slurp_file("$FindBin::RealBin/../$_.sql")) for qw(pages horizons);
	return $node;
}

# Faults in the WAL records: other records that prune or free line pointers than those of
# stock VACUUM, more records that freeze, more images in total.  Which record has the image
# of a page also depends on hint bits, where these are logged.  From 17 on, a page that we
# freeze may have a record that prunes where stock VACUUM logs its image for a hint bit, so
# there all records are compared together.
sub records_sql
{
	return $version < 17 ? q{
	SELECT format('%s: stock logs %s of them, %s with images, ours %s and %s', kind, s.records, s.images, o.records, o.images)
	FROM pages.records('stock', :'l1', :'l2') s FULL JOIN pages.records('ours', :'l2', :'l3') o USING (kind),
		(SELECT current_setting('data_checksums')::bool OR current_setting('wal_log_hints')::bool) c(hints_logged)
	WHERE kind IN ('PRUNE', 'VACUUM') AND (s.records IS DISTINCT FROM o.records OR NOT hints_logged AND s.images IS DISTINCT FROM o.images)
		OR kind = 'FREEZE_PAGE' AND (coalesce(s.records, 0) < o.records OR NOT hints_logged AND coalesce(s.images, 0) < o.images)
	UNION ALL SELECT format('stock logs %s images, ours %s', s.images, o.images)
	FROM pages.sums('stock', :'l1', :'l2') s, pages.sums('ours', :'l2', :'l3') o WHERE o.images > s.images} : q{
	WITH s AS (SELECT * FROM pages.sums('stock', :'l1', :'l2')), o AS (SELECT * FROM pages.sums('ours', :'l2', :'l3'))
	SELECT format('stock logs %s records, %s with images, %s of the second pass, ours %s, %s, %s',
		s.records, s.images, s.second, o.records, o.images, o.second)
	FROM s, o WHERE o.records > s.records OR o.images > s.images OR s.second <> o.second};
}

#
# Histories
#

# Sessions besides the one that vacuums: two that leave transactions open, and one that
# holds a snapshot.
my %session;
my %open;
my @log;
my $next_id;
my $pad;

sub connect_all { %session = map { $_ => pv_session($node) } qw(a b hold); return; }
sub disconnect_all { $_->quit for values %session; return; }

sub chance { return rand() < $_[0]; }
sub one_of { return $_[ int rand @_ ]; }

# A statement for both tables; $T stands for the name.
sub both
{
	my ($sql) = @_;
	return $sql unless $sql =~ /\$T/;
	return join '; ', map { $sql =~ s/\$T/$_/gr } qw(stock ours);
}

# Statements in one transaction.  Without an ending it stays open.
sub transaction
{
	my ($ending, @sql) = @_;
	return join '; ', 'BEGIN', (map { both($_) } @sql), $ending || ();
}

# Within a history, statements that follow each other wait here, and have one session.
my @batch;
my $in_history;

sub execute_batch
{
	$node->safe_psql('postgres', join ";\n", 'SET client_min_messages = error', splice @batch) if @batch;
	return;
}

sub run
{
	my ($sql) = @_;
	push @log, $sql;
	push @batch, $sql;
	execute_batch() unless $in_history;
	return;
}

sub in_session
{
	my ($name, $sql) = @_;
	execute_batch();
	push @log, "$name: $sql";
	$session{$name}->query_safe($sql);
	return;
}

# A condition for some rows at random.  Rows of one remainder belong to an open transaction.
our $whose;

sub some
{
	my ($share) = @_;
	return sprintf 'hashint4extended(id, %d) & 63 < %d AND id %% 5 %s', int rand 1e9, 64 * ($share // rand), $whose;
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
sub ending { return chance(0.35) ? 'ROLLBACK' : 'COMMIT'; }

# Each step is a history of one or more transactions on the twins.
my %step = (
	plain_delete => sub { run(transaction(ending(), del())) },
	hot => sub { run(transaction('COMMIT', hot())) for 1 .. 1 + int rand 5 },
	hot_aborted => sub { run(transaction('ROLLBACK', (hot()) x (1 + int rand 2))); run(transaction('COMMIT', hot())) if chance(0.6) },
	hot_in_one => sub { run(transaction(ending(), map { hot() } 1 .. 1 + int rand 3)) },
	hot_and_delete => sub { run(transaction('COMMIT', hot(1))) for 1 .. 1 + int rand 3; run(transaction(ending(), del(0.7))) },
	subtransactions => sub {
		run(transaction(ending(), chance(0.5) ? hot() : (), 'SAVEPOINT s', one_of(hot(), del(), key(), insert(20)),
			one_of('ROLLBACK TO s', 'RELEASE s'), hot(), 'SAVEPOINT s', one_of(hot(), del()), one_of('ROLLBACK TO s', 'RELEASE s')))
	},
	key => sub { run(transaction(ending(), key())) },
	delete_all => sub { run(transaction('COMMIT', del(1))); run(transaction(ending(), insert(40))) if chance(0.7) },
	insert => sub { run(transaction(ending(), insert(1 + int rand 60))) },
	insert_and_undo => sub {
		run(transaction(ending(), insert(1 + int rand 40), one_of(hot(1), del(1), hot()), one_of(hot(1), del(0.5))))
	},
	copy => sub {
		my ($from, $to) = ($next_id + 1, $next_id += 30);
		run("COPY (SELECT i, i % 10, 0, $pad FROM generate_series($from, $to) i) TO '$csv'");
		run(transaction(ending(), "COPY \$T FROM '$csv'"));
	},
	locked => sub { run(transaction(ending(), lock_for(one_of('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE')), chance(0.3) ? hot() : ())) },
	# One session locks rows, another locks or updates some of them.
	multixacts => sub {
		return if $open{a};
		in_session('a', transaction('', lock_for('KEY SHARE')));
		run(transaction(ending(), one_of(lock_for('KEY SHARE'), lock_for('SHARE'), lock_for('NO KEY UPDATE'), hot(), hot()), chance(0.5) ? hot() : ()));
		in_session('a', ending());
		run(transaction(ending(), one_of(hot(), del()))) if chance(0.4);
	},
	multixact_in_one => sub { run(transaction(ending(), lock_for('KEY SHARE'), 'SAVEPOINT s', hot(), one_of('RELEASE s', 'ROLLBACK TO s'), lock_for('SHARE'))) },
	read => sub { run(both('SELECT count(*) FROM $T')) },
	vacuum => sub {
		run("VACUUM (TRUNCATE false, INDEX_CLEANUP " . one_of(qw(on off auto)) . one_of('', '', ', FREEZE') . ') stock, ours')
	},
	xids => sub { run('DO $$ BEGIN FOR i IN 1 .. ' . int(rand 30) . ' LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$') },
	hold => sub {
		in_session('hold', 'COMMIT') if $open{hold};
		$open{hold} = !$open{hold};
		in_session('hold', 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1') if $open{hold};
	},
	# An older transaction changes rows that a younger one has changed, and a transaction
	# between them stays open.  Then the first version of a row may still be visible, and
	# the next one not.
	disorder => sub {
		return if $open{a} || $open{b};
		my $rows = some();
		in_session('a', 'BEGIN; SELECT pg_current_xact_id()');
		in_session('b', 'BEGIN; SELECT pg_current_xact_id()');
		$open{b} = 1;
		run(transaction('COMMIT', "UPDATE \$T SET v = v + 1 WHERE $rows")) for 1 .. 1 + int rand 2;
		in_session('a', both('UPDATE $T SET v = v + 1 WHERE ' . $rows)) for 1 .. int rand 3;
		in_session('a', both('DELETE FROM $T WHERE ' . one_of($rows, "$rows AND v % 2 = 0"))) if chance(0.5);
		in_session('a', ending());
	},
	# Transactions that are open during the vacuum.  Later steps do not touch their rows.
	undone => sub {
		for my $name (grep { !$open{$_} } one_of([qw(a)], [qw(prepared)], [qw(a b prepared)], [qw(b prepared)])->@*)
		{
			my %mine = (a => '= 0', b => '= 1', prepared => '= 2');
			$open{$name} = 1;
			local $whose = $mine{$name};
			my $sql = transaction('', map { one_of(hot(), hot(), del(0.3), key(0.3), insert(10), lock_for('KEY SHARE'), lock_for('UPDATE'), 'SAVEPOINT s') } 1 .. 3);
			$name eq 'prepared' ? run("$sql; PREPARE TRANSACTION 'prepared'") : in_session($name, $sql);
		}
		$whose = '> 2';
	},
	# Rows that two open transactions have locked, and a third one has updated
	undone_multixacts => sub {
		return if $open{a} || $open{b} || $open{prepared};
		$whose = '= 0';
		in_session($_, transaction('', 'SELECT count(*) FROM (SELECT FROM $T WHERE id % 5 = 0 FOR KEY SHARE) x')) for qw(a b);
		$open{$_} = 1 for qw(a b);
		run(transaction(ending(), hot()));
		run(transaction("PREPARE TRANSACTION 'prepared'", hot(0.5))), $open{prepared} = 1 if chance(0.5);
		$whose = '> 2';
	},
	checkpoint => sub { run('CHECKPOINT') });
my @steps = sort keys %step;

# Create the twins and their first rows.  Returns whether they are logged.
sub create
{
	my ($may_be_unlogged) = @_;
	my $width = one_of(0, 0, 60, 300, 1500, 3900, 7000);
	my $fillfactor = one_of(10, 30, 50, 70, 100);
	my $unlogged = chance(0.15) && $may_be_unlogged ? 'UNLOGGED' : '';
	my @indexes = one_of([], ['UNIQUE INDEX ON $T (id)'], ['INDEX ON $T (id)', 'INDEX ON $T (k)'])->@*;
	my $pages = one_of(1, 3, 10, 20);
	my $rows = 1 + int(rand $pages * (8000 * $fillfactor / 100 / (40 + $width)));

	$next_id = 0;
	$whose = '>= 0';
	$pad = $width ? "repeat('x', $width)" : 'NULL';
	run('DROP TABLE IF EXISTS stock, ours');
	my $create = "CREATE $unlogged TABLE \$T (id int, k int, v int, pad text) WITH (autovacuum_enabled = off, fillfactor = $fillfactor)";
	my $plain = 'ALTER TABLE $T ALTER pad SET STORAGE PLAIN';
	if (chance(0.2))
	{
		# frozen from the start
		run("COPY (SELECT i, i % 10, 0, $pad FROM generate_series(1, $rows) i) TO '$csv'");
		$next_id = $rows;
		run(transaction('COMMIT', $create, $plain, "COPY \$T FROM '$csv' (FREEZE)"));
	}
	else
	{
		run(transaction('COMMIT', $create, $plain));
		run(transaction('COMMIT', insert($rows)));
	}
	run(both("CREATE $_")) for @indexes;
	return $unlogged eq '';
}

# Vacuum both twins with the same options and compare them.  Returns the faults as text.
# After the first of our vacuums, the twins may differ in what is frozen.
sub vacuum_twins
{
	my ($logged, $truncate, $first) = @_;
	my $same = $first ? 'true' : 'false';
	my $workers = one_of(0, 2);
	my $freeze = chance(0.2);
	my $skip = chance(0.7);
	my %set = (
		vacuum_freeze_min_age => one_of(50000000, 50000000, 0, int rand 20, int rand 60),
		vacuum_multixact_freeze_min_age => one_of(5000000, 0, int rand 4),
		vacuum_freeze_table_age => one_of(150000000, 0));
	my $cleanup = one_of('auto', 'on', 'on', 'off');
	my $next_xid = 'pg_snapshot_xmax(pg_current_snapshot())::text::bigint';
	my $sql = join "\n", (map { "SET $_ = $set{$_};" } sort keys %set), "\\o /dev/null",
	  # flush asynchronous commits, so that stock VACUUM can set its hint bits
	  "SELECT pg_logical_emit_message(true, 'pages', 'x');",
	  "SELECT pg_current_wal_insert_lsn() AS l1, $next_xid AS next_xid \\gset",
	  "VACUUM (VERBOSE, PARALLEL 0, TRUNCATE $truncate, INDEX_CLEANUP $cleanup"
	  . ($freeze ? ', FREEZE' : '') . ($skip ? '' : ', DISABLE_PAGE_SKIPPING') . ") stock;",
	  # stock VACUUM uses an XID to truncate; ours is to freeze up to the same XID
	  "SELECT set_config('vacuum_freeze_min_age', ($set{vacuum_freeze_min_age} + $next_xid - :next_xid)::text, false),
		  $same AND $next_xid = :next_xid AS alike \\gset",
	  "SELECT pg_logical_emit_message(false, 'pages', 'x'), pg_current_wal_insert_lsn() AS l2 \\gset",
	  "\\o", "SELECT format('%s removed, %s remain, %s are dead but not yet removable', tuples_removed, tuples_remaining + tuples_recently_dead + tuples_missed, tuples_recently_dead), pages_total = pages_scanned
	  FROM parvacuum_run('ours', workers => $workers, truncate => $truncate, index_cleanup => '$cleanup', freeze => "
	  . ($freeze ? 'true' : 'false') . ', disable_page_skipping => ' . ($skip ? 'false' : 'true') . ") WHERE relid = 'ours'::regclass;\n\\o /dev/null",
	  "SELECT pg_logical_emit_message(true, 'pages', 'x'), pg_current_wal_insert_lsn() AS l3 \\gset", "\\o",
	  "SELECT * FROM pages.differences(true);",
	  "SELECT * FROM oracle.compare('stock', 'ours', false, true) WHERE what NOT IN ('n_live_tup', 'n_dead_tup', 'vacuum_count');",
	  "SELECT * FROM oracle.check_table('ours');",
	  $logged ? "SELECT * FROM horizons.differences(:'l1', :'l2', :'l3', :next_xid, :'alike'); " . records_sql() . ';' : '';
	push @log, $sql;
	my ($rc, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 1);
	my ($ours, @faults) = split /\n/, $out;
	my ($of_stock) = $err =~ /tuples: (\d+ removed, \d+ remain, \d+ are dead but not yet removable)/;
	# the first values are those of the table, later ones those of its TOAST table
	my ($scanned) = $err =~ /scanned \(([\d.]+)% of total\)/;
	my $all = ($scanned // 0) == 100;
	return "the vacuums failed: $err" if $rc != 0 || !defined $ours || !defined $of_stock;

	# with skipped pages the number of remaining rows is an estimate; ours may skip more
	# pages, because it may have frozen more
	my ($figures, $all_ours) = split /\|/, $ours;
	if (!$all || $all_ours ne 't')
	{
		s/\d+ remain, // for $figures, $of_stock;
		@faults = grep { !/^reltuples\|/ } @faults;
	}
	push @faults, "figures: stock $of_stock, ours $figures" if $figures ne $of_stock;
	push @faults, "a warning: $1" if $err =~ /(WARNING.*)/;
	return join "\n", @faults;
}

# End all transactions that a trial has left open.
sub end_all
{
	for my $name (grep { $open{$_} } sort keys %open)
	{
		$name eq 'prepared' ? run(ending() . q{ PREPARED 'prepared'}) : in_session($name, ending());
	}
	%open = ();
	$whose = '>= 0';
	return;
}

# One test: twins, their history and their vacuums, all determined by a seed.  Returns
# whether it has passed.
sub trial
{
	my ($number, $may_be_unlogged) = @_;
	my @todo;
	my $found;

	srand($number);
	@log = ();
	$in_history = 1;
	my $logged = create($may_be_unlogged);
	@todo = map { one_of(@steps) } 1 .. 2 + int rand 6;
	push @todo, one_of(@steps[ $number % @steps ], 'hot');
	$todo[ int rand @todo ] = $steps[ $number % @steps ];
	unshift @todo, 'hold' if chance(0.4);
	$step{$_}->() for @todo;
	$step{hold}->() if $open{hold} && chance(0.6);
	$step{checkpoint}->() if chance(0.3);
	execute_batch();
	$in_history = 0;

	for my $pass (1 .. 2)
	{
		my $apart = $node->safe_psql('postgres', 'SELECT * FROM pages.differences(false) WHERE what <> $$inserter is frozen$$') ;
		$found = $pass == 1 && $apart ? "no twins: $apart" : vacuum_twins($logged, (%open ? 'false' : one_of('true', 'false')), $pass == 1);
		last if $found ne '';
		end_all();
	}
	end_all();
	my $good = is($found, '', "trial by seed $number: @todo");
	diag join "\n", @log if !$good;
	return $good;
}

# Create twins with this many rows, whose pages have more room than their fillfactor asks
# for: else a page with updated rows would be pruned when it is read.
sub fixed
{
	my ($rows, $fillfactor) = @_;
	run('DROP TABLE IF EXISTS stock, ours');
	run(transaction('COMMIT', "CREATE TABLE \$T (id int, v int) WITH (autovacuum_enabled = off, fillfactor = $fillfactor)",
		"INSERT INTO \$T SELECT i, 0 FROM generate_series(1, $rows) i"));
	run(both('CREATE INDEX ON $T (id)'));
	run(both('ALTER TABLE $T SET (fillfactor = 100)'));
	return;
}

# The number of all-frozen pages, and of all pages.
sub frozen_pages
{
	my ($table) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FILTER (WHERE all_frozen) || ' of ' || count(*) FROM pg_visibility_map('$table')");
}

# Pages with old rows that get young ones, and then pages with young rows only.  $of_ages
# shows for each kind of pages whether some and whether all rows are frozen.
sub old_and_young
{
	fixed(2000, 50);
	run('VACUUM stock, ours; DO $$ BEGIN FOR i IN 1 .. 50 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$');
	return;
}

our $of_ages = q{
	SELECT string_agg(format('%s %s %s', old, frozen, all_frozen), ', ' ORDER BY old) FROM (
		SELECT DISTINCT bool_or(t.mask & 768 = 768) AS frozen, bool_and(t.mask & 768 = 768) AS all_frozen, r.old
		FROM pages.tuples('$T') t JOIN (SELECT blk, bool_or(id <= 2000) AS old FROM (SELECT (ctid::text::point)[0] AS blk, id FROM $T) x GROUP BY 1) r USING (blk)
		GROUP BY t.blk, r.old) y};

1;
