-- The script of test/t/upgrade.pl that updates the extension to its next minor version, with
-- the changes that a minor may make.
\echo Use "ALTER EXTENSION parvacuum UPDATE" to load this file. \quit

-- Every script begins with this: it refuses a library that is too old.
CREATE FUNCTION parvacuum_check_library() RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C;
SELECT parvacuum_check_library();
DROP FUNCTION parvacuum_check_library();

-- A figure of a vacuum.  Views get their new columns behind all others, so that what depends
-- on them stays.
ALTER TYPE parvacuum_result ADD ATTRIBUTE next_figure bigint;

DO $$
BEGIN
    EXECUTE pg_catalog.format('CREATE OR REPLACE VIEW parvacuum_history AS %s',
        pg_catalog.regexp_replace(pg_catalog.pg_get_viewdef('parvacuum_history'::pg_catalog.regclass), '\n\s+FROM ', E',\n (h.result).next_figure\n FROM '));
END
$$;

-- A function
CREATE FUNCTION parvacuum_next() RETURNS int
AS 'MODULE_PATHNAME'
LANGUAGE C;

-- An argument and a column of a function.  What depends on the function is in the way.  An older
-- library must not ignore the argument, so the function in C is another one.
DROP FUNCTION parvacuum_wraparound();
CREATE FUNCTION parvacuum_wraparound(
    database oid DEFAULT 0,
    OUT datid oid,
    OUT datname name,
    OUT xid_age bigint,
    OUT xids_left bigint,
    OUT xids_per_second double precision,
    OUT rate_seconds double precision,
    OUT wraparound_at timestamptz,
    OUT datallowconn bool)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'parvacuum_wraparound_next'
LANGUAGE C VOLATILE PARALLEL RESTRICTED STRICT;
