/* parvacuum_cluster--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION parvacuum_cluster" to load this file. \quit

/*
 * A node is a server that has shards of our tables: a node of Citus, a foreign
 * server of postgres_fdw that has partitions of ours, or this server itself.
 * All work is done by statements that the nodes execute for the current role.
 * Citus opens the connections to its nodes, with master_run_on_worker(), and
 * dblink those to foreign servers, with their user mappings.  So a role can do
 * on a node only what it may do there anyway.
 *
 * parvacuum_run() refuses to run inside a transaction block or a function.
 * Therefore each run of it is a statement of its own on a connection of its own.
 */

-- Nodes.

CREATE FUNCTION parvacuum_cluster_nodes(
    OUT node text,
    OUT kind text,
    OUT groupid int,
    OUT host text,
    OUT port int,
    OUT server name,
    OUT is_local bool,
    OUT active bool)
RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
ROWS 10
AS $$
#variable_conflict use_column
DECLARE
    local_in_citus bool := false;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_node') IS NOT NULL THEN
        RETURN QUERY EXECUTE
            'SELECT format(''%s:%s'', n.nodename, n.nodeport), ''citus'', n.groupid, n.nodename, n.nodeport, NULL::name, l.groupid IS NOT NULL, n.isactive
             FROM pg_catalog.pg_dist_node n LEFT JOIN pg_catalog.pg_dist_local_group l USING (groupid)
             WHERE n.noderole = ''primary'' ORDER BY n.groupid';
        EXECUTE 'SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_node JOIN pg_catalog.pg_dist_local_group USING (groupid))'
            INTO local_in_citus;
    END IF;
    IF NOT local_in_citus THEN
        RETURN QUERY SELECT 'local', 'local', NULL::int, NULL::text, NULL::int, NULL::name, true, true;
    END IF;
    RETURN QUERY
        SELECT s.srvname::text, 'server', NULL::int, NULL::text, NULL::int, s.srvname, false, true
        FROM pg_foreign_server s
             JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
             JOIN pg_proc h ON h.oid = w.fdwhandler AND h.proname = 'postgres_fdw_handler'
        WHERE has_server_privilege(s.oid, 'USAGE')
          AND EXISTS (SELECT FROM pg_foreign_table t JOIN pg_class c ON c.oid = t.ftrelid
                      WHERE t.ftserver = s.oid AND c.relispartition)
          AND EXISTS (SELECT FROM pg_user_mappings m WHERE m.srvid = s.oid
                      AND (m.umuser = 0 OR m.usename = current_user))
        ORDER BY s.srvname;
END $$;

COMMENT ON FUNCTION parvacuum_cluster_nodes() IS
'the nodes of the cluster: those of Citus, the foreign servers of postgres_fdw that have partitions and a user mapping for the current role, and this server, as "local" if it is no node of Citus; a node that was disabled in Citus is not active, and is not connected to';

-- Connections.

CREATE FUNCTION parvacuum_cluster_dblink(function text, arguments text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    schema text := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'dblink');
BEGIN
    IF schema IS NULL THEN
        RAISE 'the extension "dblink" is needed to reach foreign servers and this server itself'
            USING ERRCODE = 'undefined_object', HINT = 'Execute CREATE EXTENSION dblink.';
    END IF;
    RETURN format('%I.%I(%s)', schema, 'dblink_' || function, arguments);
END $$;

COMMENT ON FUNCTION parvacuum_cluster_dblink(text, text) IS
'internal: the call of a function of the extension dblink, with its schema';

CREATE FUNCTION parvacuum_cluster_error(message text, detail text DEFAULT '') RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    -- Citus says so if the connection was lost.
    SELECT CASE message WHEN 'query result unavailable' THEN 'the connection to the node was lost' ELSE rtrim(regexp_replace(message, '^(ERROR|FATAL):  ', ''), E' \n') END || coalesce(': ' || nullif(rtrim(detail, E' \n'), ''), '')
$$;

COMMENT ON FUNCTION parvacuum_cluster_error(text, text) IS
'internal: the error of a node, as parvacuum_cluster shows it';

CREATE FUNCTION parvacuum_cluster_send(connection text, server name, command text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    target text := coalesce(server, nullif(current_setting('parvacuum_cluster.local_server', true), ''));
BEGIN
    IF target IS NULL THEN
        IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
            RAISE 'only superusers can connect to this server without a foreign server'
                USING ERRCODE = 'insufficient_privilege',
                      HINT = 'Create a foreign server of postgres_fdw that leads here, with a user mapping, and set parvacuum_cluster.local_server to its name.';
        END IF;
        target := format('dbname=''%s'' user=''%s'' host=''%s'' port=%s',
            regexp_replace(current_database(), '([\\''])', '\\\1', 'g'),
            regexp_replace(current_user, '([\\''])', '\\\1', 'g'),
            btrim(split_part(current_setting('unix_socket_directories'), ',', 1)), current_setting('port'));
    END IF;
    EXECUTE 'SELECT ' || @extschema@.parvacuum_cluster_dblink('connect', '$1, $2') USING connection, target;

    -- When this session is gone, the node ends what it executes for us.
    EXECUTE 'SELECT ' || @extschema@.parvacuum_cluster_dblink('exec', '$1, $2')
        USING connection, 'SET client_connection_check_interval = ''10s''';
    EXECUTE 'SELECT ' || @extschema@.parvacuum_cluster_dblink('send_query', '$1, $2') USING connection, command;
END $$;

COMMENT ON FUNCTION parvacuum_cluster_send(text, name, text) IS
'internal: connect to a foreign server, or to this server if it is NULL, and have it begin with a command';

CREATE FUNCTION parvacuum_cluster_receive(connection text, OUT finished bool, OUT success bool, OUT result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $$
BEGIN
    EXECUTE 'SELECT 0 = ' || @extschema@.parvacuum_cluster_dblink('is_busy', '$1') INTO finished USING connection;
    IF NOT finished THEN
        RETURN;
    END IF;

    -- An error of the node is not raised here, because a cancel there is none of this session.
    EXECUTE 'SELECT r FROM ' || @extschema@.parvacuum_cluster_dblink('get_result', '$1, false') || ' AS t(r text)'
        INTO result USING connection;
    success := result IS NOT NULL;
    IF NOT success THEN
        EXECUTE 'SELECT ' || @extschema@.parvacuum_cluster_dblink('error_message', '$1') INTO result USING connection;
        result := @extschema@.parvacuum_cluster_error(result);
    END IF;
    EXECUTE 'SELECT ' || @extschema@.parvacuum_cluster_dblink('disconnect', '$1') USING connection;
END $$;

COMMENT ON FUNCTION parvacuum_cluster_receive(text) IS
'internal: the result or the error of the command that a connection executes, if it has finished';

CREATE FUNCTION parvacuum_cluster_disconnect() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    connection text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'dblink') THEN
        RETURN;
    END IF;
    FOR connection IN EXECUTE 'SELECT c FROM unnest(' || @extschema@.parvacuum_cluster_dblink('get_connections', '') || ') c WHERE c LIKE ''parvacuum_cluster_%'''
    LOOP
        BEGIN
            EXECUTE 'SELECT ' || @extschema@.parvacuum_cluster_dblink('cancel_query', '$1') USING connection;
            EXECUTE 'SELECT ' || @extschema@.parvacuum_cluster_dblink('disconnect', '$1') USING connection;
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'could not end connection "%": %', connection, SQLERRM;
        END;
    END LOOP;
END $$;

COMMENT ON FUNCTION parvacuum_cluster_disconnect() IS
'internal: cancel what the connections of parvacuum_cluster execute, and close them';

CREATE FUNCTION parvacuum_cluster_execute(nodes text[], commands text[], connect bool DEFAULT false, OUT node text, OUT success bool, OUT result text, OUT place bigint)
RETURNS SETOF record
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
ROWS 10
AS $$
#variable_conflict use_column
DECLARE
    task record;
    got record;
    detail text;
    sent_to text[] := '{}';
    sent_places bigint[] := '{}';
    citus_nodes text[] := '{}';
    citus_commands text[] := '{}';
    citus_places bigint[] := '{}';
BEGIN
    FOR task IN
        SELECT c.node, c.command, c.place, n.kind, n.server, n.active
        FROM unnest(nodes, commands) WITH ORDINALITY AS c(node, command, place)
             LEFT JOIN @extschema@.parvacuum_cluster_nodes() n ON n.node = c.node
    LOOP
        node := task.node;
        place := task.place;
        BEGIN
            success := true;
            IF task.kind IS NULL THEN
                RAISE 'there is no such node, or the current role cannot use it';
            ELSIF NOT task.active THEN
                RAISE 'the node is disabled';
            ELSIF task.kind = 'citus' THEN
                citus_nodes := citus_nodes || task.node;
                citus_commands := citus_commands || task.command;
                citus_places := citus_places || task.place;
                CONTINUE;
            ELSIF task.kind = 'server' OR connect THEN
                PERFORM @extschema@.parvacuum_cluster_send('parvacuum_cluster_' || cardinality(sent_to) + 1, task.server, task.command);
                sent_to := sent_to || task.node;
                sent_places := sent_places || task.place;
                CONTINUE;
            END IF;
            EXECUTE task.command INTO result;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
            success := false;
            result := @extschema@.parvacuum_cluster_error(SQLERRM, detail);
        END;
        RETURN NEXT;
    END LOOP;
    IF citus_nodes <> '{}' THEN
        RETURN QUERY EXECUTE
            'SELECT n.node, r.success, CASE WHEN r.success THEN r.result ELSE @extschema@.parvacuum_cluster_error(r.result) END, n.place
             FROM (SELECT array_agg(host ORDER BY i) AS hosts, array_agg(port ORDER BY i) AS ports
                   FROM unnest($1) WITH ORDINALITY AS c(node, i) JOIN @extschema@.parvacuum_cluster_nodes() n USING (node)) a,
                  pg_catalog.master_run_on_worker(a.hosts, a.ports, $2, true) WITH ORDINALITY AS r(host, port, success, result, i)
                  JOIN unnest($1, $3) WITH ORDINALITY AS n(node, place, i) USING (i)'
            USING citus_nodes, citus_commands, citus_places;
    END IF;
    FOR i IN 1 .. cardinality(sent_to) LOOP
        LOOP
            SELECT r.* INTO got FROM @extschema@.parvacuum_cluster_receive('parvacuum_cluster_' || i) r;
            EXIT WHEN got.finished;
            PERFORM pg_sleep(0.01);
        END LOOP;
        node := sent_to[i];
        place := sent_places[i];
        success := got.success;
        result := got.result;
        RETURN NEXT;
    END LOOP;
EXCEPTION WHEN OTHERS OR query_canceled THEN
    PERFORM @extschema@.parvacuum_cluster_disconnect();
    RAISE;
END $$;

COMMENT ON FUNCTION parvacuum_cluster_execute(text[], text[], bool) IS
'internal: have nodes execute a command each, all at once, and return the value that each returns, or its error, in any order, with the place of the command among all; this server does so in this session, or else in one of its own';

CREATE FUNCTION parvacuum_cluster_probe(nodes text[], shards jsonb, OUT node text, OUT schema text, OUT pages jsonb, OUT error text)
RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
ROWS 10
AS $$
    SELECT e.node, p.schema, p.pages,
           CASE WHEN NOT e.success THEN e.result
                WHEN p.schema IS NULL THEN E'the extension "parvacuum" is not installed in this database\nHINT:  Execute CREATE EXTENSION parvacuum there.' END
    FROM @extschema@.parvacuum_cluster_execute(nodes, array(
            SELECT format('SELECT pg_catalog.jsonb_build_object(
                    ''schema'', (SELECT pg_catalog.quote_ident(n.nspname)
                        FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
                        WHERE e.extname OPERATOR(pg_catalog.=) ''parvacuum''),
                    ''pages'', (SELECT pg_catalog.jsonb_object_agg(s, c.relpages)
                        FROM pg_catalog.jsonb_array_elements_text(%L) s
                             JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(s)))',
                coalesce(shards->n.node, '[]'))
            FROM unnest(nodes) WITH ORDINALITY AS n(node, i) ORDER BY i)) e
         LEFT JOIN LATERAL jsonb_to_record(CASE WHEN e.success THEN e.result END::jsonb) AS p(schema text, pages jsonb) ON true
$$;

COMMENT ON FUNCTION parvacuum_cluster_probe(text[], jsonb) IS
'internal: ask nodes for the schema of parvacuum there, and for the pages of shards, which are in an array for each node';

CREATE FUNCTION parvacuum_cluster_query(command text, connect bool DEFAULT false, OUT node text, OUT groupid int, OUT result jsonb, OUT error text)
RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
ROWS 10
AS $$
    WITH probed AS MATERIALIZED (
        SELECT * FROM @extschema@.parvacuum_cluster_probe(array(SELECT n.node FROM @extschema@.parvacuum_cluster_nodes() n), '{}')),
    answered AS MATERIALIZED (
        SELECT e.* FROM (SELECT array_agg(p.node) AS nodes, array_agg(replace(command, '@parvacuum@', p.schema)) AS commands
                         FROM probed p WHERE p.error IS NULL) a,
                        @extschema@.parvacuum_cluster_execute(a.nodes, a.commands, connect) e)
    SELECT n.node, n.groupid, CASE WHEN a.success THEN a.result END::jsonb, coalesce(p.error, CASE WHEN NOT a.success THEN a.result END)
    FROM @extschema@.parvacuum_cluster_nodes() n LEFT JOIN probed p USING (node) LEFT JOIN answered a USING (node)
$$;

COMMENT ON FUNCTION parvacuum_cluster_query(text, bool) IS
'internal: the value that a command returns on each node, or its error; @parvacuum@ in the command stands for the schema of parvacuum on that node';

-- Shards.

CREATE FUNCTION parvacuum_cluster_shards(rel regclass, OUT node text, OUT groupid int, OUT shardid bigint, OUT shard text)
RETURNS SETOF record
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
ROWS 100
AS $$
#variable_conflict use_column
DECLARE
    leaf regclass;
    has_citus bool := to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL;
BEGIN
    -- pg_partition_tree() would lock the partitions until the end of the transaction.
    FOR leaf IN
        WITH RECURSIVE tree(relid) AS (
            SELECT rel::oid
            UNION ALL
            SELECT i.inhrelid FROM tree t JOIN pg_class p ON p.oid = t.relid AND p.relkind = 'p' JOIN pg_inherits i ON i.inhparent = t.relid AND NOT i.inhdetachpending)
        SELECT c.oid FROM tree t JOIN pg_class c ON c.oid = t.relid AND c.relkind <> 'p'
    LOOP
        IF has_citus THEN
            RETURN QUERY EXECUTE
                'SELECT format(''%s:%s'', n.nodename, n.nodeport), n.groupid, s.shardid, pg_catalog.shard_name(s.logicalrelid, s.shardid, false)
                 FROM pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_dist_placement p USING (shardid)
                      JOIN pg_catalog.pg_dist_node n ON n.groupid = p.groupid AND n.noderole = ''primary''
                 WHERE s.logicalrelid = $1'
                USING leaf;
            CONTINUE WHEN FOUND;
        END IF;
        RETURN QUERY
            SELECT s.srvname::text, NULL::int, NULL::bigint,
                   format('%I.%I', coalesce((SELECT option_value FROM pg_options_to_table(t.ftoptions) WHERE option_name = 'schema_name'), c.relnamespace::regnamespace::name),
                       coalesce((SELECT option_value FROM pg_options_to_table(t.ftoptions) WHERE option_name = 'table_name'), c.relname))
            FROM pg_foreign_table t JOIN pg_foreign_server s ON s.oid = t.ftserver JOIN pg_class c ON c.oid = t.ftrelid
            WHERE t.ftrelid = leaf;
        CONTINUE WHEN FOUND;
        RETURN QUERY SELECT 'local', NULL::int, NULL::bigint, format('%I.%I', c.relnamespace::regnamespace::name, c.relname)
            FROM pg_class c WHERE c.oid = leaf AND leaf <> rel;
    END LOOP;
END $$;

COMMENT ON FUNCTION parvacuum_cluster_shards(regclass) IS
'the shards of a table of Citus, with all their placements, and the partitions of a partitioned table, each with the node that it is on; their names are those that they have there';

-- A vacuum of all shards.

CREATE TYPE parvacuum_cluster_run AS (
    node text,
    groupid int,
    shardid bigint,
    shard text,
    outcome text,
    error text,
    relation text,
    workers_planned int,
    workers_launched int,
    pages_total bigint,
    pages_scanned bigint,
    pages_removed bigint,
    tuples_removed bigint,
    tuples_remaining bigint,
    tuples_remaining_estimated bool,
    tuples_recently_dead bigint,
    tuples_missed bigint,
    dead_items bigint,
    index_scans int,
    dead_tuple_bytes bigint,
    heap_scan_ms double precision,
    index_vacuum_ms double precision,
    heap_vacuum_ms double precision,
    index_cleanup_ms double precision,
    truncate_ms double precision,
    elapsed_ms double precision,
    wal_records bigint,
    wal_fpi bigint,
    wal_bytes numeric,
    buffers_hit bigint,
    buffers_read bigint,
    buffers_dirtied bigint,
    oldest_xmin xid,
    relfrozenxid_advanced bool,
    index_scan_bypassed bool);

COMMENT ON TYPE parvacuum_cluster_run IS
'a row of parvacuum_run_cluster()';

CREATE FUNCTION parvacuum_cluster_row(task jsonb) RETURNS SETOF parvacuum_cluster_run
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT (jsonb_populate_record(NULL::@extschema@.parvacuum_cluster_run,
            task || coalesce(r.value, '{}') || jsonb_build_object('relation', r.value->>'relid',
                'outcome', CASE WHEN task ? 'error' THEN 'failed' WHEN NOT task ? 'result' THEN 'not run' WHEN r.value IS NULL THEN 'skipped' ELSE 'done' END))).*
    FROM (VALUES (1)) one LEFT JOIN jsonb_array_elements(task->'result') r ON true
$$;

COMMENT ON FUNCTION parvacuum_cluster_row(jsonb) IS
'internal: what parvacuum_run_cluster() returns about a shard';

CREATE FUNCTION parvacuum_run_cluster(
    rel regclass,
    workers int DEFAULT NULL,
    nodes_at_once int DEFAULT NULL,
    shards_at_once_per_node int DEFAULT 1,
    stop_on_error bool DEFAULT false,
    freeze bool DEFAULT false,
    index_cleanup text DEFAULT 'auto',
    truncate bool DEFAULT NULL,
    "analyze" bool DEFAULT false,
    skip_locked bool DEFAULT false,
    disable_page_skipping bool DEFAULT false,
    verbose bool DEFAULT false)
RETURNS SETOF parvacuum_cluster_run
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
COST 1000000 ROWS 100
AS $$
#variable_conflict use_column
DECLARE
    command text;
    planned jsonb;              -- for each shard an array of the nodes it was on at first
    begun jsonb := '{}';        -- the same, of those where its vacuum has begun
    schemas jsonb := '{}';      -- the schema of parvacuum on each node that answers
    errors jsonb := '{}';       -- the error of each node that does not
    pages jsonb := '{}';        -- for each node the pages of each shard
    running jsonb := '{}';      -- tasks, by connection
    tasks jsonb;
    finished jsonb;
    task jsonb;
    got record;
    detail text;
    connection text;
    connections int := 0;
    to_citus jsonb;
    ndone int := 0;
    failed bool := false;
BEGIN
    IF rel IS NULL OR shards_at_once_per_node IS NULL OR stop_on_error IS NULL OR "freeze" IS NULL OR index_cleanup IS NULL OR
       "analyze" IS NULL OR skip_locked IS NULL OR disable_page_skipping IS NULL OR "verbose" IS NULL
    THEN
        RAISE 'only workers, nodes_at_once and truncate can be NULL' USING ERRCODE = 'null_value_not_allowed';
    ELSIF nodes_at_once < 1 OR shards_at_once_per_node < 1 THEN
        RAISE 'nodes_at_once and shards_at_once_per_node must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    command := format('SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(r)), ''[]'') FROM %%s.parvacuum_run(%%L::pg_catalog.regclass,
            workers => %L, freeze => %L, index_cleanup => %L, truncate => %L, "analyze" => %L, skip_locked => %L, disable_page_skipping => %L) r
        WHERE r.relid::pg_catalog.text OPERATOR(pg_catalog.!~) ''^pg_toast\.''',
        workers, "freeze", index_cleanup, truncate, "analyze", skip_locked, disable_page_skipping);

    SELECT jsonb_object_agg(shard, nodes) INTO planned
    FROM (SELECT shard, jsonb_agg(node) AS nodes FROM @extschema@.parvacuum_cluster_shards(rel) GROUP BY shard) s;
    IF planned IS NULL OR NOT EXISTS (SELECT FROM jsonb_each(planned) WHERE value <> '["local"]') THEN
        RAISE 'table "%" is not sharded', rel
            USING ERRCODE = 'wrong_object_type', HINT = 'Use parvacuum_run() for tables of one server.';
    END IF;
    FOR got IN
        SELECT p.* FROM
            (SELECT array_agg(node) AS nodes, jsonb_object_agg(node, shards) AS shards
             FROM (SELECT node, jsonb_agg(shard) AS shards FROM @extschema@.parvacuum_cluster_shards(rel) GROUP BY node) n) a,
            @extschema@.parvacuum_cluster_probe(a.nodes, a.shards) p
    LOOP
        IF got.error IS NULL THEN
            schemas := schemas || jsonb_build_object(got.node, got.schema);
            pages := pages || jsonb_build_object(got.node, got.pages);
        ELSE
            errors := errors || jsonb_build_object(got.node, got.error);
        END IF;
    END LOOP;

    LOOP
        -- The shards to begin with now, the largest first.  A shard that has moved since its
        -- vacuum is new there.  A failed vacuum ends all if the caller wants that.
        WITH listed AS MATERIALIZED (
            SELECT * FROM @extschema@.parvacuum_cluster_shards(rel)),
        todo AS (
            SELECT l.*, n.kind, n.server, coalesce((pages->l.node->>l.shard)::int, 0) AS pages
            FROM listed l LEFT JOIN @extschema@.parvacuum_cluster_nodes() n USING (node)
            WHERE NOT coalesce(begun->l.shard ? l.node, false)
              AND (coalesce(planned->l.shard ? l.node, false) OR NOT EXISTS (
                  SELECT FROM jsonb_array_elements_text(begun->l.shard) b
                  WHERE b NOT IN (SELECT o.node FROM listed o WHERE o.shard = l.shard)))),
        busy AS (
            SELECT value->>'node' AS node, count(*) AS tasks FROM jsonb_each(running) GROUP BY value->>'node'),
        nodes AS (
            SELECT node, coalesce(b.tasks, 0) AS busy, row_number() OVER (ORDER BY b.tasks IS NULL, sum(t.pages) DESC NULLS LAST, node) AS place
            FROM todo t FULL JOIN busy b USING (node) GROUP BY node, b.tasks),
        ranked AS (
            SELECT t.*, n.busy + row_number() OVER (PARTITION BY node ORDER BY t.pages DESC, t.shard) AS place
            FROM todo t JOIN nodes n USING (node) WHERE n.place <= coalesce(nodes_at_once, n.place))
        SELECT coalesce(jsonb_agg(to_jsonb(r)), '[]') INTO tasks
        FROM ranked r WHERE r.place <= shards_at_once_per_node AND NOT (failed AND stop_on_error);
        EXIT WHEN tasks = '[]' AND running = '{}';

        finished := '[]';
        to_citus := '[]';
        FOR task IN SELECT jsonb_array_elements(tasks) LOOP
            begun := begun || jsonb_build_object(task->>'shard', coalesce(begun->(task->>'shard'), '[]') || (task->'node'));
            IF errors ? (task->>'node') THEN
                finished := finished || (task || jsonb_build_object('error', errors->(task->>'node')));
                CONTINUE;
            END IF;
            task := task || jsonb_build_object('command', format(command, schemas->>(task->>'node'), task->>'shard'));
            IF task->>'kind' = 'citus' THEN
                to_citus := to_citus || task;
                CONTINUE;
            END IF;
            BEGIN
                connections := connections + 1;
                PERFORM @extschema@.parvacuum_cluster_send('parvacuum_cluster_' || connections, (task->>'server')::name, task->>'command');
                running := running || jsonb_build_object('parvacuum_cluster_' || connections, task);
            EXCEPTION WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
                errors := errors || jsonb_build_object(task->>'node', @extschema@.parvacuum_cluster_error(SQLERRM, detail));
                finished := finished || (task || jsonb_build_object('error', errors->(task->>'node')));
            END;
        END LOOP;

        -- Citus waits for all of its own.
        IF to_citus <> '[]' THEN
            SELECT finished || jsonb_agg(t.value || jsonb_build_object(CASE WHEN e.success THEN 'result' ELSE 'error' END,
                    CASE WHEN e.success THEN e.result::jsonb ELSE to_jsonb(e.result) END))
            INTO finished
            FROM jsonb_array_elements(to_citus) WITH ORDINALITY t(value, i)
                 JOIN @extschema@.parvacuum_cluster_execute(
                     array(SELECT value->>'node' FROM jsonb_array_elements(to_citus) WITH ORDINALITY c(value, i) ORDER BY i),
                     array(SELECT value->>'command' FROM jsonb_array_elements(to_citus) WITH ORDINALITY c(value, i) ORDER BY i)) e
                 ON e.place = t.i;
        END IF;
        FOR connection, task IN SELECT key, value FROM jsonb_each(running) LOOP
            SELECT r.* INTO got FROM @extschema@.parvacuum_cluster_receive(connection) r;
            CONTINUE WHEN NOT got.finished;
            running := running - connection;
            finished := finished || (task || jsonb_build_object(CASE WHEN got.success THEN 'result' ELSE 'error' END,
                CASE WHEN got.success THEN got.result::jsonb ELSE to_jsonb(got.result) END));
        END LOOP;

        FOR task IN SELECT jsonb_array_elements(finished) LOOP
            IF task ? 'error' THEN
                -- A shard that was dropped meanwhile is forgotten; one that has moved is vacuumed where it is now.
                IF NOT EXISTS (SELECT FROM @extschema@.parvacuum_cluster_shards(rel) s WHERE s.node = task->>'node' AND s.shard = task->>'shard') THEN
                    begun := jsonb_set(begun, array[task->>'shard'], (begun->(task->>'shard')) - (task->>'node'));
                    planned := jsonb_set(planned, array[task->>'shard'], coalesce(planned->(task->>'shard'), '[]') - (task->>'node'));
                    CONTINUE;
                END IF;
                failed := true;
                IF task->>'error' ~ '^failed to connect to ' THEN
                    errors := errors || jsonb_build_object(task->>'node', task->'error');
                END IF;
            END IF;
            IF "verbose" THEN
                ndone := ndone + 1;
                RAISE INFO '% on node %: % (% of %)', task->>'shard', task->>'node', coalesce('failed: ' || (task->>'error'),
                    'vacuumed in ' || round((task->'result'->0->>'elapsed_ms')::numeric) || ' ms', 'skipped'), ndone,
                    (SELECT sum(jsonb_array_length(value)) FROM jsonb_each(planned));
            END IF;
            RETURN QUERY SELECT * FROM @extschema@.parvacuum_cluster_row(task);
        END LOOP;
        IF finished = '[]' THEN
            PERFORM pg_sleep(0.02);
        END IF;
    END LOOP;
    IF failed AND stop_on_error THEN
        RETURN QUERY
            SELECT r.* FROM @extschema@.parvacuum_cluster_shards(rel) s, @extschema@.parvacuum_cluster_row(to_jsonb(s)) r
            WHERE NOT coalesce(begun->s.shard ? s.node, false);
    END IF;
EXCEPTION WHEN OTHERS OR query_canceled THEN
    PERFORM @extschema@.parvacuum_cluster_disconnect();
    RAISE;
END $$;

COMMENT ON FUNCTION parvacuum_run_cluster(regclass, int, int, int, bool, bool, text, bool, bool, bool, bool, bool) IS
'vacuum the shards of a table where they are, each by parvacuum_run(), at most so many at a time; one row for each shard, with its node, how it ended (done, failed, skipped because it was locked, or not run after an error), and what parvacuum_run() returned; a node that cannot be reached does not keep others from being vacuumed';

-- The views of all nodes in one.  They have the columns of the view of one node, which are
-- looked up here.  But tables have names, since those of other nodes have no OID here.

DO $$
DECLARE
    columns text;
    v record;
BEGIN
    FOR v IN
        SELECT c.oid, w.name, w.description, replace(w.name, 'parvacuum_', '@extschema@.parvacuum_cluster_') AS cluster_view
        FROM (VALUES ('parvacuum_progress', 'running vacuums of all nodes'),
                     ('parvacuum_history', 'the last vacuums of all nodes'),
                     ('parvacuum_queue', 'what the schedulers of all nodes have to do'),
                     ('parvacuum_tables', 'the options of tables and shards on all nodes'),
                     ('parvacuum_blockers', '')) AS w(name, description)
             JOIN pg_catalog.pg_class c ON c.relname = w.name
             JOIN pg_catalog.pg_extension e ON e.extname = 'parvacuum' AND e.extnamespace = c.relnamespace
    LOOP
        SELECT pg_catalog.string_agg(pg_catalog.format('%I %s', attname, CASE atttypid WHEN 'pg_catalog.regclass'::pg_catalog.regtype THEN 'text'
                   ELSE pg_catalog.format_type(atttypid, atttypmod) END), ', ' ORDER BY attnum)
        INTO columns FROM pg_catalog.pg_attribute WHERE attrelid = v.oid AND attnum > 0 AND NOT attisdropped;
        IF v.name = 'parvacuum_blockers' THEN
            EXECUTE pg_catalog.format($f$
                CREATE FUNCTION @extschema@.parvacuum_cluster_blocker(result jsonb) RETURNS TABLE (%s) LANGUAGE sql IMMUTABLE
                SET search_path = pg_catalog, pg_temp
                AS 'SELECT * FROM jsonb_to_recordset(result) AS r(%s)'$f$, columns, columns);
            CONTINUE;
        END IF;
        EXECUTE pg_catalog.format($f$
            CREATE VIEW %s AS
            SELECT n.node, n.groupid, n.error AS node_error, r.*
            FROM @extschema@.parvacuum_cluster_query('SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(r)), ''[]'') FROM @parvacuum@.%s r') n
                 LEFT JOIN LATERAL pg_catalog.jsonb_to_recordset(n.result) AS r(%s) ON true
            WHERE n.error IS NOT NULL OR n.result OPERATOR(pg_catalog.<>) '[]'$f$, v.cluster_view, v.name, columns);
        EXECUTE pg_catalog.format('COMMENT ON VIEW %s IS %L', v.cluster_view,
            v.description || ', with the columns of ' || v.name || '; a node that cannot be asked has a row with the error');
        EXECUTE pg_catalog.format('GRANT SELECT ON %s TO PUBLIC', v.cluster_view);
    END LOOP;
END $$;

COMMENT ON FUNCTION parvacuum_cluster_blocker(jsonb) IS
'internal: the rows of parvacuum_blockers of a node';

-- Citus names a prepared transaction by the group that began it, the process there, a number of
-- the transaction, and one of the connection.  If it is to be committed, pg_dist_transaction of
-- that group has it.
CREATE VIEW parvacuum_cluster_blockers AS
WITH answers AS MATERIALIZED (
    SELECT * FROM @extschema@.parvacuum_cluster_query('SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(r)), ''[]'') FROM @parvacuum@.parvacuum_blockers r')),
blockers AS MATERIALIZED (
    SELECT a.node, a.groupid, a.error AS node_error, b.*, (pg_catalog.regexp_match(b.name, '^citus_(\d+)_(\d+)_\d+_\d+$'))::int[] AS begun_by
    FROM answers a LEFT JOIN LATERAL @extschema@.parvacuum_cluster_blocker(a.result) b ON true
    WHERE a.error IS NOT NULL OR a.result OPERATOR(pg_catalog.<>) '[]'),
committed AS MATERIALIZED (
    SELECT q.groupid, q.result AS names
    FROM (SELECT WHERE EXISTS (SELECT FROM blockers b WHERE b.begun_by IS NOT NULL)) x,
         @extschema@.parvacuum_cluster_query('SELECT coalesce(pg_catalog.jsonb_agg(t.gid), ''[]'') FROM pg_catalog.pg_dist_transaction t') q)
SELECT b.node, b.groupid, b.node_error, b.kind, b.pid, b.name,
       CASE WHEN n.node IS NOT NULL THEN pg_catalog.format('begun by process %s of node %s; to be %s', b.begun_by[2], n.node,
           CASE WHEN c.names OPERATOR(pg_catalog.?) b.name THEN 'committed' ELSE 'rolled back, if that process does not go on with it' END)
       END AS distributed_transaction,
       b.usename, b.datid, b.datname, b.holds, b.xmin, b.xmin_age, b.since, b.duration, b.tuples_kept, b.state, b.query,
       CASE WHEN n.node IS NULL THEN b.release
            ELSE pg_catalog.format('SELECT recover_prepared_transactions() on node %s', n.node) END AS release
FROM blockers b
     LEFT JOIN @extschema@.parvacuum_cluster_nodes() n ON n.groupid OPERATOR(pg_catalog.=) b.begun_by[1]
     LEFT JOIN committed c ON c.groupid OPERATOR(pg_catalog.=) n.groupid
WHERE NOT EXISTS (SELECT FROM @extschema@.parvacuum_cluster_nodes() l
                  WHERE l.is_local AND l.node OPERATOR(pg_catalog.=) b.node AND b.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid())
ORDER BY b.xmin_age DESC NULLS LAST;

COMMENT ON VIEW parvacuum_cluster_blockers IS
'what keeps VACUUM from removing dead rows on any node, as in parvacuum_blockers, the oldest first; of a prepared transaction of Citus also who began it, and whether it is to be committed; a node that cannot be asked has a row with the error';

GRANT SELECT ON parvacuum_cluster_blockers TO PUBLIC;

CREATE VIEW parvacuum_cluster_wraparound AS
SELECT n.node, n.groupid, n.error AS node_error, r.*
FROM @extschema@.parvacuum_cluster_query(
        'SELECT pg_catalog.jsonb_agg(pg_catalog.to_jsonb(r)) FROM (
             SELECT d.datname, pg_catalog.age(d.datfrozenxid) AS xid_age, pg_catalog.mxid_age(d.datminmxid) AS mxid_age,
                    f.freeze_max_age, pg_catalog.round(100.0 OPERATOR(pg_catalog.*) pg_catalog.age(d.datfrozenxid) OPERATOR(pg_catalog./) f.freeze_max_age, 1) AS percent_to_autovacuum,
                    2144483647 OPERATOR(pg_catalog.-) pg_catalog.age(d.datfrozenxid) AS xids_left,
                    o.relation, o.relation_xid_age, p.relation AS mxid_relation, p.relation_mxid_age
             FROM pg_catalog.pg_database d
                  CROSS JOIN (SELECT pg_catalog.current_setting(''autovacuum_freeze_max_age'')::int) f(freeze_max_age)
                  LEFT JOIN LATERAL (SELECT c.oid::pg_catalog.regclass::text AS relation, pg_catalog.age(c.relfrozenxid) AS relation_xid_age
                      FROM pg_catalog.pg_class c WHERE c.relfrozenxid OPERATOR(pg_catalog.<>) ''0'' ORDER BY 2 DESC LIMIT 1) o
                      ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
                  LEFT JOIN LATERAL (SELECT c.oid::pg_catalog.regclass::text AS relation, pg_catalog.mxid_age(c.relminmxid) AS relation_mxid_age
                      FROM pg_catalog.pg_class c WHERE c.relminmxid OPERATOR(pg_catalog.<>) ''0'' ORDER BY 2 DESC LIMIT 1) p
                      ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()) r') n
     LEFT JOIN LATERAL pg_catalog.jsonb_to_recordset(n.result)
         AS r(datname name, xid_age int, mxid_age int, freeze_max_age int, percent_to_autovacuum numeric, xids_left int,
              relation text, relation_xid_age int, mxid_relation text, relation_mxid_age int) ON true
ORDER BY r.xid_age DESC NULLS FIRST, n.node;

COMMENT ON VIEW parvacuum_cluster_wraparound IS
'how far each database of each node is from the wraparound of transaction IDs, the oldest first: its age, how much that is of autovacuum_freeze_max_age, the transaction IDs left until the server accepts no more, and in the connected database the table or shard that is the oldest; a node that cannot be asked has a row with the error';

GRANT SELECT ON parvacuum_cluster_wraparound TO PUBLIC;

-- Limits.

CREATE FUNCTION parvacuum_cluster_cap(cap int DEFAULT NULL, for_node text DEFAULT NULL, for_group int DEFAULT NULL)
RETURNS TABLE (node text, groupid int, max_workers int, workers int, error text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    chosen text[] := array(SELECT n.node FROM @extschema@.parvacuum_cluster_nodes() n
        WHERE n.node = coalesce(for_node, n.node) AND (for_group IS NULL OR n.groupid = for_group));
    errors jsonb := '{}';
    answers jsonb;
BEGIN
    IF chosen = '{}' THEN
        RAISE 'there is no such node' USING ERRCODE = 'undefined_object', HINT = 'See SELECT * FROM parvacuum_cluster_nodes().';
    ELSIF cap NOT BETWEEN 0 AND 1024 THEN
        RAISE 'parvacuum.max_workers must be between 0 and 1024' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF cap IS NOT NULL THEN
        SELECT coalesce(jsonb_object_agg(e.node, e.result), '{}') INTO errors
        FROM @extschema@.parvacuum_cluster_execute(chosen,
            array_fill(format('ALTER SYSTEM SET parvacuum.max_workers = %s', cap), array[cardinality(chosen)]), true) e
        WHERE NOT e.success;
        PERFORM @extschema@.parvacuum_cluster_execute(changed, array_fill('SELECT pg_catalog.pg_reload_conf()'::text, array[cardinality(changed)]), true)
        FROM (SELECT array(SELECT c FROM unnest(chosen) c WHERE NOT errors ? c)) a(changed);
    END IF;

    -- A server needs a moment to read its configuration.
    FOR attempt IN 1 .. 50 LOOP
        SELECT jsonb_agg(to_jsonb(q)) INTO answers
        FROM @extschema@.parvacuum_cluster_query('SELECT pg_catalog.jsonb_build_object(
                 ''max_workers'', (SELECT s.setting FROM pg_catalog.pg_settings s WHERE s.name OPERATOR(pg_catalog.=) ''parvacuum.max_workers''),
                 ''workers'', (SELECT pg_catalog.count(*) FROM @parvacuum@.parvacuum_progress p WHERE p.participant OPERATOR(pg_catalog.>) 0))', cap IS NOT NULL) q
        WHERE q.node = ANY (chosen);
        EXIT WHEN cap IS NULL OR NOT EXISTS (SELECT FROM jsonb_array_elements(answers) a
            WHERE NOT errors ? (a->>'node') AND (a->'result'->>'max_workers')::int <> cap);
        PERFORM pg_sleep(0.1);
    END LOOP;
    RETURN QUERY
        SELECT q.node, q.groupid, (q.result->>'max_workers')::int, (q.result->>'workers')::int, coalesce(errors->>q.node, q.error)
        FROM jsonb_to_recordset(answers) AS q(node text, groupid int, result jsonb, error text);
END $$;

COMMENT ON FUNCTION parvacuum_cluster_cap(int, text, int) IS
'the parallel workers that all vacuums of a node may have, and those that they have now; with a number, have all nodes, a node or a group of nodes use it as parvacuum.max_workers, by ALTER SYSTEM there';
