-- How twins differ in what the oracle does not compare: the tuples themselves, the page
-- headers, and the WAL records of both vacuums.  test/t/PvPages.pm executes this after
-- test/oracle.sql.
SET check_function_bodies = off;
CREATE EXTENSION IF NOT EXISTS pg_walinspect;
CREATE EXTENSION pg_surgery;
CREATE SCHEMA pages;

-- frozen: the tuple has no XID any more, for readers
CREATE FUNCTION pages.tuples(rel regclass) RETURNS TABLE (blk bigint, lp int, len int, tid tid, mask int, mask2 int, xmax xid, frozen bool, data bytea)
LANGUAGE sql AS $$
	SELECT b, i.lp, i.lp_len, i.t_ctid, i.t_infomask, i.t_infomask2, i.t_xmax,
		i.t_infomask & 768 = 768 AND i.t_infomask & 2048 = 2048 AND i.t_xmax = '0', i.t_data
	FROM generate_series(0, oracle.nblocks(rel) - 1) b, heap_page_items(get_raw_page(rel::text, 'main', b)) i
	WHERE i.lp_flags = 1
$$;

-- vacuumed: after a vacuum, ours may have more frozen tuples.  The prune hint of the
-- page may name the deleter of a tuple that stock VACUUM has removed itself, where a
-- dead version came after a visible one.  Hint bits may differ: a process that reads
-- a page again sets some, for an update in a multixact that was frozen to its XID, or
-- for a transaction that has committed asynchronously.
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

-- The WAL records of the table itself, by kind, and the number of those with an image
-- that is not for wal_consistency_checking.  From 17 on, records that prune also
-- freeze, and have other names.
CREATE FUNCTION pages.log(rel regclass, since pg_lsn, upto pg_lsn) RETURNS TABLE (kind text, blk text, image bool, description text)
LANGUAGE sql AS $$
	SELECT CASE w.record_type WHEN 'PRUNE_VACUUM_SCAN' THEN 'PRUNE' WHEN 'PRUNE_VACUUM_CLEANUP' THEN 'VACUUM' ELSE w.record_type END,
		substring(w.block_ref FROM 'blk (\d+)'), w.block_ref LIKE '%(FPW)%', w.description
	FROM pg_get_wal_records_info(since, upto) w
	WHERE w.block_ref ~ format('#0: rel \d+/\d+/%s fork main', pg_relation_filenode(rel))
$$;
CREATE FUNCTION pages.records(rel regclass, since pg_lsn, upto pg_lsn) RETURNS TABLE (kind text, records bigint, images bigint)
LANGUAGE sql AS $$ SELECT kind, count(*), count(*) FILTER (WHERE image) FROM pages.log(rel, since, upto) GROUP BY 1 $$;

-- The sums over all kinds, which are compared from 17 on.  If core prunes a page for
-- us, we have set its hint bits before.  If that was logged, core does not know it, and
-- we freeze by a record of our own, which is not counted here.
CREATE FUNCTION pages.sums(rel regclass, since pg_lsn, upto pg_lsn, OUT records bigint, OUT images bigint, OUT second bigint)
LANGUAGE sql AS $$
	WITH log AS MATERIALIZED (SELECT * FROM pages.log(rel, since, upto))
	SELECT count(*) - (SELECT count(*) FROM (SELECT FROM log GROUP BY blk
			HAVING bool_or(kind = 'FPI_FOR_HINT') AND bool_or(kind = 'PRUNE' AND description LIKE '% nplans: 0,%')
				AND bool_or(description ~ 'nplans: [1-9]\d*, nredirected: 0, ndead: 0, nunused: 0')) x),
		count(*) FILTER (WHERE image), count(*) FILTER (WHERE kind = 'VACUUM') FROM log
$$;

-- A digest of the logged contents of a table.  Hint bits are not logged, nor, from 16
-- on, the pages by which COPY extends a table beyond its need.
CREATE FUNCTION pages.digest(rel regclass) RETURNS text
LANGUAGE sql AS $$
	SELECT concat_ws(' ', oracle.rows_digest(rel),
		(SELECT md5(string_agg(oracle.items(rel, b), ';' ORDER BY b)) FROM generate_series(0, oracle.nblocks(rel) - 1) b),
		(SELECT md5(string_agg(concat_ws(',', blk, lp, tid, mask & 768 = 768, mask2, xmax), ';' ORDER BY blk, lp)) FROM pages.tuples(rel)),
		(SELECT md5(string_agg(m::text, ';' ORDER BY blkno)) FROM pg_visibility(rel) m WHERE all_visible OR all_frozen OR pd_all_visible))
$$;
