-- The signatures of parvacuum_run() and CALL parvacuum(), and the other objects of the
-- extension.
\ir common.psql

SELECT plan(72);

SELECT has_extension('parvacuum');
SELECT ok(extrelocatable, 'the extension is relocatable')
FROM pg_extension WHERE extname = 'parvacuum';

-- The arguments, which are the same in both
CREATE TEMP TABLE arg (n int, name text, type text, "default" text);
INSERT INTO arg VALUES
    (1, 'rel', 'regclass', NULL),
    (2, 'workers', 'integer', 'NULL::integer'),
    (3, 'freeze', 'boolean', 'false'),
    (4, 'index_cleanup', 'text', '''auto''::text'),
    (5, 'truncate', 'boolean', 'NULL::boolean'),
    (6, 'analyze', 'boolean', 'false'),
    (7, 'skip_locked', 'boolean', 'false'),
    (8, 'disable_page_skipping', 'boolean', 'false'),
    (9, 'verbose', 'boolean', 'false'),
    (10, 'time_limit', 'interval', 'NULL::interval');
CREATE TEMP VIEW func AS
SELECT * FROM pg_proc WHERE proname IN ('parvacuum_run', 'parvacuum');

SELECT is(count(*), 1::bigint, format('one %s', p)) FROM func RIGHT JOIN
    unnest(ARRAY['parvacuum_run', 'parvacuum']) p ON proname = p GROUP BY p;
SELECT is((SELECT array_agg(format_type(t, NULL) ORDER BY o)
           FROM unnest(proargtypes::oid[]) WITH ORDINALITY x(t, o)),
          (SELECT array_agg(type ORDER BY n) FROM arg),
          proname || ': argument types') FROM func ORDER BY proname;
SELECT is(proargnames[1:10], (SELECT array_agg(name ORDER BY n) FROM arg),
          proname || ': argument names') FROM func ORDER BY proname;
SELECT is(pg_get_function_arg_default(oid, n), "default",
          format('%s: default of %s', proname, name))
FROM func, arg ORDER BY proname, n;

SELECT is(prokind::text, 'f', 'parvacuum_run is a function') FROM func WHERE proname = 'parvacuum_run';
SELECT is(prokind::text, 'p', 'parvacuum is a procedure') FROM func WHERE proname = 'parvacuum';
SELECT is(provolatile::text, 'v', proname || ' is volatile') FROM func ORDER BY proname;
SELECT is(proparallel::text, 'u', proname || ' is parallel unsafe') FROM func ORDER BY proname;
SELECT is(proisstrict, false, proname || ' is not strict') FROM func ORDER BY proname;
SELECT is(proacl::text, NULL, proname || ' may be called by all; rights are checked inside') FROM func ORDER BY proname;

SELECT is(
    array(SELECT format('%s %s', attname, format_type(atttypid, NULL))
          FROM func JOIN pg_class c ON c.reltype = prorettype JOIN pg_attribute ON attrelid = c.oid
          WHERE proname = 'parvacuum_run' ORDER BY attnum),
    ARRAY['relid regclass', 'workers_planned integer', 'workers_launched integer',
          'pages_total bigint', 'pages_scanned bigint', 'pages_removed bigint',
          'tuples_removed bigint', 'tuples_remaining bigint', 'tuples_remaining_estimated boolean',
          'tuples_recently_dead bigint', 'tuples_missed bigint', 'dead_items bigint', 'index_scans integer',
          'dead_tuple_bytes bigint', 'heap_scan_ms double precision', 'index_vacuum_ms double precision',
          'heap_vacuum_ms double precision', 'index_cleanup_ms double precision',
          'truncate_ms double precision', 'elapsed_ms double precision', 'paced_ms double precision',
          'wal_records bigint', 'wal_fpi bigint', 'wal_bytes numeric',
          'buffers_hit bigint', 'buffers_read bigint', 'buffers_dirtied bigint',
          'oldest_xmin xid', 'relfrozenxid_advanced boolean',
          'index_scan_bypassed boolean', 'items_kept bigint', 'items_taken_over bigint', 'indexes_taken_over integer', 'ended_early boolean'],
    'columns of the result');

-- Comments
SELECT ok(obj_description(oid, 'pg_proc') IS NOT NULL, proname || ' has a comment') FROM func ORDER BY proname;
SELECT matches(obj_description(oid, 'pg_proc'), 'snapshot.*CALL parvacuum',
               'the comment of the function names the procedure')
FROM func WHERE proname = 'parvacuum_run';
SELECT matches(obj_description(oid, 'pg_proc'), 'TOAST table vacuumed; tuples_remaining does not include dead rows.*is an estimate if tuples_remaining_estimated is true',
               'the comment of the function says which columns are estimates')
FROM func WHERE proname = 'parvacuum_run';
SELECT ok(obj_description(oid, 'pg_extension') IS NOT NULL, 'the extension has a comment')
FROM pg_extension WHERE extname = 'parvacuum';

-- (from 18 on the row types of views are members, too)
SELECT is(array(SELECT pg_describe_object(classid, objid, 0) COLLATE "C" FROM pg_depend
               WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND classid <> 'pg_type'::regclass
                   AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'parvacuum') ORDER BY 1),
    ARRAY['function parvacuum(regclass,integer,boolean,text,boolean,boolean,boolean,boolean,boolean,interval)',
          'function parvacuum_blockers(regclass)',
          'function parvacuum_cancel(integer)',
          'function parvacuum_cancel(regclass)',
          'function parvacuum_cancel(text)',
          'function parvacuum_check()',
          'function parvacuum_drop_kept(regclass)',
          'function parvacuum_enqueue(regclass,boolean)',
          'function parvacuum_history_indexes()',
          'function parvacuum_history_reset()',
          'function parvacuum_history_runs()',
          'function parvacuum_kept_items()',
          'function parvacuum_pace()',
          'function parvacuum_plan(regclass,integer,boolean,boolean)',
          'function parvacuum_progress_items()',
          'function parvacuum_queue_items()',
          'function parvacuum_reset_options()',
          'function parvacuum_run(regclass,integer,boolean,text,boolean,boolean,boolean,boolean,boolean,interval)',
          'function parvacuum_scheduler_stats()',
          'function parvacuum_stats_about()',
          'function parvacuum_stats_indexes()',
          'function parvacuum_stats_reset()',
          'function parvacuum_stats_tables()',
          'function parvacuum_sweep(regclass)',
          'function parvacuum_sweep_index(regclass)',
          'function parvacuum_table_options(regclass)',
          'function parvacuum_wraparound()',
          'view parvacuum_blockers',
          'view parvacuum_history',
          'view parvacuum_index_history',
          'view parvacuum_index_stats',
          'view parvacuum_kept',
          'view parvacuum_progress',
          'view parvacuum_queue',
          'view parvacuum_stats',
          'view parvacuum_stats_info',
          'view parvacuum_tables'],
    'the objects of the extension');

-- Settings
SELECT is(format('%s %s %s %s..%s %s', context, vartype, boot_val, min_val, max_val, unit),
          expected, name)
FROM pg_settings JOIN (VALUES
    ('parvacuum.engine', 'sighup bool on .. '),
    ('parvacuum.version', 'internal string 1.0.0 .. '),
    ('parvacuum.max_workers', 'sighup integer 8 0..1024 '),
    ('parvacuum.history_size', 'postmaster integer 1000 0..100000 '),
    ('parvacuum.stats_size', 'postmaster integer 5000 0..100000 '),
    ('parvacuum.yield_interval', 'sighup integer 60 0..86400 s'),
    ('parvacuum.keep_limit', 'sighup integer 1048576 0..2147483647 kB'),
    ('parvacuum.max_runs', 'sighup integer 4 0..256 '),
    ('parvacuum.progress_interval', 'user integer 5 0..3600 s'),
    ('parvacuum.min_parallel_pages', 'user integer 4096 0..2147483647 8kB'),
    ('parvacuum.scheduler', 'sighup bool off .. '),
    ('parvacuum.sweep', 'user bool off .. '),
    ('parvacuum.scheduler_workers', 'sighup integer 3 1..64 '),
    ('parvacuum.scheduler_max_cost', 'sighup integer -1 -1..2147483647 '),
    ('parvacuum.pace', 'sighup enum fixed .. '),
    ('parvacuum.pace_max_lag', 'sighup integer 10000 0..2147483647 ms'),
    ('parvacuum.urgent_score', 'user real 100 1..1e+09 '),
    ('parvacuum.longest_at_table', 'sighup integer 600 1..2147483 s'),
    ('parvacuum.window', 'user string  .. '),
    ('parvacuum.autovacuum_cost_limit_scale', 'sighup real 0 0..1 ')) x(name, expected) USING (name)
ORDER BY name;

-- The columns that say what was done
SELECT ok(to_regclass(v) IS NOT NULL AND atttypid = t::regtype, format('%s.%s', v, c))
FROM (VALUES ('parvacuum_history', 'action', 'text'), ('parvacuum_stats', 'sweeps', 'bigint'), ('parvacuum_stats', 'last_sweep', 'timestamptz'),
    ('parvacuum_index_stats', 'sweeps', 'bigint'), ('parvacuum_queue', 'sweep_score', 'float8'), ('parvacuum_tables', 'sweep', 'bool'),
    ('parvacuum_tables', 'sweep_from', 'text')) x(v, c, t) LEFT JOIN pg_attribute ON attrelid = to_regclass(v) AND attname = c;

SELECT * FROM finish();
DROP SCHEMA t CASCADE;
