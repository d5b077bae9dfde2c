-- The oracle: is a vacuumed table whole, and is it what stock VACUUM would
-- have made of it?
--
--    oracle.check_table(rel)         faults of one table, its TOAST table and
--                                    its indexes
--    oracle.compare(stock, ours)     how our table differs from its twin, which
--                                    stock VACUUM has done
--    oracle.make_twins(kind, ...)    statements that make such twins
--    oracle.trial(label, ...)        the same, with both vacuums and the verdict
--
-- check_table and compare return one row for each kind of fault, none if all
-- is well.  Both read pages as they are, so nothing else may write to the
-- tables meanwhile.  make_twins and trial return statements because VACUUM
-- cannot run inside a function: execute each row, in psql by \gexec.
--
-- This file can be read in any number of times.

SET client_min_messages = warning;

DROP SCHEMA IF EXISTS oracle CASCADE;
CREATE SCHEMA oracle;
CREATE EXTENSION IF NOT EXISTS amcheck;
CREATE EXTENSION IF NOT EXISTS pageinspect;
CREATE EXTENSION IF NOT EXISTS pg_freespacemap;
CREATE EXTENSION IF NOT EXISTS pg_visibility;

CREATE TYPE oracle.fault AS (what text, detail text);

------------------------------------------------------------------------------
-- Reading pages
------------------------------------------------------------------------------

CREATE FUNCTION oracle.nblocks(rel regclass) RETURNS bigint
LANGUAGE sql AS $$
    SELECT pg_relation_size(rel) / current_setting('block_size')::int;
$$;

-- One block's line pointer array, as it is on disk.
CREATE FUNCTION oracle.line_pointers(rel regclass, blk bigint) RETURNS bytea
LANGUAGE sql AS $$
    SELECT substring(p FROM 25 FOR greatest((page_header(p)).lower - 24, 0))
    FROM get_raw_page(rel::text, 'main', blk) p;
$$;

-- The line pointers of one block as text, without the position of tuples on the page, in
-- which twins may differ.
CREATE FUNCTION oracle.items(rel regclass, blk bigint) RETURNS text
LANGUAGE sql AS $$
    SELECT string_agg(
               CASE i.lp_flags
                   WHEN 0 THEN 'unused'
                   WHEN 1 THEN 'normal:' || i.lp_len
                   WHEN 2 THEN 'redirect:' || i.lp_off
                   ELSE 'dead'
               END, ' ' ORDER BY i.lp)
    FROM heap_page_items(get_raw_page(rel::text, 'main', blk)) i;
$$;

-- The blocks of an index from this one on that have been initialized.  A crash may leave others, at
-- which functions of pageinspect fail an assertion.
CREATE FUNCTION oracle.used_blocks(idx regclass, first bigint) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        SELECT blk FROM generate_series(first, oracle.nblocks(idx) - 1) blk
        WHERE (page_header(get_raw_page(idx::text, 'main', blk))).upper > 0;
END $$;

-- All heap TIDs of an index, for the access methods whose pages pageinspect can read
-- completely; one row with NULL for the others.
CREATE FUNCTION oracle.index_tids(idx regclass) RETURNS SETOF tid
LANGUAGE plpgsql AS $$
DECLARE
    am text := (SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = idx);
BEGIN
    IF am = 'btree' THEN
        -- the high key of a leaf has no heap TID; posting lists have many
        RETURN QUERY
            SELECT t
            FROM oracle.used_blocks(idx, 1) blk,
                 bt_page_stats(idx::text, blk) s,
                 bt_page_items(idx::text, blk) i,
                 unnest(coalesce(i.tids, ARRAY[i.htid])) t
            WHERE s.type = 'l' AND (i.itemoffset > 1 OR s.btpo_next = 0);
    ELSIF am = 'hash' THEN
        RETURN QUERY
            SELECT i.ctid
            FROM oracle.used_blocks(idx, 1) blk,
                 get_raw_page(idx::text, 'main', blk) p,
                 LATERAL (SELECT hash_page_type(p) AS type) y,
                 LATERAL (SELECT * FROM hash_page_items(CASE WHEN y.type IN ('bucket', 'overflow') THEN p END)) i
            WHERE y.type IN ('bucket', 'overflow') AND i.ctid IS NOT NULL;
    ELSIF am = 'gist' THEN
        RETURN QUERY
            SELECT i.ctid
            FROM oracle.used_blocks(idx, 0) blk,
                 get_raw_page(idx::text, 'main', blk) p,
                 gist_page_opaque_info(p) o,
                 gist_page_items_bytea(p) i
            WHERE 'leaf' = ANY (o.flags) AND NOT 'deleted' = ANY (o.flags);
    ELSE
        RETURN NEXT NULL::tid;
    END IF;
END $$;

-- The free space of each page of a relation; equal for two indexes that were built in
-- the same way.
CREATE FUNCTION oracle.page_fill(rel regclass)
RETURNS TABLE (blkno bigint, lower int, upper int)
LANGUAGE sql AS $$
    SELECT blk, h.lower, h.upper
    FROM generate_series(0, oracle.nblocks(rel) - 1) blk,
         page_header(get_raw_page(rel::text, 'main', blk)) h;
$$;

CREATE FUNCTION oracle.toast_of(rel regclass) RETURNS regclass
LANGUAGE sql AS $$
    SELECT nullif(reltoastrelid, 0)::regclass FROM pg_class WHERE oid = rel;
$$;

-- The tables with storage that a name stands for: the table itself or its partitions.
CREATE FUNCTION oracle.leaves(rel regclass) RETURNS SETOF regclass
LANGUAGE sql AS $$
    SELECT relid FROM pg_partition_tree(rel) WHERE isleaf
    UNION
    SELECT oid FROM pg_class WHERE oid = rel AND relkind IN ('r', 'm', 't');
$$;

-- Executes a statement; an error of it is a fault.  If a lock is not available at once, the check
-- is not possible here, which is no fault; then the other statement is executed, which needs less.
CREATE FUNCTION oracle.attempt(what text, statement text, other text DEFAULT NULL) RETURNS SETOF oracle.fault
LANGUAGE plpgsql SET lock_timeout = '300ms' AS $$
BEGIN
    EXECUTE statement;
EXCEPTION
    WHEN lock_not_available THEN
        IF other IS NOT NULL THEN
            RETURN QUERY SELECT * FROM oracle.attempt(what, other);
        END IF;
    WHEN OTHERS THEN RETURN NEXT ROW (what, statement || ': ' || SQLERRM)::oracle.fault;
END $$;

------------------------------------------------------------------------------
-- One table
------------------------------------------------------------------------------

CREATE FUNCTION oracle.check_heap(rel regclass) RETURNS SETOF oracle.fault
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        SELECT 'heap', rel || ': ' || count(*) || ' faults, first: ' ||
               (array_agg(format('block %s offset %s: %s', v.blkno, v.offnum, v.msg)))[1]
        FROM verify_heapam(rel, check_toast => true) v
        HAVING count(*) > 0;
    RETURN QUERY
        SELECT 'all-visible', rel || ': ' || count(*) || ' rows are not, first: ' || min(t)
        FROM pg_check_visible(rel) t HAVING count(*) > 0;
    RETURN QUERY
        SELECT 'all-frozen', rel || ': ' || count(*) || ' rows are not, first: ' || min(t)
        FROM pg_check_frozen(rel) t HAVING count(*) > 0;
    RETURN QUERY
        SELECT 'visibility map', rel || ': the map says all-visible or all-frozen, the page does not, block ' || min(v.blkno)
        FROM pg_visibility(rel) v
        WHERE v.all_visible AND NOT v.pd_all_visible OR v.all_frozen AND NOT v.all_visible
        HAVING count(*) > 0;
END $$;

-- Index entries whose line pointer is unused or does not exist: the next row that uses
-- this line pointer would be found by a wrong key.
CREATE FUNCTION oracle.check_dangling(rel regclass) RETURNS SETOF oracle.fault
LANGUAGE sql AS $$
    WITH used AS MATERIALIZED (
        SELECT format('(%s,%s)', blk, i.lp)::tid AS t
        FROM generate_series(0, oracle.nblocks(rel) - 1) blk,
             heap_page_items(get_raw_page(rel::text, 'main', blk)) i
        WHERE i.lp_flags <> 0)
    SELECT 'dangling', x.indexrelid::regclass || ': ' || count(*) || ' entries, first: ' || min(e.t)
    FROM pg_index x, oracle.index_tids(x.indexrelid) AS e(t)
    WHERE x.indrelid = rel AND e.t IS NOT NULL AND NOT EXISTS (SELECT FROM used u WHERE u.t = e.t)
    GROUP BY x.indexrelid;
$$;

CREATE FUNCTION oracle.check_btrees(rel regclass) RETURNS SETOF oracle.fault
LANGUAGE sql AS $$
    SELECT f.*
    FROM pg_index x
    JOIN pg_class c ON c.oid = x.indexrelid
    JOIN pg_am a ON a.oid = c.relam,
    LATERAL oracle.attempt('btree', format('SELECT bt_index_parent_check(%L, true, true)', x.indexrelid::regclass),
                           format('SELECT bt_index_check(%L, true)', x.indexrelid::regclass)) f
    WHERE x.indrelid = rel AND a.amname = 'btree' AND x.indisvalid;
$$;

-- thorough: false leaves out the checks that read each item of each index.
CREATE FUNCTION oracle.check_table(rel regclass, thorough bool DEFAULT true) RETURNS SETOF oracle.fault
LANGUAGE plpgsql AS $$
DECLARE
    t regclass;
BEGIN
    FOR t IN SELECT l FROM oracle.leaves(rel) l UNION ALL SELECT oracle.toast_of(l) FROM oracle.leaves(rel) l LOOP
        CONTINUE WHEN t IS NULL;
        RETURN QUERY SELECT * FROM oracle.check_heap(t);
        RETURN QUERY SELECT * FROM oracle.check_btrees(t);
        IF thorough THEN
            RETURN QUERY SELECT * FROM oracle.check_dangling(t);
        END IF;
    END LOOP;
END $$;

------------------------------------------------------------------------------
-- Two tables
------------------------------------------------------------------------------

-- A digest of the visible rows and their places.  The rows of TOAST tables have OIDs as
-- numbers, in which twins differ.
CREATE FUNCTION oracle.rows_digest(rel regclass) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    columns text := (SELECT string_agg(format(', quote_nullable(t.%I)', attname), '' ORDER BY attnum)
                     FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
                     WHERE attrelid = rel AND attnum > 0 AND NOT attisdropped AND (attname <> 'chunk_id' OR relkind <> 't'));
    digest text;
BEGIN
    EXECUTE format('SELECT count(*) || '' rows, digest '' || '
                   '       coalesce(sum(hashtextextended(concat_ws(''|'', t.ctid%s), 0)), 0) FROM ONLY %s t', columns, rel)
       INTO digest;
    RETURN digest;
END $$;

CREATE FUNCTION oracle.compare_items(stock regclass, ours regclass, nblocks bigint) RETURNS SETOF oracle.fault
LANGUAGE sql AS $$
    SELECT 'line pointers', ours || ': ' || count(*) || ' blocks differ, first: ' || min(blk)
    FROM generate_series(0, nblocks - 1) blk
    WHERE oracle.line_pointers(stock, blk) <> oracle.line_pointers(ours, blk)
      AND oracle.items(stock, blk) IS DISTINCT FROM oracle.items(ours, blk)
    HAVING count(*) > 0;
$$;

-- Blocks that only one of the two tables has must be empty.
CREATE FUNCTION oracle.compare_ends(stock regclass, ours regclass, may_differ bool) RETURNS SETOF oracle.fault
LANGUAGE sql AS $$
    SELECT 'size', format('%s has %s blocks, %s has %s', stock, s, ours, o)
    FROM oracle.nblocks(stock) s, oracle.nblocks(ours) o
    WHERE s <> o AND
          (NOT may_differ OR
           EXISTS (SELECT FROM generate_series(least(s, o), greatest(s, o) - 1) blk,
                               heap_page_items(get_raw_page(CASE WHEN s > o THEN stock ELSE ours END::text, 'main', blk)) i
                   WHERE i.lp_flags <> 0));
$$;

-- Up to 8 MB, both vacuums skip the same pages.  Beyond, or if that was asked for, ours skips
-- more: its counts are estimates, and all-visible pages and relfrozenxid may have to remain as
-- they are.
CREATE FUNCTION oracle.skips_alike(rel regclass) RETURNS bool LANGUAGE sql AS $$
    SELECT oracle.nblocks(rel) <= 1024 AND current_setting('parvacuum.shortest_skip', true) IS DISTINCT FROM '1';
$$;

-- The pages that a vacuum may not skip, of a table, its partitions and TOAST tables: those
-- that are not all-visible by the map, or not all-frozen if it is aggressive.
CREATE FUNCTION oracle.pages_to_visit(rel regclass, aggressive bool) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*)
    FROM oracle.leaves(rel) l, unnest(ARRAY[l, oracle.toast_of(l)]) t, pg_visibility_map(t) m
    WHERE t IS NOT NULL AND NOT CASE WHEN aggressive THEN m.all_frozen ELSE m.all_visible END;
$$;

CREATE FUNCTION oracle.compare_maps(stock regclass, ours regclass, nblocks bigint) RETURNS SETOF oracle.fault
LANGUAGE sql AS $$
    SELECT 'visibility map',
           format('%s: %s blocks have less than the twin''s, first: %s', ours, count(*), min(s.blkno))
    FROM pg_visibility_map(stock) s JOIN pg_visibility_map(ours) o USING (blkno)
    WHERE s.blkno < nblocks AND (s.all_visible AND NOT o.all_visible OR
          s.all_frozen AND NOT o.all_frozen AND oracle.skips_alike(ours))
    HAVING count(*) > 0
    UNION ALL
    -- the map rounds down to a 256th of a block
    SELECT 'free space map',
           format('%s: %s blocks, first: %s', ours, count(*), (array_agg(format('%s (%s, twin %s)', o.blkno, o.avail, s.avail)))[1])
    FROM pg_freespace(stock) s JOIN pg_freespace(ours) o USING (blkno), page_header(get_raw_page(ours::text, 'main', o.blkno)) h
    WHERE s.blkno < nblocks AND s.avail <> o.avail AND
          (o.avail = 0 OR o.avail > CASE h.upper WHEN 0 THEN 8192 ELSE h.upper - h.lower END)
    HAVING count(*) > 0;
$$;

-- Core assumes that skipped pages have as many rows as the average page had before.
-- Where the rows of a fifth of the pages are removed, and the other pages are skipped,
-- the result is 17 % too low.
CREATE FUNCTION oracle.about_as_many(rel regclass, a float8, b float8) RETURNS bool LANGUAGE sql AS $$
    SELECT abs(a - b) <= 1 + a / CASE WHEN oracle.skips_alike(rel) THEN 200 ELSE 4 END;
$$;

-- The values that VACUUM writes into pg_class and the statistics.  A number of rows is an
-- estimate if pages were skipped.
CREATE FUNCTION oracle.compare_stats(stock regclass, ours regclass, ends_may_differ bool) RETURNS SETOF oracle.fault
LANGUAGE sql AS $$
    SELECT v.what, format('%s has %s, %s has %s', stock, v.s, ours, v.o)
    FROM pg_class s, pg_class o,
    LATERAL (VALUES
        ('relfrozenxid', age(s.relfrozenxid)::text, age(o.relfrozenxid)::text,
            age(o.relfrozenxid) <= age(s.relfrozenxid) OR NOT oracle.skips_alike(ours)),
        ('relminmxid', mxid_age(s.relminmxid)::text, mxid_age(o.relminmxid)::text,
            mxid_age(o.relminmxid) <= mxid_age(s.relminmxid) OR NOT oracle.skips_alike(ours)),
        ('relpages', s.relpages::text, o.relpages::text,
            s.relpages = o.relpages OR ends_may_differ),
        ('relallvisible', s.relallvisible::text, o.relallvisible::text,
            o.relallvisible >= s.relallvisible AND o.relallvisible <= o.relpages OR ends_may_differ),
        ('reltuples', s.reltuples::text, o.reltuples::text,
            oracle.about_as_many(ours, s.reltuples, o.reltuples)),
        ('n_live_tup', pg_stat_get_live_tuples(stock)::text, pg_stat_get_live_tuples(ours)::text,
            oracle.about_as_many(ours, pg_stat_get_live_tuples(stock), pg_stat_get_live_tuples(ours))),
        ('n_dead_tup', pg_stat_get_dead_tuples(stock)::text, pg_stat_get_dead_tuples(ours)::text,
            pg_stat_get_dead_tuples(stock) = pg_stat_get_dead_tuples(ours)),
        ('vacuum_count', pg_stat_get_vacuum_count(stock)::text, pg_stat_get_vacuum_count(ours)::text,
            pg_stat_get_vacuum_count(stock) = pg_stat_get_vacuum_count(ours))
        ) AS v(what, s, o, good)
    WHERE s.oid = stock AND o.oid = ours AND v.good IS NOT TRUE;
$$;

-- Indexes are twins by the order of their creation. alike: their pages should be equally
-- full, too; that does not hold where the number of index scans differs, and never for
-- GiST, which breaks ties at random when it inserts.  GIN does not count: it uses the
-- number of rows of the table, and none if that is an estimate.
CREATE FUNCTION oracle.compare_indexes(stock regclass, ours regclass, alike bool) RETURNS SETOF oracle.fault
LANGUAGE sql AS $$
    WITH pair AS (
        SELECT s.indexrelid::regclass AS si, o.indexrelid::regclass AS oi,
               (SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = s.indexrelid) AS am
        FROM (SELECT *, row_number() OVER (ORDER BY indexrelid) FROM pg_index WHERE indrelid = stock) s
        FULL JOIN (SELECT *, row_number() OVER (ORDER BY indexrelid) FROM pg_index WHERE indrelid = ours) o
            USING (row_number))
    SELECT 'index entries', format('%s: %s entries, the twin''s %s', oi, o, s)
    FROM pair, LATERAL (SELECT count(*) AS s FROM oracle.index_tids(si)) x, LATERAL (SELECT count(*) AS o FROM oracle.index_tids(oi)) y
    WHERE s <> o
    UNION ALL
    SELECT 'index statistics', format('%s: %s pages and %s rows, the twin''s %s and %s',
                                      oi, o.relpages, o.reltuples, s.relpages, s.reltuples)
    FROM pair, pg_class s, pg_class o
    WHERE s.oid = si AND o.oid = oi AND
          (am <> 'gist' AND s.relpages <> o.relpages OR (s.reltuples < 0) <> (o.reltuples < 0) OR
           NOT oracle.about_as_many(ours, s.reltuples, o.reltuples) AND (am <> 'gin' OR oracle.skips_alike(ours)))
    UNION ALL
    SELECT 'index pages', format('%s: %s blocks are filled otherwise, first: %s', oi, count(*), min(blkno))
    FROM pair, LATERAL (SELECT blkno FROM oracle.page_fill(si) a FULL JOIN oracle.page_fill(oi) b USING (blkno)
                        WHERE (a.lower, a.upper) IS DISTINCT FROM (b.lower, b.upper)) d
    WHERE alike AND am <> 'gist'
    GROUP BY oi;
$$;

CREATE FUNCTION oracle.compare_one(stock regclass, ours regclass, ends_may_differ bool, alike bool) RETURNS SETOF oracle.fault
LANGUAGE plpgsql AS $$
DECLARE
    common bigint := least(oracle.nblocks(stock), oracle.nblocks(ours));
BEGIN
    RETURN QUERY SELECT 'rows', format('%s has %s, %s has %s', stock, s, ours, o)
        FROM oracle.rows_digest(stock) s, oracle.rows_digest(ours) o WHERE s <> o;
    RETURN QUERY SELECT * FROM oracle.compare_ends(stock, ours, ends_may_differ);
    RETURN QUERY SELECT * FROM oracle.compare_items(stock, ours, common);
    RETURN QUERY SELECT * FROM oracle.compare_maps(stock, ours, common);
    RETURN QUERY SELECT * FROM oracle.compare_stats(stock, ours, ends_may_differ);
    RETURN QUERY SELECT * FROM oracle.compare_indexes(stock, ours, alike);
END $$;

CREATE FUNCTION oracle.compare(stock regclass, ours regclass, ends_may_differ bool DEFAULT false, alike bool DEFAULT true)
RETURNS SETOF oracle.fault
LANGUAGE plpgsql AS $$
DECLARE
    s regclass;
    o regclass;
BEGIN
    FOR s, o IN SELECT a.l, b.l
                FROM (SELECT l, row_number() OVER (ORDER BY l::oid) FROM oracle.leaves(stock) l) a
                FULL JOIN (SELECT l, row_number() OVER (ORDER BY l::oid) FROM oracle.leaves(ours) l) b USING (row_number)
    LOOP
        RETURN QUERY SELECT * FROM oracle.compare_one(s, o, ends_may_differ, alike);
        IF oracle.toast_of(s) IS NOT NULL THEN
            RETURN QUERY SELECT * FROM oracle.compare_one(oracle.toast_of(s), oracle.toast_of(o), ends_may_differ, alike);
        END IF;
    END LOOP;
END $$;

------------------------------------------------------------------------------
-- Making twins
------------------------------------------------------------------------------

-- Both tables get each statement in one transaction; $T stands for the name.
CREATE FUNCTION oracle.on_both(statement text, ending text DEFAULT 'COMMIT') RETURNS text
LANGUAGE sql AS $$
    SELECT format('BEGIN; %s; %s; %s', replace(statement, '$T', 'stock'), replace(statement, '$T', 'ours'), ending);
$$;

CREATE FUNCTION oracle.index_sql(name text) RETURNS text
LANGUAGE sql AS $$
    SELECT coalesce(
        (SELECT 'CREATE INDEX ON $T ' || v.def
         FROM (VALUES
             ('btree', '(id)'),
             ('duplicates', '(k)'),
             ('changing', '(v)'),
             ('partial', '(k) WHERE v = 0'),
             ('expression', '((k + v))'),
             ('hash', 'USING hash (k)'),
             ('gist', 'USING gist (pt)'),
             ('spgist', 'USING spgist (pt)'),
             ('gin', 'USING gin (arr)'),
             ('brin', 'USING brin (id) WITH (pages_per_range = 4)')) AS v(name, def)
         WHERE v.name = $1),
        'SELECT no_such_index_' || name);
$$;

-- Rows first..last.  The contents of a row depend on its number only.  A width of -1 makes
-- rows as small as possible, two hundred on a page.
CREATE FUNCTION oracle.fill_sql(first int, last int, width int) RETURNS text
LANGUAGE sql AS $$
    SELECT CASE width WHEN -1 THEN
        format('INSERT INTO $T SELECT i, abs(hashint4(i)) %% 1000, 0 FROM generate_series(%s, %s) i', first, last)
    ELSE format($f$INSERT INTO $T
        SELECT i, abs(hashint4(i)) %% 1000, 0, repeat(chr(97 + i %% 26), %s),
               ARRAY[i %% 10, i %% 7 + 100, i], point(i %% 1000, abs(hashint4(i)) %% 1000)
        FROM generate_series(%s, %s) i$f$, width, first, last) END;
$$;

-- Pages that never had rows, as a crash leaves them: zeroes, or a header only.  The data
-- directory is the current folder of a server program.
CREATE FUNCTION oracle.append_pages(rel regclass, n int, page text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    header text := CASE page
        WHEN 'new' THEN ''
        WHEN 'empty' THEN '\000\000\000\000\000\000\000\000\000\000\000\000\030\000\000\040\000\040\004\040\000\000\000\000'
    END;
    one text := format('{ printf ''%s''; head -c %s /dev/zero; }', header, 8192 - length(header) / 4);
BEGIN
    EXECUTE format('COPY (SELECT) TO PROGRAM %L',
                   format('cat >/dev/null; for i in $(seq %s); do %s; done >> %s', n, one, pg_relation_filepath(rel)));
END $$;

CREATE FUNCTION oracle.create_sql(kind text, options text, persistence text) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    columns text := '(id int, k int, v int, pad text, arr int[], pt point)';
    storage text := format('WITH (%s)', concat_ws(', ', 'autovacuum_enabled = off', options));
BEGIN
    RETURN NEXT 'DROP TABLE IF EXISTS stock, ours';
    IF kind <> 'partitions' THEN
        RETURN NEXT oracle.on_both(format('CREATE %s TABLE $T %s %s', persistence, columns, storage));
    ELSE
        RETURN NEXT oracle.on_both(format('CREATE TABLE $T %s PARTITION BY HASH (id)', columns));
        FOR i IN 0 .. 2 LOOP
            RETURN NEXT oracle.on_both(format('CREATE %s TABLE $T_%s PARTITION OF $T FOR VALUES WITH (MODULUS 3, REMAINDER %s) %s',
                                              persistence, i, i, storage));
        END LOOP;
    END IF;
    IF kind = 'toast' THEN
        RETURN NEXT oracle.on_both('ALTER TABLE $T ALTER COLUMN pad SET STORAGE EXTERNAL');
    END IF;
END $$;

-- The history of the rows, by kind; n is their number.
CREATE FUNCTION oracle.history(kind text, n int, width int) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    lock_some text := 'SELECT count(*) FROM (SELECT FROM $T WHERE id %% %s = 0 FOR %s) s';
BEGIN
    CASE kind
    WHEN 'none' THEN
        NULL;
    WHEN 'fifth', 'partitions' THEN
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE id % 5 = 0');
    WHEN 'scattered' THEN
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE hashint4(id) & 3 = 0');
    WHEN 'all' THEN
        RETURN NEXT oracle.on_both('DELETE FROM $T');
    WHEN 'tail' THEN
        RETURN NEXT oracle.on_both(format('DELETE FROM $T WHERE id > %s OR id %% 7 = 0', n * 2 / 5));
    WHEN 'gaps' THEN
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE id / 500 % 3 = 1');
    WHEN 'few' THEN
        RETURN NEXT oracle.on_both(format('DELETE FROM $T WHERE id IN (7, 8, %s, %s)', n / 2, n - 1));
    WHEN 'updates' THEN
        -- chains of HOT updates as far as the page has room; some end with a deletion
        FOR i IN 1 .. 3 LOOP
            RETURN NEXT oracle.on_both(format('UPDATE $T SET v = v + 1 WHERE id %% %s = 0', i + 1));
        END LOOP;
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE id % 8 = 0');
        RETURN NEXT oracle.on_both('UPDATE $T SET k = k + 1 WHERE id % 9 = 0');
    WHEN 'aborted' THEN
        RETURN NEXT oracle.on_both(oracle.fill_sql(n + 1, n + n / 4, width), 'ROLLBACK');
        RETURN NEXT oracle.on_both('UPDATE $T SET v = 1 WHERE id % 6 = 0', 'ROLLBACK');
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE id % 5 = 0', 'ROLLBACK');
        RETURN NEXT oracle.on_both('UPDATE $T SET v = 2 WHERE id % 10 = 0');
        RETURN NEXT oracle.on_both(oracle.fill_sql(n + 1, n + n / 4, width));
        RETURN NEXT oracle.on_both(oracle.fill_sql(n + n / 4 + 1, n + n / 2, width), 'ROLLBACK');
    WHEN 'locked' THEN
        RETURN NEXT oracle.on_both(format(lock_some, 3, 'UPDATE'));
        RETURN NEXT oracle.on_both(format(lock_some, 4, 'KEY SHARE'));
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE id % 6 = 0');
    WHEN 'multixacts' THEN
        -- a lock, then another one of a subtransaction: both go into a multixact
        RETURN NEXT oracle.on_both(concat_ws('; ', format(lock_some, 2, 'KEY SHARE'),
            'SAVEPOINT s', 'UPDATE $T SET v = 1 WHERE id % 6 = 0', 'RELEASE s',
            'SAVEPOINT s', format(lock_some, 10, 'SHARE'), 'RELEASE s'));
        RETURN NEXT oracle.on_both(concat_ws('; ', format(lock_some, 3, 'KEY SHARE'),
            'SAVEPOINT s', 'UPDATE $T SET v = 2 WHERE id % 9 = 0', 'ROLLBACK TO s', format(lock_some, 5, 'SHARE')));
        RETURN NEXT oracle.on_both(concat_ws('; ', format(lock_some, 7, 'KEY SHARE'),
            'SAVEPOINT s', 'UPDATE $T SET v = 3 WHERE id % 7 = 0'), 'ROLLBACK');
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE id % 4 = 0');
    WHEN 'snapshot' THEN
        -- an old transaction that still needs the dead rows
        RETURN NEXT 'BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION ''oracle_old''';
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE id % 5 = 0');
        RETURN NEXT oracle.on_both('UPDATE $T SET v = 1 WHERE id % 7 = 0');
    WHEN 'unfinished' THEN
        -- rows inserted, deleted, updated and locked by an open transaction; others have
        -- locked some of them as well
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE id % 11 = 0');
        RETURN NEXT oracle.on_both(concat_ws('; ', oracle.fill_sql(n + 1, n + n / 10, width),
            'DELETE FROM $T WHERE id % 5 = 0', 'UPDATE $T SET v = 1 WHERE id % 7 = 0',
            format(lock_some, 3, 'KEY SHARE')), 'PREPARE TRANSACTION ''oracle_old''');
        RETURN NEXT oracle.on_both(format(lock_some, '3 = 0 AND id % 5 > 0 AND id % 7 > 0 AND id % 2', 'KEY SHARE'));
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE id % 13 = 0 AND id % 3 > 0 AND id % 5 > 0 AND id % 7 > 0');
    WHEN 'frozen', 'visible' THEN
        RETURN NEXT format('VACUUM (%s) stock, ours', CASE kind WHEN 'frozen' THEN 'FREEZE' ELSE 'PARALLEL 0' END);
        RETURN NEXT oracle.on_both(format('DELETE FROM $T WHERE id BETWEEN %s AND %s OR id %% %s = 0', n / 3, n / 3 + n / 20, n / 5));
        RETURN NEXT oracle.on_both(format('UPDATE $T SET v = 1 WHERE id BETWEEN %s AND %s', n / 2, n / 2 + n / 50));
    WHEN 'holes' THEN
        -- frozen, and a dead row on each page but those of short runs
        RETURN NEXT 'VACUUM (FREEZE) stock, ours';
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE (ctid::text::point)[0]::int % 5 IN (0, 3) AND (ctid::text::point)[1] = 2');
    WHEN 'pages' THEN
        -- new and empty pages, then rows after them, then more
        FOR i IN 1 .. 2 LOOP
            RETURN NEXT 'SELECT oracle.append_pages(t, 7, p) FROM unnest(ARRAY[''stock'', ''ours'']) t, unnest(ARRAY[''empty'', ''new'']) p';
            RETURN NEXT oracle.on_both(oracle.fill_sql(n + i * 200, n + i * 200 + 199, width));
        END LOOP;
        RETURN NEXT 'SELECT oracle.append_pages(t, 2, p) FROM unnest(ARRAY[''stock'', ''ours'']) t, unnest(ARRAY[''new'', ''empty'']) p';
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE id % 5 = 0');
    WHEN 'toast' THEN
        RETURN NEXT oracle.on_both('DELETE FROM $T WHERE id % 3 = 0');
        RETURN NEXT oracle.on_both('UPDATE $T SET pad = pad || ''x'' WHERE id % 5 = 0');
        RETURN NEXT oracle.on_both('UPDATE $T SET pad = ''short'' WHERE id % 7 = 0');
    END CASE;
END $$;

-- Make the tables stock and ours, equal in every block.
CREATE FUNCTION oracle.make_twins(kind text, nrows int, indexes text[] DEFAULT '{}', width int DEFAULT 100,
                                  options text DEFAULT NULL, persistence text DEFAULT '')
RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    index text;
BEGIN
    -- a checkpoint that began in between would make stock VACUUM, from 16 on, freeze
    -- other pages of one twin than of the other
    RETURN NEXT 'CHECKPOINT';
    RETURN QUERY SELECT * FROM oracle.create_sql(kind, options, persistence);
    RETURN NEXT oracle.on_both(oracle.fill_sql(1, nrows, width));
    -- built by one process, so that twins are equal: PG 18 builds GIN in parallel
    RETURN NEXT 'SET max_parallel_maintenance_workers = 0';
    FOREACH index IN ARRAY indexes LOOP
        RETURN NEXT oracle.on_both(oracle.index_sql(index));
    END LOOP;
    RETURN NEXT 'RESET max_parallel_maintenance_workers';
    RETURN QUERY SELECT * FROM oracle.history(kind, nrows, width);
END $$;

------------------------------------------------------------------------------
-- A trial: twins, both vacuums, the comparison
------------------------------------------------------------------------------

CREATE TABLE oracle.run (label text, result jsonb);
CREATE TABLE oracle.finding (label text, what text, detail text);

-- The same option in the syntax of stock VACUUM, in that of parvacuum_run(), and as
-- settings.
CREATE FUNCTION oracle.wish(name text, OUT stock text, OUT ours text, OUT settings text)
LANGUAGE sql AS $$
    SELECT v.stock, v.ours, v.settings
    FROM (VALUES
        ('freeze', 'FREEZE', 'freeze => true', NULL),
        ('index_cleanup', 'INDEX_CLEANUP on', 'index_cleanup => ''on''', NULL),
        ('no_index_cleanup', 'INDEX_CLEANUP off', 'index_cleanup => ''off''', NULL),
        ('no_skipping', 'DISABLE_PAGE_SKIPPING', 'disable_page_skipping => true', NULL),
        ('truncate', 'TRUNCATE', 'truncate => true', NULL),
        ('no_truncate', 'TRUNCATE false', 'truncate => false', NULL),
        ('analyze', 'ANALYZE', '"analyze" => true', NULL),
        ('skip_locked', 'SKIP_LOCKED', 'skip_locked => true', NULL),
        ('freeze_young', NULL, NULL, 'vacuum_freeze_min_age = 0'),
        ('aggressive', NULL, NULL, 'vacuum_freeze_table_age = 0'),
        ('small_store', NULL, NULL, 'parvacuum.store_limit = 1'),
        ('empty_store', NULL, NULL, 'parvacuum.store_limit = 0'),
        ('skip_all', NULL, NULL, 'parvacuum.shortest_skip = 1'),
        ('no_sample', NULL, NULL, 'parvacuum.sample_pages = 0'),
        ('no_workers', NULL, NULL, 'max_parallel_workers = 0')) AS v(name, stock, ours, settings)
    WHERE v.name = $1;
$$;

-- The rows of a table and of its TOAST table, in this order, as one row.
CREATE FUNCTION oracle.add_up(results jsonb[]) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT results[1] || (
        SELECT jsonb_object_agg(key, CASE WHEN key IN ('workers_planned', 'workers_launched', 'dead_tuple_bytes') THEN most ELSE total END)
        FROM (SELECT key, max(value::text::numeric) AS most, sum(value::text::numeric) AS total
              FROM unnest(results) AS r, jsonb_each(r) WHERE jsonb_typeof(value) = 'number' GROUP BY key) AS n) || (
        SELECT jsonb_build_object('index_scan_bypassed', bool_or((r->>'index_scan_bypassed')::bool)) FROM unnest(results) AS r);
$$;

CREATE FUNCTION oracle.table_of(rel regclass) RETURNS oid
LANGUAGE sql AS $$
    SELECT coalesce((SELECT oid FROM pg_class WHERE reltoastrelid = rel), rel);
$$;

-- The result of a run compared with the table.  If it skipped pages, its number of rows
-- is an estimate, which ANALYZE replaces by another one.  No page may be skipped that the
-- map did not allow to skip before the run; their number is in the setting oracle.to_visit.
CREATE FUNCTION oracle.compare_figures(label text, ours regclass, analyzed bool DEFAULT false) RETURNS SETOF oracle.fault
LANGUAGE sql AS $$
    WITH r AS (
        SELECT count(*) AS rows, sum((result->>'pages_total')::bigint) AS total, sum((result->>'pages_removed')::bigint) AS removed,
               sum((result->>'pages_scanned')::bigint) AS scanned, sum((result->>'tuples_remaining')::bigint) AS remaining
        FROM oracle.run WHERE run.label = $1),
    t AS (
        SELECT count(*) AS rows,
               sum(oracle.nblocks(l) + coalesce(oracle.nblocks(oracle.toast_of(l)), 0)) AS pages,
               sum(c.reltuples + coalesce((SELECT o.reltuples FROM pg_class o WHERE o.oid = c.reltoastrelid), 0)) AS tuples
        FROM oracle.leaves(ours) l JOIN pg_class c ON c.oid = l)
    SELECT 'figures', format('%s has %s tables, %s pages, %s of them to visit, %s rows; the run says %s', ours, t.rows, t.pages, v, t.tuples, r)
    FROM r, t, current_setting('oracle.to_visit') v
    WHERE (r.rows = t.rows AND r.total - r.removed = t.pages AND r.scanned BETWEEN v::bigint AND r.total
           AND (abs(r.remaining - t.tuples) <= r.rows + t.tuples / 200 OR analyzed AND r.scanned < r.total)) IS NOT TRUE;
$$;

-- After a vacuum, new rows use the places of others: no index may find a row by a key of
-- an earlier one.  The places of rows are compared.
CREATE FUNCTION oracle.refill(rel regclass, n int, width int) RETURNS SETOF oracle.fault
LANGUAGE plpgsql AS $$
DECLARE
    predicate text;
    by_scan text;
    by_index text;
    count_sql text := 'SELECT count(*) || '' rows, digest '' || coalesce(sum(hashtidextended(t.ctid, t.tableoid::bigint)), 0) FROM %s t WHERE %s';
BEGIN
    EXECUTE replace(oracle.fill_sql(n * 2 + 1, n * 2 + n / 5, width), '$T', rel::text);
    FOREACH predicate IN ARRAY ARRAY['id >= 0', 'k >= 0', 'k = 500', 'v >= 0', 'k + v >= 0', 'k < 300 AND v = 0',
        'arr @> ARRAY[3]', 'arr @> ARRAY[5, 101]', 'pt <@ box ''((100,100),(600,900))''']
    LOOP
        SET LOCAL enable_seqscan = on;
        SET LOCAL enable_indexscan = off;
        SET LOCAL enable_bitmapscan = off;
        EXECUTE format(count_sql, rel, predicate) INTO by_scan;
        SET LOCAL enable_seqscan = off;
        SET LOCAL enable_indexscan = on;
        SET LOCAL enable_bitmapscan = on;
        EXECUTE format(count_sql, rel, predicate) INTO by_index;
        IF by_scan <> by_index THEN
            RETURN NEXT ROW ('index search', format('%s where %s: %s, by an index %s', rel, predicate, by_scan, by_index))::oracle.fault;
        END IF;
    END LOOP;
    SET LOCAL enable_seqscan = on;
END $$;

-- The results of the runs of trials, one row for each first word of their labels;
-- several rows if runs that should have had the same result did not.
CREATE VIEW oracle.summary AS
    SELECT split_part(label, ' ', 1) AS trial, count(*) AS runs, tuples_removed AS removed,
           tuples_recently_dead AS recent, dead_items AS dead, index_scans AS rounds, index_scan_bypassed AS bypassed
    FROM oracle.run, jsonb_to_record(result) AS r(tuples_removed bigint, tuples_recently_dead bigint,
        dead_items bigint, index_scans int, index_scan_bypassed bool)
    GROUP BY 1, 3, 4, 5, 6, 7
    ORDER BY split_part(label, ' ', 1) COLLATE "C", 3, 4, 5, 6, 7;

-- label is the name of the trial in oracle.run and oracle.finding (held_label while a
-- transaction holds back the horizon, label after that); wishes is a list of names of
-- oracle.wish; workers NULL leaves the number to parvacuum.
CREATE FUNCTION oracle.trial(label text, kind text, nrows int, workers int DEFAULT NULL, wishes text DEFAULT '',
                             indexes text[] DEFAULT '{}', width int DEFAULT 100, options text DEFAULT NULL,
                             persistence text DEFAULT '')
RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    names text[] := string_to_array(nullif(wishes, ''), ' ');
    alike bool := NOT coalesce(names && ARRAY['small_store', 'empty_store'], false);
    ends_may_differ bool := NOT coalesce(names && ARRAY['truncate', 'no_truncate'], false);
    held bool := kind IN ('snapshot', 'unfinished');
    name text;
    w record;
BEGIN
    -- If the store becomes full, the indexes are scanned, where stock VACUUM, whose
    -- store is larger, may bypass them because too few rows are dead.
    IF NOT alike AND NOT names && ARRAY['index_cleanup', 'no_index_cleanup'] THEN
        names := names || 'index_cleanup'::text;
    END IF;

    SELECT concat_ws(', ', 'PARALLEL 0', string_agg(x.stock, ', ')) AS stock,
           concat_ws(', ', '''ours''', 'workers => ' || workers, string_agg(x.ours, ', ')) AS ours,
           array_agg(x.settings) FILTER (WHERE x.settings IS NOT NULL) AS settings
      INTO w FROM unnest(names) n, oracle.wish(n) x;

    RETURN QUERY SELECT * FROM oracle.make_twins(kind, nrows, indexes, width, options, persistence);
    RETURN QUERY SELECT 'SET ' || s FROM unnest(w.settings) s;
    FOREACH name IN ARRAY CASE WHEN held THEN ARRAY['held_' || label, label] ELSE ARRAY[label] END LOOP
        IF held AND name = label THEN
            RETURN NEXT 'COMMIT PREPARED ''oracle_old''';
        END IF;
        RETURN NEXT 'SELECT pg_stat_force_next_flush()';
        RETURN NEXT format('VACUUM (%s) stock', w.stock);
        RETURN NEXT format('SELECT set_config(''oracle.to_visit'', oracle.pages_to_visit(''ours'', %s)::text, false)',
                           coalesce(names && ARRAY['freeze', 'aggressive', 'no_skipping'], false)::text);
        RETURN NEXT format('INSERT INTO oracle.run SELECT %L, oracle.add_up(array_agg(to_jsonb(r))) FROM parvacuum_run(%s) r GROUP BY oracle.table_of(r.relid)', name, w.ours);
        RETURN NEXT format('INSERT INTO oracle.finding SELECT %L, * FROM oracle.compare(''stock'', ''ours'', %s, %s)',
                           name, ends_may_differ::text, alike::text);
        RETURN NEXT format('INSERT INTO oracle.finding SELECT %L, * FROM oracle.compare_figures(%1$L, ''ours'', %s)',
                           name, coalesce('analyze' = ANY (names), false)::text);
        RETURN NEXT format('INSERT INTO oracle.finding SELECT %L, * FROM oracle.check_table(''ours'')', name);
    END LOOP;
    RETURN QUERY SELECT 'RESET ' || split_part(s, ' ', 1) FROM unnest(w.settings) s;
    RETURN NEXT format('INSERT INTO oracle.finding SELECT %L, * FROM oracle.refill(''ours'', %s, %s)', label, nrows, width);
    RETURN NEXT format('INSERT INTO oracle.finding SELECT %L, * FROM oracle.check_table(''ours'')', label);
END $$;
