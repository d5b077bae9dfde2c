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
									   OUT items bigint, OUT segments bigint,
									   OUT memory bigint, OUT max_memory bigint,
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

-- The memory that the store of a table of so many blocks will have when so many segments of
-- so many bytes are stored within a limit, and how often it will be full.
CREATE FUNCTION parvacuum_test_forecast_store(nblocks bigint, local bool, bytes_limit bigint, segments float8, bytes float8,
    OUT memory bigint, OUT fillings float8)
STRICT LANGUAGE C
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

-- One block in a given number has a given number of dead items, the last one at an
-- offset or anywhere up to it.  Returns the numbers of blocks that are too many for a
-- bypass, by the memory of core's own store and by our rule.  Before 17, core counts
-- items.
CREATE FUNCTION parvacuum_test_bypass(every int, ndead int, last int, jitter boolean, work_mem_mb int,
									  OUT core bigint, OUT ours bigint)
STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The forecast of a vacuum.  Each argument has pairs "name=value"; names are those of the
-- structs, and what is not given is 0.  Indexes are separated by semicolons.  "past" is an
-- earlier vacuum.
CREATE FUNCTION parvacuum_test_forecast(input text, indexes text DEFAULT '', past text DEFAULT NULL,
										OUT index_scans int, OUT bypassed bool, OUT wal_records float8, OUT wal_fpi float8,
										OUT wal_bytes float8, OUT scan_ms float8, OUT index_ms float8, OUT vacuum_ms float8,
										OUT other_ms float8, OUT elapsed_ms float8)
AS 'MODULE_PATHNAME', 'parvacuum_test_forecast' LANGUAGE C IMMUTABLE;

-- Why the vacuum would be useless, or null
CREATE FUNCTION parvacuum_test_forecast_use(input text, recently_dead float8, advances_relfrozenxid boolean) RETURNS text
AS 'MODULE_PATHNAME', 'parvacuum_test_forecast_use' LANGUAGE C IMMUTABLE;

-- From a sample to all pages: the numbers of dead rows on the sampled pages, the most rows
-- that a page can have, and what the statistics say about all dead rows, or -1.  Returns
-- whether that is plausible, all dead rows, and all pages with dead rows.
CREATE FUNCTION parvacuum_test_extrapolate(pages float8, sampled float8[], room float8, count float8,
										   OUT plausible bool, OUT rows float8, OUT with_rows float8)
AS 'MODULE_PATHNAME', 'parvacuum_test_extrapolate' LANGUAGE C IMMUTABLE;

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

-- The rank of a database; ages as shares of the one to act at, overdue in
-- microseconds, negative if it is not.
CREATE FUNCTION parvacuum_test_rank(
	age float8 DEFAULT 0, top_score float8 DEFAULT 0, nqueued int DEFAULT 0,
	nworkers int DEFAULT 0, overdue bigint DEFAULT -1, scan_pending boolean DEFAULT false,
	top_danger boolean DEFAULT false)
RETURNS float8 IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Does a database take the only worker of another?  The naptime is in microseconds, too.
CREATE FUNCTION parvacuum_test_displaces(
	other_top_score float8, other_age float8 DEFAULT 0, top_score float8 DEFAULT 0, age float8 DEFAULT 0,
	overdue bigint DEFAULT -1, scan_pending boolean DEFAULT false,
	other_nworkers int DEFAULT 1, stayed bigint DEFAULT 30000000, naptime bigint DEFAULT 60000000,
	top_danger boolean DEFAULT false)
RETURNS boolean IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_gives_rather(
	a_nworkers int, a_age float8, a_top_score float8, b_nworkers int, b_age float8, b_top_score float8)
RETURNS boolean IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- A table's own limits, and those of the server.
CREATE FUNCTION parvacuum_test_danger(
	xid_age bigint DEFAULT 0, mxid_age bigint DEFAULT 0,
	own_freeze_max_age bigint DEFAULT 200000000, own_multixact_freeze_max_age bigint DEFAULT 400000000,
	freeze_max_age bigint DEFAULT 200000000, multixact_freeze_max_age bigint DEFAULT 400000000,
	OUT wraparound boolean, OUT danger boolean)
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

-- Since when a table counts as waiting, and which score would bring it there at that time;
-- times are in minutes.
CREATE FUNCTION parvacuum_test_turn(
	score float8 DEFAULT 0, priority float8 DEFAULT 0, since float8 DEFAULT 0,
	danger boolean DEFAULT false, age float8 DEFAULT 1.1, not_removable boolean DEFAULT false,
	now float8 DEFAULT 0, OUT in_danger boolean, OUT turn float8, OUT urgency float8)
IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_goes_first(
	score float8 DEFAULT 0, priority float8 DEFAULT 0, since float8 DEFAULT 0,
	danger boolean DEFAULT false, age float8 DEFAULT 1.1, not_removable boolean DEFAULT false,
	other_score float8 DEFAULT 0, other_priority float8 DEFAULT 0, other_since float8 DEFAULT 0,
	other_danger boolean DEFAULT false, other_age float8 DEFAULT 1.1, other_not_removable boolean DEFAULT false)
RETURNS int IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Of the entries of all queues: the share of a database, if that many have some; of these, what roles
-- can ask for; what one role can ask for.
CREATE FUNCTION parvacuum_test_shares(places int, databases int, OUT database int, OUT requests int, OUT role int)
IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- In seconds.
CREATE FUNCTION parvacuum_test_longest(pages float8, rate int8, workers int, seconds int DEFAULT 600,
	OUT at_table float8, OUT in_cleanup float8, OUT in_analyze float8)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION parvacuum_test_count_large(workers int, places int, max_large int) RETURNS int
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION parvacuum_test_workers(workers int, large int, OUT max_large int, OUT allowed int, OUT at_most int)
IMMUTABLE STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_rest(used bigint)
RETURNS bigint IMMUTABLE STRICT LANGUAGE C
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
-- Workers are known by their slots; a worker that is hired has to attach.
CREATE FUNCTION parvacuum_test_queue(tables int DEFAULT 2147483647)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_queue_wait(seconds int)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_hire(database oid, to_scan boolean DEFAULT true,
									takes_queue boolean DEFAULT false)
RETURNS int STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_attach(worker int)
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_dismiss(worker int)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_launcher()
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_exit(worker int)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_begin_scan(worker int)
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- True if there was no room for it.
CREATE FUNCTION parvacuum_test_offer(worker int, rel oid, score float8,
									 pages bigint DEFAULT 1, reason text DEFAULT 'none',
									 horizon int DEFAULT 0, "analyze" boolean DEFAULT false,
									 wraparound boolean DEFAULT false, mxid float8 DEFAULT 0,
									 danger boolean DEFAULT false, done boolean DEFAULT false,
									 dead float8 DEFAULT 0, sweep boolean DEFAULT false,
									 inserted float8 DEFAULT 0, index_work boolean DEFAULT false)
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_end_scan(worker int, complete boolean DEFAULT true,
										used float8 DEFAULT 0, nothing boolean DEFAULT false)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_pop(worker int, max_large int DEFAULT 1)
RETURNS oid STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_put_back(worker int, score float8, pages bigint DEFAULT 1,
										wraparound boolean DEFAULT false)
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_finish(worker int, reason text DEFAULT 'none',
									  horizon int DEFAULT 0, vacuumed boolean DEFAULT true,
									  analyzed boolean DEFAULT false)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_should_leave(worker int)
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_claim_update(worker int)
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_enqueue(database oid, rel oid, priority float8,
									   pages bigint DEFAULT 1, role oid DEFAULT 10,
									   limited boolean DEFAULT false)
RETURNS text STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_withdraw(database oid, rel oid,
										wraparound_too boolean DEFAULT true)
RETURNS text STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_cancel(pid int)
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_is_canceled()
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_request_scan(database oid)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_call_back(database oid)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The small table that a worker of the database has been at for so many seconds.
CREATE FUNCTION parvacuum_test_leave_place(worker int) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FUNCTION parvacuum_test_drop_database(database oid)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_items(OUT database oid, OUT rel oid, OUT state text,
									 OUT reason text, OUT score float8,
									 OUT priority float8, OUT pid int, OUT since bigint,
									 OUT only_analyze boolean,
									 OUT vacuum boolean, OUT "analyze" boolean)
RETURNS SETOF record STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_summaries(max_large int DEFAULT 1, OUT database oid,
										 OUT top_score float8, OUT queued int,
										 OUT workers int, OUT movable int, OUT expected int,
										 OUT scan_pending boolean,
										 OUT all_workers int, OUT large int)
RETURNS SETOF record STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The number of seconds without a database scan.
CREATE FUNCTION parvacuum_test_rests(OUT database oid, OUT seconds bigint)
RETURNS SETOF record STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Random steps, with everything checked after each; returns the number of those that
-- concerned a table.
CREATE FUNCTION parvacuum_test_queue_fuzz(steps int, seed bigint, tables int)
RETURNS int STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Simulates a server with these numbers of databases and workers for some hours: the number of
-- tables begun; the longest time that one waited until then, in seconds, among those in danger of
-- wraparound, and among the others in databases without and with hot tables; and how often one was
-- begun before another that should have been begun first.
CREATE FUNCTION parvacuum_test_simulate(databases int, hot_databases int, workers int, hours int,
										places int DEFAULT 32768, OUT begun bigint, OUT danger int, OUT quiet int,
										OUT beside_hot int, OUT never int, OUT out_of_order int)
STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Leaves an empty page of a B-tree as a cancelled deletion leaves it.  Always fails.
CREATE FUNCTION parvacuum_test_leave_half_dead(index regclass, block bigint)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- Heap with a vacuum of its own, which reports its parameters.
CREATE FUNCTION parvacuum_test_tableam(internal)
RETURNS table_am_handler STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The table of runs: begins with none, and that number allowed.
CREATE FUNCTION parvacuum_test_runs(max_runs int)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- A caller takes a place: the token, 0 if all places are taken, -1 if the role has its share.
CREATE FUNCTION parvacuum_test_run_enter(pid int, database oid, role oid,
										 is_superuser boolean, rel oid)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_run_leave(pid int, token bigint)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_run_attach(pid int, token bigint)
RETURNS boolean STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- A background leader begins with a table; 0: it has ended with it.
CREATE FUNCTION parvacuum_test_run_at(pid int, rel oid, toast_parent oid DEFAULT 0)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_run_exit(pid int)
RETURNS void STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_runs_find(database oid, rel oid)
RETURNS text STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

CREATE FUNCTION parvacuum_test_runs_process(pid int)
RETURNS bigint STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The PID that was signalled; null: none.
CREATE FUNCTION parvacuum_test_run_cancel(token bigint, database oid, rel oid)
RETURNS int STRICT LANGUAGE C
AS 'MODULE_PATHNAME';

-- The launcher's plan.  Times are in seconds before the snapshot; negative ones are after it.
CREATE TYPE parvacuum_test_database AS (database int, counted bool, age float8, overdue float8, stayed float8, may_since float8, failed bool);
CREATE TYPE parvacuum_test_summary AS (database int, top_score float8, top_danger bool, queued int, workers int, leaving int, movable int, free int,
	expected int, scan_pending bool);

CREATE FUNCTION parvacuum_test_database(database int, overdue float8 DEFAULT -30, age float8 DEFAULT 0.1, stayed float8 DEFAULT 100,
	may_since float8 DEFAULT 100, failed bool DEFAULT false, counted bool DEFAULT true)
RETURNS parvacuum_test_database LANGUAGE sql IMMUTABLE
RETURN ROW(database, counted, age, overdue, stayed, may_since, failed)::parvacuum_test_database;

CREATE FUNCTION parvacuum_test_summary(database int, top_score float8 DEFAULT 0, workers int DEFAULT 0, queued int DEFAULT NULL, movable int DEFAULT NULL,
	top_danger bool DEFAULT false, leaving int DEFAULT 0, free int DEFAULT NULL, expected int DEFAULT 0, scan_pending bool DEFAULT false)
RETURNS parvacuum_test_summary LANGUAGE sql IMMUTABLE
RETURN ROW(database, top_score, top_danger, coalesce(queued, (top_score > 0)::int), workers, leaving, coalesce(movable, workers),
	coalesce(free, workers), expected, scan_pending)::parvacuum_test_summary;

CREATE FUNCTION parvacuum_test_plan(databases parvacuum_test_database[], queues parvacuum_test_summary[] DEFAULT '{}', workers int DEFAULT 3,
	naptime int DEFAULT 60, large int DEFAULT 0, queues_full bool DEFAULT false, no_process bool DEFAULT false, OUT actions text[], OUT satisfied bool)
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
-- The forecast of the end of a vacuum.  Nulls are zeros.  Phases: 1 is the first heap pass,
-- 2 the index scan, 3 the second heap pass, 4 the index cleanup.
CREATE TYPE parvacuum_test_vacuum AS (
    phase float8, blocks float8, passed float8, to_read float8, read float8, dead_pages float8, dead_share float8, page_rows float8,
    missed_share float8, store_share float8, store_before float8, may_bypass float8, index_scans float8, index_pages float8,
    index_tuples float8, correlation float8, index_slowdown float8, index_done float8, vacuumed float8, vacuum_total float8, vacuum_done float8,
    scan_s float8, scan_work float8, scan_cost float8, index_s float8, index_work float8, index_cost float8,
    heap_s float8, heap_work float8, heap_cost float8, slept_share float8, past_scan_s float8, past_index_s float8, past_heap_s float8);

CREATE FUNCTION parvacuum_test_eta(vacuum parvacuum_test_vacuum, OUT phase_s float8, OUT all_s float8, OUT index_scans int)
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
