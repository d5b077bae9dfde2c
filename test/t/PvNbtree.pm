# What the tests of several participants in one B-tree share: a server whose vacuums can be
# stopped at places that parvacuum.wait_at names, functions that look into the index, tables
# whose index has free pages and entries of dead rows.
package PvNbtree;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

our @EXPORT = qw($node @gate $at_gate %slow nbtree_start nbtree_stop sql close_gate open_gate step all_stand until_stopped
  start_vacuum finish_vacuum numbers blocks first_page dead_pages split_pages pin new_table free_pages);

our ($node, @gate);

sub nbtree_start
{
	my ($name) = @_;
	$node = pv_node($name);

	# segments of shared memory are then files of this server alone
	$node->append_conf('postgresql.conf', "dynamic_shared_memory_type = mmap\n");
	$node->start;
	pv_setup($node);
	make_functions();
	make_gate();
	return;
}

sub nbtree_stop
{
	$_->quit for @gate;
	$node->stop;
	return;
}

sub sql { return pv_sql($node, @_); }

sub make_functions
{
	$node->safe_psql('postgres', q{
		CREATE SEQUENCE pad INCREMENT -1 MINVALUE 1 MAXVALUE 999999999;

		-- The entries of leaf pages
		CREATE FUNCTION leaf_entries(idx regclass) RETURNS TABLE (blkno bigint, t tid) LANGUAGE sql AS $$
			SELECT b, t
			FROM generate_series(1, oracle.nblocks(idx) - 1) b, bt_page_stats(idx::text, b) s,
				LATERAL bt_page_items(idx::text, CASE s.type WHEN 'l' THEN b END) i, unnest(coalesce(i.tids, ARRAY[i.htid])) t
			WHERE i.itemoffset > 1 OR s.btpo_next = 0;
		$$;

		-- The leaf pages that have entries of dead rows, and the number of these
		CREATE FUNCTION dead_entries(idx regclass) RETURNS TABLE (blkno bigint, n bigint) LANGUAGE sql AS $$
			WITH dead AS MATERIALIZED (
				SELECT format('(%s,%s)', b, i.lp)::tid AS t
				FROM pg_index x, generate_series(0, oracle.nblocks(x.indrelid) - 1) b,
					heap_page_items(get_raw_page(x.indrelid::regclass::text, 'main', b)) i
				WHERE x.indexrelid = idx AND i.lp_flags = 3)
			SELECT e.blkno, count(*) FROM leaf_entries(idx) e JOIN dead USING (t) GROUP BY 1;
		$$;

		-- The pages without entries that are not deleted
		CREATE FUNCTION empty_pages(idx regclass) RETURNS SETOF bigint LANGUAGE sql AS $$
			SELECT b FROM generate_series(1, oracle.nblocks(idx) - 1) b, bt_page_stats(idx::text, b) s
			WHERE s.type = 'l' AND s.live_items = (s.btpo_next <> 0)::int;
		$$;

		-- The number of pages of each type
		CREATE FUNCTION page_types(idx regclass) RETURNS text LANGUAGE sql AS $$
			SELECT string_agg(format('%s %s', type, n), ', ' ORDER BY type)
			FROM (SELECT s.type, count(*) AS n FROM generate_series(1, oracle.nblocks(idx) - 1) b, bt_page_stats(idx::text, b) s GROUP BY 1) x;
		$$;

		-- The number of pages that were split during this vacuum and have not been visited
		-- since: the cycle ID is at the very end of the page
		CREATE FUNCTION stamped_pages(idx regclass) RETURNS bigint LANGUAGE sql AS $$
			SELECT count(*) FROM generate_series(1, oracle.nblocks(idx) - 1) b, get_raw_page(idx::text, 'main', b) p
			WHERE get_byte(p, length(p) - 2) + get_byte(p, length(p) - 1) > 0;
		$$;

		-- Splits pages: each row of theirs gets three neighbors, whose entries follow its
		-- own and are as wide
		CREATE FUNCTION split_pages(idx regclass, blocks bigint[]) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			EXECUTE format('INSERT INTO %1$s (id, pad)
				SELECT r.id + 1, lpad(nextval(''pad'')::text, length(r.pad), ''0'')
				FROM (SELECT r.id, r.pad FROM leaf_entries(%2$L) e JOIN %1$s r ON r.ctid = e.t WHERE e.blkno = ANY (%3$L)) r,
					generate_series(1, 3) n',
				(SELECT indrelid::regclass FROM pg_index WHERE indexrelid = idx), idx, blocks);
		END $$;
	});
	return;
}

#
# The gate: the advisory lock that a vacuum waits for, held by one of two sessions.  To let
# exactly the waiting processes pass, the other session queues up behind them before the
# first one releases the lock.
#
our $at_gate = q{FROM pg_locks WHERE locktype = 'advisory' AND objid = 28790 AND NOT granted AND mode = };

sub make_gate
{
	@gate = map { pv_session($node) } 1 .. 2;
	return;
}

sub close_gate { return $gate[0]->query_safe('SELECT pg_advisory_lock(28790)'); }
sub open_gate { return $gate[0]->query_safe('SELECT pg_advisory_unlock(28790)'); }

sub step
{
	$gate[1]->query_until(qr/queued/, "\\echo queued\nSELECT pg_advisory_lock(28790);\n");
	pv_await($node, "SELECT count(*) $at_gate 'ExclusiveLock'", 1) or die 'the lock is not wanted';
	open_gate();
	$gate[1]->query_safe('SELECT 1');
	@gate = reverse @gate;
	return;
}

# Processes of one vacuum do not wait for each other's locks: one that comes back to the
# gate while another has not left it yet passes.  So several processes that are to stop
# often must be slow.
our %slow = (vacuum_cost_delay => '3ms', vacuum_cost_limit => 200, vacuum_cost_page_hit => 100, vacuum_cost_page_dirty => 0);

# One test: this many processes wait at the gate, this many for a pin, and all others for
# those.
sub all_stand
{
	my ($gate, $pin, $what) = @_;
	ok(pv_await($node, q{
		SELECT count(*) FILTER (WHERE wait_event = 'advisory') || ' ' || count(*) FILTER (WHERE wait_event IN ('BufferPin', 'BufferCleanup')) || ' ' ||
			count(*) FILTER (WHERE coalesce(wait_event_type, '') <> 'Extension' AND coalesce(wait_event, '') NOT IN ('advisory', 'BufferPin', 'BufferCleanup'))
		FROM pg_stat_activity WHERE backend_type IN ('parvacuum background leader', 'parallel worker')}, "$gate $pin 0"), $what)
	  or diag pv_processes($node);
	return;
}

# Wait until all processes are stopped.  Returns the number of those at the gate.
sub until_stopped
{
	pv_await($node, q{
		SELECT count(*) FROM pg_stat_activity
		WHERE backend_type IN ('parvacuum background leader', 'parallel worker') AND coalesce(wait_event_type, '') <> 'Extension' AND coalesce(wait_event, '') <> 'advisory'}, 0)
	  or diag pv_processes($node);
	return sql("SELECT count(*) $at_gate 'ShareLock'");
}

sub start_vacuum
{
	my ($table, $workers, $place, %settings) = @_;
	return pv_start_run($node, "SELECT workers_launched, tuples_removed FROM parvacuum_run('$table', workers => $workers,
		index_cleanup => 'on', truncate => false, disable_page_skipping => true) WHERE relid = '$table'::regclass",
		'parvacuum.wait_at' => defined $place ? "nbtree\\ $place" : "''", %settings);
}

# Four tests: the vacuum succeeds, with this number of workers and of removed rows, and
# leaves a table that is whole.  Index entries of rows that the heap scan has seen are
# counted at least once, and core does not use a count that is higher.
sub finish_vacuum
{
	my ($run, $workers, $rows, $table, $what) = @_;
	ok(pv_finish($run), "$what: the vacuum succeeds") or diag $run->{err};
	is($run->{out}, "$workers|$rows", "$what: it had its workers, and removed the rows");
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

# An index scan that stands on the leaf page of a row, and pins it.  Returns its session.
sub pin
{
	my ($table, $id) = @_;
	my $session = pv_session($node);
	$session->query_safe("SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off; BEGIN;
		DECLARE c CURSOR FOR SELECT id FROM $table WHERE id >= $id ORDER BY id; FETCH 1 FROM c");
	return $session;
}

# A table whose index has free pages at its beginning, as many as this share of it, or at
# its end, if the share is negative.  Then every other row is dead, so that a page that is
# split moves entries of dead rows, and a tenth of the pages has dead rows only.  $width is the width of the entries without a few
# bytes.  Some rows are on heap pages without dead rows; an index scan that stands on their
# entries pins no heap page that vacuum needs.  More indexes may be named.  Returns the
# number of dead rows.
sub new_table
{
	my ($table, $n, $width, $share, @more) = @_;
	my $more = join ' ', map { "CREATE INDEX ON $table ($_);" } @more;
	my $last = $n * 1000;
	my $free = $share >= 0 ? "id < $last * $share" : "id > $last * (1 + $share)";
	my ($all_dead, $to) = $share >= 0 ? (0.7, 0.8) : (0.1, 0.2);
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
		DELETE FROM $table WHERE $free;
		VACUUM (INDEX_CLEANUP on, TRUNCATE off) $table;
		SELECT pg_current_xact_id();
		VACUUM (INDEX_CLEANUP on, TRUNCATE off) $table;
	});
	return sql("WITH gone AS (DELETE FROM $table WHERE id % 2000 = 1000 OR id % 1000 = 0 AND id > $last * $all_dead AND id < $last * $to RETURNING 1)
		SELECT count(*) FROM gone");
}

sub free_pages { return sql("SELECT count(*) FROM pg_freespace('$_[0]') WHERE avail > 0"); }

1;
