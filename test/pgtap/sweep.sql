-- parvacuum_sweep(): what it looks like from outside, who may do it to what, and
-- that it deletes the entries it should and no other.  Pages are read by
-- pageinspect before and after, and what is dead is known from the heap.
\ir common.psql
\ir ../oracle.sql

SELECT plan(279);

------------------------------------------------------------------------------
-- Signature
------------------------------------------------------------------------------

CREATE TEMP VIEW func AS SELECT * FROM pg_proc WHERE proname = 'parvacuum_sweep';

SELECT is(count(*), 1::bigint, 'one parvacuum_sweep') FROM func;
SELECT is(pg_get_function_arguments(oid), 'index regclass, workers integer DEFAULT NULL::integer, OUT workers_launched integer, '
    'OUT pages_total bigint, OUT pages_visited bigint, OUT pages_changed bigint, OUT tuples_deleted bigint, OUT bytes_freed bigint, '
    'OUT elapsed_ms double precision', 'arguments and columns of the result') FROM func;
SELECT is(format('%s %s %s %s %s', prokind, provolatile, proparallel, proisstrict, proretset), 'f v u f f',
    'a function, volatile, parallel unsafe, not strict, one row') FROM func;
SELECT is(proacl::text, NULL, 'it may be called by all; rights are checked inside') FROM func;
SELECT matches(obj_description(oid, 'pg_proc'), 'dead row versions .* snapshot', 'its comment says what it does and what it leaves') FROM func;

------------------------------------------------------------------------------
-- Rights: VACUUM's rule
------------------------------------------------------------------------------

SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_member', 'pv_other', 'pv_dba', 'pv_super']) r \g /dev/null
CREATE ROLE pv_owner NOLOGIN;
CREATE ROLE pv_member LOGIN IN ROLE pv_owner;
CREATE ROLE pv_other LOGIN;
CREATE ROLE pv_dba NOLOGIN;
CREATE ROLE pv_super NOLOGIN SUPERUSER;

CREATE TABLE owned AS SELECT g AS a FROM generate_series(1, 1000) g;
CREATE INDEX owned_a ON owned (a);
ALTER TABLE owned OWNER TO pv_owner;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON owned TO pv_other;

CREATE FUNCTION refusal(name text) RETURNS text LANGUAGE sql AS $$
    SELECT format('42501: permission denied to sweep an index of table "%s" / Only roles that may vacuum the table can do that.', name)
$$;
CREATE FUNCTION unsuitable(name text) RETURNS text LANGUAGE sql AS $$
    SELECT format('42809: cannot sweep index "%s" / VACUUM removes dead versions from their indexes.', name)
$$;

SELECT is(attempt(s, 'SELECT parvacuum_sweep(''owned_a'')'), 'done', s)
FROM unnest(ARRAY['SET ROLE pv_owner', 'SET SESSION AUTHORIZATION pv_member',
    'SET SESSION AUTHORIZATION pv_member; SET ROLE pv_owner', 'SET SESSION AUTHORIZATION pv_super']) s;
SELECT is(attempt(s, 'SELECT parvacuum_sweep(''owned_a'')'), refusal('owned'), s)
FROM unnest(ARRAY['SET ROLE pv_other', 'SET SESSION AUTHORIZATION pv_other', 'SET ROLE pv_dba', 'SET SESSION AUTHORIZATION pv_super; SET ROLE pv_other']) s;
CREATE FUNCTION set_owner(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), name);
END $$;
SELECT set_owner('pv_dba') \g /dev/null
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_sweep(''owned_a'')'), 'done', 'the owner of the database');
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_sweep(''pg_class_oid_index'')'), unsuitable('pg_class_oid_index'), 'the owner of the database: the index of a catalog is refused for another reason');
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_sweep(''pg_database_oid_index'')'), refusal('pg_database'), 'the owner of the database: one of a shared catalog');
SELECT set_owner(session_user) \g /dev/null
SELECT is(attempt('SET ROLE pv_dba', 'SELECT parvacuum_sweep(''owned_a'')'), refusal('owned'), 'no longer the owner of the database');

------------------------------------------------------------------------------
-- Errors
------------------------------------------------------------------------------

SELECT connect('e') \g /dev/null

CREATE TABLE good (a int PRIMARY KEY, b text, c int);
INSERT INTO good SELECT g FROM generate_series(1, 1000) g;
CREATE VIEW a_view AS SELECT 1;
CREATE SEQUENCE a_sequence;
CREATE TABLE parent (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE child PARTITION OF parent FOR VALUES FROM (0) TO (100000);

SELECT fails('e', 'SELECT parvacuum_sweep(NULL)', '22004', 'argument "index" must not be null', 'Name an index.', 'null');
SELECT fails('e', 'SELECT parvacuum_sweep(0)', '42P01', 'relation with OID 0 does not exist', 'pg_indexes lists the existing indexes.', 'no such OID');
SELECT fails('e', 'SELECT parvacuum_sweep(''nonesuch'')', '42P01', 'relation "nonesuch" does not exist', '', 'no such name');
SELECT fails('e', format('SELECT parvacuum_sweep(%L)', name), '42809', format('cannot sweep "%s"', name),
    'Only indexes can be swept; of a partitioned index, those of its partitions.', name)
FROM unnest(ARRAY['good', 'a_view', 'a_sequence', 'parent', 'parent_pkey']) name;
SELECT is((failure('e', 'SELECT parvacuum_sweep(''good'')')).detail, 'This operation is not supported for tables.', 'the detail names the kind');
SELECT is((failure('e', 'SELECT parvacuum_sweep(''child_pkey'')')).message, NULL, 'the index of a partition is taken');
SELECT is(attempt('RESET ALL', format('SELECT parvacuum_sweep(%L)', name)), unsuitable(split_part(name, '.', -1)), name)
FROM unnest(ARRAY['pg_class_oid_index', 'pg_database_oid_index', 'pg_toast.pg_toast_2604_index']) name;
SELECT fails('e', format('SELECT parvacuum_sweep(''good_pkey'', %s)', n), '22023', 'number of workers must be between 0 and 1024',
    '0 means no workers.  NULL lets parvacuum decide.', format('%s workers', n))
FROM unnest(ARRAY[-1, -2147483648, 1025, 2147483647]) n;
SELECT is((failure('e', 'SELECT parvacuum_sweep(''good_pkey'', NULL)')).message, NULL, 'null workers are taken');

-- a temporary table of another session; ours is swept below
SELECT dblink_exec('e', 'CREATE TEMP TABLE theirs (a int PRIMARY KEY); INSERT INTO theirs VALUES (1)') \g /dev/null
SELECT is(attempt('RESET ALL', format('SELECT parvacuum_sweep(%s)', oid)), unsuitable('theirs_pkey'), 'a temporary table of another session')
FROM pg_class WHERE relname = 'theirs_pkey';

-- an index that has come to nothing
SELECT failure('e', 'INSERT INTO good SELECT g, NULL, 1 FROM generate_series(1001, 1002) g') \g /dev/null
SELECT is((failure('e', 'CREATE UNIQUE INDEX CONCURRENTLY good_c ON good (c)')).state, '23505', 'an index cannot be built');
SELECT fails('e', 'SELECT parvacuum_sweep(''good_c'')', '55000', 'cannot sweep index "good_c"', 'Wait for that, or REINDEX it.', 'and what is left of it not be swept');
DROP INDEX good_c;

-- where parvacuum_run() is refused, a sweep is not
CREATE FUNCTION in_plpgsql(index text) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (parvacuum_sweep(index)).pages_total; END';
CREATE FUNCTION in_sql(index text) RETURNS bigint LANGUAGE sql AS 'SELECT pages_total FROM parvacuum_sweep(index)';
SELECT is((failure('e', s)).message, NULL, s) FROM unnest(ARRAY['SELECT in_plpgsql(''good_pkey'')', 'SELECT in_sql(''good_pkey'')',
    'BEGIN; SELECT parvacuum_sweep(''good_pkey'')', 'SAVEPOINT s; SELECT parvacuum_sweep(''good_pkey'')', 'ROLLBACK',
    'BEGIN READ ONLY; SELECT parvacuum_sweep(''good_pkey'')', 'ROLLBACK']) s;

------------------------------------------------------------------------------
-- Access methods that have nothing to sweep
------------------------------------------------------------------------------

CREATE EXTENSION IF NOT EXISTS bloom;
CREATE TABLE other (a int, b int[], c point);
INSERT INTO other SELECT g, ARRAY[g], point(g, g) FROM generate_series(1, 5000) g;
CREATE INDEX other_hash ON other USING hash (a);
CREATE INDEX other_gist ON other USING gist (c);
CREATE INDEX other_gin ON other USING gin (b);
CREATE INDEX other_brin ON other USING brin (a);
CREATE INDEX other_spgist ON other USING spgist (c);
CREATE INDEX other_bloom ON other USING bloom (a);
DELETE FROM other WHERE a % 2 = 0;

SET client_min_messages = error;
CREATE TEMP TABLE other_am AS
SELECT am, pg_relation_size('other_' || am) / current_setting('block_size')::int AS pages
FROM unnest(ARRAY['hash', 'gist', 'gin', 'brin', 'spgist', 'bloom']) am;
CREATE TEMP VIEW other_pages AS SELECT am, f.* FROM other_am, oracle.page_fill('other_' || am) f;
CREATE TEMP TABLE other_before AS SELECT * FROM other_pages;
SELECT is(ARRAY[r.workers_launched, r.pages_total, r.pages_visited, r.pages_changed, r.tuples_deleted, r.bytes_freed],
    ARRAY[0, pages, 0, 0, 0, 0], am || ': nothing is swept')
FROM other_am, parvacuum_sweep('other_' || am, 2) r;
SET client_min_messages = warning;
SELECT results_eq('SELECT * FROM other_pages', 'SELECT * FROM other_before', 'and nothing is changed');

SELECT replace(conninfo('notices'), '=warning', '=notice') AS conninfo \gset
\set said `psql -XqAt -d :'conninfo' -c "SELECT tuples_deleted FROM parvacuum_sweep('other_gin')" 2>&1`
SELECT is(:'said'::text, E'NOTICE:  index "other_gin" is not a B-tree, so there is nothing to sweep\n'
    'DETAIL:  Its access method, "gin", has no deletion outside of VACUUM.\n0', 'which is said');
\set said `psql -XqAt -d :'conninfo' -c "SELECT tuples_deleted FROM parvacuum_sweep('good_pkey')" 2>&1`
SELECT is(:'said'::text, '0', 'and only then');

------------------------------------------------------------------------------
-- What is deleted
------------------------------------------------------------------------------

-- The heap TIDs from which somebody gets to a row that is visible: its own, and
-- those of the earlier versions of its HOT chain.
CREATE FUNCTION reachable(rel regclass) RETURNS SETOF tid LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('
        WITH RECURSIVE item AS MATERIALIZED (
            SELECT format(''(%%s,%%s)'', blk, lp)::tid AS t,
                   CASE WHEN lp_flags = 2 THEN format(''(%%s,%%s)'', blk, lp_off)::tid
                        WHEN lp_flags = 1 AND t_infomask2 & 16384 <> 0 THEN t_ctid END AS next
            FROM generate_series(0, oracle.nblocks(%L) - 1) blk, heap_page_items(get_raw_page(%L, ''main'', blk)))
        , found AS (SELECT ctid AS t FROM %s UNION SELECT i.t FROM found f JOIN item i ON i.next = f.t)
        SELECT t FROM found', rel, rel, rel);
END $$;

-- The leaf pages of an index, the space on them that is free, and their entries.
CREATE FUNCTION leaves(idx regclass) RETURNS TABLE (blk bigint, free int, tids tid[]) LANGUAGE sql AS $$
    SELECT b, h.upper - h.lower,
           array(SELECT t FROM bt_page_items(idx::text, b) i, unnest(coalesce(i.tids, ARRAY[i.htid])) t
                 WHERE i.itemoffset > 1 OR s.btpo_next = 0 ORDER BY t)
    FROM generate_series(1, oracle.nblocks(idx) - 1) b, bt_page_stats(idx::text, b) s, page_header(get_raw_page(idx::text, 'main', b)) h
    WHERE s.type = 'l'
$$;

-- Four tests: a sweep deletes exactly what is dead from the pages that are at
-- least half full, and says so; the index is whole; a second sweep finds nothing.
-- dead is how many entries are so beside those that an earlier sweep has left,
-- on pages less than half full.
CREATE TEMP TABLE leftover (file oid PRIMARY KEY, n bigint);
CREATE FUNCTION swept(what text, idx regclass, workers int, dead bigint) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    rel regclass := (SELECT indrelid FROM pg_index WHERE indexrelid = idx);
    pages bigint := oracle.nblocks(idx);
    first record;
    second record;
    expected text;
BEGIN
    CREATE TEMP TABLE live AS SELECT reachable(rel) AS t;
    CREATE TEMP TABLE before AS
        SELECT *, free <= current_setting('block_size')::int / 2 AND cardinality(tids) > 0 AS visit,
               array(SELECT t FROM unnest(tids) t WHERE t IN (SELECT l.t FROM live l) ORDER BY t) AS wanted
        FROM leaves(idx);
    UPDATE before SET wanted = tids WHERE NOT visit;
    first := parvacuum_sweep(idx, workers);
    CREATE TEMP TABLE after AS SELECT * FROM leaves(idx);
    second := parvacuum_sweep(idx, workers);

    SELECT format('%s pages, %s visited, %s changed, %s deleted, %s bytes', pages, count(*) FILTER (WHERE visit),
                  count(*) FILTER (WHERE b.wanted <> b.tids), sum(cardinality(b.tids)) - sum(cardinality(b.wanted)), sum(a.free - b.free))
      INTO expected FROM before b JOIN after a USING (blk);
    RETURN NEXT is(format('%s pages, %s visited, %s changed, %s deleted, %s bytes', first.pages_total, first.pages_visited, first.pages_changed,
                          first.tuples_deleted, first.bytes_freed), expected, what || ': the result is what the pages say');
    RETURN NEXT is((SELECT count(*) FROM before b FULL JOIN after a USING (blk) WHERE b.wanted IS DISTINCT FROM a.tids), 0::bigint,
                   what || ': each page has what it should');
    RETURN NEXT is((SELECT count(*) FROM before b, unnest(b.tids) t WHERE t NOT IN (SELECT l.t FROM live l)) -
                   coalesce((SELECT n FROM leftover WHERE file = pg_relation_filenode(idx)), 0), dead, what || ': so many are newly dead');
    RETURN NEXT ok(CASE dead WHEN 0 THEN first.bytes_freed = 0 ELSE first.tuples_deleted > 0 AND first.bytes_freed > 0 END AND first.elapsed_ms > 0,
                   what || ': they go');
    RETURN NEXT is((SELECT string_agg(f::text, ', ') FROM (SELECT oracle.check_btrees(rel) UNION ALL SELECT oracle.check_dangling(rel)) x(f)), NULL,
                   what || ': the index is whole');
    RETURN NEXT ok(second.pages_changed + second.tuples_deleted + second.bytes_freed = 0 AND
                   NOT EXISTS (SELECT FROM leaves(idx) l FULL JOIN after a USING (blk) WHERE (l.free, l.tids) IS DISTINCT FROM (a.free, a.tids)),
                   what || ': a second sweep changes nothing');
    INSERT INTO leftover SELECT pg_relation_filenode(idx), count(*) FROM after a, unnest(a.tids) t WHERE t NOT IN (SELECT l.t FROM live l)
    ON CONFLICT (file) DO UPDATE SET n = excluded.n;
    DROP TABLE live, before, after;
END $$;

-- One test: there are entries of rows that this session does not see, and a sweep
-- leaves them as they are.
CREATE FUNCTION untouched(what text, idx regclass, workers int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    unseen bigint := (SELECT count(*) FROM oracle.index_tids(idx) t
                      WHERE t NOT IN (SELECT reachable(indrelid) FROM pg_index WHERE indexrelid = idx));
    before text := (SELECT md5(string_agg(l::text, ' ' ORDER BY blk)) FROM leaves(idx) l);
    r record := parvacuum_sweep(idx, workers);
BEGIN
    RETURN is(format('%s changed, %s deleted, pages %s', r.pages_changed, r.tuples_deleted, (SELECT md5(string_agg(l::text, ' ' ORDER BY blk)) FROM leaves(idx) l)),
              format('0 changed, 0 deleted, pages %s', CASE WHEN unseen > 0 AND r.pages_visited > 0 THEN before ELSE 'without anything in question' END),
              format('%s, %s workers: nothing goes', what, workers));
END $$;

CREATE FUNCTION fill(rel text, n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %s SELECT g, g %% 37, ''row '' || g FROM generate_series(1, %s) g', rel, n);
END $$;

-- deletes, without and with workers
CREATE TABLE plain (id int PRIMARY KEY, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('plain', 20000) \g /dev/null
DELETE FROM plain WHERE id % 10 = 0;
SELECT swept('unique, no workers', 'plain_pkey', 0, 2000);
DELETE FROM plain WHERE id % 10 = 1;
SELECT swept('unique, two workers', 'plain_pkey', 2, 2000);
DELETE FROM plain WHERE id % 10 = 2;
SELECT swept('unique, any number of workers', 'plain_pkey', NULL, 2000);

-- how many workers: as core says for index scans, and no more than the settings allow
SELECT is((parvacuum_sweep('plain_pkey', workers)).workers_launched, workers, format('%s workers are launched', workers)) FROM generate_series(0, 3) workers;
CREATE FUNCTION launched(threshold bigint) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('min_parallel_index_scan_size', threshold::text, true);
    RETURN (parvacuum_sweep('plain_pkey')).workers_launched;
END $$;
SELECT is(launched(t), n, format('%s workers for an index of its size', n))
FROM oracle.nblocks('plain_pkey') p, LATERAL (VALUES (p + 1, 0), (p, 1), (p / 3 + 1, 1), (p / 3, 2)) x(t, n);
SET client_min_messages = error;
SET max_parallel_maintenance_workers = 1;
SELECT is((parvacuum_sweep('plain_pkey', workers)).workers_launched, 1, format('max_parallel_maintenance_workers limits %s', coalesce(workers::text, 'any')))
FROM unnest(ARRAY[NULL, 4]) workers;
RESET max_parallel_maintenance_workers;
SET client_min_messages = warning;
\set said `psql -XqAt -d :'conninfo' -c "SET max_parallel_maintenance_workers = 1; SELECT tuples_deleted FROM parvacuum_sweep('plain_pkey', 4)" 2>&1 | head -1`
SELECT is(:'said'::text, 'NOTICE:  number of workers lowered from 4 to 1', 'which is said');

-- posting lists: some of a list, and all of it
CREATE TABLE twice (id int, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('twice', 20000) \g /dev/null
CREATE INDEX twice_k ON twice (k);
CREATE INDEX twice_not ON twice (k) WITH (deduplicate_items = off);
SELECT cmp_ok(count(*), '<', 1000::bigint, 'there are posting lists') FROM oracle.nblocks('twice_k') n, generate_series(1, n - 1) b, bt_page_items('twice_k', b);
SELECT cmp_ok(count(*), '>', 20000::bigint, 'and none without deduplication') FROM oracle.nblocks('twice_not') n, generate_series(1, n - 1) b, bt_page_items('twice_not', b);
DELETE FROM twice WHERE id % 10 < 3 OR k = 5;
SELECT swept('posting lists', 'twice_k', 0, 6379);
SELECT swept('no posting lists', 'twice_not', 0, 6379);
DELETE FROM twice WHERE id % 10 = 3;
SELECT swept('posting lists, two workers', 'twice_k', 2, 1946);
SELECT swept('no posting lists, two workers', 'twice_not', 2, 1946);

-- nulls, expressions, predicates, included columns, several columns
CREATE TABLE various (id int, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('various', 20000) \g /dev/null
UPDATE various SET k = NULL, s = NULL WHERE id % 2 = 0;
VACUUM various;
CREATE INDEX various_null ON various (k NULLS FIRST);
CREATE UNIQUE INDEX various_unique ON various (k, id);
CREATE INDEX various_expression ON various (upper(s) DESC);
CREATE INDEX various_partial ON various (id) WHERE k > 10;
CREATE INDEX various_include ON various (id) INCLUDE (s);
DELETE FROM various WHERE id % 7 = 1;
SELECT swept(name, ('various_' || name)::regclass, workers, CASE name WHEN 'partial' THEN partial ELSE 2858 END)
FROM (VALUES ('null', 0), ('unique', 2), ('expression', 0), ('partial', 2), ('include', 0)) x(name, workers),
    (SELECT count(*) AS partial FROM generate_series(1, 20000) id WHERE id % 2 = 1 AND id % 37 > 10 AND id % 7 = 1) y;

-- other kinds of relations
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('unlogged', 5000) \g /dev/null
DELETE FROM unlogged WHERE id % 4 = 0;
SELECT swept('unlogged', 'unlogged_pkey', 2, 1250);
CREATE TEMP TABLE temporary (id int PRIMARY KEY, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('temporary', 5000) \g /dev/null
DELETE FROM temporary WHERE id % 4 = 0;
SELECT swept('temporary', 'temporary_pkey', 0, 1250);
DELETE FROM temporary WHERE id % 4 = 1 AND id < 1000;
SELECT is((r.workers_launched, r.tuples_deleted)::text, '(0,250)', 'temporary: by this session alone') FROM parvacuum_sweep('temporary_pkey', 2) r;
INSERT INTO parent SELECT generate_series(1, 5000);
DELETE FROM parent WHERE a % 4 = 0;
SELECT swept('a partition', 'child_pkey', 0, 1250);
CREATE MATERIALIZED VIEW matview AS SELECT id, k FROM plain;
CREATE UNIQUE INDEX matview_id ON matview (id);
UPDATE plain SET k = -1 WHERE id % 8 = 0;
REFRESH MATERIALIZED VIEW CONCURRENTLY matview;
SELECT swept('a materialized view', 'matview_id', 0, count(*)) FROM plain WHERE k = -1;
CREATE TABLE toasted (id int, k int, s text) WITH (autovacuum_enabled = off);
ALTER TABLE toasted ALTER s SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT g, 0, repeat('x', 7000) FROM generate_series(1, 300) g;
DELETE FROM toasted WHERE id % 4 = 0;
SELECT swept('a TOAST table', indexrelid, 0, 75 * 4) FROM pg_index, oracle.toast_of('toasted') o WHERE indrelid = o;
CREATE TABLE nothing (id int PRIMARY KEY);
SELECT is((r.pages_total, r.pages_visited, r.tuples_deleted)::text, '(1,0,0)', 'an empty index') FROM parvacuum_sweep('nothing_pkey', 2) r;

-- other ways to die
CREATE TABLE churn (id int PRIMARY KEY, k int, s text) WITH (autovacuum_enabled = off, fillfactor = 50);
SELECT fill('churn', 5000) \g /dev/null
CREATE INDEX churn_k ON churn (k);
UPDATE churn SET k = k + 100 WHERE id % 5 = 0;
SELECT swept('updates of a key', 'churn_k', 0, 1000);
SELECT swept('updates of a key, the other index', 'churn_pkey', 2, 1000);
UPDATE churn SET s = s || '.' WHERE id % 5 = 1;
UPDATE churn SET s = s || '.' WHERE id % 5 = 1;
SELECT swept('HOT updates', 'churn_k', 2, 0);
DELETE FROM churn WHERE id % 10 = 1;
SELECT swept('the end of HOT chains', 'churn_k', 0, 500);
BEGIN;
INSERT INTO churn SELECT g, g % 37 FROM generate_series(5001, 5700) g;
UPDATE churn SET k = k + 200 WHERE id % 10 = 2;
DELETE FROM churn WHERE id % 10 = 3;
ROLLBACK;
SELECT swept('a rolled back transaction', 'churn_k', 0, 700 + 500 + 70);
BEGIN;
SAVEPOINT s;
INSERT INTO churn SELECT g, g % 37 FROM generate_series(5001, 5700) g;
ROLLBACK TO s;
SELECT swept('a rolled back savepoint', 'churn_k', 0, 700);
DELETE FROM churn WHERE id % 10 = 4;
SELECT untouched('deletes of our own', 'churn_k', w) FROM unnest(ARRAY[0, 2]) w;
COMMIT;
SELECT swept('deletes that are committed', 'churn_k', 2, 500);

-- what a vacuum without index cleanup leaves, and what a scan has marked
REINDEX TABLE churn;
DELETE FROM churn WHERE id % 10 = 6;
SET client_min_messages = error;
SELECT dead_items > 0 AND index_scans = 0 AS stubs FROM parvacuum_run('churn', index_cleanup => 'off') WHERE relid = 'churn'::regclass \gset
SET client_min_messages = warning;
SELECT ok(:'stubs', 'line pointers are dead');
SELECT swept('dead line pointers', 'churn_k', 0, 500);
SELECT swept('dead line pointers, the other index', 'churn_pkey', 2, 500);
REINDEX TABLE churn;
WITH gone AS (DELETE FROM churn WHERE k IN (3, 4, 20, 30) RETURNING 1) SELECT count(*) AS gone FROM gone \gset
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM churn WHERE k >= 0 \g /dev/null
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT cmp_ok(count(*), '>', 0::bigint, 'entries are marked as dead')
FROM oracle.nblocks('churn_k') n, generate_series(1, n - 1) b, bt_page_stats('churn_k', b) s, bt_page_items('churn_k', b) i
WHERE s.type = 'l' AND i.dead;
SELECT swept('entries marked as dead', 'churn_k', 0, :gone);
SELECT is((SELECT string_agg(f::text, ', ') FROM oracle.check_table('churn') f), NULL, 'the table is whole');
VACUUM churn;
INSERT INTO churn SELECT g, g % 37 FROM generate_series(10001, 13000) g;
SELECT is((SELECT string_agg(f::text, ', ') FROM oracle.check_table('churn') f), NULL, 'and after a vacuum and new rows');

------------------------------------------------------------------------------
-- What is left alone
------------------------------------------------------------------------------

-- pages less than half full
CREATE TABLE loose (id int, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('loose', 5000) \g /dev/null
CREATE INDEX loose_id ON loose (id) WITH (fillfactor = 40);
DELETE FROM loose WHERE id % 2 = 0;
SELECT is((r.pages_visited, r.tuples_deleted)::text, '(0,0)', 'pages less than half full are left alone') FROM parvacuum_sweep('loose_id') r;
SELECT is(count(*), 5000::bigint, 'with all of their entries') FROM oracle.index_tids('loose_id');
INSERT INTO loose SELECT g FROM generate_series(1, 1000, 2) g;
SELECT swept('some pages are half full again', 'loose_id', 0, 2500);
SELECT ok(count(*) BETWEEN 1 AND 4999, 'of those alone entries are gone') FROM oracle.index_tids('loose_id') t WHERE t NOT IN (SELECT ctid FROM loose);

-- heap pages that are all-visible, which are not even read
CREATE TABLE seen (id int, k int, s text) WITH (autovacuum_enabled = off);
SELECT fill('seen', 5000) \g /dev/null
CREATE INDEX seen_id ON seen (id);
CREATE FUNCTION heap_reads(idx regclass, OUT reads bigint, OUT deleted bigint) LANGUAGE plpgsql AS $$
BEGIN
    reads := pg_stat_get_xact_blocks_fetched('seen'::regclass);
    deleted := (parvacuum_sweep(idx, 0)).tuples_deleted;
    reads := pg_stat_get_xact_blocks_fetched('seen'::regclass) - reads;
END $$;
SELECT cmp_ok(reads, '>=', oracle.nblocks('seen'), 'heap pages of rows that nobody knows to be visible are read') FROM heap_reads('seen_id');
VACUUM seen;
SELECT is(heap_reads('seen_id')::text, '(1,0)', 'those that are all-visible are not, only the map');
DELETE FROM seen WHERE id = 17;
SELECT is(heap_reads('seen_id')::text, '(3,1)', 'but one that is no longer: for this sweep and for core');

-- what an older snapshot sees
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
SELECT untouched('an older snapshot', 'kept_k', w) FROM unnest(ARRAY[0, 2]) w;
SELECT is(old_sees(), '10000', 'it sees what it saw');
SELECT dblink_exec('old', 'COMMIT') \g /dev/null
SELECT swept('nobody sees them any more', 'kept_k', 0, 1000);

-- what this transaction's own snapshot sees
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT is(count_by_index(), '9000', 'a snapshot of our own');
SELECT dblink_exec('old', 'DELETE FROM kept WHERE id % 10 = 5') \g /dev/null
SELECT is((parvacuum_sweep('kept_k', w)).tuples_deleted, 0::bigint, format('our own snapshot, %s workers: nothing goes', w)) FROM unnest(ARRAY[0, 2]) w;
SELECT is(count_by_index(), '9000', 'we see what we saw');
COMMIT;
SELECT swept('our own snapshot is gone', 'kept_k', 2, 1000);

-- what is still to be decided
BEGIN;
DELETE FROM kept WHERE id % 10 = 6;
UPDATE kept SET k = -1 WHERE id % 10 = 7;
INSERT INTO kept SELECT g, 5 FROM generate_series(30001, 30500) g;
PREPARE TRANSACTION 'pv_sweep';
SELECT untouched('a prepared transaction', 'kept_k', w) FROM unnest(ARRAY[0, 2]) w;
COMMIT PREPARED 'pv_sweep';
SELECT swept('it is committed', 'kept_k', 0, 2000);
SELECT is((SELECT string_agg(f::text, ', ') FROM oracle.check_table('kept') f), NULL, 'the table is whole');

-- what follows the CALL in a procedure is in a transaction as the session has them
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

SELECT dblink_disconnect(c) FROM unnest(ARRAY['e', 'old']) c \g /dev/null
SELECT * FROM finish();
SELECT forget_role(r) FROM unnest(ARRAY['pv_member', 'pv_owner', 'pv_other', 'pv_dba', 'pv_super']) r \g /dev/null
DROP SCHEMA t CASCADE;
DROP SCHEMA oracle CASCADE;
