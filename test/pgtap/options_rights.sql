-- Who may set the options of a table, and who may read them.
\ir common.psql
\ir errors.psql

SELECT plan(30);

SELECT forget_role(r) FROM unnest(ARRAY['pv_owner', 'pv_member', 'pv_other', 'pv_outside']) r \g /dev/null
-- Roles and tables
CREATE ROLE pv_owner NOLOGIN;
CREATE ROLE pv_member LOGIN IN ROLE pv_owner;
CREATE ROLE pv_other LOGIN;
CREATE ROLE pv_outside LOGIN NOINHERIT IN ROLE pv_owner;
CREATE TABLE owned (x int PRIMARY KEY);
CREATE TABLE owned_p (x int) PARTITION BY LIST (x);
CREATE TABLE owned_p1 PARTITION OF owned_p FOR VALUES IN (1);
CREATE MATERIALIZED VIEW owned_mv AS SELECT 1 AS x;
ALTER TABLE owned OWNER TO pv_owner;
ALTER TABLE owned_p OWNER TO pv_owner;
ALTER MATERIALIZED VIEW owned_mv OWNER TO pv_owner;
CREATE TABLE anothers (x int) WITH (parvacuum.workers = 7);
GRANT ALL ON owned, owned_p1, owned_mv TO pv_other;

-- Executes a statement as this user; returns the result without the hint
CREATE FUNCTION attempt_as(who text, statement text) RETURNS text LANGUAGE sql AS $$
    SELECT split_part(attempt('SET SESSION AUTHORIZATION ' || who || '; SET lock_timeout = ''10s''', statement), ' / ', 1)
$$;
SELECT is(attempt_as(who, statement) || ', ' || coalesce(label(rel), 'nothing'), 'done, ' || label,
    who || ': ' || statement)
FROM (VALUES ('pv_owner', 'ALTER TABLE owned SET (parvacuum.enabled, parvacuum.workers = 2)', 'owned',
    'enabled=true, workers=2'),
    ('pv_member', 'ALTER TABLE owned RESET (parvacuum.enabled)', 'owned', 'workers=2'),
    ('pv_outside; SET ROLE pv_owner', 'ALTER TABLE owned SET (parvacuum.workers = 3, fillfactor = 80)', 'owned',
    'workers=3'),
    ('pv_member', by_hand('enabled=true', 'TABLE owned'), 'owned', 'enabled=true'),
    ('pv_owner', by_hand(NULL, 'TABLE owned'), 'owned', 'nothing'),
    ('pv_owner', 'ALTER TABLE owned_p SET (parvacuum.enabled)', 'owned_p', 'enabled=true'),
    ('pv_member', 'ALTER MATERIALIZED VIEW owned_mv SET (parvacuum.workers = 1)', 'owned_mv', 'workers=1'),
    ('pv_owner', 'CREATE TABLE made (x serial PRIMARY KEY) WITH (parvacuum.workers = 4)', 'made', 'workers=4'),
    ('pv_member', 'CREATE TABLE made_as WITH (parvacuum.workers = 5) AS SELECT * FROM owned', 'made_as', 'workers=5'),
    ('pv_other', 'CREATE TABLE made_like (LIKE owned INCLUDING ALL) WITH (parvacuum.enabled = off)', 'made_like',
    'enabled=false')) x(who, statement, rel, label);
SELECT is(attempt_as('pv_owner',
    'CREATE TEMP TABLE mine (x int) WITH (parvacuum.workers = 4); ALTER TABLE mine SET (parvacuum.enabled)'), 'done',
    'pv_owner: a temporary table');
SET ROLE pv_other;
CREATE TEMP TABLE read_by_other AS SELECT * FROM parvacuum_tables
    WHERE relid IN ('owned_p'::regclass, 'owned_p1'::regclass);
RESET ROLE;
SELECT set_eq('SELECT relation::text, enabled_from FROM read_by_other',
    $$VALUES ('owned_p', 'table'), ('owned_p1', 'ancestor')$$, 'all roles may read the options');

ALTER TABLE owned SET (parvacuum.workers = 6);
SELECT everything() \gset
SELECT is(attempt_as(who, statement), '42501: ' || message, who || ': ' || statement)
FROM (VALUES ('pv_other', 'ALTER TABLE owned SET (parvacuum.workers = 9)', 'must be owner of table owned'),
    ('pv_outside', 'ALTER TABLE owned SET (parvacuum.workers = 9)', 'must be owner of table owned'),
    ('pv_other', 'ALTER TABLE owned RESET (parvacuum.workers)', 'must be owner of table owned'),
    ('pv_other', 'ALTER TABLE IF EXISTS owned SET (parvacuum.workers = 9, fillfactor = 50)',
    'must be owner of table owned'),
    ('pv_owner', 'ALTER TABLE owned_p1 SET (parvacuum.workers = 9)', 'must be owner of table owned_p1'),
    ('pv_other', 'ALTER TABLE owned_p SET (parvacuum.workers = 9)', 'must be owner of table owned_p'),
    ('pv_other', 'ALTER MATERIALIZED VIEW owned_mv SET (parvacuum.workers = 9)',
    'must be owner of materialized view owned_mv'),
    ('pv_other', 'ALTER TABLE pg_class SET (parvacuum.workers = 9)', 'must be owner of table pg_class'),
    ('pv_other', 'ALTER TABLE a_view SET (parvacuum.workers = 9)', 'must be owner of view a_view'),
    ('pv_other', by_hand('workers=9', 'TABLE owned'), 'must be owner of table owned'),
    ('pv_other', by_hand(NULL, 'TABLE owned'), 'must be owner of table owned'),
    ('pv_outside', by_hand('workers=9', 'TABLE owned'), 'must be owner of table owned'),
    ('pv_other', 'CREATE TABLE no (LIKE anothers INCLUDING ALL)', 'permission denied for table anothers'),
    ('pv_other', 'CREATE TABLE pg_catalog.no (x int) WITH (parvacuum.workers = 9)',
    'permission denied for schema pg_catalog'),
    ('pv_other', 'CREATE TABLE no WITH (parvacuum.workers = 9) AS SELECT * FROM anothers',
    'permission denied for table anothers')) x(who, statement, message);
-- A statement without rights is refused at once, and does not wait for the lock.
SELECT connect('lock') \g /dev/null
SELECT dblink_exec('lock', 'BEGIN; LOCK TABLE owned') \g /dev/null
SELECT is(attempt_as('pv_other', 'SET lock_timeout = ''50ms''; ALTER TABLE owned SET (parvacuum.workers = 9)'),
    '42501: must be owner of table owned', 'a role without rights does not wait for the lock');
SELECT dblink_exec('lock', 'ROLLBACK') \g /dev/null
SELECT dblink_disconnect('lock') \g /dev/null
SELECT is(everything(), :'everything', 'all options are the same as before');
SELECT is(to_regclass('no'), NULL, 'no table was created');

SELECT dblink_disconnect('e') \g /dev/null
SELECT * FROM finish();
SELECT forget_role(r) FROM unnest(ARRAY['pv_member', 'pv_outside', 'pv_owner', 'pv_other']) r \g /dev/null
DROP FOREIGN DATA WRAPPER pv_none CASCADE;
DROP SCHEMA t CASCADE;
