/*-------------------------------------------------------------------------
 *
 * btree_ranges.pml
 *	  A model of the participants that vacuum one B-tree together, with page
 *	  splits at any moment.  scripts/models has spin explore every order of
 *	  events in it.
 *
 * The model follows src/engine/nbtree.c, nbtree_page.c, nbtree_bitmap.c,
 * nbtree_delete.c, dispense.c and src/base/use_count.h, and of core
 * access/nbtree/nbtinsert.c, _bt_split.  One step of the model is one atomic
 * instruction, or what happens under one lock of a page.
 *
 * There are three participants and one or two inserters that split leaf
 * pages.  The index has a few leaf pages in a chain, and pages that are free.
 * A split takes a free page or adds one to the index.  It moves what it likes
 * to the right half.
 *
 * An index tuple escapes or it does not; others do not matter for that.  So
 * the model has one index tuple whose heap item is dead.  It is on any leaf
 * page when the vacuum begins.  Other tuples come and go, so any page without
 * that tuple may be found empty at any time.
 *
 * The participants are alike.  So they are numbered in the order in which they
 * enter the index first.
 *
 * Asserted:
 *	 - the tuple is gone when the index is done, before any heap item is set
 *	   unused
 *	 - each page of the index is visited by at least one process; no page is
 *	   claimed by two
 *	 - the index is finished once, by one process, with no other in it
 *	 - no page is deleted that has the tuple or is visited by another process
 *	 - no process waits forever (spin: no invalid end state)
 *
 * Left out: levels above the leaves; pins, because a page is pinned only by
 * the process that it belongs to.
 *
 * Macros: LEAVES and FREE (pages at the beginning; with GROWTH at most 7),
 * REVERSED (the chain runs against the order of blocks), GROWTH (pages that may
 * be added), INSERTERS, SPLITS (of all of them), PARTICIPANTS (2 or 3), RANGE
 * (pages), NBITS (of a bitmap), DELETION (pages are deleted), FAULTS (errors and
 * cancels), FAILSAFES, and BUG for the planted bugs:
 *	1	the right sibling is not noted if it lies in a later range
 *	2	whether the right sibling was claimed is read before the left page is locked
 *	3	the right sibling is not noted if it lies earlier in the same range
 *	4	a use count is decremented and closed in two steps
 *	5	pages that are added to the index are not visited
 *	6	a revisit does not go on to the right
 *	7	a revisit of pages noted ends before pages that were added last
 *	8	the cycle id is registered after participants have begun
 *	9	empty pages are deleted before the revisits
 *	10	a page is noted after its participant has left the index
 *	11	stamp and right sibling are read before the lock becomes a cleanup lock
 *	12	the heap is vacuumed after a participant has failed
 *
 *-------------------------------------------------------------------------
 */
#ifndef LEAVES
#define LEAVES 2
#endif
#ifndef FREE
#define FREE 1
#endif
#ifndef REVERSED
#define REVERSED 0
#endif
#ifndef GROWTH
#define GROWTH 1
#endif
#ifndef INSERTERS
#define INSERTERS 1
#endif
#ifndef SPLITS
#define SPLITS 2
#endif
#ifndef RANGE
#define RANGE 1
#endif
#ifndef DELETION
#define DELETION 0
#endif
#ifndef FAULTS
#define FAULTS 0
#endif
#ifndef FAILSAFES
#define FAILSAFES 0
#endif
#ifndef BUG
#define BUG 0
#endif

#ifndef PARTICIPANTS
#define PARTICIPANTS 3
#endif
#define INITIAL (LEAVES + FREE)		/* blocks 1 .. INITIAL */
#define MAX_PAGES (INITIAL + GROWTH)
#ifndef NBITS
#define NBITS (MAX_PAGES + 1)
#endif
#define P_NONE 0
#define CLOSED 7					/* PV_USE_COUNT_CLOSED */
#define BIT(n) (1 << (n))

/* The index.  Bits stand for blocks. */
byte length = INITIAL;
byte right[MAX_PAGES + 1];			/* btpo_next */
byte stamped;						/* has the cycle id of this vacuum */
byte split_end;						/* BTP_SPLIT_END */
byte free;							/* deleted long ago, in the free space map */
byte deleted;						/* by this vacuum */
byte locked;						/* by an inserter */
byte tuple;							/* the block of the tuple; P_NONE: removed */
bool registered;					/* the cycle id */

/* PvBtreeShared, and the bitmaps */
byte next = 1;						/* PvDispenseShared */
byte end;
byte use_count = CLOSED;
byte revisit;
byte empties;

/* PvShared */
bool failsafe;
bool failed;						/* the leader has got an error */
bool done;							/* PvIndexUnit.done */

byte splits = SPLITS;
byte faults = FAULTS;
byte failsafes = FAILSAFES;

/* Ghosts */
byte inside;						/* bits of participants in the index */
byte visited;						/* bits of blocks */
byte entered = 1;					/* the participant that may enter first */
byte ended;							/* participants */

inline note(bitmap, blkno)			/* pv_btree_note_page() */
{
	bitmap = bitmap | BIT((blkno) % NBITS)
}

/*
 * An error or a cancel.  The participant stops where it is; its locks are
 * released.
 */
inline may_fail()
{
#if FAULTS
	if
	:: atomic { faults > 0 -> faults--; failed = true; goto stopped }
	:: !failed
	:: failed -> goto stopped		/* the leader ends the workers */
	fi
#else
	skip
#endif
}

inline read_stamp(blkno)
{
	if
	:: (stamped & BIT(blkno)) && !(split_end & BIT(blkno)) ->
		sibling = right[blkno]
	:: else -> sibling = P_NONE
	fi
}

/*
 * pv_btree_vacuum_leaf(), under a cleanup lock: what is on the page, and its
 * stamp, are removed together.  sibling becomes the page to the right that a
 * split may have moved tuples to.
 */
inline vacuum_leaf(blkno)
{
	visited = visited | BIT(blkno);
	assert(!(deleted & BIT(blkno)));
#if BUG != 11
	read_stamp(blkno);
#endif
	if
	:: tuple == blkno -> tuple = P_NONE
	:: else
	fi;
	stamped = stamped & ~BIT(blkno)
}

/*
 * pv_btree_visit_page(): the page is looked at under a share lock, and then,
 * if it is a leaf page, vacuumed under a cleanup lock.  It may be split in
 * between, but remains a leaf page, because only vacuum deletes pages.  So
 * this is one step here.
 */
inline visit_page(blkno)
{
	may_fail();
#if BUG == 11
	atomic {
		!(locked & BIT(blkno)) -> read_stamp(blkno)
	};
#endif
	atomic {
		!(locked & BIT(blkno)) ->
		if
		:: free & BIT(blkno) -> sibling = P_NONE; visited = visited | BIT(blkno)
		:: else ->
			vacuum_leaf(blkno);
#if DELETION
			if						/* visit->empty */
			:: note(empties, blkno)
			:: true
			fi
#endif
		fi
	}
}

/*
 * needs_revisit(), and what follows in visit_in_order().  What is noted is not
 * read before the index is closed.
 */
inline note_sibling(blkno)
{
	if
#if BUG == 1
	:: sibling == P_NONE || sibling > blkno
#elif BUG == 3
	:: sibling == P_NONE || (sibling >= from && sibling < upto)
#else
	:: sibling == P_NONE || (sibling > blkno && sibling < upto)
#endif
	:: else ->
		atomic {
			if
#if BUG == 2
			:: sibling < claimed -> note(revisit, sibling)
#elif BUG == 10
			:: sibling < next -> late = sibling
#else
			:: sibling < next -> note(revisit, sibling)
#endif
			:: else
			fi
		}
	fi;
	sibling = P_NONE
}

/*
 * next_of_ranges(), pv_dispense_claim(): claims a range.  That a participant claims a range ahead of time is
 * like another one claiming it and being slow.
 */
inline claim()
{
	atomic {
		if
		:: failsafe || next >= end -> from = 0; upto = 0
		:: !failsafe && next < end ->
			from = next;
			next = (next + RANGE < end -> next + RANGE : end);
			upto = next
		fi
	}
}

/*
 * scan_ranges(), find_more_pages(), pv_dispense_extend().  The length of the
 * index is read under the extension lock.
 */
inline scan_ranges()
{
	do
	:: claim();
		if
		:: upto == 0 ->
			atomic {
				if
				:: failsafe -> break
				:: else
				fi;
				if
				:: next >= end && length >= end && BUG != 5 -> end = length + 1
				:: else
				fi;
				if
				:: next >= end -> break
				:: else
				fi
			}
		:: else ->
			at = from;
			do
			:: at < upto ->
#if BUG == 2
				claimed = next;
#endif
				visit_page(at);
				note_sibling(at);
				at++
			:: else -> break
			od;
			atomic { at = 0; from = 0; upto = 0 };
			check_failsafe()
		fi
	od
}

/* pv_check_failsafe() */
inline check_failsafe()
{
#if FAILSAFES
	if
	:: atomic { failsafes > 0 -> failsafes--; failsafe = true }
	:: true
	fi
#else
	skip
#endif
}

/* revisit_from() */
inline revisit_from(limit)
{
	do
	:: sibling == P_NONE || sibling >= limit -> break
	:: else ->
		may_fail();
		atomic {					/* one step, as in visit_page() */
			!(locked & BIT(sibling)) ->
			if
			:: (stamped & ~free & ~deleted) & BIT(sibling) ->
				to = sibling;
				vacuum_leaf(to);
				to = 0
			:: else -> sibling = P_NONE
			fi
		};
#if BUG == 6
		sibling = P_NONE
#endif
	od;
	sibling = P_NONE
}

/* visit_leftovers() */
inline visit_leftovers()
{
	at = end;
	do
	:: atomic {						/* pv_btree_length() */
			upto = length;
			if
			:: at > upto -> break
			:: else
			fi
		};
		do
		:: at <= upto ->
			visit_page(at);
			if
			:: sibling < at -> revisit_from(at)
			:: else -> sibling = P_NONE
			fi;
			at++
		:: else -> break
		od
	od;
	at = 0
}

/* revisit_pages(): upto is the length */
inline revisit_pages()
{
	at = 0;
	do
	:: at < NBITS && !(revisit & BIT(at)) -> at++
	:: at < NBITS && (revisit & BIT(at)) ->
		revisit = revisit & ~BIT(at);
		from = at;
		do
		:: from <= upto ->
			sibling = from;
#if BUG == 7
			revisit_from(upto + 1);
#else
			revisit_from(MAX_PAGES + 1);
#endif
			from = from + NBITS
		:: else -> break
		od;
		from = 0
	:: at >= NBITS -> break
	od;
	at = 0
}

/*
 * _bt_pagedel(): the caller has found the page empty.  Its left sibling, the
 * page and its right sibling are locked.  A rightmost page is not deleted.
 * The deletion may go on with the right sibling if that is empty.
 */
inline pagedel()
{
	do
	:: atomic {
			!(locked & BIT(sibling)) ->
			if
			:: right[sibling] == P_NONE || tuple == sibling ||
				((free | deleted) & BIT(sibling)) -> break
			:: else
			fi;
			if
			:: break				/* it has got tuples */
			:: true
			fi
		};
		atomic {
			!(locked & (BIT(sibling) | BIT(right[sibling]))) ->
			/* it is still empty, and this is checked under the lock */
			if
			:: tuple == sibling || right[sibling] == P_NONE -> break
			:: else
			fi;
			assert(inside == BIT(me) || inside == 0);
			to = 1;
			do
			:: to > MAX_PAGES -> break
			:: to <= MAX_PAGES && right[to] == sibling && !((free | deleted) & BIT(to)) ->
				right[to] = right[sibling];
				break
			:: else -> to++
			od;
			to = 0;
			deleted = deleted | BIT(sibling);
			sibling = right[sibling]
		}
	od;
	sibling = P_NONE
}

/* delete_pages(), delete_page() */
inline delete_pages()
{
	at = 0;
	do
	:: at < NBITS && !(empties & BIT(at)) -> at++
	:: at < NBITS && (empties & BIT(at)) ->
		empties = empties & ~BIT(at);
		from = at;
		do
		:: from <= upto && from > 0 ->
			sibling = from;
			may_fail();
			pagedel();
			from = from + NBITS
		:: from == 0 -> from = NBITS
		:: from > upto -> break
		od;
		from = 0
	:: at >= NBITS -> break
	od;
	at = 0
}

/* pv_btree_finish() */
inline finish()
{
	assert(inside == 0 && !done);
#if BUG == 5
	upto = end - 1;
#else
	visit_leftovers();
#endif
#if DELETION && BUG == 9
	delete_pages();
#endif
	revisit_pages();
#if DELETION && BUG != 9
	delete_pages();
#endif
	atomic {
		upto = 0;
		assert(inside == 0 && !done);
		done = true
	}
}

/*
 * pv_index_work() and pv_nbtree_work().  A participant may look at the index
 * at any time of the phase, and again after it has left it.
 */
proctype participant(byte me)
{
	byte from, upto, at, to, sibling;
	bool last;
#if BUG == 2
	byte claimed;
#endif
#if BUG == 10
	byte late;
#endif

	entered >= me;
again:
	atomic {						/* pv_use_count_enter() */
		if
		:: entered == me -> entered++
		:: else
		fi;
		if
		:: use_count == CLOSED || failed -> goto stopped
		:: else -> use_count++; inside = inside | BIT(me)
		fi
	};
	scan_ranges();
	atomic {						/* leave(), pv_use_count_leave() */
		inside = inside & ~BIT(me);
#if BUG == 4
		use_count--;
		last = use_count == 0
	};
	if
	:: last -> use_count = CLOSED
	:: else
	fi;
#else
		last = use_count == 1;
		use_count = (last -> CLOSED : use_count - 1)
	};
#endif
#if BUG == 10
	if
	:: late != 0 -> note(revisit, late); late = 0
	:: else
	fi;
#endif
	if
	:: last && !failsafe -> finish()
	:: else
	fi;
	last = false;
	if								/* pv_nbtree_pages_left() */
	:: use_count != CLOSED && !failsafe && next < end -> goto again
	:: else
	fi;
stopped:
	atomic {
		inside = inside & ~BIT(me);
		from = 0;
		upto = 0;
		at = 0;
		to = 0;
		sibling = 0;
		ended++
	}
}

/*
 * Core: _bt_split().  The page is locked, then a page for the right half is
 * found and locked, then the cycle id is asked for, then the right sibling is
 * locked, and then all of them change.  Others see two steps: the first locks
 * both pages, and may add one to the index; the second changes them, and
 * unlocks them.  There is nothing to be seen of the first if a free page is
 * used, after the cycle id was registered; then both are one step here.
 * Splits after the tuple is gone prove nothing, so there are none.
 */
inline change_pages()
{
	to = right[left];
	right[new] = to;
	right[left] = new;
	split_end = split_end & ~BIT(left) & ~BIT(new);
	if
	:: stamp -> stamped = stamped | BIT(left) | BIT(new)
	:: else -> stamped = stamped & ~BIT(left) & ~BIT(new)
	fi;
	if
	:: to != P_NONE && stamp != ((stamped & BIT(to)) != 0) ->
		split_end = split_end | BIT(new)
	:: else
	fi;
	if
	:: tuple == left -> tuple = new
	:: true
	fi;
	left = 0;
	new = 0;
	to = 0;
	stamp = false
}

#define IS_LOCKED(blkno) ((locked & BIT(blkno)) != 0)
#define IS_LEAF(blkno) (((free | deleted) & BIT(blkno)) == 0)

proctype inserter()
{
	byte left, new, to;
	bool stamp;

end_of_inserts:
	do
	:: atomic {
			splits > 0 && tuple != P_NONE ->
			select(left: 1 .. MAX_PAGES);
			if
			:: left <= length && IS_LEAF(left) && !IS_LOCKED(left) ->
				if					/* _bt_allocbuf() */
				:: length < MAX_PAGES -> length++; new = length
				:: free & ~locked ->
					select(new: 1 .. INITIAL);
					if
					:: (free & ~locked) & BIT(new)
					:: else -> new = P_NONE
					fi
				:: length == MAX_PAGES && !(free & ~locked) -> new = P_NONE
				fi
			:: else
			fi;
			if
			:: new == P_NONE -> left = 0
			:: else ->
				splits--;
				if
				:: new <= INITIAL && registered && !IS_LOCKED(right[left]) ->
					free = free & ~BIT(new);
					stamp = true;
					change_pages()
				:: else ->
					free = free & ~BIT(new);
					locked = locked | BIT(left) | BIT(new)
				fi
			fi
		};
		if
		:: left == 0
		:: else ->
			stamp = registered;		/* _bt_vacuum_cycleid() */
			atomic {
				!IS_LOCKED(right[left]) ->
				locked = locked & ~BIT(left) & ~BIT(new);
				change_pages()
			}
		fi
	od
}

/*
 * The leader between phases: pv_nbtree_begin(); and what may happen when the
 * phase has ended.  What keeps phases apart is in barrier.pml.
 */
init
{
	byte i, last;

	atomic {
		/* Any blocks are free; the others are the leaves */
		i = 1;
		do
		:: last < FREE && i <= INITIAL -> free = free | BIT(i); last++; i++
		:: INITIAL - i >= FREE - last -> i++
		:: i > INITIAL -> break
		od;
		/* The chain of leaves */
		last = 0;
		i = 1;
		do
		:: i > INITIAL -> break
		:: i <= INITIAL && (free & BIT(i)) -> i++
		:: i <= INITIAL && !(free & BIT(i)) ->
			if
#if REVERSED
			:: right[i] = last
#else
			:: last != 0 -> right[last] = i
			:: last == 0
#endif
			fi;
			if					/* the tuple is on one of them */
			:: tuple == P_NONE -> tuple = i
			:: true
			fi;
			last = i;
			i++
		od;
		if
		:: tuple == P_NONE -> tuple = last
		:: else
		fi;
		i = 0;
		last = 0;
		do
		:: i < INSERTERS -> run inserter(); i++
		:: else -> break
		od;
		i = 0
	};
#if BUG != 8
	registered = true;				/* _bt_start_vacuum() */
#endif
	end = length + 1;
	atomic {
		use_count = 0;
		run participant(1);
		run participant(2);
#if PARTICIPANTS > 2
		run participant(3)
#endif
	};
#if BUG == 8
	registered = true;
#endif
	atomic {
		ended == PARTICIPANTS ->
		assert(inside == 0);
		if
#if BUG == 12
		:: failsafe -> skip
		:: !failsafe ->
#else
		:: failed || failsafe -> skip	/* no heap item is set unused */
		:: !failed && !failsafe ->
#endif
			assert(done);			/* or "not every index was vacuumed" */
			assert((~visited & (BIT(end) - 2)) == 0);
			assert(tuple == P_NONE)
		fi
	}
}
