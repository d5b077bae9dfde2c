/* parvacuum_test--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION parvacuum_test" to load this file. \quit

-- Encodes offsets, checks the result in every way, and returns its kind.
CREATE FUNCTION parvacuum_test_container(VARIADIC offsets int[])
RETURNS text STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The same for every set of one run or of two offsets; returns their number.
CREATE FUNCTION parvacuum_test_all_containers()
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- One store per session, with a model, and handles numbered from 0
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

-- Fills segments with random blocks until all are filled or the store is full; returns
-- their number.
CREATE FUNCTION parvacuum_test_fill(shape text, first_segment bigint,
									segments bigint, seed bigint,
									handle int DEFAULT 0)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Publishes all segments and compares the store with the model, through every handle;
-- returns the number of items.
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
									   OUT items bigint, OUT memory bigint,
									   OUT bytes_limit bigint)
STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Random stores for this many seconds; seed 0 chooses one, which is reported if a check
-- fails.
CREATE FUNCTION parvacuum_test_fuzz(seconds float8, seed bigint)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Background workers fill one store together and check it.
CREATE FUNCTION parvacuum_test_parallel(workers int, shape text,
										segments int, seed bigint)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Processes take one chunk each from an empty space, all at the same moment, this many
-- times.  An extent has room for four chunks.  Returns the number of extents made.
CREATE FUNCTION parvacuum_test_run_dry(workers int, times int)
RETURNS int STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- A space of 1 MB is filled this many times, and then 128 kB are needed regardless of the
-- limit.  Returns by how much the memory exceeds the limit in the end.
CREATE FUNCTION parvacuum_test_refill(times int)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Two processes enter and leave something that the last one closes, in every order of
-- their steps.  Returns the number of these orders.
CREATE FUNCTION parvacuum_test_use_count() RETURNS int STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Several processes claim ranges of the same units, in every order of their steps in which
-- one that has come in between two steps of another does all that it has to do.  Returns the
-- number of these orders.
CREATE FUNCTION parvacuum_test_claim() RETURNS int STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The normal form of a window, which is read again and compared, or the error; whether
-- it is open at a time, and the time of the next change.
CREATE FUNCTION parvacuum_test_window(text)
RETURNS text STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_window_is_open(text, timestamptz)
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_window_next_change(text, timestamptz)
RETURNS timestamptz STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Index access methods that know nothing of parallel vacuum, and find no rows.  Each
-- assigns a transaction ID in its cleanup, the second one in bulk deletions, too.
CREATE FUNCTION parvacuum_test_xid_in_cleanup(internal)
RETURNS index_am_handler LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_xid_in_bulkdelete(internal)
RETURNS index_am_handler LANGUAGE C
AS 'MODULE_PATHNAME';

-- One that supports parallel bulk deletions, and says how much memory each may use.
CREATE FUNCTION parvacuum_test_uses_memory(internal)
RETURNS index_am_handler LANGUAGE C
AS 'MODULE_PATHNAME';

-- Processes vacuum indexes of these numbers of pages, each of kind l (leader only), s
-- (single) or b (a B-tree that is shared, whose last part is done by one process).
-- Returns the indexes that each process has worked on, the leader first, and the time at
-- which the last one is done.  A page takes one unit of time, and so does each unit of a
-- last part.
CREATE FUNCTION parvacuum_test_order(kinds text, pages int[], ends int[], processes int,
									 OUT work text, OUT ends_at int)
IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The time at which all are done if each index is vacuumed by one process, in the given
-- order.
CREATE FUNCTION parvacuum_test_order_of_core(kinds text, pages int[], ends int[], processes int)
RETURNS int IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The score of a table that is like this, by such thresholds; the defaults of the
-- latter are those of the server's settings.
CREATE FUNCTION parvacuum_test_score(
	dead float8 DEFAULT 0, inserted float8 DEFAULT 0, modified float8 DEFAULT 0,
	reltuples float8 DEFAULT 1000, pages bigint DEFAULT 0,
	xid_age bigint DEFAULT 0, mxid_age bigint DEFAULT 0,
	counted boolean DEFAULT true, may_analyze boolean DEFAULT true,
	enabled boolean DEFAULT true,
	vacuum_base float8 DEFAULT 50, vacuum_scale float8 DEFAULT 0.2,
	insert_base float8 DEFAULT 1000, insert_scale float8 DEFAULT 0.2,
	analyze_base float8 DEFAULT 50, analyze_scale float8 DEFAULT 0.1,
	freeze_max_age bigint DEFAULT 200000000, multixact_freeze_max_age bigint DEFAULT 400000000,
	failsafe_age bigint DEFAULT 1600000000, multixact_failsafe_age bigint DEFAULT 1600000000,
	OUT dead_score float8, OUT insert_score float8, OUT analyze_score float8,
	OUT xid_score float8, OUT mxid_score float8, OUT total float8,
	OUT vacuum boolean, OUT "analyze" boolean, OUT wraparound boolean)
IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- A table's own limits, and those of the server.
CREATE FUNCTION parvacuum_test_danger(
	xid_age bigint DEFAULT 0, mxid_age bigint DEFAULT 0,
	own_freeze_max_age bigint DEFAULT 200000000, own_multixact_freeze_max_age bigint DEFAULT 400000000,
	freeze_max_age bigint DEFAULT 200000000, multixact_freeze_max_age bigint DEFAULT 400000000,
	OUT wraparound boolean, OUT danger boolean, OUT haste float8)
IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Is a table of these counts to be swept, and when is its turn, in minutes, if it needs that
-- since 0?  It may have been analyzed just now.
CREATE FUNCTION parvacuum_test_sweep(
	versions float8 DEFAULT 0, versions_swept float8 DEFAULT 0, dead float8 DEFAULT 1e6, modified float8 DEFAULT 0,
	reltuples float8 DEFAULT 1e7, splits boolean DEFAULT false, may_sweep boolean DEFAULT true, enabled boolean DEFAULT true,
	analyzed boolean DEFAULT false,
	OUT sweep_score float8, OUT total float8, OUT sweep boolean, OUT vacuum boolean, OUT "analyze" boolean, OUT turn float8)
IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_has_grown(pages float8, pages_before float8)
RETURNS boolean IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The turn of a table that needs something since 0, in minutes.
CREATE FUNCTION parvacuum_test_turn(score float8, requested bool DEFAULT false)
RETURNS float8 IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Which of two tables goes first, 1 or -1; 0: it makes no difference.  An age of 0 is no danger.
CREATE FUNCTION parvacuum_test_goes_first(
	age float8 DEFAULT 0, urgent bool DEFAULT false, charge float8 DEFAULT 0, turn float8 DEFAULT 0,
	other_age float8 DEFAULT 0, other_urgent bool DEFAULT false, other_charge float8 DEFAULT 0, other_turn float8 DEFAULT 0)
RETURNS int IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_has_room(places int, entries int, of_database int, of_owner int)
RETURNS bool IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- In seconds.
CREATE FUNCTION parvacuum_test_charge_left(charge float8, elapsed float8)
RETURNS float8 IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- In seconds.
CREATE FUNCTION parvacuum_test_longest(pages float8, rate int8, workers int, seconds int DEFAULT 600,
	OUT at_table float8, OUT in_cleanup float8, OUT in_analyze float8)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION parvacuum_test_rest(used bigint)
RETURNS bigint IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Would a vacuum be useless after one that has left dead rows of a score of 2 at the horizon 100?
CREATE FUNCTION parvacuum_test_is_useless(horizon int DEFAULT 100, dead float8 DEFAULT 2, inserted float8 DEFAULT 0, old bool DEFAULT false,
	mxid float8 DEFAULT 0, was_old bool DEFAULT false)
RETURNS bool STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_policy(OUT age_share float8, OUT large_pages bigint)
IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- One balance of cost units per session; times are in microseconds.
CREATE FUNCTION parvacuum_test_account()
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_change_rate(old_rate bigint, new_rate bigint, now bigint)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_charge(units bigint, rate bigint, now bigint)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_account_units()
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Several processes, simulated: the sum of all charges, the smallest and the largest sum
-- of a process, and the longest sleep.
CREATE FUNCTION parvacuum_test_payers(payers int, rate bigint, units bigint,
									  work bigint, oversleep bigint, seconds int,
									  OUT paid bigint, OUT lowest bigint,
									  OUT highest bigint, OUT longest bigint)
STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Background workers and this session charge one balance at the same time; returns the
-- distance by which one charge has moved it.
CREATE FUNCTION parvacuum_test_charge_together(workers int, charges int,
											   units bigint, rate bigint)
RETURNS float8 STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- One queue per session, with a clock that advances only by parvacuum_test_queue_wait().
-- Workers are known by their slots.
CREATE FUNCTION parvacuum_test_queue(places int DEFAULT 32768, workers int DEFAULT 3)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_queue_wait(seconds float8)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_start(database oid, to_scan bool DEFAULT true, large bool DEFAULT false)
RETURNS int STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_exit(worker int)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_begin_scan(worker int)
RETURNS bool STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- False if there was no room for it.
CREATE FUNCTION parvacuum_test_offer(worker int, rel oid, owner oid DEFAULT 10, score float8 DEFAULT 2, pages bigint DEFAULT 1,
	reason text DEFAULT 'none', vacuum bool DEFAULT true, "analyze" bool DEFAULT false, age float8 DEFAULT 0, tried bool DEFAULT false)
RETURNS bool STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- True if it is to be reported that the queue is full.
CREATE FUNCTION parvacuum_test_end_scan(worker int, complete bool DEFAULT true)
RETURNS bool STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_take(worker int)
RETURNS oid STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- False if the table was put back.
CREATE FUNCTION parvacuum_test_recheck(worker int, pages bigint)
RETURNS bool STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_finish(worker int, reason text DEFAULT 'none', done text DEFAULT 'vacuum', horizon int DEFAULT 0)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_should_leave(worker int, workers int DEFAULT 64)
RETURNS bool STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_enqueue(database oid, rel oid, owner oid DEFAULT 10, urgent bool DEFAULT false)
RETURNS text STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_withdraw(database oid, rel oid, wraparound_too bool DEFAULT false)
RETURNS text STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_items(OUT database oid, OUT rel oid, OUT owner oid, OUT state text, OUT reason text, OUT requested bool,
	OUT vacuum bool, OUT "analyze" bool, OUT since float8)
RETURNS SETOF record STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- In seconds.
CREATE FUNCTION parvacuum_test_owner_charge(owner oid)
RETURNS float8 STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Random steps, with everything checked after each; returns how many workers were at a table, all steps together.
CREATE FUNCTION parvacuum_test_queue_fuzz(steps int, seed bigint, places int)
RETURNS int STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Simulates a server with these numbers of databases and workers for some hours: the number of
-- tables begun; the longest time that one waited until then, in seconds, among those in danger of
-- wraparound, and among the others in databases without and with hot tables; and how many have waited
-- for longer at the end.
CREATE FUNCTION parvacuum_test_simulate(databases int, hot_databases int, workers int, hours int,
										places int DEFAULT 32768, OUT begun bigint, OUT danger int, OUT quiet int,
										OUT beside_hot int, OUT never int)
STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Leaves an empty page of a B-tree as a canceled deletion leaves it.  Always fails.
CREATE FUNCTION parvacuum_test_leave_half_dead(index regclass, block bigint)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Heap with a vacuum of its own, which reports its parameters.
CREATE FUNCTION parvacuum_test_tableam(internal)
RETURNS table_am_handler STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The launcher's plan.  Times are in seconds before the snapshot; negative ones are after it.
CREATE TYPE parvacuum_test_database AS (database int, counted bool, age float8, overdue float8, may_since float8, stayed float8, failed bool,
	workers int, expected bool, turn float8, charge float8, danger float8, large bool);

-- A turn that is NULL means that nothing is queued, danger is the age of the first table, 0 if it is not in danger.
CREATE FUNCTION parvacuum_test_database(database int, overdue float8 DEFAULT -30, turn float8 DEFAULT NULL, workers int DEFAULT 0, charge float8 DEFAULT 0,
	danger float8 DEFAULT 0, age float8 DEFAULT 0.1, may_since float8 DEFAULT 100, failed bool DEFAULT false, counted bool DEFAULT true,
	expected bool DEFAULT false, large bool DEFAULT false, stayed float8 DEFAULT 100)
RETURNS parvacuum_test_database LANGUAGE sql IMMUTABLE
RETURN ROW(database, counted, age, overdue, may_since, stayed, failed, workers, expected, turn, charge, danger, large)::parvacuum_test_database;

CREATE FUNCTION parvacuum_test_plan(databases parvacuum_test_database[], free int DEFAULT 3, large int DEFAULT 2) RETURNS text[]
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- The history and the totals.  Uses relations named by letters in turn, of which capital
-- letters are of another group: the place that each gets, with "*" if it is new there.
CREATE FUNCTION parvacuum_test_lru(capacity int, names text)
RETURNS text AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Uses random relations, and compares with an array; returns the number of differences.
CREATE FUNCTION parvacuum_test_lru_random(capacity int, relations int, times int, groups int)
RETURNS int AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- No records, of these sizes.
CREATE FUNCTION parvacuum_test_records(history_size int, stats_size int)
RETURNS void AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Vacuums of a table with so many indexes.  The table's OID modulo 4 is how they end.
CREATE FUNCTION parvacuum_test_records_add(rel oid, indexes int, at int, times int DEFAULT 1, owner oid DEFAULT 10, removed int DEFAULT 10)
RETURNS void AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- A sweep of such a table, completed or not, and what it leaves.
CREATE FUNCTION parvacuum_test_records_sweep(rel oid, indexes int, at int, versions float8, splits bool, done bool)
RETURNS void AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- What the last sweep has left, versions:splits, and the size of the first index.
CREATE FUNCTION parvacuum_test_records_mark(rel oid)
RETURNS text AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION parvacuum_test_records_reset(history bool, stats bool)
RETURNS void AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Vacuums as number:table, indexes as number:index, totals of tables as
-- table:runs,canceled,errors,failed,tuples,last run,last done and of indexes as
-- index:runs,entries,last run; evictions and the times of resets.
CREATE FUNCTION parvacuum_test_records_show()
RETURNS text AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- As if the server had been restarted with these sizes; null or what was wrong.
CREATE FUNCTION parvacuum_test_records_reload(history_size int, stats_size int, cluster bigint DEFAULT 42)
RETURNS text AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- The number of damaged files that were read.
CREATE FUNCTION parvacuum_test_records_damage()
RETURNS int AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- As if so many vacuums had been recorded, and so many indexes of them.
CREATE FUNCTION parvacuum_test_records_number(bigint)
RETURNS void AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- The number of texts without an end, after a file that has such texts was read.
CREATE FUNCTION parvacuum_test_records_endless()
RETURNS int AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
-- How long the rest of a vacuum will take.  Nulls are zeros.  Phases: 1 is the heap scan, 2 the
-- index scan, 3 the second heap pass, 4 the index cleanup.  Each dead page has ten dead items.
-- What phases have taken so far is in seconds.  What a page took in the last vacuum is, too.
CREATE TYPE parvacuum_test_vacuum AS (
    phase float8, blocks float8, passed float8, to_read float8, read float8, dead_pages float8, store_share float8, may_bypass float8,
    index_scans float8, index_pages float8, index_done float8, vacuumed float8,
    scan_s float8, scan_work float8, index_s float8, index_work float8, heap_s float8, heap_work float8,
    past_scan_s float8, past_index_s float8, past_heap_s float8);

CREATE FUNCTION parvacuum_test_eta(vacuum parvacuum_test_vacuum, OUT phase_s float8, OUT all_s float8, OUT index_scans int, OUT rate float8)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- What the last vacuum tells of the time of so many pages of each phase, if an index scan has
-- "index_pages" pages now, and a heap page "items" dead items; microseconds, or -1.
CREATE FUNCTION parvacuum_test_eta_past(scanned bigint, scan_usecs bigint, index_scans int, index_usecs bigint, dead_items bigint, heap_usecs bigint,
    pages float8, index_pages float8, items float8, OUT scan float8, OUT index float8, OUT heap float8)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Hashes of the pages of a table or an index, without what may differ on a standby: 0 is the
-- main fork, 2 the visibility map.
CREATE FUNCTION parvacuum_test_pages(rel regclass, OUT fork int,
									 OUT block bigint, OUT hash bigint)
RETURNS SETOF record STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Compares the pages of twins; see pvt_twins.c.  "differences" is NULL if there are none.
CREATE FUNCTION parvacuum_test_compare_pages(stock regclass, ours regclass, vacuumed bool,
											 skips_alike bool, since pg_lsn,
											 OUT pages bigint, OUT changed bigint,
											 OUT differences text)
STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Sets and takes the bits of the bitmaps of a B-tree that have that many bytes, and returns
-- the number of bits of one bitmap.
CREATE FUNCTION parvacuum_test_btree_bitmaps(bytes bigint)
RETURNS bigint IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The bytes that the bitmaps of a B-tree of that many pages want.
CREATE FUNCTION parvacuum_test_bitmap_bytes(pages bigint)
RETURNS bigint IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Compares the heap TIDs of two B-trees, in their order.
CREATE FUNCTION parvacuum_test_compare_btrees(stock regclass, ours regclass,
											  OUT entries bigint, OUT difference text)
STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Failures of the tables of a role, from the first to the last OID, so many seconds ago; the number
-- that counts for one of them; and the seconds for which it is left alone.
CREATE FUNCTION parvacuum_test_fail(role oid, first int, last int, times int DEFAULT 1, ago int DEFAULT 0) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION parvacuum_test_failures(role oid, rel int) RETURNS int
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION parvacuum_test_pause(failures int, naptime int, danger bool DEFAULT false) RETURNS float8
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- The controller of the pace, on a machine on which harm is at its target at the rates in
-- "places", one for each part; see pvt_pace.c.
CREATE FUNCTION parvacuum_test_pace(floor float8, fastest float8, places float8[], noise float8, seconds int DEFAULT 30, seed int DEFAULT 1,
	run float8 DEFAULT 400000, stretch float8 DEFAULT 2, replay float8 DEFAULT 0,
	OUT second int, OUT part int, OUT rate float8, OUT harm float8, OUT limited_by int, OUT measured bool, OUT lag float8)
RETURNS SETOF record STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Wait for so many microseconds as if for a page that is read.
CREATE FUNCTION parvacuum_test_wait(usecs int)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';
