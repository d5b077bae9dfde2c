/*-------------------------------------------------------------------------
 *
 * barrier.pml
 *	  A model of the processes of one vacuum, and of what keeps its phases
 *	  apart.  scripts/models has spin explore every order of events in it.
 *
 * The model follows src/engine/pool.c, phases.c, dispense.c,
 * index_vacuum.c and src/base/use_count.h.  One step of the model is what is
 * one step in the code: an atomic instruction, or what a spinlock covers.  A
 * loop around a compare-and-exchange is one step where its attempts that fail
 * have no effect.
 *
 * There are a leader and two workers.  Each worker may be refused, or start
 * at any time, or fail to start.  It may fail in its work.  The leader may be
 * canceled wherever it serves interrupts.  The table has a few blocks, each
 * with one dead item.  Each item has an entry in two indexes.  One index is
 * for one process.  The other is a B-tree of some ranges, which all share.
 * The store may be full once, and then there are two index scans.
 *
 * Asserted:
 *	 - a block is scanned exactly once, and an item is set unused exactly once
 *	 - an item is set unused only when no index has an entry of it
 *	 - a participant works only while the phase that it works in is in progress
 *	 - the leader is alone between two phases, and after the last one
 *	 - only one process finishes a B-tree, with no other process in it
 *	 - no process waits forever (spin: no invalid end state)
 *
 * Left out: index cleanup, which goes like INDEX; the order of memory accesses
 * within one step, which locks and atomics take care of.
 *
 * Macros: BLOCKS, INDEXES, RANGES (of the B-tree), ROUNDS (index scans), FAULTS
 * (cancels, errors of workers), FAILSAFES, and BUG for the planted bugs:
 *	1	a use count is decremented and closed in two steps
 *	2	a late worker reads the phase number, and then attaches
 *	3	the leader publishes the phase after it has arrived
 *	4	a range is claimed by reading and writing the counter
 *	5	a worker that fails does not report it
 *	6	VACUUM HEAP follows an INDEX that the failsafe has stopped
 *	7	the leader goes on when no worker is busy, before it waits for all
 *	8	a worker that is stopped by a full store loses its range
 *
 *-------------------------------------------------------------------------
 */
#ifndef BLOCKS
#define BLOCKS 2
#endif
#ifndef RANGES
#define RANGES 2
#endif
#ifndef INDEXES
#define INDEXES 2				/* 1: only the B-tree */
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef FAILSAFES
#define FAILSAFES 0
#endif
#ifndef BUG
#define BUG 0
#endif

#define PROCESSES 3				/* 0 is the leader */
#define LEADER 0
#define BIT(n) (1 << (n))
#define ALL_BLOCKS (BIT(BLOCKS) - 1)
#define NONE 15
#define CLOSED 7				/* PV_USE_COUNT_CLOSED */

mtype = { IDLE, SCAN, INDEX, VACUUM_HEAP, DONE };	/* PvPhase */
mtype = { REFUSED, LAUNCHED, STARTED, GONE };		/* a worker */

/* PvShared */
mtype phase = IDLE;
byte nbusy;						/* workers in the middle of a phase */
byte nstopped;
bool failsafe;
bool leader_gave_up;
byte scan_next;					/* PvDispenseShared: scan, vacuum_heap */
byte heap_next;

/* PvIndexUnit: that for one process, and the B-tree */
bool single_begun, single_done;
bool btree_begun, btree_done;
byte range_next;
byte use_count = CLOSED;

/* Core: Barrier; ConditionVariable, a list of processes; latches */
byte barrier_phase;
byte barrier_arrived;
byte barrier_participants = 1;	/* pv_pool_create() */
byte barrier_list;
byte idle_list;
bool latch[PROCESSES];

/* Core: workers, as the leader knows them */
mtype state[PROCESSES] = REFUSED;
bool has_started[PROCESSES];	/* attached to the error queue */
bool sigterm[PROCESSES];
bool message;					/* a worker's error, on its way to the leader */
byte faults = FAULTS;
byte failsafes = FAILSAFES;

/* The table: bits of blocks.  Ghosts, which the code does not have */
byte scanned;
byte store;
byte vacuumed;
byte in_single = (INDEXES - 1) * ALL_BLOCKS;	/* entries */
byte in_range[RANGES] = ALL_BLOCKS;
byte working;					/* bits of processes in the middle of a phase */
byte in_btree;					/* bits of processes in the B-tree */
byte round;

#define ENTRIES (in_single | in_range[0] | in_range[RANGES - 1])

/*
 * CHECK_FOR_INTERRUPTS.  A process that serves an interrupt leaves by an
 * error.  A cancel may come at any moment.
 */
inline check_interrupts()
{
#if FAULTS
	if
	:: me == LEADER && message -> goto failed
	:: atomic { me == LEADER && faults > 0 -> faults--; goto failed }
	:: me != LEADER && sigterm[me] -> goto failed
	:: !(me == LEADER && message) && !(me != LEADER && sigterm[me])
	fi
#else
	skip
#endif
}

/* A place in a worker where the work may fail */
inline may_fail()
{
	if
	:: atomic { me != LEADER && faults > 0 -> faults--; goto failed }
	:: true
	fi
}

/* ConditionVariableBroadcast */
inline broadcast(list)
{
	atomic {
		if :: list & BIT(0) -> latch[0] = true :: else fi;
		if :: list & BIT(1) -> latch[1] = true :: else fi;
		if :: list & BIT(2) -> latch[2] = true :: else fi;
		list = 0
	}
}

/*
 * ConditionVariableSleep, after ConditionVariablePrepareToSleep: returns when
 * a broadcast has removed this process from the list.  A timeout is left out:
 * nobody may depend on it.
 */
inline sleep(list)
{
	do
	:: atomic {
			latch[me] -> latch[me] = false;
			woken = !(list & BIT(me));
			list = list | BIT(me)
		};
		check_interrupts();
		if :: woken -> break :: else fi
	:: atomic { me == LEADER && faults > 0 -> faults--; goto failed }
	od;
	woken = false
}

/*
 * wait_for_all(), with BarrierArriveAndWait in it
 */
inline wait_for_all()
{
	check_interrupts();
	atomic {
		start = barrier_phase;
		barrier_arrived++;
		if
		:: barrier_arrived == barrier_participants ->
			barrier_arrived = 0;
			barrier_phase++;
			release = true
		:: else
		fi
	};
	if
	:: release -> broadcast(barrier_list)
	:: else ->
		barrier_list = barrier_list | BIT(me);
		do
		:: atomic {
				assert(barrier_phase == start || barrier_phase == start + 1);
				if
				:: barrier_phase != start -> break
				:: else
				fi
			};
			sleep(barrier_list)
		od;
		barrier_list = barrier_list & ~BIT(me)
	fi;
	start = 0;
	release = false
}

/*
 * pv_dispense_claim() of one unit: got, or NONE
 */
inline claim(next, end)
{
#if BUG == 4
	got = next;
	if
	:: got >= end -> got = NONE
	:: else -> next = got + 1
	fi
#else
	atomic {
		if
		:: next >= end -> got = NONE
		:: else -> got = next; next++
		fi
	}
#endif
}

/* This participant may only work in the phase that it has begun with. */
inline assert_in_phase(what)
{
	assert(phase == what && barrier_phase == began_in && barrier_phase % 2)
}

/*
 * pv_scan_heap(), must_stop(): a participant that is stopped by a full
 * store keeps its block for the next call.
 */
inline scan_heap()
{
	do
	:: check_interrupts();
		may_fail();
		if
		:: mine == NONE -> claim(scan_next, BLOCKS); atomic { mine = got; got = 0 }
		:: else
		fi;
		if
		:: mine == NONE -> break
		:: mine != NONE && store && round + 1 < ROUNDS ->	/* no room */
			atomic {
				nstopped++;
#if BUG == 8
				if :: me != LEADER -> mine = NONE :: else fi;
#endif
				break
			}
		:: mine != NONE ->
			atomic {
				assert_in_phase(SCAN);
				assert(!(scanned & BIT(mine)));
				scanned = scanned | BIT(mine);
				/* collect_dead_items() */
				if
				:: !failsafe -> store = store | BIT(mine)
				:: else
				fi;
				mine = NONE
			}
		fi
	od
}

/* pv_check_failsafe(): the table's age may have become dangerous */
inline check_failsafe()
{
	if
	:: atomic { failsafes > 0 -> failsafes--; failsafe = true }
	:: true
	fi
}

/* pv_use_count_leave(); last: this process has closed it */
inline leave_btree()
{
	atomic {
		in_btree = in_btree & ~BIT(me);
#if BUG == 1
		use_count--;
		last = use_count == 0
	};
	if
	:: last -> use_count = CLOSED
	:: else
	fi
#else
		last = use_count == 1;
		use_count = (last -> CLOSED : use_count - 1)
	}
#endif
}

/* pv_nbtree_work(); engine/nbtree.c has more to it, see btree_ranges.pml */
inline work_on_btree()
{
	atomic {					/* pv_use_count_enter() */
		entered = use_count != CLOSED;
		if
		:: entered -> use_count++; in_btree = in_btree | BIT(me)
		:: else
		fi
	};
	if
	:: entered ->
		do
		:: failsafe -> break
		:: !failsafe ->
			claim(range_next, RANGES);
			if
			:: got == NONE -> break
			:: else ->
				check_interrupts();
				may_fail();
				atomic {
					assert_in_phase(INDEX);
					in_range[got] = in_range[got] & ~store;
					got = 0
				};
				check_failsafe()
			fi
		od;
		got = 0;
		leave_btree();
		if
		:: last && !failsafe ->
			assert(!in_btree);		/* pv_btree_finish() begins ... */
			may_fail();
			atomic {				/* ... and ends */
				assert_in_phase(INDEX);
				assert(!in_btree && !btree_done);
				btree_done = true
			}
		:: else
		fi;
		last = false;
		entered = false
	:: else
	fi
}

/*
 * pv_index_work(), next_unit(), pv_order_next(): first the index for one
 * process, then the B-tree, which others may have begun.
 */
inline index_work()
{
	do
	:: check_interrupts();
		/* next_unit() */
		if
		:: atomic { !single_begun -> got = 1 }
		:: else ->
			if
			:: atomic { !btree_begun -> got = 2 }
			:: else ->
				if				/* pv_nbtree_pages_left() */
				:: failsafe || use_count == CLOSED -> break
				:: else ->
					if
					:: range_next < RANGES -> got = 3
					:: else -> break
					fi
				fi
			fi
		fi;
		check_failsafe();
		if :: failsafe -> break :: else fi;
		if
		:: got == 1 ->
			atomic {
				got = single_begun;
				single_begun = true
			};
			if
			:: !got ->			/* pv_index_process() */
				may_fail();
				atomic {
					assert_in_phase(INDEX);
					in_single = in_single & ~store;
					assert(!single_done);
					single_done = true
				}
			:: else				/* another process was faster */
			fi
		:: got == 2 ->
			atomic {
				got = btree_begun;
				btree_begun = true
			};
			if
			:: !got -> work_on_btree()
			:: else
			fi
		:: got == 3 -> got = 0; work_on_btree()
		fi;
		got = 0
	od;
	got = 0
}

/* pv_vacuum_heap() */
inline vacuum_heap()
{
	do
	:: check_interrupts();
		may_fail();
		claim(heap_next, BLOCKS);
		if
		:: got == NONE -> break
		:: else ->
			atomic {
				assert_in_phase(VACUUM_HEAP);
				if
				:: store & BIT(got) ->
					assert(!(vacuumed & BIT(got)));
					assert(!(ENTRIES & BIT(got)));
					vacuumed = vacuumed | BIT(got)
				:: else
				fi;
				got = 0
			}
		fi
	od;
	got = 0
}

/* For the assertions: this process begins to work, and has worked. */
inline begin_work()
{
	working = working | BIT(me);
	began_in = barrier_phase
}

inline end_work()
{
	working = working & ~BIT(me);
	began_in = 0
}

/* pv_participate() */
inline participate()
{
	if
	:: atomic { phase == SCAN -> begin_work() };
		scan_heap()
	:: atomic { phase == INDEX -> begin_work() };
		index_work()
	:: atomic { phase == VACUUM_HEAP -> begin_work() };
		vacuum_heap()
	:: atomic { phase == IDLE || phase == DONE -> assert(false) }
					/* "unexpected vacuum phase" */
	fi
}

/*
 * parvacuum_worker_main(), work_in_pool(), pv_pool_work_until_done().
 */
proctype worker(byte me)
{
	byte start, got, began_in;
	byte mine = NONE;
	bool release, woken, last, entered;

	/* The postmaster starts it, sometime */
	if
	:: atomic { sigterm[me] -> state[me] = GONE; goto ended }
	:: atomic { faults > 0 -> faults--; state[me] = GONE; goto ended }
	:: atomic { state[me] = STARTED; has_started[me] = true }
	fi;
	may_fail();					/* pv_pool_attach(), opening of relations */
	check_interrupts();

#if BUG == 2
	start = barrier_phase;
	barrier_participants++;
#else
	atomic {					/* BarrierAttach */
		barrier_participants++;
		start = barrier_phase
	};
#endif
	if
	:: start % 2 -> start = 0
	:: else -> start = 0; wait_for_all()
	fi;

	do
	:: phase == DONE -> break
	:: else ->
		nbusy++;
		participate();
		atomic {
			end_work();
			nbusy--;
			last = nbusy == 0
		};
		if
		:: last -> last = false; broadcast(idle_list)
		:: else
		fi;
		wait_for_all();			/* the phase ends */
		wait_for_all()			/* another begins */
	od;

	atomic {					/* BarrierDetach */
		barrier_participants--;
		if
		:: barrier_participants > 0 && barrier_arrived == barrier_participants ->
			barrier_arrived = 0;
			barrier_phase++;
			release = true
		:: else
		fi
	};
	if
	:: release -> broadcast(barrier_list)
	:: else
	fi;
	check_interrupts();			/* pv_process_work() */
	atomic { state[me] = GONE; goto ended };

	/*
	 * An error: pv_process_work().  The worker leaves the lists of condition
	 * variables, but not the barrier.  Only an error of its own is reported.
	 */
failed:
	atomic {
		barrier_list = barrier_list & ~BIT(me);
		working = working & ~BIT(me);
		in_btree = in_btree & ~BIT(me);
		if
		:: sigterm[me] -> assert(leader_gave_up)
		:: else ->
#if BUG != 5
			message = true;
			latch[LEADER] = true
#endif
		fi
	};
	state[me] = GONE;
ended:
	skip
}

#define RUNS(w) (state[w] == LAUNCHED || state[w] == STARTED)

/* launch(): each worker is granted or refused */
inline launch()
{
	atomic {
		launched = true;
		if
		:: true
		:: state[1] = LAUNCHED;
			run worker(1);
			if				/* the two are alike, so this one is second */
			:: true
			:: state[2] = LAUNCHED; run worker(2)
			fi
		fi
	}
}

/* pv_pool_check_attached(), WaitForParallelWorkersToAttach */
inline check_attached()
{
	if
	:: !attach_checked ->
		attach_checked = true;
		do
		:: state[1] != LAUNCHED && state[2] != LAUNCHED -> break
		:: atomic { faults > 0 -> faults--; goto failed }
		:: message -> goto failed
		od;
		if
		:: (state[1] == GONE && !has_started[1]) ||
			(state[2] == GONE && !has_started[2]) -> goto failed
		:: else
		fi
	:: else
	fi
}

/* tick_while_workers_work() */
inline tick_while_workers_work()
{
	idle_list = idle_list | BIT(LEADER);
	do
	:: nbusy == 0 -> break
	:: else -> sleep(idle_list)
	od;
	idle_list = idle_list & ~BIT(LEADER)
}

inline assert_alone()
{
	assert((working & ~BIT(LEADER)) == 0)
}

/* pv_pool_run_phase(); next is the phase */
inline run_phase()
{
#if BUG != 3
	phase = next;
#endif
	if
	:: !launched -> launch()
	:: else
	fi;
	wait_for_all();
#if BUG == 3
	phase = next;
#endif
	participate();
	atomic { end_work() };
	check_attached();
	tick_while_workers_work();
#if BUG != 7
	wait_for_all();
#endif
	atomic {
		assert_alone();
		phase = IDLE
	}
#if BUG == 7
	;
	wait_for_all()
#endif
}

/*
 * The leader: vacuum_together(), scan_heap(), vacuum_dead_items(),
 * vacuum_heap(), pv_index_prepare(), pv_pool_end().  What it writes between
 * phases nobody reads then, so that is one step.
 */
active proctype leader()
{
	byte me = LEADER;
	byte start, got, began_in;
	byte mine = NONE;
	bool release, woken, last, entered;
	bool launched, attach_checked;
	mtype next = SCAN;

	do
	:: run_phase();
		atomic {
			assert_alone();
			if
			:: next == SCAN ->
				single_begun = INDEXES == 1;
				single_done = INDEXES == 1;
				btree_begun = false;
				btree_done = false;
				range_next = 0;
				use_count = 0;
				if
				:: store && !failsafe -> next = INDEX
				:: else -> next = DONE
				fi
			:: next == INDEX ->
				/* pv_index_all_done(), or "not every index was vacuumed" */
				assert(failsafe || (single_done && btree_done));
				heap_next = 0;
				if
#if BUG == 6
				:: true -> next = VACUUM_HEAP
#else
				:: !failsafe -> next = VACUUM_HEAP
				:: else -> next = DONE
#endif
				fi
			:: next == VACUUM_HEAP ->
				/* or "second heap pass freed %lld of %lld dead items" */
				assert((store & ~vacuumed) == 0);
				next = DONE
			fi;
			if
			:: next == DONE && nstopped > 0 ->	/* another index scan */
				nstopped = 0;
				store = 0;		/* pv_deadtids_reset() */
				round++;
				next = SCAN
			:: next == DONE && nstopped == 0 -> break
			:: else
			fi
		}
	od;
	assert(scanned == ALL_BLOCKS);
	assert(failsafe || (vacuumed == ALL_BLOCKS));

	phase = DONE;				/* pv_pool_end() */
	wait_for_all();
	do							/* WaitForParallelWorkersToFinish */
	:: message -> goto failed
	:: atomic { faults > 0 -> faults--; goto failed }
	:: !message && !RUNS(1) && !RUNS(2) -> break
	od;
	if
	:: (state[1] == GONE && !has_started[1]) ||
		(state[2] == GONE && !has_started[2]) -> goto failed
	:: else
	fi;
	assert(!working);
	goto ended;

	/*
	 * An error or a cancel: pv_process_give_up(), then core's
	 * DestroyParallelContext, which waits without serving interrupts.
	 */
failed:
	atomic {
		working = working & ~BIT(me);
		in_btree = in_btree & ~BIT(me)
	};
	leader_gave_up = true;
	atomic { sigterm[1] = true; latch[1] = true };
	atomic { sigterm[2] = true; latch[2] = true };
	!RUNS(1) && !RUNS(2);
	assert(!working);
ended:
	skip
}
