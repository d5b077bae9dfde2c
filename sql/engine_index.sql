-- From no index to many indexes, of each access method
\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle_sql :abs_srcdir '/test/oracle.sql'
\set ECHO none
\i :oracle_sql
CREATE EXTENSION IF NOT EXISTS parvacuum;

\echo 'each access method alone, and two of it'
\o /dev/null
SELECT oracle.trial(format('%s %s %s', index, kind, workers), kind, 2000, workers, 'truncate', array_fill(index, ARRAY[copies]), 100)
FROM unnest(ARRAY['btree', 'duplicates', 'changing', 'partial', 'expression', 'hash', 'gist', 'spgist', 'gin', 'brin']) index,
     unnest(ARRAY['scattered', 'updates']) kind, (VALUES (1, 0), (2, 3)) AS v(copies, workers) \gexec
\o
SELECT * FROM oracle.finding;
SELECT * FROM oracle.summary;

\echo 'more of them than workers, and fewer'
\o /dev/null
TRUNCATE oracle.run;
SELECT oracle.trial(format('%s %s', n, workers), 'fifth', 2000, workers, 'truncate', (ARRAY['btree', 'gin', 'hash', 'brin', 'spgist', 'gist', 'duplicates'])[1:n])
FROM generate_series(0, 7) n, unnest(ARRAY[0, 3]) workers \gexec
\o
SELECT * FROM oracle.finding;
SELECT * FROM oracle.summary;
DROP TABLE stock, ours;
