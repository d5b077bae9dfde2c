-- Tables with every kind of history, each vacuumed with no workers and with three, and
-- compared with a twin that stock VACUUM has vacuumed.  A row is a fault.
\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle_sql :abs_srcdir '/test/oracle.sql'
\set ECHO none
\i :oracle_sql
CREATE EXTENSION IF NOT EXISTS parvacuum;

\echo 'each history'
\o /dev/null
SELECT oracle.trial(format('%s %s', kind, workers), kind, 4000, workers, 'truncate', ARRAY['btree', 'hash'], 900)
FROM unnest(ARRAY['none', 'fifth', 'scattered', 'all', 'tail', 'gaps', 'few', 'updates', 'aborted', 'locked', 'multixacts',
                  'frozen', 'visible', 'pages', 'partitions']) kind, unnest(ARRAY[0, 3]) workers \gexec
\o
SELECT * FROM oracle.finding;
SELECT * FROM oracle.summary;

\echo 'narrow and wide rows, full and loose pages, no index'
\o /dev/null
TRUNCATE oracle.run;
SELECT oracle.trial(format('%s_%s_%s %s', kind, width, fillfactor, workers), kind, 120000 / (width + 20), workers, 'truncate', '{}',
                    width, 'fillfactor = ' || fillfactor)
FROM unnest(ARRAY['fifth', 'updates', 'aborted']) kind, (VALUES (0, 30), (30, 90), (1900, 30)) v(width, fillfactor),
     unnest(ARRAY[0, 3]) workers \gexec
\o
SELECT * FROM oracle.finding;
SELECT * FROM oracle.summary;

\echo 'TOAST, in the table''s row'
\o /dev/null
TRUNCATE oracle.run;
SELECT oracle.trial('toast ' || workers, 'toast', 700, workers, 'truncate', ARRAY['btree'], 5000) FROM unnest(ARRAY[0, 1, 3]) workers \gexec
\o
SELECT * FROM oracle.finding;
SELECT * FROM oracle.summary;

\echo 'unlogged'
\o /dev/null
TRUNCATE oracle.run;
SELECT oracle.trial(format('%s %s', kind, workers), kind, 4000, workers, 'truncate', ARRAY['btree', 'gin'], 900, NULL, 'UNLOGGED')
FROM unnest(ARRAY['updates', 'tail', 'toast', 'partitions']) kind, unnest(ARRAY[0, 3]) workers \gexec
\o
SELECT * FROM oracle.finding;
SELECT * FROM oracle.summary;

\echo 'an empty table'
\o /dev/null
SELECT oracle.trial('empty ' || workers, 'none', 0, workers, '', ARRAY['btree']) FROM unnest(ARRAY[0, 3]) workers \gexec
\o
SELECT * FROM oracle.finding;
DROP TABLE stock, ours;
