# Several participants in one B-tree, while others split its pages, hold pins on
# them, fill those that were empty, or end a participant.  No entry of a dead
# row may stay, no row may be lost, and the counts must be right.
#
# Vacuums are stopped at places that parvacuum.wait_at names, by an advisory
# lock.  What is tested is then made to happen, and seen to have happened.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('nbtree');

# Segments of shared memory are then files of this server alone
$node->append_conf('postgresql.conf', "dynamic_shared_memory_type = mmap\n");
$node->start;
pv_setup($node);

sub sql { return $node->safe_psql('postgres', join '; ', @_); }

$node->safe_psql('postgres', q{
	CREATE SEQUENCE pad INCREMENT -1 MINVALUE 1 MAXVALUE 999999999;

	-- Entries of leaf pages
	CREATE FUNCTION leaf_entries(idx regclass) RETURNS TABLE (blkno bigint, t tid) LANGUAGE sql AS $$
		SELECT b, t
		FROM generate_series(1, oracle.nblocks(idx) - 1) b, bt_page_stats(idx::text, b) s,
			LATERAL bt_page_items(idx::text, CASE s.type WHEN 'l' THEN b END) i, unnest(coalesce(i.tids, ARRAY[i.htid])) t
		WHERE i.itemoffset > 1 OR s.btpo_next = 0;
	$$;

	-- Leaf pages with entries of dead rows, and how many
	CREATE FUNCTION dead_entries(idx regclass) RETURNS TABLE (blkno bigint, n bigint) LANGUAGE sql AS $$
		WITH dead AS MATERIALIZED (
			SELECT format('(%s,%s)', b, i.lp)::tid AS t
			FROM pg_index x, generate_series(0, oracle.nblocks(x.indrelid) - 1) b,
				heap_page_items(get_raw_page(x.indrelid::regclass::text, 'main', b)) i
			WHERE x.indexrelid = idx AND i.lp_flags = 3)
		SELECT e.blkno, count(*) FROM leaf_entries(idx) e JOIN dead USING (t) GROUP BY 1;
	$$;

	-- Pages without entries that are not deleted
	CREATE FUNCTION empty_pages(idx regclass) RETURNS SETOF bigint LANGUAGE sql AS $$
		SELECT b FROM generate_series(1, oracle.nblocks(idx) - 1) b, bt_page_stats(idx::text, b) s
		WHERE s.type = 'l' AND s.live_items = (s.btpo_next <> 0)::int;
	$$;

	-- How many pages there are of each type
	CREATE FUNCTION page_types(idx regclass) RETURNS text LANGUAGE sql AS $$
		SELECT string_agg(format('%s %s', type, n), ', ' ORDER BY type)
		FROM (SELECT s.type, count(*) AS n FROM generate_series(1, oracle.nblocks(idx) - 1) b, bt_page_stats(idx::text, b) s GROUP BY 1) x;
	$$;

	-- Pages that were split during this vacuum, and not visited since: the cycle
	-- id is at the very end of the page
	CREATE FUNCTION stamped_pages(idx regclass) RETURNS bigint LANGUAGE sql AS $$
		SELECT count(*) FROM generate_series(1, oracle.nblocks(idx) - 1) b, get_raw_page(idx::text, 'main', b) p
		WHERE get_byte(p, length(p) - 2) + get_byte(p, length(p) - 1) > 0;
	$$;

	-- Splits pages: each row that they have gets three neighbours, right next to
	-- it, whose entries are as wide as its own
	CREATE FUNCTION split_pages(idx regclass, blocks bigint[]) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		EXECUTE format('INSERT INTO %1$s (id, pad)
			SELECT r.id + 1, lpad(nextval(''pad'')::text, length(r.pad), ''0'')
			FROM (SELECT r.id, r.pad FROM leaf_entries(%2$L) e JOIN %1$s r ON r.ctid = e.t WHERE e.blkno = ANY (%3$L)) r,
				generate_series(1, 3) n',
			(SELECT indrelid::regclass FROM pg_index WHERE indexrelid = idx), idx, blocks);
	END $$;
});

#
# The use count: the advisory lock that a vacuum wants, held by one of two sessions.
# To let through those who wait, and nobody else, the other session queues up
# behind them before the first one lets go.
#
my @use count = map { my $s = $node->background_psql('postgres'); $s->set_query_timer_restart; $s } 1 .. 2;
my $at_use_count = q{FROM pg_locks WHERE locktype = 'advisory' AND objid = 28790 AND NOT granted AND mode = };

sub close_use_count { return $use count[0]->query_safe('SELECT pg_advisory_lock(28790)'); }
sub open_use_count { return $use count[0]->query_safe('SELECT pg_advisory_unlock(28790)'); }

sub step
{
	$use count[1]->query_until(qr/queued/, "\\echo queued\nSELECT pg_advisory_lock(28790);\n");
	pv_await($node, "SELECT count(*) $at_use_count 'ExclusiveLock'", 1) or die 'the lock is not wanted';
	open_use_count();
	$use count[1]->query_safe('SELECT 1');
	@use count = reverse @use count;
	return;
}

# Processes of one vacuum do not wait for each other's locks: who comes back to
# the use count while another has not yet left it passes.  So several that are to make
# many steps must be slow.
my %slow = (vacuum_cost_delay => '3ms', vacuum_cost_limit => 200, vacuum_cost_page_hit => 100, vacuum_cost_page_dirty => 0);

# So many wait at the use count, so many for a pin, and all others for them.
sub all_stand
{
	my ($use count, $pin, $what) = @_;
	ok(pv_await($node, q{
		SELECT count(*) FILTER (WHERE wait_event = 'advisory') || ' ' || count(*) FILTER (WHERE wait_event = 'BufferPin') || ' ' ||
			count(*) FILTER (WHERE coalesce(wait_event_type, '') <> 'Extension' AND coalesce(wait_event, '') NOT IN ('advisory', 'BufferPin'))
		FROM pg_stat_activity WHERE backend_type IN ('parvacuum background leader', 'parallel worker')}, "$use count $pin 0"), $what)
	  or diag pv_processes($node);
	return;
}

# Wait until nobody goes on without us; whether somebody is at the use count.
sub until_stopped
{
	pv_await($node, q{
		SELECT count(*) FROM pg_stat_activity
		WHERE backend_type IN ('parvacuum background leader', 'parallel worker') AND coalesce(wait_event_type, '') <> 'Extension' AND coalesce(wait_event, '') <> 'advisory'}, 0)
	  or diag pv_processes($node);
	return sql("SELECT count(*) $at_use_count 'ShareLock'");
}

sub start_vacuum
{
	my ($table, $workers, $place, %settings) = @_;
	return pv_start_run($node, "SELECT workers_launched, tuples_removed FROM parvacuum_run('$table', workers => $workers,
		index_cleanup => 'on', truncate => false, disable_page_skipping => true) WHERE relid = '$table'::regclass",
		'parvacuum.wait_at' => defined $place ? "nbtree\\ $place" : "''", %settings);
}

# The vacuum succeeds, with so many workers and rows removed, and leaves a table
# that is whole.  Index entries of rows that the heap pass has seen are counted
# at least once, and core does not believe a count that is higher.
sub finish_vacuum
{
	my ($run, $workers, $rows, $table, $what) = @_;
	ok(pv_finish($run), "$what: the vacuum succeeds") or diag $run->{err};
	is($run->{out}, "$workers|$rows", "$what: with its workers, and removes the rows");
	is(pv_findings($node, $table), '', "$what: the table is whole");
	is(sql("SELECT count(*) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
		WHERE x.indrelid = '$table'::regclass AND x.indpred IS NULL AND i.reltuples <> t.reltuples"), 0, "$what: all entries are counted");
	return;
}

sub numbers { return split /\n/, sql($_[0]); }
sub blocks { return sql("SELECT oracle.nblocks('$_[0]')"); }
sub first_page { return sql("SELECT min(blkno) FROM leaf_entries('$_[0]')"); }
sub dead_pages { return numbers("SELECT blkno FROM dead_entries('$_[0]') ORDER BY 1"); }
sub split_pages { my ($idx, @pages) = @_; return sql("SELECT split_pages('$idx', '{" . join(',', @pages) . "}')"); }

# A scan that stands on a leaf page, by a row that it has, and pins it.
sub pin
{
	my ($table, $id) = @_;
	my $session = $node->background_psql('postgres');
	$session->query_safe("SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off; BEGIN;
		DECLARE c CURSOR FOR SELECT id FROM $table WHERE id >= $id ORDER BY id; FETCH 1 FROM c");
	return $session;
}

# A table whose index has free pages at its beginning, this share of it, and then
# rows every other of which is dead, so that a page that is split moves entries of
# dead rows; a tenth of its pages has no other rows.  $width is that of entries,
# but for a few bytes.  Some rows are on a heap page where nothing dies; a scan
# that stands there pins no page of the heap.  More indexes may be named.  Returns
# the number of dead rows.
sub new_table
{
	my ($table, $n, $width, $share, @more) = @_;
	my $more = join ' ', map { "CREATE INDEX ON $table ($_);" } @more;
	my $last = $n * 1000;
	my $columns = "lpad(nextval('pad')::text, $width, '0')";
	$node->safe_psql('postgres', qq{
		SET client_min_messages = warning;
		DROP TABLE IF EXISTS $table;
		CREATE TABLE $table (id int, k int, pad text) WITH (autovacuum_enabled = off);
		ALTER TABLE $table ALTER pad SET STORAGE PLAIN;
		INSERT INTO $table SELECT i * 1000, i, $columns FROM generate_series(1, $n) i;
		INSERT INTO $table SELECT i, i, $columns FROM generate_series(1, 8000 / $width) i;
		INSERT INTO $table SELECT $last / 20 * i + 500, i, $columns FROM generate_series(3, 20) i;
		CREATE INDEX ${table}_id ON $table (id, pad);
		CREATE INDEX ${table}_few ON $table (k) WHERE k < 1000;
		$more
		DELETE FROM $table WHERE id < $last * $share;
		VACUUM (INDEX_CLEANUP on, TRUNCATE off) $table;
		SELECT pg_current_xact_id();
		VACUUM (INDEX_CLEANUP on, TRUNCATE off) $table;
	});
	return sql("WITH gone AS (DELETE FROM $table WHERE id % 2000 = 1000 OR id % 1000 = 0 AND id > $last * 0.7 AND id < $last * 0.8 RETURNING 1)
		SELECT count(*) FROM gone");
}

sub free_pages { return sql("SELECT count(*) FROM pg_freespace('$_[0]') WHERE avail > 0"); }

my $rows = 9000;

#
# Pages are split at each step of the ranges.  Their right halves go to pages
# that have been visited when they were free.
#
for my $workers (2, 0)
{
	my $what = "ranges, $workers workers";
	my ($moved, $stops) = (0, 0);
	my $gone = new_table('t', $rows, 180, 0.3);
	my $blocks = blocks('t_id');
	my $first = first_page('t_id');
	cmp_ok(free_pages('t_id'), '>', 60, "$what: pages are free");

	close_use_count();
	my $run = start_vacuum('t', $workers, 'range', $workers > 0 ? %slow : ());
	all_stand($workers + 1, 0, "$what: all wait");
	do
	{
		my @dead = dead_pages('t_id');
		my @ahead = grep { $_ >= $first } @dead;

		# the first page with dead entries was visited, so all before it were
		if (@ahead && $ahead[0] > $first)
		{
			split_pages('t_id', map { $ahead[ int($_ * $#ahead) ] } 0.3, 0.7);
			$moved += grep { $_ < $first } dead_pages('t_id');
			$moved -= grep { $_ < $first } @dead;
		}
		$stops++;
		step();
	} while (until_stopped() > 0);
	open_use_count();

	note "$what: $stops stops, $moved pages with moved entries";
	cmp_ok($stops, '>', 3, "$what: they were stopped several times");
	cmp_ok($moved, '>', 5, "$what: splits have moved entries to pages that were visited");
	is(blocks('t_id'), $blocks, "$what: the index did not grow");
	finish_vacuum($run, $workers, $gone, 't', $what);
}

#
# A page with moved entries is split itself, while it waits for another visit:
# before the pages are visited that the index has grown by, and after.
#
for my $case ([ 2, 0.3, 5400500 ], [ 0, 0.1, 1350500 ])
{
	my ($workers, $share, $row_ahead) = @$case;
	my $what = "finish, $workers workers";
	my $gone = new_table('t', $rows, 180, $share);
	my $first = first_page('t_id');

	# Somebody is stopped by a pin, and what is still ahead of him is split.  The
	# right halves go to another range, or to the same.
	my $pin = pin('t', $row_ahead);
	close_use_count();
	my $run = start_vacuum('t', $workers, 'finish');
	all_stand(0, 1, "$what: one waits for a pin, nobody for anything else");
	my @ahead = dead_pages('t_id');
	cmp_ok($ahead[0] // 0, '>', $first, "$what: what was free has been visited");
	split_pages('t_id', @ahead[ 0 .. ($#ahead > 3 ? 3 : $#ahead) ]);
	$pin->quit;

	all_stand(1, 0, "$what: the ranges are done");
	my @moved = dead_pages('t_id');
	cmp_ok(scalar(@moved), '>', 1, "$what: moved entries are left");
	is(scalar(grep { $_ >= $first } @moved), 0, "$what: and nothing else");

	# to recycled pages, and to new ones
	split_pages('t_id', $moved[0]);
	cmp_ok(scalar(dead_pages('t_id')), '>', scalar(@moved), "$what: they are moved on");
	my $blocks = blocks('t_id');
	sql("INSERT INTO t SELECT 20000000 + i, 0, lpad(nextval('pad')::text, 180, '0') FROM generate_series(1, 4000) i");
	cmp_ok(blocks('t_id'), '>', $blocks, "$what: no page is free any more");
	my @rows_moved = numbers(q{
		SELECT min(r.id) FROM dead_entries('t_id') d JOIN leaf_entries('t_id') e USING (blkno) JOIN t r ON r.ctid = e.t
		WHERE r.id % 1000 = 0 GROUP BY d.blkno ORDER BY 1});
	cmp_ok(scalar(@rows_moved), '>', 1, "$what: on several pages");
	my $page_of = "SELECT blkno FROM leaf_entries('t_id') e JOIN t r ON r.ctid = e.t WHERE r.id =";
	split_pages('t_id', sql("$page_of $rows_moved[-1]"));
	cmp_ok((dead_pages('t_id'))[-1], '>', $blocks, "$what: and to the end");

	# The leftmost in the order of keys is not met by going to the right
	$pin = pin('t', $rows_moved[0]);
	open_use_count();
	all_stand(0, 1, "$what: a page is to be visited again, but has a pin");
	$blocks = blocks('t_id');
	split_pages('t_id', sql("$page_of $rows_moved[0]"));
	cmp_ok((dead_pages('t_id'))[-1], '>=', $blocks, "$what: entries are moved to pages that were not there");
	$pin->quit;
	finish_vacuum($run, $workers, $gone, 't', $what);
}

#
# Rows come to pages that were found empty, before these are deleted.
#
for my $workers (2, 0)
{
	my $what = "deletion, $workers workers";
	my $gone = new_table('t', $rows, 180, 0.3);
	my $blocks = blocks('t_id');

	close_use_count();
	my $run = start_vacuum('t', $workers, 'deletion');
	all_stand(1, 0, "$what: one is about to delete");
	is(scalar(dead_pages('t_id')), 0, "$what: no entry of a dead row is left");
	my @empty = numbers("SELECT empty_pages('t_id')");
	cmp_ok(scalar(@empty), '>', 20, "$what: pages are empty");

	# a few rows, and so many that the page is split
	sql(q{INSERT INTO t SELECT 6350000 + g * 150000 + i, 0, lpad(nextval('pad')::text, 180, '0')
		FROM generate_series(1, 5) g, generate_series(1, g * g * 3) i},
		q{SELECT split_pages('t_id', array_agg(b)) FROM (
			SELECT blkno AS b FROM leaf_entries('t_id') GROUP BY 1 HAVING count(*) > 17 ORDER BY 1 LIMIT 5) x});
	my %still = map { $_ => 1 } numbers("SELECT empty_pages('t_id')");
	my @filled = grep { !$still{$_} } @empty;
	is(scalar(@filled), 5, "$what: some have rows again");
	cmp_ok(sql("SELECT stamped_pages('t_id')"), '>', 8, "$what: pages were split");
	open_use_count();
	finish_vacuum($run, $workers, $gone, 't', $what);

	my $types = q{SELECT string_agg(DISTINCT type::text, ' ') FROM unnest('{%s}'::int[]) b, bt_page_stats('t_id', b)};
	is(sql(sprintf $types, join ',', @filled), 'l', "$what: these stay");
	is(sql(sprintf $types, join ',', keys %still), 'd', "$what: the others are deleted");
	is(blocks('t_id'), $blocks, "$what: free pages were used");
	is(sql(q{SELECT count(*) FROM t WHERE id BETWEEN 6300000 AND 7199999 AND k = 0}), 165, "$what: no row is lost");
}

#
# Deletions that were cancelled have left two pages half-dead, and an empty one is to
# their right.  Core would go on from them to that, and its assertion does not expect it.
#
SKIP:
{
	my $what = 'half-dead pages';
	my ($rc) = $node->psql('postgres', 'CREATE EXTENSION parvacuum_test');
	skip 'parvacuum_test is not installed', 1 if $rc != 0;
	new_table('t', $rows, 180, 0.3);

	close_use_count();
	my $run = start_vacuum('t', 0, 'deletion');
	all_stand(1, 0, "$what: one is about to delete");
	sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader'});
	ok(!pv_finish($run), "$what: and cancelled");
	open_use_count();

	my @pages = split /\|/, sql(q{
		WITH empty AS (SELECT b, (bt_page_stats('t_id', b)).btpo_next AS next FROM empty_pages('t_id') b)
		SELECT x.b, x.next, y.next FROM empty x JOIN empty y ON y.b = x.next JOIN empty z ON z.b = y.next ORDER BY 1 LIMIT 1});
	is(scalar(@pages), 3, "$what: there are three empty pages in a row");
	for my $page (@pages[ 0, 1 ])
	{
		my ($failed, $out, $err) = $node->psql('postgres', "SELECT parvacuum_test_leave_half_dead('t_id', $page)");
		like($err, qr/canceling statement/, "$what: a deletion is cancelled");
	}
	my $types = sprintf q{SELECT string_agg((bt_page_stats('t_id', b)).type::text, ' ') FROM unnest('{%s}'::int[]) b}, join ',', @pages;
	is(sql($types), 'e e l', "$what: and leaves them so");

	$run = start_vacuum('t', 2);
	ok(pv_finish($run), "$what: the next vacuum succeeds") or diag $run->{err};
	is(sql($types), 'd d d', "$what: all three are deleted");
	is(sql(q{SELECT count(*) FROM empty_pages('t_id')}), 0, "$what: and all others");
	is(pv_findings($node, 't'), '', "$what: the table is whole");
	sql('DROP EXTENSION parvacuum_test');
}

#
# A scan stands on a page, and pins it.  Who comes there waits, the others go on,
# with this index and with the next.
#
{
	my $what = 'pin';
	my $gone = new_table('t', $rows, 180, 0.3, 'pad');
	my $pin = pin('t', 5400500);
	my $run = start_vacuum('t', 2);
	all_stand(0, 1, "$what: one waits, the others have nothing to do");
	my @left = dead_pages('t_id');
	my $first = first_page('t_id');
	cmp_ok(scalar(@left), '>', 0, "$what: its range is not done");
	cmp_ok(scalar(@left), '<', (blocks('t_id') - $first) / 4, "$what: all others are");
	is(scalar(dead_pages('t_pad_idx')), 0, "$what: and the next index");
	is(sql('SELECT count(*) FROM pg_stat_progress_vacuum WHERE index_vacuum_count > 0'), 0, "$what: no heap page is given free");
	$pin->quit;
	finish_vacuum($run, 2, $gone, 't', $what);
}

#
# The index grows by more pages than are foreseen, an eighth and 1024.
#
{
	my $what = 'growth';
	my $gone = new_table('t', 500, 1500, 0.3);
	my $first = first_page('t_id');
	my $foreseen = int(blocks('t_id') * 9 / 8) + 1024;

	close_use_count();
	my $run = start_vacuum('t', 2, 'range', %slow);
	all_stand(3, 0, "$what: all wait");
	my @ahead;
	do
	{
		step();
		until_stopped();
		@ahead = dead_pages('t_id');
	} while ($ahead[0] == $first);

	# first into pages that were visited, then between these and where they
	# came from
	my @split = @ahead[ -10 .. -1 ];
	split_pages('t_id', @split);
	my @moved = grep { $_ < $first } dead_pages('t_id');
	cmp_ok(scalar(@moved), '>', 3, "$what: entries are moved to pages that were visited");
	while (blocks('t_id') < $foreseen)
	{
		sql("INSERT INTO t SELECT 1000000 + i, 0, lpad(nextval('pad')::text, 1500, '0') FROM generate_series(1, 1000) i");
	}
	split_pages('t_id', @split, @ahead[ -20 .. -11 ]);
	cmp_ok(sql("SELECT count(*) FROM dead_entries('t_id') d, bt_page_stats('t_id', d.blkno) s WHERE d.blkno < $first AND s.btpo_prev > $foreseen"),
		'>', 3, "$what: then they are to the right of pages that are not foreseen");
	cmp_ok(sql("SELECT count(*) FROM dead_entries('t_id') WHERE blkno > $foreseen"), '>', 3, "$what: and others moved to such");
	open_use_count();
	finish_vacuum($run, 2, $gone, 't', $what);
}

#
# Twins, of which core does one
#
sub on_both { return map { my $s = $_; map { $s =~ s/\$T/$_/gr } qw(stock ours) } @_; }

my $counts = q{
	SELECT replace(relname, '%1$s_', ''), relpages, reltuples, page_types(oid),
		(SELECT count(*) FROM pg_freespace(oid) WHERE avail > 0), (SELECT last_cleanup_num_delpages FROM bt_metap(relname))
	FROM pg_class WHERE relname LIKE '%1$s\_%%' AND relkind = 'i' ORDER BY 1};

# Returns what stock VACUUM says of the indexes.  The number of rounds is kept.
my $rounds;

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
		$rounds = $out;
		$said{$twin} = join "\n", sort map { /index "${twin}_(.*: pages: .*)/ ? $1 : () } split /\n/, $err;
	}
	is($said{ours}, $said{stock}, "$what: the same is said of all indexes");
	is(sql(q{
		SELECT * FROM oracle.compare('stock', 'ours', false, true) WHERE what NOT IN ('n_live_tup', 'n_dead_tup', 'vacuum_count')
		UNION ALL SELECT * FROM oracle.check_table('ours')}), '', "$what: the twins are alike, and whole");
	is(sql(sprintf $counts, 'ours'), sql(sprintf $counts, 'stock'), "$what: with the same counts");
	return $said{stock};
}

#
# Nine tenths of a key range are deleted, where the keys are in order and where
# they are in disorder and have duplicates.  In several rounds, too; these take
# more segments of the heap than there are participants.
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
	cmp_ok($rounds, $setting ? '>' : '==', 1, "$what, disorder: rounds");
	sql(on_both('DELETE FROM $T WHERE id BETWEEN 300 AND 5699'));
	like(vacuum_twins($workers, "$what, order", $setting), qr/^d": .* [4-9]\d reusable\nid": .* 1\d\d newly deleted/,
		"$what, order: pages are deleted, others are recycled");
	like(vacuum_twins($workers, "$what, no row", $setting), qr/^id": .* 1\d\d reusable/, "$what, no row: and these are recycled, too");
	is($rounds, 0, "$what, no row: by a cleanup");
}

#
# All sorts of indexes: posting lists dead in part, duplicates without them, a
# unique one with NULLs, several columns, one too small to be shared.
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
		WHERE relname LIKE 'ours%' AND relkind = 'i' AND relpages >= 32}), 'columns posting single unique', "$what: the others are large enough");
	vacuum_twins($workers, $what);
}

# the same, with splits
{
	my $what = 'sorts, with splits';
	my @large = map { "ours_$_" } qw(columns posting single unique);
	my %split;
	my $last = 9000;
	my $gone = sql('WITH gone AS (DELETE FROM ours WHERE id % 7 = 3 OR k = 50 RETURNING 1) SELECT count(*) FROM gone');

	close_use_count();
	my $run = start_vacuum('ours', 2, 'range', %slow);
	all_stand(3, 0, "$what: all wait");
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
	open_use_count();
	note "$what: $last rows";
	cmp_ok($split{$_}, '>', 3, "$what: $_ has pages that were split") for @large;
	finish_vacuum($run, 2, $gone, 'ours', $what);
}

#
# More B-trees than may be done together: the largest are.
#
{
	my $what = 'many';
	my ($autovacuum, $special) = $node->pg_version >= 18 ? ('autovacuum_worker_slots', 2) : ('autovacuum_max_workers', $node->pg_version >= 17 ? 2 : 1);
	my $cap = sql(qq{SELECT (sum(setting::int) + $special) / 8 FROM pg_settings
		WHERE name IN ('max_connections', '$autovacuum', 'max_worker_processes', 'max_wal_senders')});
	cmp_ok($cap, '<', 20, "$what: the limit is in reach");
	sql('SET client_min_messages = warning', 'DROP TABLE IF EXISTS stock, ours', on_both(
		'CREATE TABLE $T (id int, pad text) WITH (autovacuum_enabled = off)',
		q{INSERT INTO $T SELECT i * 1000, lpad(i::text, 150, '0') FROM generate_series(1, 1800) i},
		map({ "CREATE INDEX \$T_$_ ON \$T (id, pad) WITH (fillfactor = " . (99 - 3 * $_) . ")" } 1 .. 24),
		'DELETE FROM $T WHERE id % 3 = 0'));
	is(sql(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'ours%' AND relkind = 'i' AND relpages >= 32}), 24, "$what: all are large");
	vacuum_twins(2, $what);

	# a page of each is split when those done together have been registered
	my $gone = sql('WITH gone AS (DELETE FROM ours WHERE id % 7 = 0 RETURNING 1) SELECT count(*) FROM gone');
	close_use_count();
	my $run = start_vacuum('ours', 2, 'range');
	all_stand(3, 0, "$what: all wait");
	sql(q{INSERT INTO ours SELECT 900000 + i, lpad(i::text, 150, '0') FROM generate_series(1, 100) i});
	is(sql(q{
		SELECT string_agg(together, ' ') FROM (
			SELECT i.relname || ':' || i.relpages AS together FROM pg_class i
			WHERE relname LIKE 'ours%' AND relkind = 'i' AND stamped_pages(i.oid) > 0 ORDER BY relpages DESC, oid) x}),
		sql(qq{
		SELECT string_agg(together, ' ') FROM (
			SELECT i.relname || ':' || i.relpages AS together FROM pg_class i
			WHERE relname LIKE 'ours%' AND relkind = 'i' ORDER BY relpages DESC, oid LIMIT $cap) x}),
		"$what: as many as may are done together");
	open_use_count();
	finish_vacuum($run, 2, $gone, 'ours', $what);
}

#
# Somebody is ended at each place.  Three B-trees, so that all three wait there.
#
new_table('t', 3000, 180, 0.3, 'pad', 'pad, id');
my $round = 0;
my %process = (leader => 'parvacuum background leader', worker => 'parallel worker');
sub segments { return scalar(my @files = glob $node->data_dir . '/pg_dynshmem/*'); }

for my $place (qw(range finish deletion))
{
	for my $case ([ 2, 'worker' ], [ 2, 'leader' ], [ 0, 'leader' ])
	{
		my ($workers, $who) = @$case;
		for my $how (qw(cancel terminate))
		{
			my $what = "$place, $workers workers, $how $who";
			$round++;
			sql("DELETE FROM t WHERE k % 97 = $round");
			my $segments = segments();
			close_use_count();
			my $run = start_vacuum('t', $workers, $place);
			all_stand($workers + 1, 0, "$what: all wait");
			is(sql("SELECT count(pg_${how}_backend(pid)) FROM (
				SELECT pid FROM pg_stat_activity WHERE backend_type = '$process{$who}' AND wait_event = 'advisory' LIMIT 1) x"), 1, "$what: it was there");
			ok(!pv_finish($run), "$what: the run failed");
			like($run->{err}, qr/canceling statement due to user request|terminating|connection to client lost/, "$what: the error says why");
			ok(pv_await($node, q{
				SELECT count(*) FROM (
					SELECT FROM pg_stat_activity WHERE backend_type IN ('parvacuum background leader', 'parallel worker')
					UNION ALL SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE relname LIKE 't\_%' OR relname = 't'
					UNION ALL SELECT FROM pg_stat_progress_vacuum) x}, 0), "$what: nobody is left")
			  or diag pv_processes($node);
			is(segments(), $segments, "$what: no shared memory is left");
			open_use_count();
			is(pv_findings($node, 't'), '', "$what: the table is whole");

			# by turns, core's code and ours registers all B-trees first
			my @next = ('VACUUM (INDEX_CLEANUP on, PARALLEL 0) t', "SELECT FROM parvacuum_run('t', workers => 2, index_cleanup => 'on')");
			for my $next ($round % 2 ? @next : reverse @next)
			{
				my ($rc, $out, $err) = $node->psql('postgres', "DELETE FROM t WHERE id = (SELECT min(id) FROM t); $next");
				is($rc . $err, '0', "$what: " . substr($next, 0, 6) . ' succeeds');
			}
		}
	}
}
is(pv_findings($node, 't'), '', 'after all that the table is whole');

unlike(slurp_file($node->logfile), qr/found deleted block|in an inconsistent state/, 'no complaint of core in the log');
pv_no_crash($node, 'the server');
$_->quit for @use count;
$node->stop;

#
# The server has one place for a B-tree being vacuumed for each process that it may
# have.  More vacuums with more B-trees than that leave enough to one another.
#
$node = pv_node('places');
$node->append_conf('postgresql.conf', "max_connections = 26\nmax_worker_processes = 2\nmax_wal_senders = 0\nautovacuum_max_workers = 1\n"
	. ($node->pg_version >= 18 ? "autovacuum_worker_slots = 1\n" : ''));
$node->start;
pv_setup($node);
my @tables = map { "t$_" } 1 .. 14;
sql(map { ("CREATE TABLE $_ (a int) WITH (autovacuum_enabled = off, parvacuum.enabled)", "INSERT INTO $_ SELECT generate_series(1, 13000)",
	("CREATE INDEX ON $_ (a)") x 4, "DELETE FROM $_ WHERE a % 3 = 0") } @tables);
@use count = ($node->background_psql('postgres'));
close_use_count();
my $start = sub { pv_start_run($node, "VACUUM (PARALLEL 0, INDEX_CLEANUP on) $_[0]", 'parvacuum.wait_at' => 'nbtree\ range') };
my @runs = map { $start->($_) } @tables;
ok(pv_await($node, "SELECT (SELECT sum(vacuum_count) FROM pg_stat_user_tables) + (SELECT count(*) $at_use_count 'ShareLock')", scalar @tables),
	'places: all are done or on their way') or diag pv_processes($node);
my $waiting = sql("SELECT count(*) $at_use_count 'ShareLock'");
cmp_ok($waiting, '>=', 3, "places: some have got places: $waiting");
open_use_count();
ok(pv_finish($runs[$_]), "places: $tables[$_] is vacuumed") or diag $runs[$_]->{err} for 0 .. $#runs;
is(pv_findings($node, $_), '', "places: $_ is whole") for @tables[ 0, -1 ];
ok(pv_finish($start->('t1')), 'places: and again');
$_->quit for @use count;
pv_no_crash($node, 'the server of few places');
$node->stop;
done_testing();
