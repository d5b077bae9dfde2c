-- The forecast of the end of a vacuum.  Expected values are computed by hand, in the comments.
CREATE FUNCTION eta(state jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT format('%s s, %s s, %s index scans', coalesce(round(phase_s)::text, '?'), coalesce(round(all_s)::text, '?'), coalesce(index_scans::text, '?'))
    FROM parvacuum_test_eta(jsonb_populate_record(NULL::parvacuum_test_vacuum, state))
$$;

-- No indexes: a tenth of the table in 10 s
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "scan_s": 10, "scan_work": 1000}');

-- Nothing done yet, or too little to tell
SELECT eta('{"phase": 1, "blocks": 10000, "to_read": 10000}');
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 10, "to_read": 10000, "read": 10, "scan_s": 0.01, "scan_work": 10}');

-- Of a table that is mostly skipped only the rest must be read: 1000 of 2000 pages
SELECT eta('{"phase": 1, "blocks": 100000, "passed": 10000, "to_read": 2000, "read": 1000, "scan_s": 10, "scan_work": 1000}');

-- More is read than was thought: 90000 blocks, of which a tenth is read
SELECT eta('{"phase": 1, "blocks": 100000, "passed": 10000, "to_read": 500, "read": 1000, "scan_s": 10, "scan_work": 1000}');

-- With indexes, and no limit of cost: this phase only
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "dead_pages": 1000, "dead_share": 0.5, "page_rows": 50,
    "store_share": 0.05, "index_pages": 3000, "index_tuples": 600000, "scan_s": 10, "scan_work": 1000, "scan_cost": 21000}');

-- ... but with what the last vacuum took: 90 s, 3000 * 0.01 s, 10000 * 0.001 s
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "dead_pages": 1000, "dead_share": 0.5, "page_rows": 50,
    "store_share": 0.05, "index_pages": 3000, "index_tuples": 600000, "scan_s": 10, "scan_work": 1000, "scan_cost": 21000,
    "past_scan_s": 0.01, "past_index_s": 0.01, "past_heap_s": 0.001}');

-- ... or took when it was twice as fast in the first heap pass: 90 s, 2 * 3000 * 0.01 s, 2 * 10000 * 0.001 s
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "dead_pages": 1000, "dead_share": 0.5, "page_rows": 50,
    "store_share": 0.05, "index_pages": 3000, "index_tuples": 600000, "scan_s": 10, "scan_work": 1000, "scan_cost": 21000,
    "past_scan_s": 0.005, "past_index_s": 0.01, "past_heap_s": 0.001}');

-- ... but not when it was ten times as fast: it cannot be compared
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "dead_pages": 1000, "dead_share": 0.5, "page_rows": 50,
    "store_share": 0.05, "index_pages": 3000, "index_tuples": 600000, "scan_s": 10, "scan_work": 1000, "scan_cost": 21000,
    "past_scan_s": 0.001, "past_index_s": 0.01, "past_heap_s": 0.001}');

-- ... or throttled, a cost unit in 10 s / 21000: 90 s, 3000 * 21 units, 10000 * 2 units
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "dead_pages": 1000, "dead_share": 0.5, "page_rows": 50,
    "store_share": 0.05, "index_pages": 3000, "index_tuples": 600000, "scan_s": 10, "scan_work": 1000, "scan_cost": 21000, "slept_share": 0.9}');

-- ... in indexes that half of the processes can work on: 2 * 3000 * 21 units
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "dead_pages": 1000, "dead_share": 0.5, "page_rows": 50, "index_slowdown": 2,
    "store_share": 0.05, "index_pages": 3000, "index_tuples": 600000, "scan_s": 10, "scan_work": 1000, "scan_cost": 21000, "slept_share": 0.9}');

-- ... and in the first of two index scans, at half of 6000 pages: 30 s, then 50 s, another one, 10000 pages
SELECT eta('{"phase": 2, "blocks": 10000, "passed": 5000, "to_read": 10000, "read": 5000, "dead_pages": 5000, "store_share": 1, "index_slowdown": 2,
    "index_pages": 3000, "index_done": 3000, "index_s": 30, "index_work": 3000, "scan_s": 50, "scan_work": 5000, "past_scan_s": 0.01, "past_index_s": 0.02, "past_heap_s": 0.001}');

-- ... with pages that have to be read: 3000 * 22 units, 10000 * 23 units
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "dead_pages": 1000, "dead_share": 0.5, "page_rows": 50,
    "missed_share": 1, "store_share": 0.05, "index_pages": 3000, "index_tuples": 600000, "scan_s": 10, "scan_work": 1000, "scan_cost": 21000, "slept_share": 0.9}');

-- ... and the dead rows together, on a tenth of the pages, with indexes in that order:
-- 3000 * (1 + 20 * 0.1) units, 1000 * 2 units
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "dead_pages": 100, "dead_share": 0.1, "page_rows": 50, "correlation": 1,
    "store_share": 0.005, "index_pages": 3000, "index_tuples": 600000, "scan_s": 10, "scan_work": 1000, "scan_cost": 21000, "slept_share": 0.9}');

-- A process that does not sleep for most of the time is not throttled
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "dead_pages": 1000, "dead_share": 0.5, "page_rows": 50,
    "store_share": 0.05, "index_pages": 3000, "index_tuples": 600000, "scan_s": 10, "scan_work": 1000, "scan_cost": 21000, "slept_share": 0.3}');

-- Few pages with dead items: no index scan
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "dead_pages": 10, "store_share": 0.01, "may_bypass": 1,
    "index_pages": 3000, "scan_s": 10, "scan_work": 1000}');

-- A store that a quarter of the table fills by half: two index scans, the first after another quarter
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 2500, "to_read": 10000, "read": 2500, "dead_pages": 2500, "store_share": 0.5,
    "index_pages": 3000, "scan_s": 25, "scan_work": 2500, "past_scan_s": 0.01, "past_index_s": 0.01, "past_heap_s": 0.001}');

-- The first of them, half done as fast as before; then 50 s, another one, 10000 pages
SELECT eta('{"phase": 2, "blocks": 10000, "passed": 5000, "to_read": 10000, "read": 5000, "dead_pages": 5000, "store_share": 1,
    "index_pages": 3000, "index_done": 1500, "index_s": 15, "index_work": 1500, "scan_s": 50, "scan_work": 5000, "past_scan_s": 0.01, "past_index_s": 0.01, "past_heap_s": 0.001}');

-- ... half as fast as before: the measurement counts for more, the more there is
SELECT eta('{"phase": 2, "blocks": 10000, "passed": 10000, "to_read": 10000, "read": 10000, "dead_pages": 10000, "store_share": 1,
    "index_pages": 3000, "index_done": 300, "index_s": 6, "index_work": 300, "scan_s": 100, "scan_work": 10000, "past_scan_s": 0.01, "past_index_s": 0.01, "past_heap_s": 0.001}');
SELECT eta('{"phase": 2, "blocks": 10000, "passed": 10000, "to_read": 10000, "read": 10000, "dead_pages": 10000, "store_share": 1,
    "index_pages": 3000, "index_done": 2700, "index_s": 54, "index_work": 2700, "scan_s": 100, "scan_work": 10000, "past_scan_s": 0.01, "past_index_s": 0.01, "past_heap_s": 0.001}');

-- The second heap pass of the first, without history: the measured rates of this vacuum do
SELECT eta('{"phase": 3, "blocks": 10000, "passed": 5000, "to_read": 10000, "read": 5000, "dead_pages": 5000, "store_share": 1, "index_scans": 1,
    "index_pages": 3000, "index_s": 30, "index_work": 3000, "scan_s": 50, "scan_work": 5000, "vacuumed": 2500, "vacuum_total": 5000, "vacuum_done": 2500, "heap_s": 5, "heap_work": 2500}');

-- The first heap pass goes on; the store is not known to need a third scan
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 5100, "to_read": 10000, "read": 5100, "dead_pages": 5100, "store_before": 1, "store_share": 0.02, "index_scans": 1,
    "index_pages": 3000, "index_s": 30, "index_work": 3000, "scan_s": 51, "scan_work": 5100, "vacuumed": 5000, "heap_s": 5, "heap_work": 5000}');

-- The cleanup, and phases that nothing is known of
SELECT eta('{"phase": 4, "blocks": 10000, "passed": 10000, "to_read": 10000, "read": 10000, "index_scans": 2, "index_pages": 3000, "index_done": 3000}');
SELECT eta('{"phase": 4, "blocks": 10000, "passed": 10000, "to_read": 10000, "read": 10000, "index_scans": 2, "index_pages": 3000}');
SELECT eta('{"phase": 5, "blocks": 10000, "passed": 10000, "to_read": 10000, "read": 10000}');

-- An empty table, and counters that are off
SELECT eta('{"phase": 1}');
SELECT eta('{"phase": 1, "blocks": 10, "passed": 20, "to_read": 5, "read": 20, "dead_pages": 30, "store_share": 2, "index_pages": 1, "scan_s": 1, "scan_work": 20}');
