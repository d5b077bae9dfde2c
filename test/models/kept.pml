/*-------------------------------------------------------------------------
 *
 * kept.pml
 *	  A model of dead items that outlive interrupted vacuums.  scripts/models
 *	  has spin explore every order of events in it.
 *
 * The model follows src/engine/keep.c, vacuum.c and src/stats/kept.c.  One step
 * of the model is what happens under one lock of a page, or to one entry of an
 * index.
 *
 * A table has segments of one line pointer each, and two indexes.  Vacuums
 * follow each other, by the engine and by stock.  Each may be interrupted
 * before any step.  Beside them, rows die and are pruned, and unused line
 * pointers get new rows, with entries in both indexes.  While no vacuum has the
 * table, an index may be rebuilt, or copied to another file, or two of them may
 * come to have each other's file.
 *
 * Asserted:
 *	 - a vacuum removes no index entry of a live row
 *	 - a line pointer becomes unused when it is dead, and no index has an entry
 *	   for it
 *
 * Macros: SEGMENTS, VACUUMS (in all), DDL (rebuilt or copied indexes), ROWS (that
 * are inserted), and BUG for the planted bugs:
 *	1	that a segment has begun is noted after its page was changed
 *	2	an index counts as done although it has another file
 *	3	a vacuum by stock does not drop what is kept
 *	4	an index is noted as done before its last entry is removed
 *	5	segments that have begun are taken over
 *	6	what was taken over stays, while its items become unused in another index scan
 *
 *-------------------------------------------------------------------------
 */
#ifndef SEGMENTS
#define SEGMENTS 2
#endif
#ifndef VACUUMS
#define VACUUMS 3
#endif
#ifndef DDL
#define DDL 1
#endif
#ifndef ROWS
#define ROWS 2
#endif
#ifndef BUG
#define BUG 0
#endif

#define INDEXES 2
#define ENTRY(i, s) entry[(i) * SEGMENTS + (s)]
#define BIT(n) (1 << (n))

/* The line pointer of each segment */
#define UNUSED 0
#define LIVE 1						/* a row, which may have been deleted */
#define DEAD 2						/* LP_DEAD */

byte item[SEGMENTS];
bool entry[INDEXES * SEGMENTS];		/* the index has an entry for it */
byte file[INDEXES];					/* number of the index's file */

/* What is kept: PvKept */
bool kept;
byte items;							/* a bit for each segment */
byte begun;
byte done[INDEXES];					/* the file that was done; 0: none */

bool locked;						/* ShareUpdateExclusiveLock */
byte rows = ROWS;
byte ddl = DDL;
byte vacuums = VACUUMS;

/* One vacuum: the store, and whether what is done is noted */
byte store;
bool notes;
byte first;							/* segments before it are not vacuumed */

inline drop()
{
	d_step { kept = false; items = 0; begun = 0; done[0] = 0; done[1] = 0 }
}

/* Bulk deletion of the store's items in index i, which may be left half way */
inline bulk_delete(i)
{
	s = 0;
	do
	:: s < SEGMENTS ->
		atomic {
			if
			:: (store & BIT(s)) && ENTRY(i, s) ->
				assert(item[s] != LIVE);
				ENTRY(i, s) = false
			:: else
			fi;
			s++;
			if
			:: BUG == 4 && notes && s == 1 -> done[i] = file[i]
			:: else
			fi
		}
	:: s < SEGMENTS -> goto interrupted
	:: s == SEGMENTS -> break
	od;
	atomic {
		if
		:: notes -> done[i] = file[i]
		:: else
		fi
	}
}

inline index_scan()
{
	i = 0;
	do
	:: i < INDEXES ->
		if
		:: notes && done[i] != 0 && (done[i] == file[i] || BUG == 2)
		:: else -> bulk_delete(i)
		fi;
		i++
	:: i == INDEXES -> break
	od;
	s = first;
	do
	:: s < SEGMENTS ->
		atomic {
			if
			:: notes && BUG != 1 -> begun = s + 1
			:: else
			fi
		}
		if
		:: goto interrupted
		:: true
		fi;
		atomic {
			if
			:: store & BIT(s) ->
				assert(item[s] == DEAD);
				assert(!ENTRY(0, s) && !ENTRY(1, s));
				item[s] = UNUSED
			:: else
			fi
		}
		if
		:: BUG == 1 && true -> goto interrupted
		:: true
		fi;
		atomic {
			if
			:: notes && BUG == 1 -> begun = s + 1
			:: else
			fi;
			s++
		}
	:: s == SEGMENTS -> break
	od
}

/* The heap scan: all dead line pointers, and those that it makes dead */
inline scan()
{
	s = 0;
	do
	:: s < SEGMENTS ->
		atomic {
			if
			:: item[s] == DEAD -> store = store | BIT(s)
			:: item[s] == LIVE -> item[s] = DEAD; store = store | BIT(s)
			:: true
			fi;
			s++
		}
	:: s == SEGMENTS -> break
	od
}

proctype vacuum()
{
	byte i, s;
	bool by_engine;

end_again:
	atomic {
		!locked && vacuums > 0 -> locked = true; vacuums--; store = 0; first = 0;
		notes = false
	}
	if
	:: by_engine = true
	:: by_engine = false
	fi;
	if
	:: !by_engine ->
		if
		:: BUG != 3 -> drop()
		:: else
		fi
	:: by_engine && kept ->
		if
		:: true ->
			/* finish it first */
			d_step {
				notes = true;
				first = (BUG == 5 -> 0 : begun);
				s = 0;
				do
				:: s < SEGMENTS ->
					if
					:: (items & BIT(s)) && s >= first -> store = store | BIT(s)
					:: else
					fi;
					s++
				:: s == SEGMENTS -> break
				od;
				s = 0
			}
			index_scan();
			drop();
			d_step { notes = false; store = 0; first = 0 }
		:: done[0] == 0 && done[1] == 0 && begun == 0 ->
			/* collect more items before the index scan */
			store = items
		fi
	:: else
	fi;
	scan();
	if
	:: by_engine ->
		d_step {
			if
			:: BUG != 6 || !kept ->
				kept = true; items = store; begun = 0; done[0] = 0; done[1] = 0;
				notes = true
			:: else
			fi
		}
	:: else
	fi;
	index_scan();
	if
	:: by_engine && BUG != 6 -> drop()
	:: else
	fi;
interrupted:
	locked = false;
	goto end_again
}

inline swap(a, b)
{
	was = a; a = b; b = was
}

/* New rows in unused line pointers, and pruning beside the vacuums */
proctype clients()
{
	byte s, was;

end_idle:
	do
	:: rows > 0 ->
		if
		:: s = 0
		:: s = SEGMENTS - 1
		fi;
		if
		:: atomic {
			item[s] == UNUSED -> item[s] = LIVE; ENTRY(0, s) = true;
			ENTRY(1, s) = true; rows--
		}
		:: atomic { item[s] == LIVE -> item[s] = DEAD }
		:: true
		fi
	:: atomic {
		!locked && ddl > 0 ->
		ddl--;
		if
		:: s = 0
		:: s = 1
		fi;
		if
		:: file[s]++;				/* rebuilt */
			ENTRY(s, 0) = (item[0] == LIVE);
			ENTRY(s, SEGMENTS - 1) = (item[SEGMENTS - 1] == LIVE)
		:: file[s]++				/* copied */
		:: swap(file[0], file[1]);
			swap(ENTRY(0, 0), ENTRY(1, 0));
			swap(ENTRY(0, SEGMENTS - 1), ENTRY(1, SEGMENTS - 1))
		fi
	}
	od
}

init
{
	byte s;

	d_step {
		do
		:: s < SEGMENTS -> item[s] = LIVE; ENTRY(0, s) = true; ENTRY(1, s) = true; s++
		:: s == SEGMENTS -> break
		od;
		file[0] = 1; file[1] = 100
	}
	atomic { run vacuum(); run clients() }
end:
	false
}
