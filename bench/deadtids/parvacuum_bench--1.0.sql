/* parvacuum_bench--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION parvacuum_bench" to load this file. \quit

-- Make the session's pattern of dead TIDs; returns how many it has.  One block
-- in "gap" has dead items.  kind says which:
--   fixed   groups of "consecutive" offsets, from "first", "stride" apart,
--           "dead" offsets in all; every such block has the same
--   random  "dead" of the offsets up to "lookups"
--   mix     half of the blocks none, the others random ones, 1 to "dead"
-- Every offset up to "lookups" is looked up, of every block.
CREATE FUNCTION parvacuum_bench_pattern(kind text, blocks bigint, dead int,
										first int, stride int, consecutive int,
										gap int, lookups int)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Draw so many TIDs to look up; returns how many of them are dead.
CREATE FUNCTION parvacuum_bench_sample(n int, seed bigint)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The structures that there are.
CREATE FUNCTION parvacuum_bench_contenders()
RETURNS text[] STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Load the pattern into one of them and look the sample up, one by one and, if
-- it can do that, as batches.  An error if an answer is wrong.
CREATE FUNCTION parvacuum_bench(contender text,
								OUT load_ns float8, OUT lookup_ns float8,
								OUT batch_ns float8, OUT bytes bigint)
RETURNS record STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Load the pattern with 1 or 2 processes, into one store or into one for each,
-- and read it as the second heap pass does.  waits: how often a process had to
-- wait for anything, a lock among others, while loading.
CREATE FUNCTION parvacuum_bench_parallel(processes int, own_stores boolean,
										 OUT load_ms float8, OUT read_ms float8,
										 OUT waits bigint)
RETURNS record STRICT LANGUAGE C
AS 'MODULE_PATHNAME';
