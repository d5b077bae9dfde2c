-- Security labels that are set directly, by SECURITY LABEL or in the catalog: which are
-- accepted, and which are refused or ignored.
\ir common.psql
\ir errors.psql

SELECT plan(105);

-- Only a label that ALTER TABLE would have made is accepted.
SELECT fails('e', by_hand(label), '22023', format('invalid security label for parvacuum: "%s"', label),
    'Use ALTER TABLE ... SET (parvacuum.enabled), which sets the label.', format('label "%s"', label))
FROM unnest(ARRAY['', ' ', 'enabled', 'enabled=true, workers', 'enabled=true, ', ', enabled=true', ',',
    'enabled=true,,workers=1', 'enabled=true workers=1', 'workers= 1', '"enabled=true', 'nonsense',
    '"workers=1"', 'window="never', 'window="', 'window="""', 'window="never" UTC',
    'window="never"workers=1', 'workers=1, window=Mon 22:00-06:00', 'workers=1 , , enabled=true',
    'nonesuch=1', 'enabled=true, nonesuch=1', 'Enabled=true', 'fillfactor=90', 'sweep=often', 'enabled=', 'enabled=maybe',
    'enabled=true, workers=1025', 'workers=-1', 'buffer_usage_limit=127', 'workers=1=2', 'window=22:00', 'enabled=true, window="Mon, Tue"',
    'window="never"""', 'window="a ""b"", c"""', 'window="22:00-25:00"', 'workers=1, workers=1', 'enabled=true, workers=1, enabled=false',
    'enabled=1', 'enabled=on', 'enabled=TRUE', 'enabled=no', ' enabled=true', 'enabled=true ', 'enabled=true,workers=1', 'workers=1, enabled=true',
    'workers=01', 'workers="1"', 'enabled="true"', 'window=never', 'window=', 'window="6:00-7:00"', 'workers=1, window="never"',
    'window="06:00-07:00 utc"', 'window="06:00-07:00,08:00-09:00"', 'buffer_usage_limit=2MB']) label;
SELECT fails('e', by_hand('enabled=true', kind), '42809', 'cannot set parvacuum options for ' || object,
    'Only tables, partitioned tables, and materialized views can have them.', 'label on ' || object)
FROM (VALUES ('VIEW a_view', '"a_view"'), ('SEQUENCE a_sequence', '"a_sequence"'),
    ('FOREIGN TABLE a_foreign_table', '"a_foreign_table"'),
    ('COLUMN a.y', 'column y of table a'), ('SCHEMA t', 'schema t'), ('TYPE a_type', 'type a_type'),
    ('FUNCTION a_function()', 'function a_function()'),
    ('ROLE ' || quote_ident(current_user), 'role ' || current_user),
    ('DATABASE ' || quote_ident(current_database()), 'database ' || current_database())) x(kind, object);
SELECT fails('e', by_hand('enabled=true', kind), '42809', message, '', 'label on ' || kind)
FROM (VALUES ('INDEX a_pkey', 'security labels are not supported for this type of object'),
    ('TABLE a_view', '"a_view" is not a table'), ('TABLE mv', '"mv" is not a table'),
    ('TABLE a_pkey', '"a_pkey" is not a table'), ('TABLE ' || :'toast', format('"%s" is not a table', :'toast_name')),
    ('MATERIALIZED VIEW a', '"a" is not a materialized view')) x(kind, message);
SELECT fails('e', by_hand('enabled=true', 'TABLE pg_class'), '42501',
    'permission denied: "pg_class" is a system catalog',
    'PostgreSQL''s own VACUUM vacuums system catalogs.', 'label on a catalog');
SELECT fails('e', by_hand('enabled=true', 'TABLE nonesuch'), '42P01', 'relation "nonesuch" does not exist', '',
    'label on a table that does not exist');

-- Accepted labels
CREATE FUNCTION after(statement text, rel text DEFAULT 'a') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM dblink_exec('e', statement);
    RETURN label(rel);
END $$;
SELECT is(after(by_hand(label)), label, format('label "%s" is accepted', label))
FROM unnest(ARRAY['enabled=false', 'workers=0', 'workers=1024', 'buffer_usage_limit=0',
    'buffer_usage_limit=128, enabled=true', 'buffer_usage_limit=16777216, enabled=true, workers=1',
    'window=""', 'window="never"', 'enabled=true, sweep=true', 'enabled=true, window="Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin", workers=1',
    NULL]) label;
SELECT is(after(by_hand('enabled=true', 'TABLE p'), 'p'), 'enabled=true', 'label on a partitioned table');
SELECT is(after(by_hand('enabled=true', 'MATERIALIZED VIEW mv'), 'mv'), 'enabled=true', 'label on a materialized view');
SELECT is(after(by_hand(NULL, 'MATERIALIZED VIEW mv'), 'mv'), NULL, 'no label on a materialized view');
SELECT is(after(by_hand(NULL, 'VIEW a_view'), 'a_view'), NULL, 'no label on a view');
SELECT is(after(by_hand('workers=2') || '; ALTER TABLE a SET (parvacuum.enabled)'), 'enabled=true, workers=2',
    'ALTER TABLE changes a label that was set directly');

-- Labels that were written into the catalog
SELECT replace(conninfo('notices'), '=warning', '=notice') AS conninfo \gset
CREATE FUNCTION write(label text) RETURNS void LANGUAGE sql AS $$
    DELETE FROM pg_seclabel WHERE provider = 'parvacuum' AND objoid = 'a'::regclass;
    INSERT INTO pg_seclabel VALUES ('a'::regclass, 'pg_class'::regclass, 0, 'parvacuum', label);
$$;
SET client_min_messages = error;
CREATE FUNCTION ignored(label text) RETURNS bool LANGUAGE sql AS $$
    SELECT write(label);
    SELECT (SELECT format('%s %s %s %s', enabled_from, workers_from, buffer_usage_limit_from, vacuum_window_from)
    FROM parvacuum_tables WHERE relid = 'a'::regclass) = 'default default default default'
$$;
SELECT ok(ignored(label), format('label "%s" is ignored', label))
FROM unnest(ARRAY['', 'enabled', 'enabled=maybe', 'workers=2, future=1', 'workers=9999', 'workers=-2', 'workers=1, workers=2', 'buffer_usage_limit=9',
    ',', 'window="25:00-26:00"', 'enabled=true, window="never', 'window="22:00-06:00 Europe/Nowhere"']) label;
SELECT write('workers=2, future=1') \g /dev/null
\set said `psql -XqAt -d :'conninfo' -v VERBOSITY=verbose -c 'SELECT count(workers) FROM parvacuum_table_options($$a$$)' 2>&1 | grep -v ^LOCATION`
SELECT is(:'said'::text, $$WARNING:  22023: ignoring the parvacuum options of table "a"
DETAIL:  Its security label cannot be read: "workers=2, future=1".
HINT:  Set the options again with ALTER TABLE.
0$$, 'an unreadable label is ignored with a warning');
SELECT is((failure('e', 'VACUUM a')).message, NULL, 'an unreadable label does not make VACUUM fail');
SELECT is(after('ALTER TABLE a SET (parvacuum.workers = 2)'), 'workers=2', 'ALTER TABLE SET repairs an unreadable label');
SELECT write('nonsense') \g /dev/null
SELECT is(after('ALTER TABLE a RESET (parvacuum.workers)'), NULL, 'ALTER TABLE RESET repairs an unreadable label');
SET client_min_messages = warning;

SELECT dblink_disconnect('e') \g /dev/null
SELECT * FROM finish();
DROP FOREIGN DATA WRAPPER pv_none CASCADE;
DROP SCHEMA t CASCADE;
