-- How long the rest of a vacuum will take.  Expected values are computed by hand, in the
-- comments.
CREATE FUNCTION eta(state jsonb, more jsonb DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
    SELECT format('%s s, %s s, %s index scans', coalesce(round(phase_s)::text, '?'), coalesce(round(all_s)::text, '?'), coalesce(index_scans::text, '?'))
    FROM parvacuum_test_eta(jsonb_populate_record(NULL::parvacuum_test_vacuum, state || more))
$$;

-- No indexes: a tenth of the table in 10 s
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "scan_s": 10, "scan_work": 1000}');

-- Nothing done yet, or too little to tell
SELECT eta('{"phase": 1, "blocks": 10000, "to_read": 10000}');
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 10, "to_read": 10000, "read": 10, "scan_s": 0.01, "scan_work": 10}');

-- Enough to tell: half a second, or a twentieth of the work
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 10, "to_read": 10000, "read": 10, "scan_s": 0.5, "scan_work": 10}');
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 500, "to_read": 10000, "read": 500, "scan_s": 0.4, "scan_work": 500}');

-- Of a table that is mostly skipped only the rest must be read: 1000 of 2000 pages
SELECT eta('{"phase": 1, "blocks": 100000, "passed": 10000, "to_read": 2000, "read": 1000, "scan_s": 10, "scan_work": 1000}');

-- More is read than was thought: 90000 blocks, of which a tenth is read
SELECT eta('{"phase": 1, "blocks": 100000, "passed": 10000, "to_read": 500, "read": 1000, "scan_s": 10, "scan_work": 1000}');

-- With indexes: this phase only
CREATE FUNCTION scanning() RETURNS jsonb LANGUAGE sql AS $$
    SELECT '{"phase": 1, "blocks": 10000, "passed": 1000, "to_read": 10000, "read": 1000, "dead_pages": 1000, "store_share": 0.05, "index_pages": 3000, "scan_s": 10, "scan_work": 1000}'::jsonb
$$;
SELECT eta(scanning());

-- ... but with what the last vacuum took: 90 s, 3000 * 0.01 s, 10000 * 0.001 s
SELECT eta(scanning(), '{"past_scan_s": 0.01, "past_index_s": 0.01, "past_heap_s": 0.001}');

-- ... or took when it was twice as fast in the heap scan: 90 s, 2 * 3000 * 0.01 s, 2 * 10000 * 0.001 s
SELECT eta(scanning(), '{"past_scan_s": 0.005, "past_index_s": 0.01, "past_heap_s": 0.001}');

-- ... but not when it was four times as fast, or as slow: it cannot be compared
SELECT eta(scanning(), '{"past_scan_s": 0.0025, "past_index_s": 0.01, "past_heap_s": 0.001}');
SELECT eta(scanning(), '{"past_scan_s": 0.04, "past_index_s": 0.01, "past_heap_s": 0.001}');

-- ... and not if it had no second heap pass, or no index scan
SELECT eta(scanning(), '{"past_scan_s": 0.01, "past_index_s": 0.01}');
SELECT eta(scanning(), '{"past_scan_s": 0.01, "past_heap_s": 0.001}');

-- Few pages with dead items: no index scan, unless the caller wants one
SELECT eta(scanning(), '{"dead_pages": 10, "may_bypass": 1}');
SELECT eta(scanning(), '{"dead_pages": 10}');
-- Many items on few pages of a large table
SELECT eta('{"phase": 1, "blocks": 100000000, "passed": 50000000, "to_read": 100000000, "read": 50000000, "dead_pages": 400000, "store_share": 0.1, "index_pages": 3000, "scan_s": 10, "scan_work": 50000000, "may_bypass": 1}');

-- A store that a quarter of the table fills by half: two index scans, the first after another quarter
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 2500, "to_read": 10000, "read": 2500, "dead_pages": 2500, "store_share": 0.5,
    "index_pages": 3000, "scan_s": 25, "scan_work": 2500, "past_scan_s": 0.01, "past_index_s": 0.01, "past_heap_s": 0.001}');

-- The first of them, half done in 15 s; then 50 s, another one, 10000 pages
SELECT eta('{"phase": 2, "blocks": 10000, "passed": 5000, "to_read": 10000, "read": 5000, "dead_pages": 5000, "store_share": 1,
    "index_pages": 3000, "index_done": 1500, "index_s": 15, "index_work": 1500, "scan_s": 50, "scan_work": 5000, "past_scan_s": 0.01, "past_index_s": 0.01, "past_heap_s": 0.001}');

-- Half as fast as in the last vacuum: what this one takes counts as soon as it is known
CREATE FUNCTION indexing() RETURNS jsonb LANGUAGE sql AS $$
    SELECT '{"phase": 2, "blocks": 10000, "passed": 10000, "to_read": 10000, "read": 10000, "dead_pages": 10000, "store_share": 1, "index_pages": 3000, "scan_s": 100, "scan_work": 10000,
        "past_scan_s": 0.01, "past_index_s": 0.01, "past_heap_s": 0.001}'::jsonb
$$;
SELECT eta(indexing(), '{"index_done": 20, "index_s": 0.4, "index_work": 20}');
SELECT eta(indexing(), '{"index_done": 300, "index_s": 6, "index_work": 300}');

-- The second heap pass of the first of two index scans, without history: what this vacuum took is sufficient
SELECT eta('{"phase": 3, "blocks": 10000, "passed": 5000, "to_read": 10000, "read": 5000, "dead_pages": 5000, "store_share": 1, "index_scans": 1,
    "index_pages": 3000, "index_s": 30, "index_work": 3000, "scan_s": 50, "scan_work": 5000, "vacuumed": 2500, "heap_s": 5, "heap_work": 2500}');

-- The heap scan goes on; the store is not known to need a third scan
SELECT eta('{"phase": 1, "blocks": 10000, "passed": 5100, "to_read": 10000, "read": 5100, "dead_pages": 5100, "store_share": 0.02, "index_scans": 1,
    "index_pages": 3000, "index_s": 30, "index_work": 3000, "scan_s": 51, "scan_work": 5100, "vacuumed": 5000, "heap_s": 5, "heap_work": 5000}');

-- The cleanup, and phases that nothing is known of
SELECT eta('{"phase": 4, "blocks": 10000, "passed": 10000, "to_read": 10000, "read": 10000, "index_scans": 2, "index_pages": 3000, "index_done": 3000}');
SELECT eta('{"phase": 4, "blocks": 10000, "passed": 10000, "to_read": 10000, "read": 10000, "index_scans": 2, "index_pages": 3000}');
SELECT eta('{"phase": 5, "blocks": 10000, "passed": 10000, "to_read": 10000, "read": 10000}');

-- An empty table, and counters that are off
SELECT eta('{"phase": 1}');
SELECT eta('{"phase": 1, "blocks": 10, "passed": 20, "to_read": 5, "read": 20, "dead_pages": 30, "store_share": 2, "index_pages": 1, "scan_s": 1, "scan_work": 20}');

-- Pages per second, in all index scans together
SELECT rate FROM parvacuum_test_eta(jsonb_populate_record(NULL::parvacuum_test_vacuum, indexing() || '{"index_s": 6, "index_work": 300}'));

-- What the last vacuum tells: 100 pages at 10 us; two index scans of 50 pages at 400 us each;
-- 100 pages of 4 items, 2 us each
SELECT * FROM parvacuum_test_eta_past(1000, 10000, 2, 800, 600, 1200, 100, 50, 4);
-- Nothing was scanned, vacuumed or found
SELECT * FROM parvacuum_test_eta_past(0, 0, 0, 0, 0, 0, 100, 50, 4);
-- ... and nothing is there now
SELECT * FROM parvacuum_test_eta_past(0, 0, 0, 0, 0, 0, 0, 0, 0);
-- Dead items of a vacuum that has bypassed the indexes
SELECT * FROM parvacuum_test_eta_past(1000, 10000, 0, 0, 600, 0, 100, 50, 4);
