-- Conflict horizons: queries of a standby that still see an XID up to the horizon
-- conflict with the replay of a record.  The tables stock and ours must be twins that
-- have been vacuumed one after the other, with no changes since.
--
--    horizons.records(rel, since, upto)
--                                    the records of a vacuum that have a horizon
--    horizons.differences(...)       how ours differ from stock's

SET client_min_messages = warning;
SET check_function_bodies = off;

DROP SCHEMA IF EXISTS horizons CASCADE;
CREATE SCHEMA horizons;
CREATE EXTENSION IF NOT EXISTS pg_walinspect;

-- 0 stands for none; XIDs from before the first one are negative.  Records of 15 that
-- freeze have the XID after the horizon.  Records of the visibility map may have the XID
-- of frozen rows, which has the effect of none.  From 17 on pruning and freezing are one
-- record.  From 19 on it also sets the visibility map, and so does the record that makes
-- line pointers unused, CLEANUP.
CREATE FUNCTION horizons.records(rel regclass, since pg_lsn, upto pg_lsn)
RETURNS TABLE (blk bigint, kind text, horizon bigint)
LANGUAGE sql AS $$
    SELECT substring(w.block_ref FROM format('rel \d+/\d+/%s fork main blk (\d+)', pg_relation_filenode(rel)))::bigint,
           CASE w.record_type WHEN 'PRUNE_VACUUM_SCAN' THEN 'PRUNE' WHEN 'PRUNE_VACUUM_CLEANUP' THEN 'CLEANUP' ELSE w.record_type END,
           CASE WHEN x.xid > 2147483648 THEN x.xid - 4294967296 WHEN x.xid >= 3 THEN x.xid ELSE 0 END
    FROM pg_get_wal_records_info(since, upto) w,
         LATERAL (SELECT substring(w.description FROM '(?:latestRemovedXid|cutoff xid|snapshotConflictHorizon:) (\d+)')::bigint
                         - (w.record_type = 'FREEZE_PAGE' AND w.description LIKE 'cutoff xid%')::int) AS x(xid)
    WHERE w.resource_manager = 'Heap2'
      AND (w.record_type IN ('PRUNE', 'PRUNE_VACUUM_SCAN', 'FREEZE_PAGE', 'VISIBLE')
           OR w.record_type = 'PRUNE_VACUUM_CLEANUP' AND current_setting('server_version_num')::int >= 190000)
      AND w.block_ref ~ format('rel \d+/\d+/%s fork main blk', pg_relation_filenode(rel));
$$;

-- The vacuum of stock has logged from l1 to l2, that of ours from l2 to l3.
--
-- For each page and kind of record, the horizons must be equal, if the numbers of
-- records are, except for those of the visibility map before 17: where the table has no
-- indexes, stock VACUUM repeats the horizon of frozen rows only if no rows were removed
-- from the page.  The newest horizon of the page must be equal in any case.  Where ours
-- has frozen rows that stock has not, it may be newer, up to the newest inserter among
-- them: that happens when 15 logs an image of the page with the record that freezes, and
-- from 16 on when ours foresees an image that the process of stock VACUUM does not know
-- yet.
--
-- xmax is the next XID when the vacuum of stock began. alike: it was the same when that
-- of ours began, and the twins had the same frozen rows.  If not, only a newer horizon of
-- ours is a fault.
CREATE FUNCTION horizons.differences(l1 pg_lsn, l2 pg_lsn, l3 pg_lsn, xmax bigint, alike bool)
RETURNS SETOF oracle.fault
LANGUAGE sql AS $$
    WITH s AS MATERIALIZED (
        SELECT blk, kind, array_agg(horizon ORDER BY horizon) AS h FROM horizons.records('stock', l1, l2) GROUP BY 1, 2),
    o AS MATERIALIZED (
        SELECT blk, kind, array_agg(least(horizon, xmax - 1) ORDER BY horizon) AS h FROM horizons.records('ours', l2, l3) GROUP BY 1, 2),
    tuples AS MATERIALIZED (
        SELECT t.rel, b AS blk, i.lp, i.t_infomask & 768 = 768 AS frozen, i.t_xmin::text::bigint AS xmin
        FROM unnest(ARRAY['stock', 'ours']) AS t(rel), generate_series(0, oracle.nblocks(rel::regclass) - 1) b,
             heap_page_items(get_raw_page(rel, 'main', b)) i
        WHERE i.lp_flags = 1),
    more AS (
        SELECT a.blk, max(a.xmin) AS xmin FROM tuples a JOIN tuples b USING (blk, lp)
        WHERE a.rel = 'ours' AND b.rel = 'stock' AND a.frozen AND NOT b.frozen GROUP BY 1),
    pages AS (
        SELECT blk, (SELECT max(nullif(x, 0)) FROM s p, unnest(h) x WHERE p.blk = b.blk) AS newest_s,
               (SELECT max(nullif(x, 0)) FROM o p, unnest(h) x WHERE p.blk = b.blk) AS newest_o, more.xmin AS allowed
        FROM (SELECT blk FROM s UNION SELECT blk FROM o) b LEFT JOIN more USING (blk))
    SELECT 'horizon of a ' || kind, format('%s pages, first %s: stock %s, ours %s', count(*), min(blk), (array_agg(s.h::text ORDER BY blk))[1], (array_agg(o.h::text ORDER BY blk))[1])
    FROM s JOIN o USING (blk, kind)
    WHERE (kind <> 'VISIBLE' OR current_setting('server_version_num')::int  >= 170000) AND
          alike AND s.h <> o.h AND cardinality(s.h) = cardinality(o.h) AND blk NOT IN (SELECT blk FROM more)
    GROUP BY kind
    UNION ALL
    SELECT 'newest horizon', format('%s pages, first %s: stock %s, ours %s, %s allowed', count(*), min(blk), (array_agg(newest_s ORDER BY blk))[1],
        (array_agg(newest_o ORDER BY blk))[1], (array_agg(allowed ORDER BY blk))[1])
    FROM pages
    WHERE newest_o > coalesce(greatest(newest_s, allowed), newest_o - 1)
       OR alike AND allowed IS NULL AND newest_o IS DISTINCT FROM newest_s
    HAVING count(*) > 0;
$$;
