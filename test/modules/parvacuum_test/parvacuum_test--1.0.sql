/* parvacuum_test--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION parvacuum_test" to load this file. \quit

-- Encode offsets, check the result in every way, say which kind it became.
CREATE FUNCTION parvacuum_test_container(VARIADIC offsets int[])
RETURNS text STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The same for every set of one run or of two offsets; returns their number.
CREATE FUNCTION parvacuum_test_all_containers()
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- One store per session, with a naive twin, and handles numbered from 0.
CREATE FUNCTION parvacuum_test_create(blocks bigint, bytes bigint,
									  shared boolean DEFAULT false,
									  reserve bigint DEFAULT 0,
									  handles int DEFAULT 1)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_reset(handle int DEFAULT 0)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_begin(segment bigint, handle int DEFAULT 0)
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_block(block bigint, offsets int[],
									 handle int DEFAULT 0)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_end(handle int DEFAULT 0)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_publish(handle int DEFAULT 0)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Fill segments with random blocks until done or full; returns how many.
CREATE FUNCTION parvacuum_test_fill(shape text, first_segment bigint,
									segments bigint, seed bigint,
									handle int DEFAULT 0)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Publish and compare with the twin, through every handle; returns the items.
CREATE FUNCTION parvacuum_test_check()
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_probe(block bigint, off int,
									 handle int DEFAULT 0)
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_layout(segment bigint, handle int DEFAULT 0)
RETURNS text STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_figures(handle int DEFAULT 0,
									   OUT items bigint, OUT segments bigint,
									   OUT memory bigint, OUT max_memory bigint,
									   OUT bytes_limit bigint)
STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Random stores for so many seconds; seed 0 takes one, shown if a check fails.
CREATE FUNCTION parvacuum_test_fuzz(seconds float8, seed bigint)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Let background workers fill one store together and check it.
CREATE FUNCTION parvacuum_test_parallel(workers int, shape text,
										segments int, seed bigint)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- A window of time in its normal form, which is read back and compared, or what
-- is wrong with it; whether it is open at a time, and when that changes.
CREATE FUNCTION parvacuum_test_window(text)
RETURNS text STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_window_is_open(text, timestamptz)
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_window_next_change(text, timestamptz)
RETURNS timestamptz STRICT LANGUAGE C
AS 'MODULE_PATHNAME';
