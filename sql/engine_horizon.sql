-- Rows that a snapshot still sees, and rows of open transactions: they remain as long as
-- they are needed.  Needs max_prepared_transactions.
\getenv abs_srcdir PG_ABS_SRCDIR
\set oracle_sql :abs_srcdir '/test/oracle.sql'
\set ECHO none
\i :oracle_sql
CREATE EXTENSION IF NOT EXISTS parvacuum;

\o /dev/null
SELECT oracle.trial(format('%s %s %s', kind, wishes, workers), kind, 8000, workers, wishes, ARRAY['btree', 'hash', 'gin'], 400)
FROM unnest(ARRAY['snapshot', 'unfinished']) kind, unnest(ARRAY['no_truncate', 'no_truncate freeze', 'no_truncate aggressive freeze_young']) wishes,
     unnest(ARRAY[0, 1, 3]) workers \gexec
\o
SELECT * FROM oracle.finding;
SELECT * FROM oracle.summary;
DROP TABLE stock, ours;
