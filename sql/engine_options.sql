-- Each option of parvacuum_run() against the same option of VACUUM.
\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle_sql :abs_srcdir '/test/oracle.sql'
\set ECHO none
\i :oracle_sql
CREATE EXTENSION IF NOT EXISTS parvacuum;

\o /dev/null
SELECT oracle.trial(format('%s %s %s', coalesce(nullif(replace(wishes, ' ', '+'), ''), 'none'), kind, workers), kind, 1500, workers, wishes, ARRAY['btree', 'gin'], 1400)
FROM unnest(ARRAY['', 'freeze', 'index_cleanup', 'no_index_cleanup', 'no_skipping', 'no_truncate', 'analyze', 'skip_locked',
                  'freeze_young', 'aggressive freeze_young', 'freeze no_index_cleanup truncate', 'no_skipping small_store truncate']) wishes,
     unnest(ARRAY['tail', 'few', 'multixacts', 'frozen', 'visible']) kind, unnest(ARRAY[0, 2]) workers
WHERE workers = 2 OR kind = 'visible' AND wishes ~ '^$|small_store' \gexec
\o
SELECT * FROM oracle.finding;

\echo 'few dead rows: no index is vacuumed, unless that was asked for'
SELECT split_part(label, ' ', 1) AS wishes, result->>'index_scan_bypassed' AS bypassed, result->>'index_scans' AS rounds, count(*)
FROM oracle.run WHERE split_part(label, ' ', 2) = 'few' GROUP BY 1, 2, 3 ORDER BY split_part(label, ' ', 1) COLLATE "C", 2, 3;

\echo 'what was skipped'
SELECT split_part(label, ' ', 1) AS wishes, split_part(label, ' ', 2) AS kind, min((result->>'pages_scanned')::int) < max((result->>'pages_total')::int) / 2 AS skipped
FROM oracle.run WHERE label ~ 'frozen|visible' GROUP BY 1, 2 ORDER BY split_part(label, ' ', 1) COLLATE "C", 2;

\echo 'what is frozen'
SELECT split_part(label, ' ', 1) AS wishes, bool_and((result->>'relfrozenxid_advanced')::bool) AS advanced
FROM oracle.run WHERE label ~ 'visible' GROUP BY 1 ORDER BY split_part(label, ' ', 1) COLLATE "C";

\echo 'the procedure'
\o /dev/null
SELECT * FROM oracle.make_twins('updates', 3000, ARRAY['btree', 'gin'], 660) \gexec
\o
SELECT pg_stat_force_next_flush();
VACUUM (FREEZE, TRUNCATE) stock;
CALL parvacuum('ours', workers => 2, freeze => true, truncate => true);
SELECT * FROM oracle.compare('stock', 'ours');
SELECT * FROM oracle.check_table('ours');

\echo 'stock VACUUM does the work when the engine is off, and the row says so'
ALTER SYSTEM SET parvacuum.engine = off;
SELECT pg_reload_conf();
\o /dev/null
-- one statement for each look at the setting: a session reloads between statements
SELECT $$SELECT pg_sleep(0.1) WHERE current_setting('parvacuum.engine') <> 'off'$$ FROM generate_series(1, 300) \gexec
TRUNCATE oracle.run;
SELECT oracle.trial('off', 'updates', 3000, 2, 'truncate', ARRAY['btree', 'gin'], 660) \gexec
\o
ALTER SYSTEM RESET parvacuum.engine;
SELECT pg_reload_conf();
SELECT * FROM oracle.finding WHERE what <> 'figures';
SELECT result->>'workers_launched' AS launched FROM oracle.run;
DROP TABLE stock, ours;
