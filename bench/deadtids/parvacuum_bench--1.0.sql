/* parvacuum_bench--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION parvacuum_bench" to load this file. \quit

-- Make the session's pattern of dead TIDs, and return the number of its TIDs.  One
-- block in "gap" can have dead items.  "kind" is one of:
--   fixed   groups of "consecutive" offsets, beginning at "first", "stride" apart,
--           "dead" offsets in all; every such block has the same dead items
--   random  "dead" of the offsets up to "lookups", drawn at random
--   mix     half of the blocks have none; the others have 1 to "dead", drawn at
--           random
-- Look-ups are of all offsets up to "lookups" in all blocks.
CREATE FUNCTION parvacuum_bench_pattern(kind text, blocks bigint, dead int,
										first int, stride int, consecutive int,
										gap int, lookups int)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Draw n TIDs to look up, and return the number of dead ones among them.
CREATE FUNCTION parvacuum_bench_sample(n int, seed bigint)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The names of all contenders.
CREATE FUNCTION parvacuum_bench_contenders()
RETURNS text[] STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Load the pattern into a contender and look up the sample, one TID at a time and,
-- if the contender supports it, in batches.  A wrong result is an error.
CREATE FUNCTION parvacuum_bench(contender text,
								OUT load_ns float8, OUT lookup_ns float8,
								OUT batch_ns float8, OUT bytes bigint)
RETURNS record STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Load the pattern with 1 or 2 processes, into one store or into one store for each
-- process, and read it as the second heap pass does.  "waits" is the number of times
-- that a process slept while loading, for a lock or for any other reason.
CREATE FUNCTION parvacuum_bench_parallel(processes int, own_stores boolean,
										 OUT load_ms float8, OUT read_ms float8,
										 OUT waits bigint)
RETURNS record STRICT LANGUAGE C
AS 'MODULE_PATHNAME';
