/*-------------------------------------------------------------------------
 *
 * kept.h
 *	  The dead items that vacuums keep, should they be interrupted.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_KEPT_H
#define PV_KEPT_H

#include "datatype/timestamp.h"
#include "storage/lwlock.h"
#include "utils/relcache.h"

#include "base/compat.h"

/* Vacuums that can keep their dead items at a time, in the whole cluster */
#define PV_KEPT_SLOTS			256

/* Indexes of a table that are noted as done; others are done again */
#define PV_KEPT_MAX_INDEXES		64

/* Names what is kept.  It does not change while something is kept. */
typedef struct PvKeptRef
{
	int			slot;
	uint64		token;			/* 0: nothing is kept */
} PvKeptRef;

/* An index without entries for the kept items: the file that it had then */
typedef struct PvKeptIndex
{
	Oid			indexrelid;
	PvLocator	locator;
} PvKeptIndex;

/*
 * How far the heap scan was.  If the vacuum has ended early by itself, the next
 * one goes on from there.
 */
typedef struct PvKeptScan
{
	bool		goes_on;
	BlockNumber upto;			/* the blocks before this one are done */
	double		pages;			/* that were scanned, ... */
	double		tuples;			/* ... and the live tuples on them */
	BlockNumber nonempty_pages; /* last page with tuples, plus one */
	bool		skippedallvis;
	TransactionId relfrozenxid; /* oldest XID and MXID that remain */
	MultiXactId relminmxid;
	int64		tuples_recently_dead;
	int64		tuples_missed;
	int			freeze_min_age; /* that the vacuum was given */
	bool		index_vacuuming;	/* it has collected dead items */
} PvKeptScan;

/* What is kept of one table */
typedef struct PvKept
{
	PvKeptRef	ref;
	bool		complete;		/* the file has been written */
	Oid			database;
	Oid			tablespace;		/* which has the file of the items */
	Oid			relid;
	PvLocator	locator;		/* the table's file */
	Oid			owner;
	TimestampTz since;
	uint64		bytes;			/* of the file of the items */
	int64		items;
	double		live_tuples;	/* that the heap scan has found; -1 if it had
								 * not come to the end of the table */
	BlockNumber pages;			/* of the table */
	uint32		nsegments;		/* its items are in the segments before this
								 * one */
	uint32		begun;			/* the second heap pass has begun on the
								 * segments before this one */
	PvKeptScan	scan;
	TimestampTz yielded_at;		/* when a vacuum ended early for another
								 * session; 0: none */
	TimestampTz vacuumed_at;	/* the last vacuum by the statistics */
	bool		stale;			/* found to be of another file, or of one that
								 * was vacuumed since */
	int			idle;			/* vacuums that took it over, one after the
								 * other, and got no further */
	int			nindexes;
	int			ndone;
	PvKeptIndex done[PV_KEPT_MAX_INDEXES];
} PvKept;

extern Size pv_kept_shmem_size(void);
extern void pv_kept_shmem_startup(LWLock *its_lock);

/* The vacuum that keeps its items, with ShareUpdateExclusiveLock */
extern bool pv_kept_reserve(Relation rel, uint64 bytes, PvKept *kept);
extern bool pv_kept_complete(const PvKept *kept);
extern void pv_kept_index_done(const PvKeptRef *ref, Relation indrel);
extern void pv_kept_begin_segments(const PvKeptRef *ref, uint32 end);
extern bool pv_kept_end_early(const PvKeptRef *ref, bool goes_on,
							  TimestampTz yielded_at);

/* The next vacuum of the table, with the same lock */
extern bool pv_kept_find(Relation rel, PvKept *kept);
extern void pv_kept_begin_vacuum(Relation rel, const PvKeptRef *taken_over);
extern bool pv_kept_take_over(const PvKept *kept);
extern bool pv_kept_has_index(const PvKept *kept, Relation indrel);

extern uint64 pv_kept_path(const PvKept *kept, char *path);
extern void pv_kept_remove_file(const PvKept *kept);

/* Anybody, at any time */
extern void pv_kept_drop(const PvKeptRef *ref);
extern bool pv_kept_drop_object(Oid classId, Oid objectId);
extern int	pv_kept_list(PvKept **list);

#endif							/* PV_KEPT_H */
