# The first pass page by page: tables whose rows have histories made up by
# chance, each vacuumed by us and its twin by stock VACUUM, which must leave the
# same line pointers, the same tuples, and the same figures.  Then what freezing
# costs in WAL, what recovery makes of it, and what a standby's readers see.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(time);

# Trials by chance go on for this long.  Each has a seed, the next number, and is
# the first if the test is started with it.  They are the same each time, so that
# a failure comes from what was changed; PV_SEED=$RANDOM tries others.
my $seconds = $ENV{PV_SECONDS} // 30;
my $seed = $ENV{PV_SEED} // 1;

# A page that somebody has pinned is left for the next vacuum, by both; the
# background writer must not be that somebody.
my $settings = "bgwriter_lru_maxpages = 0\nlock_timeout = 10s\n";

# How twins differ in what the oracle does not look at: the tuples themselves,
# and the pages' headers.
my $pages_sql = q{
	SET check_function_bodies = off;
	CREATE EXTENSION IF NOT EXISTS pg_walinspect;
	CREATE EXTENSION pg_surgery;
	CREATE SCHEMA pages;

	-- frozen: no XID is left; hints of the inserter are the same as that to a reader
	CREATE FUNCTION pages.tuples(rel regclass) RETURNS TABLE (blk bigint, lp int, len int, tid tid, mask int, mask2 int, xmax xid, frozen bool, data bytea)
	LANGUAGE sql AS $$
		SELECT b, i.lp, i.lp_len, i.t_ctid, i.t_infomask, i.t_infomask2, i.t_xmax,
			i.t_infomask & 768 = 768 AND i.t_infomask & 2048 = 2048 AND i.t_xmax = '0', i.t_data
		FROM generate_series(0, oracle.nblocks(rel) - 1) b, heap_page_items(get_raw_page(rel::text, 'main', b)) i
		WHERE i.lp_flags = 1
	$$;

	-- vacuumed: they were, so that ours may have more frozen tuples.  The page's
	-- hint of what to prune may name the deleter of a tuple that stock has removed
	-- itself, as it does where a dead version came after one that is seen.  Hints of
	-- what committed or aborted may differ: who looks at a page again leaves some, of
	-- an update in a multixact that was frozen to its XID, or of a transaction that has
	-- committed asynchronously.
	CREATE FUNCTION pages.differences(vacuumed bool) RETURNS SETOF oracle.fault
	LANGUAGE sql AS $$
		WITH pair AS (
			SELECT s AS s, o AS o, s.blk, s.lp,
				s.mask & 768 = 768 AS s_frozen, o.mask & 768 = 768 AS o_frozen,
				CASE o.xmax WHEN '0' THEN 1280 ELSE 3328 END AS hints
			FROM pages.tuples('stock') s JOIN pages.tuples('ours') o ON s.blk = o.blk AND s.lp = o.lp)
		SELECT v.what, format('%s tuples, first %s: stock %s, ours %s', count(*), min(format('(%s,%s)', blk, lp)),
			(array_agg((s).mask || ' ' || (s).xmax))[1], (array_agg((o).mask || ' ' || (o).xmax))[1])
		FROM pair, LATERAL (VALUES
			('tuple', (s).tid = (o).tid AND (s).data = (o).data AND (s).mask2 & 2047 = (o).mask2 & 2047),
			('inserter is not frozen', s_frozen <= o_frozen),
			('inserter is frozen', vacuumed OR s_frozen = o_frozen),
			('deleter is there', (s).xmax <> '0' OR (o).xmax = '0'),
			('header', (s).frozen <> (o).frozen OR s_frozen <> o_frozen OR
				(s).mask & ~hints = (o).mask & ~ (3328 & ~ (s).mask) & ~hints AND (s).xmax = (o).xmax AND (s).mask2 = (o).mask2)
			) AS v(what, good)
		WHERE NOT v.good GROUP BY v.what
		UNION ALL
		SELECT 'line pointers', f.detail FROM oracle.compare_items('stock', 'ours', least(oracle.nblocks('stock'), oracle.nblocks('ours'))) f
		UNION ALL
		SELECT 'page header', format('%s pages, first %s: stock %s, ours %s', count(*), min(b), (array_agg(s))[1], (array_agg(o))[1])
		FROM generate_series(0, least(oracle.nblocks('stock'), oracle.nblocks('ours')) - 1) b,
			page_header(get_raw_page('stock', 'main', b)) s, page_header(get_raw_page('ours', 'main', b)) o
		WHERE (s.lower, s.upper, s.flags & 3) IS DISTINCT FROM (o.lower, o.upper, o.flags & 3)
			OR s.flags & 4 > o.flags & 4
			OR s.prune_xid::text <> o.prune_xid::text AND EXISTS (SELECT FROM pages.tuples('stock') t WHERE t.blk = b AND t.xmax = s.prune_xid)
		HAVING count(*) > 0
	$$;

	-- The records of the table itself, by kind, and how many have an image that is not
	-- there for wal_consistency_checking.  From 17 on those that prune freeze as well, and
	-- have other names.
	CREATE FUNCTION pages.log(rel regclass, since pg_lsn, upto pg_lsn) RETURNS TABLE (kind text, blk text, image bool, description text)
	LANGUAGE sql AS $$
		SELECT CASE w.record_type WHEN 'PRUNE_VACUUM_SCAN' THEN 'PRUNE' WHEN 'PRUNE_VACUUM_CLEANUP' THEN 'VACUUM' ELSE w.record_type END,
			substring(w.block_ref FROM 'blk (\d+)'), w.block_ref LIKE '%(FPW)%', w.description
		FROM pg_get_wal_records_info(since, upto) w
		WHERE w.block_ref ~ format('#0: rel \d+/\d+/%s fork main', pg_relation_filenode(rel))
	$$;
	CREATE FUNCTION pages.records(rel regclass, since pg_lsn, upto pg_lsn) RETURNS TABLE (kind text, records bigint, images bigint)
	LANGUAGE sql AS $$ SELECT kind, count(*), count(*) FILTER (WHERE image) FROM pages.log(rel, since, upto) GROUP BY 1 $$;

	-- From 17 on, all together.  A page that core prunes for us has had its hints from us.
	-- If they were logged, core does not know it, and freezing is a record of ours, which
	-- is not counted here.
	CREATE FUNCTION pages.sums(rel regclass, since pg_lsn, upto pg_lsn, OUT records bigint, OUT images bigint, OUT second bigint)
	LANGUAGE sql AS $$
		WITH log AS MATERIALIZED (SELECT * FROM pages.log(rel, since, upto))
		SELECT count(*) - (SELECT count(*) FROM (SELECT FROM log GROUP BY blk
				HAVING bool_or(kind = 'FPI_FOR_HINT') AND bool_or(kind = 'PRUNE' AND description LIKE '% nplans: 0,%')
					AND bool_or(description ~ 'nplans: [1-9]\d*, nredirected: 0, ndead: 0, nunused: 0')) x),
			count(*) FILTER (WHERE image), count(*) FILTER (WHERE kind = 'VACUUM') FROM log
	$$;

	-- What is on disk of a table, in one number.  Hints are not logged, nor, from 16 on,
	-- are the pages by which COPY makes a table longer than it needs.
	CREATE FUNCTION pages.digest(rel regclass) RETURNS text
	LANGUAGE sql AS $$
		SELECT concat_ws(' ', oracle.rows_digest(rel),
			(SELECT md5(string_agg(oracle.items(rel, b), ';' ORDER BY b)) FROM generate_series(0, oracle.nblocks(rel) - 1) b),
			(SELECT md5(string_agg(concat_ws(',', blk, lp, tid, mask & 768 = 768, mask2, xmax), ';' ORDER BY blk, lp)) FROM pages.tuples(rel)),
			(SELECT md5(string_agg(m::text, ';' ORDER BY blkno)) FROM pg_visibility(rel) m WHERE all_visible OR all_frozen OR pd_all_visible))
	$$;
};

sub node
{
	my ($name, $conf, %params) = @_;
	my $node = pv_node($name, %params);
	$node->append_conf('postgresql.conf', $settings . $conf);
	$node->start;
	pv_setup($node);
	$node->safe_psql('postgres', $pages_sql);
	$node->safe_psql('postgres', slurp_file("$FindBin::RealBin/../horizons.sql"));
	return $node;
}

our $node = node('pages', '');
my $version = $node->pg_version;

# What should not be: other records to prune and to free line pointers than stock's,
# more to freeze, more images in all; which record has a page's image also depends on
# hints, where those are logged.  From 17 on a page that we freeze may have a record
# that prunes where stock logs its image for the sake of a hint, so there it is all
# records together.
my $records_sql = $version < 17 ? q{
	SELECT format('%s: stock logs %s of them, %s with images, ours %s and %s', kind, s.records, s.images, o.records, o.images)
	FROM pages.records('stock', :'l1', :'l2') s FULL JOIN pages.records('ours', :'l2', :'l3') o USING (kind),
		(SELECT current_setting('data_checksums')::bool) c(hints_logged)
	WHERE kind IN ('PRUNE', 'VACUUM') AND (s.records IS DISTINCT FROM o.records OR NOT hints_logged AND s.images IS DISTINCT FROM o.images)
		OR kind = 'FREEZE_PAGE' AND (coalesce(s.records, 0) < o.records OR NOT hints_logged AND coalesce(s.images, 0) < o.images)
	UNION ALL SELECT format('stock logs %s images, ours %s', s.images, o.images)
	FROM pages.sums('stock', :'l1', :'l2') s, pages.sums('ours', :'l2', :'l3') o WHERE o.images > s.images} : q{
	WITH s AS (SELECT * FROM pages.sums('stock', :'l1', :'l2')), o AS (SELECT * FROM pages.sums('ours', :'l2', :'l3'))
	SELECT format('stock logs %s records, %s with images, %s of the second pass, ours %s, %s, %s',
		s.records, s.images, s.second, o.records, o.images, o.second)
	FROM s, o WHERE o.records > s.records OR o.images > s.images OR s.second <> o.second};

#
# Histories
#

# Sessions besides the one that vacuums: two that leave work undone, one that
# does nothing but look.
my %session;
my %open;
my @log;
my $next_id;
my $csv = PostgreSQL::Test::Utils::tempdir . '/rows';
my $pad;

sub connect_all { %session = map { $_ => $node->background_psql('postgres', on_error_stop => 1) } qw(a b hold); return; }
sub disconnect_all { $_->quit for values %session; return; }

sub chance { return rand() < $_[0]; }
sub one_of { return $_[ int rand @_ ]; }

# Both tables get a statement, $T standing for the name.
sub both
{
	my ($sql) = @_;
	return $sql unless $sql =~ /\$T/;
	return join '; ', map { $sql =~ s/\$T/$_/gr } qw(stock ours);
}

# Statements in one transaction; the ending may be none.
sub transaction
{
	my ($ending, @sql) = @_;
	return join '; ', 'BEGIN', (map { both($_) } @sql), $ending || ();
}

sub run
{
	my ($sql) = @_;
	push @log, $sql;
	$node->safe_psql('postgres', "SET client_min_messages = error; $sql");
	return;
}

sub in_session
{
	my ($name, $sql) = @_;
	push @log, "$name: $sql";
	$session{$name}->query_safe($sql);
	return;
}

# Some rows, as a condition; those of one residue belong to an open transaction.
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

# Each a history of one or more transactions on the twins.
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
	# one session locks rows, another locks or updates some of them
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
	# An older transaction changes what a younger one has, and what is between
	# them goes on: then the first version of a row may still be seen, the next
	# not.
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
	# Work that is not done when the vacuum comes; what comes after leaves its
	# rows alone.
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
	# Rows that two running transactions have locked, updated by a third
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

# Tables and their first rows.  Returns whether they are logged.
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

# Both vacuums with the same wishes, and the verdict.  Returns what is amiss.  After our
# first one, twins may differ in what is frozen already.
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
	  # asynchronous commits on disk, so that stock can leave its hints
	  "SELECT pg_logical_emit_message(true, 'pages', 'x');",
	  "SELECT pg_current_wal_insert_lsn() AS l1, $next_xid AS next_xid \\gset",
	  "VACUUM (VERBOSE, PARALLEL 0, TRUNCATE $truncate, INDEX_CLEANUP $cleanup"
	  . ($freeze ? ', FREEZE' : '') . ($skip ? '' : ', DISABLE_PAGE_SKIPPING') . ") stock;",
	  # stock takes an XID to truncate; ours is to freeze what is before the same one
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
	  $logged ? "SELECT * FROM horizons.differences(:'l1', :'l2', :'l3', :next_xid, :'alike'); $records_sql;" : '';
	push @log, $sql;
	my ($rc, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 1);
	my ($ours, @faults) = split /\n/, $out;
	my ($of_stock) = $err =~ /tuples: (\d+ removed, \d+ remain, \d+ are dead but not yet removable)/;
	# the first are the table's, what follows its TOAST table's
	my ($scanned) = $err =~ /scanned \(([\d.]+)% of total\)/;
	my $all = ($scanned // 0) == 100;
	return "the vacuums failed: $err" if $rc != 0 || !defined $ours || !defined $of_stock;

	# pages that were skipped make of what remains an estimate; ours may skip more,
	# for it may have frozen more
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

# End what a trial has left open.
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

# A table, its history and its vacuums, all by a number.  True if all is well.
sub trial
{
	my ($number, $may_be_unlogged) = @_;
	my @todo;
	my $found;

	srand($number);
	@log = ();
	my $logged = create($may_be_unlogged);
	@todo = map { one_of(@steps) } 1 .. 2 + int rand 6;
	push @todo, one_of(@steps[ $number % @steps ], 'hot');
	$todo[ int rand @todo ] = $steps[ $number % @steps ];
	unshift @todo, 'hold' if chance(0.4);
	$step{$_}->() for @todo;
	$step{hold}->() if $open{hold} && chance(0.6);
	$step{checkpoint}->() if chance(0.3);

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

connect_all();
my $end = time + $seconds;
my $n = 0;
note "seed $seed";
while (time < $end)
{
	trial($seed + $n++, 1) or last;
}
note "$n trials by chance";
disconnect_all();

#
# What has committed asynchronously and is not on disk cannot be hinted before the
# page is changed.  The page becomes all-visible all the same.
#
$node->append_conf('postgresql.conf', 'wal_writer_delay = 10s');
$node->reload;
for my $index ('', 'CREATE INDEX ON late (id);')
{
	is($node->safe_psql('postgres', qq{
			SET synchronous_commit = off;
			SET parvacuum.enabled = on;
			DROP TABLE IF EXISTS late;
			CREATE TABLE late (id int) WITH (autovacuum_enabled = off);
			$index
			INSERT INTO late SELECT generate_series(1, 5000);
			INSERT INTO late SELECT generate_series(5001, 6000);
			DELETE FROM late WHERE id % 3 = 0;
			VACUUM (PARALLEL 0) late;
			SELECT DISTINCT all_visible FROM pg_visibility_map('late');}),
		't', "$index rows that have just committed are all-visible");
}
$node->append_conf('postgresql.conf', 'wal_writer_delay = 200ms');
$node->reload;

#
# What freezing costs
#

# Twins with so many rows, and with room in their pages that is not wanted any
# more: else a page where rows were updated is pruned when it is read.
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

# Both vacuums.  Returns the WAL records and bytes of each, and our records of
# the heap as text.
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
	is($rc, 0, 'vacuums with a look at WAL') or diag $err;
	my %wal;
	(@wal{qw(ours_records ours_bytes heap)}) = $out =~ /(\d+)\|(\d+)\n(.*)/;
	(@wal{qw(stock_records stock_bytes)}) = $err =~ /WAL usage: (\d+) records, \d+ full page images, (\d+) bytes/;
	return %wal;
}

# Pages, and how many are all-frozen.
sub frozen_pages
{
	my ($table) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FILTER (WHERE all_frozen) || ' of ' || count(*) FROM pg_visibility_map('$table')");
}

sub cost_is
{
	my ($what, $heap, %wal) = @_;
	is($wal{heap}, $heap, "$what: records of the heap, and how many with images");
	cmp_ok($wal{ours_records}, '<=', $wal{stock_records}, "$what: no more records than stock's");
	cmp_ok($wal{ours_bytes}, '<=', $wal{stock_bytes}, "$what: no more bytes than stock's");
	is($node->safe_psql('postgres', q{SELECT * FROM oracle.check_table('ours')}), '', "$what: the table is whole");
	return;
}

# Twenty pages or so, each with dead rows
for my $change ('DELETE FROM $T WHERE id % 10 = 0', 'UPDATE $T SET v = 1 WHERE id % 10 = 0')
{
	my $verb = $change =~ /^(\w+)/ ? $1 : '';

	# the page is logged whole, as pruned; from 16 on that is worth a record to freeze
	# it, which pruning has as well from 17 on
	fixed(4000, 80);
	run(transaction('COMMIT', $change));
	run('CHECKPOINT');
	my %wal = vacuum_for_wal();
	my ($pages) = frozen_pages('ours') =~ /of (\d+)/;
	cost_is("$verb, images due", ($version >= 16 && $version < 17 ? "FREEZE_PAGE $pages/0, " : '')
		  . "PRUNE $pages/$pages" . ($verb eq 'DELETE' ? ", VACUUM $pages/0" : ''), %wal);
	is(frozen_pages('ours'), ($version < 16 ? 0 : $pages) . " of $pages", "$verb, images due: what is frozen");

	# it was logged whole by what made rows dead: frozen would be a record more
	fixed(4000, 80);
	run('CHECKPOINT');
	run(transaction('COMMIT', $change));
	%wal = vacuum_for_wal();
	cost_is("$verb, no images due", "PRUNE $pages/0" . ($verb eq 'DELETE' ? ", VACUUM $pages/0" : ''), %wal);
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pages.tuples('ours') WHERE mask & 768 = 768}), 0, "$verb, no images due: nothing is frozen");
}

# Old and young rows side by side, then pages with young ones only.
sub old_and_young
{
	fixed(2000, 50);
	run('VACUUM stock, ours; DO $$ BEGIN FOR i IN 1 .. 50 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$');
	return;
}
my $of_ages = q{
	SELECT string_agg(format('%s %s %s', old, frozen, all_frozen), ', ' ORDER BY old) FROM (
		SELECT DISTINCT bool_or(t.mask & 768 = 768) AS frozen, bool_and(t.mask & 768 = 768) AS all_frozen, r.old
		FROM pages.tuples('$T') t JOIN (SELECT blk, bool_or(id <= 2000) AS old FROM (SELECT (ctid::text::point)[0] AS blk, id FROM $T) x GROUP BY 1) r USING (blk)
		GROUP BY t.blk, r.old) y};
for my $image (0, 1)
{
	my $what = 'old and young' . ($image ? ', images due' : '');

	# 15 freezes more than it must only where the record has an image, not plans
	my $whole = $version >= 16 || $image;
	old_and_young();
	run(transaction('COMMIT', 'INSERT INTO $T SELECT i, 0 FROM generate_series(2001, 6000) i'));
	run('CHECKPOINT') if $image;
	my %wal = vacuum_for_wal(vacuum_freeze_min_age => 30);
	my $old = $node->safe_psql('postgres', q{SELECT count(DISTINCT (ctid::text::point)[0]) FROM ours WHERE id <= 2000});
	cost_is($what, ($version < 17 ? 'FREEZE_PAGE' : 'PRUNE') . " $old/" . ($image ? $old : 0), %wal);
	is($node->safe_psql('postgres', $of_ages =~ s/\$T/ours/gr), $whole ? 'f f f, t t t' : 'f f f, t t f', "$what: which rows are frozen in pages with and without old ones");
	is($node->safe_psql('postgres', $of_ages =~ s/\$T/stock/gr), $version < 16 ? 'f f f, t t f' : 'f f f, t t t', "$what: and by stock");
}

#
# A chain that has lost its middle, as only corruption can make one, has dead
# versions that no pruning reaches.  Stock VACUUM would not end, before 17.
#
fixed(100, 50);
for (1 .. 4)
{
	run(transaction('COMMIT', 'UPDATE $T SET v = v + 1 WHERE id = 7'));
}
run(transaction('COMMIT', 'DELETE FROM $T WHERE id = 7'));
run(q{SELECT heap_force_kill('ours', ARRAY['(0,102)'::tid])});
for my $workers (0, 2)
{
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT parvacuum_run('ours', workers => $workers)");
	isnt($rc, 0, "$workers workers: a vacuum of a broken chain fails");
	like($err, $version < 17 ? qr/page 0 of table "public\.ours" has dead row versions that cannot be removed/ :
		qr/dead heap-only tuple \(0, \d+\) is not linked to from any HOT chain/, "$workers workers: and says why");
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM ours'), 99, 'the others are there');

pv_no_crash($node, 'the server');
$node->stop;

#
# Recovery, and a standby
#

# Checksums: a hint can make an image of a page due, or take it away.
my $primary = $node = node('primary', "wal_consistency_checking = 'all'\nwal_keep_size = '2GB'\n", allows_streaming => 1, extra => ['-k']);
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nhot_standby_feedback = off\nwal_retrieve_retry_interval = 100ms\n");
$standby->start;

# Only a table that was vacuumed stays as it is when it is read.
my $digest = q{SELECT pages.digest('ours')};
sub standby_is_same
{
	my ($what) = @_;
	pv_catch_up($primary, $standby);
	is($standby->safe_psql('postgres', $digest), $primary->safe_psql('postgres', $digest), "$what: the standby's tables are the same");
	# what checks the map's bits fails an assertion of core's in recovery, from 17 on; the
	# digest has them
	is($standby->safe_psql('postgres', q{SELECT * FROM verify_heapam('ours', check_toast => true)}), '', "$what: ours is whole there");
	return;
}

for my $crash (0 .. 3)
{
	connect_all();
	for (1 .. 5)
	{
		trial($seed + $n++, 0) or last;
		standby_is_same('trial ' . ($seed + $n - 1));
	}
	disconnect_all();
	last if $crash == 3;
	$primary->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, 'pages', 'x')});
	my $before = $primary->safe_psql('postgres', $digest);
	$primary->stop('immediate');
	$primary->start;
	is($primary->safe_psql('postgres', $digest), $before, "crash $crash: after recovery the tables are the same");
	is(pv_findings($primary, 'ours'), '', "crash $crash: ours is whole");
}

# A reader on the standby, and a vacuum on the primary that must not be replayed
# before he is done: he would lose rows, or see some that came after him.
sub read_beside
{
	my ($what, $change, %set) = @_;
	my $count = 'SELECT count(*), sum(id), sum(v) FROM ours';
	my $reader = $standby->background_psql('postgres', on_error_stop => 1);

	pv_catch_up($primary, $standby);
	my $before = $reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $count");
	$change->();
	my $after = $primary->safe_psql('postgres', $count);
	$primary->safe_psql('postgres', join '', (map { "SET $_ = $set{$_};" } sort keys %set), q{SELECT parvacuum_run('ours', workers => 2)});
	isnt($after, $before, "$what: rows have changed");
	my $lsn = $primary->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, 'pages', 'x'); SELECT pg_current_wal_lsn()}) =~ s/.*\n//r;
	my $waits = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'RecoveryConflictSnapshot'};
	ok($standby->poll_query_until('postgres', "SELECT ($waits) = 1 OR pg_last_wal_replay_lsn() >= '$lsn'"), "$what: replay goes on");
	is($standby->safe_psql('postgres', $waits), 1, "$what: until it waits for the reader");
	is($reader->query_safe($count), $before, "$what: he sees what he saw");
	$reader->query_safe('COMMIT');
	$reader->quit;
	standby_is_same($what);
	is($standby->safe_psql('postgres', $count), $after, "$what: then the standby has what the primary has");
	return;
}

fixed(2000, 50);
read_beside('chains', sub { run(transaction('COMMIT', 'UPDATE $T SET v = v + 1 WHERE id % 3 = 0')) for 1 .. 2 });
fixed(2000, 50);
read_beside('chains that end', sub {
	run(transaction('COMMIT', 'UPDATE $T SET v = v + 1 WHERE id % 3 = 0'));
	run(transaction('COMMIT', 'DELETE FROM $T WHERE id % 3 = 0'));
});
fixed(2000, 50);
read_beside('chains by multixacts', sub {
	run(transaction('COMMIT', 'SELECT count(*) FROM (SELECT FROM $T WHERE id % 3 = 0 FOR KEY SHARE) x', 'SAVEPOINT s',
		'UPDATE $T SET v = v + 1 WHERE id % 3 = 0', 'RELEASE s'))
});
fixed(2000, 50);
read_beside('dead rows', sub { run(transaction('COMMIT', 'DELETE FROM $T WHERE id % 3 = 0')) });

# What is dead was so before the reader came; what is frozen came after him.  So
# little that no page gets full, and is pruned when it is read; and hinted before
# the checkpoint, as a hint would log the image, and none would be due any more.
my $young = 'INSERT INTO $T SELECT i, 0 FROM generate_series(2001, 2060) i';
old_and_young();
run(transaction('COMMIT', 'DELETE FROM $T WHERE id % 10 = 0'));
read_beside('frozen for an image', sub { run(transaction('COMMIT', $young)); run(both('SELECT count(*) FROM $T')); run('CHECKPOINT') });
like(frozen_pages('ours'), $version < 16 ? qr/^0 of/ : qr/^(\d+) of \1$/, 'frozen for an image: from 16 on they are');
old_and_young();
read_beside('frozen with others', sub { run(transaction('COMMIT', $young)); run(both('SELECT count(*) FROM $T')); run('CHECKPOINT') },
	vacuum_freeze_min_age => 30);
is($node->safe_psql('postgres', $of_ages =~ s/\$T/ours/gr), 't t t', 'frozen with others: they are');

# The map is gone, which the pages do not know, and which is all there is to change.
fixed(2000, 50);
run('VACUUM (FREEZE) ours');
for my $workers (0, 2)
{
	run(q{SELECT pg_truncate_visibility_map('ours'); CHECKPOINT});
	$primary->safe_psql('postgres', "SELECT parvacuum_run('ours', workers => $workers)");
	like(frozen_pages('ours'), qr/^(\d+) of \1$/, "$workers workers: the map is made anew");
	is(pv_findings($primary, 'ours'), '', "$workers workers: with the map made anew the table is whole");
	standby_is_same("$workers workers: the map made anew");
}

pv_no_crash($_, $_->name) for $primary, $standby;
unlike(slurp_file($standby->logfile), qr/inconsistent page/, 'each page was replayed as the primary had it');
$standby->stop;
$primary->stop;
done_testing();
