-- The forecast of a vacuum: how time and WAL follow from what is known of the table.

CREATE FUNCTION heap(more text DEFAULT '') RETURNS text LANGUAGE sql AS $$
	SELECT 'rel_pages=10000 scan_pages=10000 tuples=1000000 dead_tuples=200000 dead_pages=10000 cached=1 image_bytes=8000 logged=1 ' || more
$$;
CREATE FUNCTION items(more text DEFAULT '') RETURNS text LANGUAGE sql AS $$
	SELECT heap('dead_items=200000 item_pages=10000 vacuums_indexes=1 index_scans=1 ' || more)
$$;
CREATE FUNCTION index(more text DEFAULT '') RETURNS text LANGUAGE sql AS $$
	SELECT 'pages=3000 entries=1000000 removed=200000 hit=1 deletes=1 cached=1 image_bytes=8000 ' || more
$$;
CREATE FUNCTION past(more text DEFAULT '') RETURNS text LANGUAGE sql AS $$
	SELECT 'by_engine=1 pages_total=10000 pages_scanned=10000 tuples_remaining=800000 tuples_removed=200000 dead_items=200000 index_scans=1 scan_usecs=123456 index_usecs=77000 vacuum_usecs=5000 ' || more
$$;
-- Which phases there are
SELECT what, index_scans, bypassed, scan_ms > 0 AS scan, index_ms > 0 AS index, vacuum_ms > 0 AS vacuum, other_ms > 0 AS other,
	abs(elapsed_ms - scan_ms - index_ms - vacuum_ms - other_ms) < 0.001 AS sum
FROM (VALUES ('no index', heap(), ''), ('dead items', items(), index()), ('no dead items', items('dead_items=0 item_pages=0'), index()),
	('bypassed', items('bypasses=1'), index()), ('three index scans', items('index_scans=3'), index()), ('an empty table', '', ''),
	('index_cleanup off', items('vacuums_indexes=0'), index()), ('only BRIN', items(), index('deletes=0'))) x(what, input, indexes),
	parvacuum_test_forecast(input, indexes);

-- The work is proportional to pages and rows, and reading takes longer.
SELECT round((b.scan_ms / a.scan_ms)::numeric, 2) AS twice_the_heap FROM parvacuum_test_forecast(heap()) a,
	parvacuum_test_forecast(heap('scan_pages=20000 tuples=2000000 dead_tuples=400000 dead_pages=20000')) b;
SELECT round((b.index_ms / a.index_ms)::numeric, 2) AS two_indexes FROM parvacuum_test_forecast(items('logged=0'), index()) a,
	parvacuum_test_forecast(items('logged=0'), index() || ';' || index()) b;
SELECT b.index_ms / a.index_ms > 1.5 AS two_index_scans, b.vacuum_ms = a.vacuum_ms AS same_heap FROM parvacuum_test_forecast(items('logged=0'), index()) a,
	parvacuum_test_forecast(items('logged=0 index_scans=2'), index()) b;
SELECT b.scan_ms > 2 * a.scan_ms AS reading, c.index_ms > a.index_ms AS reading_index FROM parvacuum_test_forecast(items(), index()) a,
	parvacuum_test_forecast(items('cached=0'), index()) b, parvacuum_test_forecast(items(), index('cached=0')) c;

-- Dead rows of HOT chains take longer, and so do pages after skipped ones.
SELECT b.scan_ms < a.scan_ms AS items, c.scan_ms > a.scan_ms AS jumps FROM parvacuum_test_forecast(heap()) a,
	parvacuum_test_forecast(heap('dead_items=200000')) b, parvacuum_test_forecast(heap('jumps=10000')) c;

-- Participants: more are faster, but n are not n times as fast.  An index of one process is
-- not vacuumed by several.
SELECT n, scan_ms < lag(scan_ms) OVER w AS faster, scan_ms * (n + 1) >= first_value(scan_ms) OVER w AS not_too_fast
FROM generate_series(0, 4) n, parvacuum_test_forecast(heap('workers=' || n)) WINDOW w AS (ORDER BY n);
SELECT round((alone.index_ms / one.index_ms)::numeric, 2) AS alone, together.index_ms < one.index_ms AS together,
	round((pair.index_ms / one.index_ms)::numeric, 2) AS one_each
FROM parvacuum_test_forecast(items('logged=0'), index()) one, parvacuum_test_forecast(items('logged=0 workers=3'), index()) alone,
	parvacuum_test_forecast(items('logged=0 workers=3'), index('together=1')) together,
	parvacuum_test_forecast(items('logged=0 workers=3'), index() || ';' || index()) pair;

-- The cost-based delay: 10000 pages found, all of them changed, are 10000 + 200000 units.
SELECT scale, workers, round((slow.scan_ms - fast.scan_ms)::numeric) AS sleeps
FROM unnest('{0,1}'::int[]) scale, unnest('{0,1,3}'::int[]) workers,
	parvacuum_test_forecast(heap(format('workers=%s scale=%s delay_ms=2 limit=200 page_hit=1 page_miss=2 page_dirty=20', workers, scale))) slow,
	parvacuum_test_forecast(heap(format('workers=%s', workers))) fast ORDER BY 1, 2;

-- WAL: a record for each page, an image if one is needed, nothing for an unlogged table
SELECT what, wal_records, wal_fpi, wal_bytes FROM (VALUES
	('unlogged', 'logged=0'), ('records', ''), ('with bits of the map', 'visible_pages=10000'),
	('with bits in the same record', 'visible_pages=10000 map_in_record=1'), ('images', 'fpi=1'), ('images of pruned pages', 'fpi=1 dead_bytes=20000000'), ('half of them', 'fpi=0.5'),
	('hints first', 'fpi=1 hints_need_image=1 hint_pages=10000'), ('hints first, but none are missing', 'fpi=1 hints_need_image=1'),
	('images of the maps', 'visible_pages=10000 full_page_writes=1 hints_need_image=1'),
	('only bits of the map', 'dead_tuples=0 dead_pages=0 visible_pages=10000 fpi=1'),
	('only bits of the map, as changes', 'dead_tuples=0 dead_pages=0 visible_pages=10000 fpi=1 hints_need_image=1'),
	('freezing', 'dead_tuples=0 dead_pages=0 freeze_pages=10000'), ('freezing in a record of its own', 'freezes_apart=1 freeze_pages=10000'), ('items in a record of their own', 'unused_apart=1 item_pages=10000 dead_items=20000')) x(what, more),
	parvacuum_test_forecast(heap(more));
SELECT what, round(wal_records) AS records, round(wal_fpi) AS images FROM (VALUES
	('all pages', ''), ('half of the pages', 'hit=0.5'), ('few entries: a page for each', 'removed=30'), ('images', 'fpi=1'),
	('in the order of the table', 'spread=0.001'), ('in random order', 'spread=1 fpi=1')) x(what, more),
	parvacuum_test_forecast(items('dead_tuples=0 dead_pages=0 item_pages=0.6 index_scans=4'), index(more));

-- An earlier vacuum: if it did the same, this one takes the same time, whatever the model
-- says; if it did half of it, this one takes about twice the time.
SELECT round(same.scan_ms::numeric, 3) AS scan, round(same.index_ms::numeric, 3) AS index, round(same.vacuum_ms::numeric, 3) AS vacuum,
	round((twice.scan_ms / same.scan_ms)::numeric, 2) AS half_the_scan
FROM parvacuum_test_forecast(items(), index(), past()) same,
	parvacuum_test_forecast(items(), index(), 'by_engine=1 pages_total=10000 pages_scanned=5000 tuples_remaining=800000 tuples_removed=100000 dead_items=100000 index_scans=1 scan_usecs=123456') twice;
-- Pages that the earlier vacuum had to read, and that are in shared buffers now
SELECT a.scan_ms < b.scan_ms AS found, a.index_ms < b.index_ms AS found_index, round((c.scan_ms / b.scan_ms)::numeric, 2) AS read_again
FROM parvacuum_test_forecast(items(), index(), past('pages_read=13000')) a, parvacuum_test_forecast(items(), index(), past()) b,
	parvacuum_test_forecast(items('cached=0'), index('cached=0'), past('pages_read=13000')) c;
-- Rows that went since
SELECT round((a.scan_ms / b.scan_ms)::numeric, 1) AS half_of_the_rows
FROM parvacuum_test_forecast(heap('dead_tuples=0 dead_pages=0 tuples=100000000'), '', past('tuples_remaining=200000000 tuples_removed=0')) a,
	parvacuum_test_forecast(heap('dead_tuples=0 dead_pages=0 tuples=200000000'), '', past('tuples_remaining=200000000 tuples_removed=0')) b;
SELECT round(other_ms::numeric, 3) AS other
FROM parvacuum_test_forecast(heap(), '', 'by_engine=1 pages_total=10000 pages_scanned=10000 tuples_remaining=800000 tuples_removed=200000 scan_usecs=100000 elapsed_usecs=101500');
-- ... with other workers, with a phase that it did not have, by core, or too short to tell
SELECT round((one.scan_ms / two.scan_ms)::numeric, 3) AS workers
FROM parvacuum_test_forecast(heap('logged=0'), '', 'by_engine=1 pages_total=10000 pages_scanned=10000 tuples_remaining=800000 tuples_removed=200000 workers_launched=1 scan_usecs=100000') one,
	parvacuum_test_forecast(heap('logged=0 workers=1'), '', 'by_engine=1 pages_total=10000 pages_scanned=10000 tuples_remaining=800000 tuples_removed=200000 workers_launched=1 scan_usecs=100000') two;
SELECT round((past.index_ms / model.index_ms)::numeric, 2) = round((past.scan_ms / model.scan_ms)::numeric, 2) AS as_the_scan
FROM parvacuum_test_forecast(items(), index()) model,
	parvacuum_test_forecast(items(), index(), 'by_engine=1 pages_total=10000 pages_scanned=10000 tuples_remaining=800000 tuples_removed=200000 scan_usecs=100000') past;
SELECT a = b AS core, a = c AS short FROM parvacuum_test_forecast(heap()) a,
	parvacuum_test_forecast(heap(), '', 'pages_scanned=10000 scan_usecs=100000') b,
	parvacuum_test_forecast(heap(), '', 'by_engine=1 pages_scanned=1 scan_usecs=50') c;

-- Nothing is infinite or negative, whatever is 0.
SELECT count(*) AS forecasts, count(*) FILTER (WHERE least(scan_ms, index_ms, vacuum_ms, wal_bytes, wal_fpi, wal_records) < 0 OR
	elapsed_ms IN ('NaN', 'Infinity') OR wal_bytes IN ('NaN', 'Infinity')) AS wrong
FROM unnest('{0,1}'::int[]) pages, unnest('{0,1,1000}'::int[]) dead, unnest('{0,1,1000}'::int[]) items, unnest('{0,1,500}'::int[]) index_pages,
	unnest('{0,7}'::int[]) workers, unnest(ARRAY[NULL, 'by_engine=1', 'by_engine=1 pages_scanned=10 dead_items=5 index_scans=2 scan_usecs=1000 index_usecs=1000']) past,
	parvacuum_test_forecast(format('rel_pages=%s scan_pages=%s dead_tuples=%s dead_pages=%s dead_items=%s item_pages=%s vacuums_indexes=1 logged=1 fpi=1 workers=%s delay_ms=1 full_page_writes=1 hints_need_image=1',
		pages, pages, dead, dead, items, items, workers), format('pages=%s removed=%s hit=1 spread=1 deletes=1 fpi=1', index_pages, items), past);

-- Is it of any use?
SELECT input, recently_dead, advances, parvacuum_test_forecast_use(input, recently_dead, advances) AS useless
FROM (VALUES ('scan_pages=1', 0, false), ('scan_pages=1', 0, true), ('dead_tuples=1', 5, false), ('dead_items=1', 0, false), ('freeze_pages=1', 0, false),
	('visible_pages=1', 5, false), ('index_work=1', 5, false), ('scan_pages=10', 5, false), ('scan_pages=10', 5, true), ('dead_tuples=0.1', 0.2, false)) x(input, recently_dead, advances);

-- From a sample of 100 of 800 pages to all of them.  The statistics count, unless the sample
-- shows that they are wrong.
CREATE FUNCTION pages(VARIADIC rows float8[]) RETURNS float8[] LANGUAGE sql AS $$
	SELECT rows || array_fill(0.0::float8, ARRAY[100 - cardinality(rows)])
$$;
CREATE FUNCTION all_pages(rows float8) RETURNS float8[] LANGUAGE sql AS $$ SELECT array_fill(rows, ARRAY[100]) $$;
SELECT what, count, plausible, round(rows) AS rows, round(with_rows) AS with_rows FROM (VALUES
	('no statistics', all_pages(1), -1), ('one row on each page', all_pages(1), 800), ('a page that is not in the sample', all_pages(1), 900),
	('statistics out of date', all_pages(1), 700), ('statistics lost', all_pages(1), 0), ('statistics of a larger table', all_pages(1), 50000),
	('a full page that is in the sample', all_pages(1) || 100::float8, 900), ('without statistics', all_pages(1) || 100::float8, -1),
	('few full pages', pages(100, 100, 100), 1500), ('fewer than in the sample', pages(100, 100, 100), 299),
	('pages that differ', pages(100, 1, 1, 1), 300), ('no row', pages(0), 500), ('no row, and too many to be missed', pages(0), 50000), ('nothing', pages(0), 0),
	('no statistics, nothing', pages(0), -1)) x(what, sampled, count), parvacuum_test_extrapolate(8 * cardinality(sampled), sampled, 100, count);
-- The whole table, and no page at all
SELECT pages, sampled, count, plausible, rows, with_rows FROM (VALUES
	(3, '{1,0,5}'::float8[], 6), (3, '{1,0,5}', 7), (0, '{}', 0), (0, '{}', 7), (4294967295, '{291}', 1e12)) x(pages, sampled, count),
	parvacuum_test_extrapolate(pages, sampled, 291, count);
-- In any sample, pages with rows have a row each, and are not more than there are pages.
SELECT count(*) AS samples, count(*) FILTER (WHERE rows < with_rows - 0.001 OR with_rows > 800.001 OR rows < n * crowd + m - 0.001 OR rows IN ('NaN', 'Infinity')) AS wrong
FROM generate_series(0, 100, 10) n, generate_series(0, 100 - n, 10) m, unnest('{1,2,100}'::int[]) crowd, unnest('{-1,0,10,100,1000,10000,100000}'::float8[]) count,
	parvacuum_test_extrapolate(800, array_fill(crowd::float8, ARRAY[n]) || array_fill(1::float8, ARRAY[m]) || array_fill(0::float8, ARRAY[100 - n - m]), 100, count);
