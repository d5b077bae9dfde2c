-- Which entries parvacuum_sweep() keeps: those on pages less than half full, of all-visible
-- heap pages, and of rows that a snapshot may still see.
\ir common.psql
\ir ../oracle.sql
\ir sweep.psql

SELECT plan(39);

-- Pages less than half full
CREATE TABLE loose (id int, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('loose', 5000) \g /dev/null
CREATE INDEX loose_id ON loose (id) WITH (fillfactor = 40);
DELETE FROM loose WHERE id % 2 = 0;
SELECT is((r.pages_visited, r.tuples_deleted)::text, '(0,0)', 'pages less than half full are not visited') FROM parvacuum_sweep('loose_id') r;
SELECT is(count(*), 5000::bigint, 'pages less than half full keep all entries') FROM oracle.index_tids('loose_id');
INSERT INTO loose SELECT g FROM generate_series(1, 1000, 2) g;
SELECT swept('some pages are half full again', 'loose_id', 2500);
SELECT ok(count(*) BETWEEN 1 AND 4999, 'only those pages have lost entries') FROM oracle.index_tids('loose_id') t WHERE t NOT IN (SELECT ctid FROM loose);

-- All-visible heap pages, which are not read
CREATE TABLE seen (id int, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('seen', 5000) \g /dev/null
CREATE INDEX seen_id ON seen (id);
CREATE FUNCTION heap_reads(idx regclass, OUT reads bigint, OUT deleted bigint) LANGUAGE plpgsql AS $$
BEGIN
    reads := pg_stat_get_xact_blocks_fetched('seen'::regclass);
    deleted := (parvacuum_sweep(idx)).tuples_deleted;
    reads := pg_stat_get_xact_blocks_fetched('seen'::regclass) - reads;
END $$;
SELECT cmp_ok(reads, '>=', oracle.nblocks('seen'), 'heap pages that are not all-visible are read') FROM heap_reads('seen_id');
VACUUM seen;
SELECT is(heap_reads('seen_id')::text, '(1,0)', 'all-visible heap pages are not read, but the map is');
DELETE FROM seen WHERE id = 17;
SELECT is(heap_reads('seen_id')::text, '(3,1)', 'a page that is not all-visible any more is read by the sweep and by core');

-- Rows that an older snapshot sees
CREATE FUNCTION count_by_index() RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN (SELECT count(*) FROM kept WHERE k >= 0);
END $$;
CREATE TABLE kept (id int PRIMARY KEY, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('kept', 10000) \g /dev/null
CREATE INDEX kept_k ON kept (k);
SELECT connect('old') \g /dev/null
SELECT dblink_exec('old', 'BEGIN ISOLATION LEVEL REPEATABLE READ') \g /dev/null
CREATE FUNCTION old_sees() RETURNS text LANGUAGE sql AS $$
    SELECT x FROM dblink('old', 'SELECT count_by_index()') y(x text)
$$;
SELECT is(old_sees(), '10000', 'an older snapshot');
DELETE FROM kept WHERE id % 10 = 4;
SELECT untouched('an older snapshot', 'kept_k');
SELECT is(old_sees(), '10000', 'the older snapshot sees the same rows');
SELECT dblink_exec('old', 'COMMIT') \g /dev/null
SELECT swept('no snapshot sees the rows any more', 'kept_k', 1000);

-- Rows that the snapshot of this transaction sees
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT is(count_by_index(), '9000', 'a snapshot of our own');
SELECT dblink_exec('old', 'DELETE FROM kept WHERE id % 10 = 5') \g /dev/null
SELECT is((parvacuum_sweep('kept_k')).tuples_deleted, 0::bigint, 'our own snapshot: no entry is deleted');
SELECT is(count_by_index(), '9000', 'our own snapshot sees the same rows');
COMMIT;
SELECT swept('our own snapshot has ended', 'kept_k', 1000);

-- Prepared transactions
BEGIN;
DELETE FROM kept WHERE id % 10 = 6;
UPDATE kept SET k = -1 WHERE id % 10 = 7;
INSERT INTO kept SELECT g, 5 FROM generate_series(30001, 30500) g;
PREPARE TRANSACTION 'pv_sweep';
SELECT untouched('a prepared transaction', 'kept_k');
COMMIT PREPARED 'pv_sweep';
SELECT swept('a prepared transaction that is committed', 'kept_k', 2000);
SELECT is((SELECT string_agg(f::text, ', ') FROM oracle.check_table('kept') f), NULL, 'the table is whole');

-- After the CALL, a procedure has a transaction with the defaults of the session.
CREATE TABLE levels (level text);
CREATE PROCEDURE sweep_and_look() LANGUAGE plpgsql AS $$
BEGIN
    CALL parvacuum_sweep_index('kept_k');
    INSERT INTO levels VALUES (current_setting('transaction_isolation'));
END $$;
SET default_transaction_isolation = 'repeatable read';
CALL sweep_and_look();
RESET default_transaction_isolation;
SELECT is(level, 'repeatable read', 'the isolation level after a CALL in a procedure') FROM levels;

SELECT dblink_disconnect('old') \g /dev/null
SELECT * FROM finish();
DROP SCHEMA t CASCADE;
DROP SCHEMA oracle CASCADE;
