/* parvacuum_cluster--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION parvacuum_cluster" to load this file. \quit

/*
 * A node is a server that has shards of our tables: a node of Citus, a foreign
 * server of postgres_fdw that has partitions of ours, or this server itself.
 * All work is done by statements that the nodes execute for the current role.
 * Citus opens the connections to its nodes, with master_run_on_worker(), and
 * dblink those to foreign servers, with their user mappings.  So a role can do
 * on a node only what it may do there anyway.  There is no connection to this
 * server itself, unless Citus opens it.
 *
 * parvacuum_run() refuses to run inside a transaction block or a function.
 * Therefore each run of it is a statement of its own on a connection of its own.
 * On this server background processes vacuum, and the caller does not wait for
 * them: see parvacuum_cluster_begin().
 *
 * Superusers call these functions in databases that others own.  The owner of a
 * database may create functions in the same schema.  So each call passes all
 * arguments, in their own types: no other function can match better.  The owner
 * may also set the search path of all sessions of the database.  So what a node
 * executes names the schema of all functions, operators and types, but for
 * types that are key words.
 *
 * Names of objects outside of the extension are not trusted.  Foreign servers
 * and the functions of dblink are found, and checked, by functions in C.
 * docs/clusters.md has a table of what each function trusts.
 */

-- Nodes.

CREATE FUNCTION parvacuum_cluster_server(name) RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN $1 ~ '^local$|^"|:\d+$' THEN '"' || replace($1, '"', '""') || '"' ELSE $1::text END
$$;

COMMENT ON FUNCTION parvacuum_cluster_server(name) IS
'internal: the node that is a foreign server, with its name in quotes if that could be the name of another node';

CREATE FUNCTION parvacuum_cluster_by_postgres(server oid) RETURNS bool
AS 'MODULE_PATHNAME'
LANGUAGE C STABLE STRICT;

COMMENT ON FUNCTION parvacuum_cluster_by_postgres(oid) IS
'internal: whether a foreign server is one of postgres_fdw';

CREATE FUNCTION parvacuum_cluster_may_use(server oid) RETURNS bool
AS 'MODULE_PATHNAME'
LANGUAGE C STABLE STRICT;

COMMENT ON FUNCTION parvacuum_cluster_may_use(oid) IS
'internal: whether parvacuum_cluster connects to a foreign server for the current role';

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
        SELECT @extschema@.parvacuum_cluster_server(s.srvname), 'server', NULL::int, NULL::text, NULL::int, s.srvname, false, true
        FROM pg_foreign_server s
        WHERE EXISTS (SELECT FROM pg_foreign_table t JOIN pg_class c ON c.oid = t.ftrelid
                      WHERE t.ftserver = s.oid AND c.relispartition)
          AND @extschema@.parvacuum_cluster_may_use(s.oid)
        ORDER BY s.srvname;
END $$;

COMMENT ON FUNCTION parvacuum_cluster_nodes() IS
'the nodes of the cluster: those of Citus, the foreign servers of postgres_fdw that have partitions, and that the current role can use, and this server, as "local" if it is no node of Citus; a node that was disabled in Citus is not active, and is not connected to';

-- Connections.

CREATE FUNCTION parvacuum_cluster_dblink(function text, VARIADIC arguments text[]) RETURNS text
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

COMMENT ON FUNCTION parvacuum_cluster_dblink(text, text[]) IS
'internal: call a function of the extension dblink';

CREATE FUNCTION parvacuum_cluster_connect(connection text, server name) RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

COMMENT ON FUNCTION parvacuum_cluster_connect(text, name) IS
'internal: connect to a foreign server by dblink, if the current role can use it';

CREATE FUNCTION parvacuum_cluster_error(message text, detail text) RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    -- Citus says so if the connection was lost.
    SELECT CASE message WHEN 'query result unavailable' THEN 'the connection to the node was lost'
               -- Only Citus itself can say that it has failed to connect.
               ELSE rtrim(regexp_replace(left(message, 10000), '^\S+:  (?!failed to connect to )|\nLINE \d+: [^\n]*\n *\^', '', 'g'), E' \n') END ||
           coalesce(': ' || nullif(rtrim(left(detail, 10000), E' \n'), ''), '')
$$;

COMMENT ON FUNCTION parvacuum_cluster_error(text, text) IS
'internal: the error of a node, as parvacuum_cluster shows it';

CREATE FUNCTION parvacuum_cluster_connections() RETURNS SETOF text
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c FROM unnest(@extschema@.parvacuum_cluster_dblink('get_connections'::text, VARIADIC '{}'::text[])::text[]) c
    WHERE c ~ '^parvacuum_cluster_q?[0-9]+$'
$$;

COMMENT ON FUNCTION parvacuum_cluster_connections() IS
'internal: the connections of parvacuum_cluster that are open';

CREATE FUNCTION parvacuum_cluster_send(connection text, server name, command text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- A cancel during the end of an earlier call may have left a connection.
    PERFORM @extschema@.parvacuum_cluster_dblink('disconnect'::text, VARIADIC array[c])
    FROM @extschema@.parvacuum_cluster_connections() c WHERE c = connection;
    PERFORM @extschema@.parvacuum_cluster_connect(connection, server);
    BEGIN
        -- When this session is gone, the node ends what it executes for us.
        PERFORM @extschema@.parvacuum_cluster_dblink('exec'::text, VARIADIC array[connection, 'SET client_connection_check_interval = ''10s''']);
        PERFORM @extschema@.parvacuum_cluster_dblink('send_query'::text, VARIADIC array[connection, command]);
    EXCEPTION WHEN OTHERS THEN
        PERFORM @extschema@.parvacuum_cluster_dblink('disconnect'::text, VARIADIC array[connection]);
        RAISE;
    END;
END $$;

COMMENT ON FUNCTION parvacuum_cluster_send(text, name, text) IS
'internal: connect to a foreign server and have it begin with a command';

CREATE FUNCTION parvacuum_cluster_receive(connection text, OUT finished bool, OUT success bool, OUT result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $$
BEGIN
    finished := '0' = @extschema@.parvacuum_cluster_dblink('is_busy'::text, VARIADIC array[connection]);
    IF NOT finished THEN
        RETURN;
    END IF;

    -- An error of the node is not raised here, because a cancel there is none of this session.
    result := @extschema@.parvacuum_cluster_dblink('get_result'::text, VARIADIC array[connection, 'false']);
    success := result IS NOT NULL;
    IF NOT success THEN
        result := @extschema@.parvacuum_cluster_error(@extschema@.parvacuum_cluster_dblink('error_message'::text, VARIADIC array[connection]), NULL::text);
    END IF;
    PERFORM @extschema@.parvacuum_cluster_dblink('disconnect'::text, VARIADIC array[connection]);
END $$;

COMMENT ON FUNCTION parvacuum_cluster_receive(text) IS
'internal: the result or the error of the command that a connection executes, if it has finished';

-- Vacuums on this server, with the rights of the current role.

CREATE FUNCTION parvacuum_cluster_begin(rel regclass, workers int, freeze bool, index_cleanup text, truncate bool,
    "analyze" bool, skip_locked bool, disable_page_skipping bool, verbose bool) RETURNS int
AS 'MODULE_PATHNAME'
LANGUAGE C CALLED ON NULL INPUT
SET client_min_messages = warning;

COMMENT ON FUNCTION parvacuum_cluster_begin(regclass, int, bool, text, bool, bool, bool, bool, bool) IS
'internal: begin to vacuum a table as parvacuum_run() does, and return the number of the run, which ends with the transaction at the latest';

CREATE FUNCTION parvacuum_cluster_ended(run int) RETURNS bool
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

COMMENT ON FUNCTION parvacuum_cluster_ended(int) IS
'internal: whether a run has ended; its error is raised';

CREATE FUNCTION parvacuum_cluster_stop(run int, state text, message text) RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

COMMENT ON FUNCTION parvacuum_cluster_stop(int, text, text) IS
'internal: end a run of this session, or all of them if the number is 0; the history has the SQLSTATE and the message';

CREATE FUNCTION parvacuum_cluster_disconnect(state text, message text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    connection text;
BEGIN
    PERFORM @extschema@.parvacuum_cluster_stop(0, state, message);
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'dblink') THEN
        RETURN;
    END IF;
    FOR connection IN SELECT c FROM @extschema@.parvacuum_cluster_connections() c LOOP
        BEGIN
            PERFORM @extschema@.parvacuum_cluster_dblink('cancel_query'::text, VARIADIC array[connection]);
            PERFORM @extschema@.parvacuum_cluster_dblink('disconnect'::text, VARIADIC array[connection]);
        EXCEPTION WHEN OTHERS OR query_canceled THEN
            RAISE WARNING 'could not end connection "%": %', connection, SQLERRM;
        END;
    END LOOP;
END $$;

COMMENT ON FUNCTION parvacuum_cluster_disconnect(text, text) IS
'internal: cancel what the connections of parvacuum_cluster execute and close them, and end the runs of this session, for that error';

CREATE FUNCTION parvacuum_cluster_execute(nodes text[], commands text[], OUT place int, OUT node text, OUT success bool, OUT result text)
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
    sent int[] := '{}';         -- the places of what was sent by dblink
    to_citus int[] := '{}';     -- and of what Citus is to send
BEGIN
    FOR task IN
        SELECT c.place, c.node, c.command, n.kind, n.server, n.active
        FROM unnest(nodes, commands) WITH ORDINALITY AS c(node, command, place)
             LEFT JOIN @extschema@.parvacuum_cluster_nodes() n ON n.node = c.node
        ORDER BY c.place
    LOOP
        place := task.place;
        node := task.node;
        BEGIN
            success := true;
            IF task.kind IS NULL THEN
                RAISE 'there is no such node, or the current role cannot use it';
            ELSIF NOT task.active THEN
                RAISE 'the node is disabled';
            ELSIF task.kind = 'citus' THEN
                to_citus := to_citus || place;
                CONTINUE;
            ELSIF task.kind = 'server' THEN
                -- A run may ask something meanwhile, so that its own connections have other names.
                PERFORM @extschema@.parvacuum_cluster_send('parvacuum_cluster_q' || place, task.server, task.command);
                sent := sent || place;
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
    IF to_citus <> '{}' THEN
        RETURN QUERY EXECUTE
            'SELECT a.places[r.i], $1[a.places[r.i]], r.success, CASE WHEN r.success THEN r.result ELSE @extschema@.parvacuum_cluster_error(r.result, NULL::text) END
             FROM (SELECT array_agg(p) AS places, array_agg(n.host) AS hosts, array_agg(n.port) AS ports, array_agg($2[p]) AS commands
                   FROM unnest($3) p JOIN @extschema@.parvacuum_cluster_nodes() n ON n.node = $1[p]) a,
                  pg_catalog.master_run_on_worker(a.hosts, a.ports, a.commands, true) WITH ORDINALITY AS r(host, port, success, result, i)'
            USING nodes, commands, to_citus;
    END IF;
    FOREACH place IN ARRAY sent LOOP
        LOOP
            SELECT r.* INTO got FROM @extschema@.parvacuum_cluster_receive('parvacuum_cluster_q' || place) r;
            EXIT WHEN got.finished;
            PERFORM pg_sleep(0.01);
        END LOOP;
        node := nodes[place];
        success := got.success;
        result := got.result;
        RETURN NEXT;
    END LOOP;
EXCEPTION WHEN OTHERS OR query_canceled THEN
    IF sent <> '{}' THEN
        PERFORM @extschema@.parvacuum_cluster_disconnect(SQLSTATE, SQLERRM);
    END IF;
    RAISE;
END $$;

COMMENT ON FUNCTION parvacuum_cluster_execute(text[], text[]) IS
'internal: have nodes execute a command each, all at once, and return the value that each returns, or its error, with its place in the arrays; this server does so in this session';

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
                             CROSS JOIN pg_catalog.parse_ident(s) p
                             JOIN pg_catalog.pg_namespace n ON n.nspname OPERATOR(pg_catalog.=) p[1]
                             JOIN pg_catalog.pg_class c ON c.relnamespace OPERATOR(pg_catalog.=) n.oid AND c.relname OPERATOR(pg_catalog.=) p[2]))',
                coalesce(shards->n.node, '[]'))
            FROM unnest(nodes) WITH ORDINALITY AS n(node, i) ORDER BY i)) e
         LEFT JOIN LATERAL jsonb_to_record(CASE WHEN e.success THEN e.result END::jsonb) AS p(schema text, pages jsonb) ON true
$$;

COMMENT ON FUNCTION parvacuum_cluster_probe(text[], jsonb) IS
'internal: ask nodes for the schema of parvacuum there, and for the pages of shards, which are in an array for each node';

CREATE FUNCTION parvacuum_cluster_query(command text, OUT node text, OUT groupid int, OUT result jsonb, OUT error text)
RETURNS SETOF record
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
ROWS 10
AS $$
    WITH probed AS MATERIALIZED (
        SELECT * FROM @extschema@.parvacuum_cluster_probe(array(SELECT n.node FROM @extschema@.parvacuum_cluster_nodes() n), '{}'::jsonb)),
    answered AS MATERIALIZED (
        SELECT e.* FROM (SELECT array_agg(p.node) AS nodes, array_agg(replace(command, '@parvacuum@', p.schema)) AS commands
                         FROM probed p WHERE p.error IS NULL) a,
                        @extschema@.parvacuum_cluster_execute(a.nodes, a.commands) e)
    SELECT n.node, n.groupid, CASE WHEN a.success THEN a.result END::jsonb, coalesce(p.error, CASE WHEN NOT a.success THEN a.result END)
    FROM @extschema@.parvacuum_cluster_nodes() n LEFT JOIN probed p USING (node) LEFT JOIN answered a USING (node)
$$;

COMMENT ON FUNCTION parvacuum_cluster_query(text) IS
'internal: the value that a command returns on each node, or its error; @parvacuum@ in the command stands for the schema of parvacuum on that node';

-- Shards.

CREATE FUNCTION parvacuum_cluster_leaves(rel regclass) RETURNS oid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    -- pg_partition_tree() would lock the partitions until the end of the transaction.
    WITH RECURSIVE tree(relid) AS (
        SELECT rel::oid
        UNION ALL
        SELECT i.inhrelid FROM tree t JOIN pg_class p ON p.oid = t.relid AND p.relkind = 'p' JOIN pg_inherits i ON i.inhparent = t.relid AND NOT i.inhdetachpending)
    SELECT array_agg(c.oid) FROM tree t JOIN pg_class c ON c.oid = t.relid AND c.relkind <> 'p'
$$;

COMMENT ON FUNCTION parvacuum_cluster_leaves(regclass) IS
'internal: the partitions of a table that have no partitions themselves, or the table if it is not partitioned';

CREATE FUNCTION parvacuum_cluster_shards(rel regclass, OUT node text, OUT groupid int, OUT shardid bigint, OUT shard text, OUT id text)
RETURNS SETOF record
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
ROWS 100
AS $$
#variable_conflict use_column
DECLARE
    leaves oid[] := @extschema@.parvacuum_cluster_leaves(rel);
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        -- shard_name() fails for a table that has just been dropped, and the snapshot may be older than that.
        RETURN QUERY EXECUTE
            'SELECT * FROM (
                 SELECT format(''%s:%s'', n.nodename, n.nodeport), n.groupid, s.shardid,
                        CASE WHEN pg_catalog.pg_table_is_visible(s.logicalrelid) IS NOT NULL THEN pg_catalog.shard_name(s.logicalrelid, s.shardid, false) END AS shard, s.shardid::text
                 FROM pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_dist_placement p USING (shardid)
                      JOIN pg_catalog.pg_dist_node n ON n.groupid = p.groupid AND n.noderole = ''primary''
                 WHERE s.logicalrelid = ANY ($1)) named
             WHERE shard IS NOT NULL'
            USING leaves;
        EXECUTE 'SELECT array(SELECT unnest($1) EXCEPT SELECT logicalrelid FROM pg_catalog.pg_dist_partition)' INTO leaves USING leaves;
    END IF;
    RETURN QUERY
        SELECT DISTINCT @extschema@.parvacuum_cluster_server(s.srvname), NULL::int, NULL::bigint,
               n.shard, s.srvname || ' ' || n.shard
        FROM pg_foreign_table t JOIN pg_class c ON c.oid = t.ftrelid JOIN pg_foreign_server s ON s.oid = t.ftserver
             CROSS JOIN LATERAL (SELECT format('%I.%I', coalesce((SELECT option_value FROM pg_options_to_table(t.ftoptions) WHERE option_name = 'schema_name'), (SELECT nspname FROM pg_namespace WHERE oid = c.relnamespace)),
                   coalesce((SELECT option_value FROM pg_options_to_table(t.ftoptions) WHERE option_name = 'table_name'), c.relname))) n(shard)
        WHERE t.ftrelid = ANY (leaves) AND @extschema@.parvacuum_cluster_by_postgres(s.oid);
    RETURN QUERY
        SELECT (SELECT n.node FROM @extschema@.parvacuum_cluster_nodes() n WHERE n.is_local), NULL::int, NULL::bigint, format('%I.%I', (SELECT nspname FROM pg_namespace WHERE oid = c.relnamespace), c.relname), c.oid::text
        FROM pg_class c WHERE c.oid = ANY (leaves) AND c.oid <> rel AND c.relkind <> 'f';
END $$;

COMMENT ON FUNCTION parvacuum_cluster_shards(regclass) IS
'the shards of a table of Citus, with all their placements, and the partitions of a partitioned table, but for foreign tables of others than postgres_fdw, each with the node that it is on; their names are those that they have there, and their id stays the same when they are renamed or moved';

-- A vacuum of all shards.

-- It has the columns of parvacuum_result, with the name of the relation instead of its OID.
DO $$
BEGIN
    EXECUTE (
        SELECT pg_catalog.concat('CREATE TYPE @extschema@.parvacuum_cluster_run AS (node text, groupid int, shardid bigint, shard text, outcome text, error text, relation text, ',
                   pg_catalog.string_agg(pg_catalog.format('%I %s', a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum), ')')
        FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) a.attrelid AND c.relname OPERATOR(pg_catalog.=) 'parvacuum_result'
             JOIN pg_catalog.pg_extension e ON e.extname OPERATOR(pg_catalog.=) 'parvacuum' AND e.extnamespace OPERATOR(pg_catalog.=) c.relnamespace
        WHERE a.attname OPERATOR(pg_catalog.<>) 'relid');
END
$$;

COMMENT ON TYPE parvacuum_cluster_run IS
'a row of parvacuum_run_cluster()';

-- As with the types of parvacuum
REVOKE USAGE ON TYPE parvacuum_cluster_run FROM PUBLIC;

CREATE FUNCTION parvacuum_cluster_row(task jsonb) RETURNS SETOF parvacuum_cluster_run
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT (jsonb_populate_record(NULL::@extschema@.parvacuum_cluster_run,
            coalesce(r.value, '{}') || task || jsonb_build_object('relation', r.value->>'relid',
                'outcome', CASE WHEN task ? 'error' THEN 'failed' WHEN NOT task ? 'result' THEN 'not run' WHEN r.value IS NULL THEN 'skipped' ELSE 'done' END))).*
    FROM (VALUES (1)) one LEFT JOIN jsonb_array_elements((task->>'result')::jsonb) r ON true
$$;

COMMENT ON FUNCTION parvacuum_cluster_row(jsonb) IS
'internal: what parvacuum_run_cluster() returns about a shard';

CREATE FUNCTION parvacuum_cluster_result(run int) RETURNS SETOF parvacuum_cluster_run
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

COMMENT ON FUNCTION parvacuum_cluster_result(int) IS
'internal: what a run on this server that has ended has done, with null in the columns before "relation"';

CREATE FUNCTION parvacuum_cluster_look(run int, OUT finished bool, OUT success bool, OUT result text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    detail text;
    hint text;
BEGIN
    finished := @extschema@.parvacuum_cluster_ended(run);
    IF finished THEN
        success := true;
        SELECT coalesce(jsonb_agg(to_jsonb(r) || jsonb_build_object('relid', r.relation)), '[]') INTO result
        FROM @extschema@.parvacuum_cluster_result(run) r;
    END IF;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    PERFORM @extschema@.parvacuum_cluster_stop(run, SQLSTATE, SQLERRM);
    finished := true;
    success := false;
    -- The owner of the table may have written these texts, and jsonb refuses very long ones.
    result := left(SQLERRM, 10000) || coalesce(E'\nDETAIL:  ' || nullif(left(detail, 10000), ''), '') || coalesce(E'\nHINT:  ' || nullif(left(hint, 10000), ''), '');
END $$;

COMMENT ON FUNCTION parvacuum_cluster_look(int) IS
'internal: the result or the error of a run on this server, if it has ended';

CREATE FUNCTION parvacuum_cluster_has_shards(rel regclass) RETURNS bool
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    distributed bool;
BEGIN
    IF NOT EXISTS (
        SELECT FROM @extschema@.parvacuum_cluster_shards(rel) s LEFT JOIN @extschema@.parvacuum_cluster_nodes() n USING (node)
        WHERE s.shardid IS NOT NULL OR NOT coalesce(n.is_local, false))
    THEN
        IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
            -- a distributed table that has no shard yet, or no partition
            EXECUTE 'SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_partition WHERE logicalrelid = $1)' INTO distributed USING rel;
            IF distributed THEN
                RETURN false;
            END IF;
        END IF;
        RAISE 'table "%" is not sharded', rel
            USING ERRCODE = 'wrong_object_type', HINT = 'Use parvacuum_run() for tables of one server.';
    ELSIF EXISTS (
        SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation AND (c.relkind <> 'f' OR l.mode = 'AccessExclusiveLock')
        WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted AND c.oid = ANY (@extschema@.parvacuum_cluster_leaves(rel))
          AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
          AND l.mode IN ('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))
    THEN
        RAISE 'cannot vacuum the shards of table "%" because this session has locked them', rel
            USING ERRCODE = 'object_in_use', DETAIL = 'The vacuums run in other sessions, which would wait for that lock.', HINT = 'Release the lock first.';
    END IF;
    RETURN true;
END $$;

COMMENT ON FUNCTION parvacuum_cluster_has_shards(regclass) IS
'internal: whether a table has shards that can be vacuumed now; an error if it is not sharded, or if this session has locked shards';

CREATE FUNCTION parvacuum_cluster_todo(rel regclass, planned jsonb, pages jsonb, begun_nodes text[], begun_ids text[], running jsonb,
    OUT queue jsonb[], OUT nodes text[], OUT busy int[], OUT first int[], OUT last int[])
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    WITH listed AS MATERIALIZED (
        SELECT * FROM @extschema@.parvacuum_cluster_shards(rel)),
    begun AS MATERIALIZED (
        SELECT * FROM unnest(begun_nodes, begun_ids) AS b(node, id)),
    todo AS (
        SELECT l.*, n.kind, n.server, coalesce(p.value::int, 0) AS pages
        FROM listed l
             LEFT JOIN @extschema@.parvacuum_cluster_nodes() n USING (node)
             LEFT JOIN (SELECT p.key AS node, s.id, true AS known FROM jsonb_each(planned) p, jsonb_array_elements_text(p.value) s(id)) k USING (node, id)
             LEFT JOIN (SELECT p.key AS node, s.key AS shard, s.value FROM jsonb_each(pages) p, jsonb_each_text(p.value) s) p USING (node, shard)
        WHERE (node, id) NOT IN (SELECT b.node, b.id FROM begun b)
          AND (k.known OR id NOT IN (
              SELECT b.id FROM begun b WHERE (b.node, b.id) NOT IN (SELECT o.node, o.id FROM listed o)))),
    numbered AS (
        SELECT t.*, row_number() OVER (ORDER BY node, t.pages DESC, shard) AS place FROM todo t),
    by_node AS (
        SELECT node, coalesce(b.busy, 0) AS busy, coalesce(min(place), 1) AS first, coalesce(max(place), 0) AS last, sum(t.pages) AS pages
        FROM numbered t FULL JOIN (SELECT value->>'node' AS node, count(*) AS busy FROM jsonb_each(running) GROUP BY 1) b USING (node)
        GROUP BY node, b.busy)
    SELECT (SELECT array_agg(to_jsonb(n) - 'place' ORDER BY place) FROM numbered n), array_agg(n.node), array_agg(n.busy), array_agg(n.first), array_agg(n.last)
    FROM (SELECT * FROM by_node ORDER BY busy = 0, pages DESC NULLS LAST, node) n
$$;

COMMENT ON FUNCTION parvacuum_cluster_todo(regclass, jsonb, jsonb, text[], text[], jsonb) IS
'internal: the shards of a table that are still to be vacuumed, those of a node behind each other and the largest ones first, and for each node the vacuums that are running and its part of the queue; a shard that was vacuumed and has moved since then is done';

CREATE FUNCTION parvacuum_cluster_command(schema text, shard text, options text) RETURNS text
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(r)), ''[]'')
        FROM %s.parvacuum_run(%L::pg_catalog.regclass, %s) r
        WHERE coalesce((pg_catalog.pg_identify_object(''pg_catalog.pg_class''::pg_catalog.regclass, r.relid, 0)).type, '''') OPERATOR(pg_catalog.<>) ''toast table''',
        schema, shard, options)
$$;

COMMENT ON FUNCTION parvacuum_cluster_command(text, text, text) IS
'internal: the command that vacuums a shard, without its TOAST table, where it is, and reads no table, so that it waits without a snapshot; the schema of parvacuum and the options are SQL';

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
    options text := format('workers => %L::int, freeze => %L::boolean, index_cleanup => %L::pg_catalog.text, truncate => %L::boolean, "analyze" => %L::boolean, skip_locked => %L::boolean, disable_page_skipping => %L::boolean, verbose => false',
        workers, "freeze", index_cleanup, truncate, "analyze", skip_locked, disable_page_skipping);
    planned jsonb;              -- for each node the ids of the shards that it had at first
    names jsonb;                -- for each node that is to be asked, the names of its shards
    schemas jsonb := '{}';      -- the schema of parvacuum on each node that answers
    errors jsonb := '{}';       -- the error of each node that does not
    pages jsonb := '{}';        -- for each node the pages of each shard
    begun_nodes text[] := '{}'; -- the vacuums that have begun: the nodes, and the ids of the shards
    begun_ids text[] := '{}';
    queue jsonb[];              -- the tasks to begin, those of a node behind each other
    nodes text[];               -- for each node ...
    busy int[];                 -- ... the tasks that have begun and not ended,
    first int[];                -- and its part of the queue
    last int[];
    running jsonb := '{}';      -- tasks, by connection, or by the number of the run on this server
    to_citus jsonb[];
    finished jsonb[] := '{}';
    task jsonb;
    got record;
    detail text;
    connection text;
    connections int := 0;
    listed_at timestamptz;
    listed_for interval;
    changed bool := true;       -- whether a vacuum has ended since the last look
    ended int := 0;             -- the vacuums that have ended since the queue was made
    pause float8 := 0.001;
    total int;
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
    IF NOT @extschema@.parvacuum_cluster_has_shards(rel) THEN
        RETURN;
    END IF;

    -- A server of another encoding may not have all letters, and the options of a foreign table may be empty names.
    -- A server is not asked for shards with such names, since it would not answer for the others either.  Only
    -- their order depends on the answer.
    SELECT jsonb_object_agg(node, ids), jsonb_object_agg(node, coalesce(shards, '[]')) INTO planned, names
    FROM (SELECT node, jsonb_agg(id) AS ids, jsonb_agg(shard) FILTER (WHERE shardid IS NOT NULL OR shard !~ '[^\x01-\x7F]|^""\.|\.""$') AS shards
          FROM @extschema@.parvacuum_cluster_shards(rel) GROUP BY node) s;
    LOOP
        IF names <> '{}' THEN
            FOR got IN SELECT * FROM @extschema@.parvacuum_cluster_probe(array(SELECT jsonb_object_keys(names)), names) LOOP
                IF got.error IS NULL THEN
                    schemas := schemas || jsonb_build_object(got.node, got.schema);
                    pages := pages || jsonb_build_object(got.node, coalesce(got.pages, '{}'));
                ELSE
                    errors := errors || jsonb_build_object(got.node, got.error);
                END IF;
            END LOOP;
            names := '{}';
        END IF;

        -- What is to do.  With many shards this takes long, so that it is not done after each vacuum.
        IF changed AND (listed_at IS NULL OR 50 * ended > total OR clock_timestamp() > listed_at + 10 * listed_for) THEN
            listed_at := clock_timestamp();
            SELECT t.* INTO queue, nodes, busy, first, last
            FROM @extschema@.parvacuum_cluster_todo(rel, planned, pages, begun_nodes, begun_ids, running) t;
            listed_for := clock_timestamp() - listed_at;
            ended := 0;
            total := cardinality(begun_nodes) + coalesce(cardinality(queue), 0);

            -- A shard may have moved to a node that had none.
            names := (SELECT coalesce(jsonb_object_agg(n, '[]'::jsonb), '{}') FROM unnest(nodes) n WHERE NOT (schemas ? n OR errors ? n));
            CONTINUE WHEN names <> '{}';
        END IF;

        to_citus := '{}';
        FOR n IN 1 .. CASE WHEN changed THEN coalesce(cardinality(nodes), 0) ELSE 0 END LOOP
            WHILE first[n] <= last[n] AND busy[n] < shards_at_once_per_node AND NOT (failed AND stop_on_error)
                  AND (busy[n] > 0 OR coalesce((SELECT count(*) FROM unnest(busy) b WHERE b > 0) < nodes_at_once, true))
            LOOP
                task := queue[first[n]];
                IF NOT errors ? nodes[n] THEN
                    task := task || jsonb_build_object('begun', cardinality(begun_nodes) + 1,
                        'command', @extschema@.parvacuum_cluster_command(schemas->>nodes[n], task->>'shard', options));
                    IF task->>'kind' = 'citus' THEN
                        to_citus := to_citus || task;
                        busy[n] := busy[n] + 1;
                    ELSIF task->>'kind' = 'local' THEN
                        connections := connections + 1;
                        busy[n] := busy[n] + 1;
                        BEGIN
                            connection := @extschema@.parvacuum_cluster_begin((task->>'id')::oid::regclass, workers, "freeze", index_cleanup, truncate,
                                "analyze", skip_locked, disable_page_skipping, false);
                            running := running || jsonb_build_object(connection, task);
                        EXCEPTION WHEN OTHERS THEN
                            GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
                            task := task || jsonb_build_object('error', @extschema@.parvacuum_cluster_error(SQLERRM, detail));
                        END;
                    ELSE
                        BEGIN
                            connections := connections + 1;
                            PERFORM @extschema@.parvacuum_cluster_send('parvacuum_cluster_' || connections, (task->>'server')::name, task->>'command');
                            running := running || jsonb_build_object('parvacuum_cluster_' || connections, task);
                            busy[n] := busy[n] + 1;
                        EXCEPTION WHEN OTHERS THEN
                            -- A node that vacuums for us has no more connections just now.
                            EXIT WHEN busy[n] > 0;
                            GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
                            errors := errors || jsonb_build_object(nodes[n], @extschema@.parvacuum_cluster_error(SQLERRM, detail));
                        END;
                    END IF;
                END IF;
                first[n] := first[n] + 1;
                begun_nodes := begun_nodes || nodes[n];
                begun_ids := begun_ids || (task->>'id');
                IF errors ? nodes[n] THEN
                    task := task - 'begun' || jsonb_build_object('error', errors->nodes[n]);
                END IF;
                IF task ? 'error' THEN
                    finished := finished || task;
                    EXIT WHEN stop_on_error;
                END IF;
            END LOOP;
        END LOOP;
        changed := false;
        IF running = '{}' AND to_citus = '{}' AND finished = '{}' THEN
            EXIT WHEN ended = 0 OR failed AND stop_on_error;
            changed := true;
            listed_at := NULL;
            CONTINUE;
        END IF;

        -- Citus waits for all of its own.
        IF to_citus <> '{}' THEN
            FOR got IN
                SELECT * FROM @extschema@.parvacuum_cluster_execute(
                    array(SELECT t->>'node' FROM unnest(to_citus) t), array(SELECT t->>'command' FROM unnest(to_citus) t))
            LOOP
                finished := finished || (to_citus[got.place] || jsonb_build_object(CASE WHEN got.success THEN 'result' ELSE 'error' END, got.result));
            END LOOP;
        END IF;
        FOR connection, task IN SELECT key, value FROM jsonb_each(running) LOOP
            IF task->>'kind' = 'local' THEN
                SELECT r.* INTO got FROM @extschema@.parvacuum_cluster_look(connection::int) r;
            ELSE
                SELECT r.* INTO got FROM @extschema@.parvacuum_cluster_receive(connection) r;
            END IF;
            CONTINUE WHEN NOT got.finished;
            running := running - connection;
            finished := finished || (task || jsonb_build_object(CASE WHEN got.success THEN 'result' ELSE 'error' END, got.result));
        END LOOP;

        IF finished = '{}' THEN
            pause := least(pause * 1.5, 0.02);
            PERFORM pg_sleep(pause);
            CONTINUE;
        END IF;
        changed := true;
        ended := ended + cardinality(finished);
        pause := 0.001;
        FOREACH task IN ARRAY finished LOOP
            IF task ? 'begun' THEN
                busy[array_position(nodes, task->>'node')] := busy[array_position(nodes, task->>'node')] - 1;
            END IF;
            IF task ? 'begun' AND task ? 'error' THEN
                -- A shard that was dropped meanwhile is forgotten; one that has moved is vacuumed where it is now.
                -- No more than a hundred are forgotten: an owner may rename a partition whenever its vacuum fails.
                IF cardinality(array_positions(begun_ids, '')) < 100 AND NOT EXISTS (SELECT FROM @extschema@.parvacuum_cluster_shards(rel) s WHERE s.node = task->>'node' AND s.shard = task->>'shard') THEN
                    begun_nodes[(task->>'begun')::int] := '';
                    begun_ids[(task->>'begun')::int] := '';
                    total := total - 1;
                    listed_at := NULL;
                    CONTINUE;
                END IF;
                IF task->>'kind' = 'citus' AND task->>'error' ~ '^failed to connect to ' THEN
                    errors := errors || jsonb_build_object(task->>'node', task->'error');
                END IF;
            END IF;
            BEGIN
                RETURN QUERY SELECT * FROM @extschema@.parvacuum_cluster_row(task);
            EXCEPTION WHEN data_exception THEN
                task := task - 'result' || jsonb_build_object('error', 'the result of the node is not understood: ' || SQLERRM);
                RETURN QUERY SELECT * FROM @extschema@.parvacuum_cluster_row(task);
            END;
            failed := failed OR task ? 'error';
            IF "verbose" THEN
                ndone := ndone + 1;
                RAISE INFO '% on node %: % (% of %)', task->>'shard', task->>'node', coalesce('failed: ' || (task->>'error'),
                    'vacuumed in ' || round(((task->>'result')::jsonb->0->>'elapsed_ms')::numeric) || ' ms', 'skipped'), ndone, total;
            END IF;
        END LOOP;
        finished := '{}';
    END LOOP;
    IF failed AND stop_on_error THEN
        FOR n IN 1 .. coalesce(cardinality(nodes), 0) LOOP
            RETURN QUERY SELECT r.* FROM unnest(queue[first[n]:last[n]]) t, @extschema@.parvacuum_cluster_row(t) r;
        END LOOP;
    END IF;
EXCEPTION WHEN OTHERS OR query_canceled THEN
    IF connections > 0 THEN
        PERFORM @extschema@.parvacuum_cluster_disconnect(SQLSTATE, SQLERRM);
    END IF;
    RAISE;
END $$;

COMMENT ON FUNCTION parvacuum_run_cluster(regclass, int, int, int, bool, bool, text, bool, bool, bool, bool, bool) IS
'vacuum the shards of a table where they are, each by parvacuum_run(), at most so many at a time; one row for each shard, with its node, how it ended (done, failed, skipped because it was locked or cannot be vacuumed, or not run after an error), and what parvacuum_run() returned; a node that cannot be reached does not keep others from being vacuumed';

-- The views of all nodes in one.  They have the columns of the view of one node, which are
-- looked up here.  But tables have names, since those of other nodes have no OID here.

DO $$
DECLARE
    columns text;
    v record;
BEGIN
    FOR v IN
        SELECT c.oid, w.name, w.description, pg_catalog.replace(w.name, 'parvacuum_', '@extschema@.parvacuum_cluster_') AS cluster_view
        FROM (VALUES ('parvacuum_progress', 'running vacuums of all nodes'),
                     ('parvacuum_history', 'the last vacuums of all nodes'),
                     ('parvacuum_queue', 'what the schedulers of all nodes have to do'),
                     ('parvacuum_tables', 'the options of tables and shards on all nodes'),
                     ('parvacuum_blockers', '')) AS w(name, description)
             JOIN pg_catalog.pg_class c ON c.relname OPERATOR(pg_catalog.=) w.name
             JOIN pg_catalog.pg_extension e ON e.extname OPERATOR(pg_catalog.=) 'parvacuum' AND e.extnamespace OPERATOR(pg_catalog.=) c.relnamespace
    LOOP
        SELECT pg_catalog.string_agg(pg_catalog.format('%I %s', attname, CASE WHEN atttypid OPERATOR(pg_catalog.=) 'pg_catalog.regclass'::pg_catalog.regtype::pg_catalog.oid THEN 'text'
                   ELSE pg_catalog.format_type(atttypid, atttypmod) END), ', ' ORDER BY attnum)
        INTO columns FROM pg_catalog.pg_attribute WHERE attrelid OPERATOR(pg_catalog.=) v.oid AND attnum OPERATOR(pg_catalog.>) 0 AND NOT attisdropped;
        IF v.name OPERATOR(pg_catalog.=) 'parvacuum_blockers' THEN
            EXECUTE pg_catalog.format($f$
                CREATE FUNCTION %s.parvacuum_cluster_blocker(result jsonb) RETURNS TABLE (%s) LANGUAGE sql IMMUTABLE
                SET search_path = pg_catalog, pg_temp
                AS 'SELECT * FROM jsonb_to_recordset(result) AS r(%s)'$f$, '@extschema@', columns, columns);
            CONTINUE;
        END IF;
        EXECUTE pg_catalog.format($f$
            CREATE VIEW %s AS
            SELECT n.node, n.groupid, n.error AS node_error, r.*
            FROM %s.parvacuum_cluster_query('SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(r)), ''[]'') FROM @parvacuum@.%s r'::pg_catalog.text) n
                 LEFT JOIN LATERAL pg_catalog.jsonb_to_recordset(n.result) AS r(%s) ON true
            WHERE n.error IS NOT NULL OR n.result OPERATOR(pg_catalog.<>) '[]'$f$, v.cluster_view, '@extschema@', v.name, columns);
        EXECUTE pg_catalog.format('COMMENT ON VIEW %s IS %L', v.cluster_view,
            pg_catalog.concat(v.description, ', with the columns of ', v.name, '; a node that cannot be asked has a row with the error'));
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
    SELECT * FROM @extschema@.parvacuum_cluster_query('SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(r)), ''[]'') FROM @parvacuum@.parvacuum_blockers r'::pg_catalog.text)),
blockers AS MATERIALIZED (
    SELECT a.node, a.groupid, a.error AS node_error, b.*, (pg_catalog.regexp_match(b.name, '^citus_(\d{1,9})_(\d{1,9})_\d+_\d+$'))::int[] AS begun_by,
           b.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AS here
    FROM answers a LEFT JOIN LATERAL @extschema@.parvacuum_cluster_blocker(a.result) b ON true
    WHERE a.error IS NOT NULL OR a.result OPERATOR(pg_catalog.<>) '[]'),
committed AS MATERIALIZED (
    SELECT q.groupid, q.result AS names
    FROM (SELECT WHERE EXISTS (SELECT FROM blockers b WHERE b.begun_by IS NOT NULL)) x,
         @extschema@.parvacuum_cluster_query('SELECT coalesce(pg_catalog.jsonb_agg(t.gid), ''[]'') FROM pg_catalog.pg_dist_transaction t'::pg_catalog.text) q)
SELECT b.node, b.groupid, b.node_error, b.kind, b.pid, b.name,
       CASE WHEN NOT b.here AND b.begun_by IS NOT NULL THEN pg_catalog.format('begun by process %s of group %s of Citus in database %I', b.begun_by[2], b.begun_by[1], b.datname)
            WHEN n.node IS NOT NULL THEN pg_catalog.format('begun by process %s of node %s; %s', b.begun_by[2], n.node,
           CASE WHEN c.names IS NULL THEN 'whether it is to be committed is not known, because that node cannot be asked'
                WHEN c.names OPERATOR(pg_catalog.?) b.name THEN 'to be committed' ELSE 'to be rolled back, if that process does not go on with it' END)
       END AS distributed_transaction,
       b.usename, b.datid, b.datname, b.holds, b.xmin, b.xmin_age, b.since, b.duration, b.tuples_kept, b.state, b.query,
       CASE WHEN NOT b.here AND b.begun_by IS NOT NULL THEN pg_catalog.format('SELECT recover_prepared_transactions() in database %I on the node of group %s', b.datname, b.begun_by[1])
            WHEN n.node IS NULL THEN b.release
            ELSE pg_catalog.format('SELECT recover_prepared_transactions() on node %s', n.node) END AS release
FROM blockers b
     LEFT JOIN @extschema@.parvacuum_cluster_nodes() n ON b.here AND n.groupid OPERATOR(pg_catalog.=) b.begun_by[1]
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
                  LEFT JOIN LATERAL (SELECT c.oid::pg_catalog.regclass::pg_catalog.text AS relation, pg_catalog.age(c.relfrozenxid) AS relation_xid_age
                      FROM pg_catalog.pg_class c WHERE c.relfrozenxid OPERATOR(pg_catalog.<>) ''0'' ORDER BY 2 DESC LIMIT 1) o
                      ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
                  LEFT JOIN LATERAL (SELECT c.oid::pg_catalog.regclass::pg_catalog.text AS relation, pg_catalog.mxid_age(c.relminmxid) AS relation_mxid_age
                      FROM pg_catalog.pg_class c WHERE c.relminmxid OPERATOR(pg_catalog.<>) ''0'' ORDER BY 2 DESC LIMIT 1) p
                      ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()) r'::pg_catalog.text) n
     LEFT JOIN LATERAL pg_catalog.jsonb_to_recordset(n.result)
         AS r(datname name, xid_age int, mxid_age int, freeze_max_age int, percent_to_autovacuum numeric, xids_left int,
              relation text, relation_xid_age int, mxid_relation text, relation_mxid_age int) ON true
ORDER BY r.xid_age DESC NULLS FIRST, n.node;

COMMENT ON VIEW parvacuum_cluster_wraparound IS
'how far each database of each node is from the wraparound of transaction IDs, the oldest first: its age, how much that is of autovacuum_freeze_max_age, the transaction IDs left until the server accepts no more, and in the connected database the table or shard that is the oldest; a node that cannot be asked has a row with the error';

GRANT SELECT ON parvacuum_cluster_wraparound TO PUBLIC;

-- Limits.

CREATE FUNCTION parvacuum_cluster_set_limit(max_workers int) RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

COMMENT ON FUNCTION parvacuum_cluster_set_limit(int) IS
'internal: ALTER SYSTEM SET parvacuum.max_workers on this server, and the same in this session';

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
        FROM @extschema@.parvacuum_cluster_execute(chosen, array(
            SELECT CASE WHEN c = 'local' THEN 'SELECT @extschema@.parvacuum_cluster_set_limit(' || cap || ')' ELSE 'ALTER SYSTEM SET parvacuum.max_workers = ' || cap END
            FROM unnest(chosen) WITH ORDINALITY AS u(c, i) ORDER BY i)) e
        WHERE NOT e.success;
        SELECT errors || coalesce(jsonb_object_agg(e.node, e.result), '{}') INTO errors
        FROM (SELECT array(SELECT c FROM unnest(chosen) c WHERE NOT errors ? c)) a(changed),
             @extschema@.parvacuum_cluster_execute(changed, array_fill('SELECT pg_catalog.pg_reload_conf()'::text, array[cardinality(changed)])) e
        WHERE NOT e.success;
    END IF;

    -- A server needs a moment to read its configuration.
    FOR attempt IN 1 .. 50 LOOP
        SELECT jsonb_agg(to_jsonb(q)) INTO answers
        FROM @extschema@.parvacuum_cluster_query('SELECT pg_catalog.jsonb_build_object(
                 ''max_workers'', (SELECT s.setting FROM pg_catalog.pg_settings s WHERE s.name OPERATOR(pg_catalog.=) ''parvacuum.max_workers''),
                 ''workers'', (SELECT pg_catalog.count(*) FROM @parvacuum@.parvacuum_progress p WHERE p.participant OPERATOR(pg_catalog.>) 0))'::text) q
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
