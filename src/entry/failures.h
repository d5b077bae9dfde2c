/*-------------------------------------------------------------------------
 *
 * failures.h
 *	  Tables whose automatic vacuum or analyze has failed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_FAILURES_H
#define PV_FAILURES_H

#include "datatype/timestamp.h"
#include "storage/lwlock.h"
#include "utils/hsearch.h"
#include "utils/rel.h"

/* What is remembered: so many tables, and so many of one role. */
#define PV_MAX_FAILURES			8192
#define PV_MAX_FAILURES_OF_ROLE	1024

/* The longest pauses, in microseconds; the second one in danger of wraparound */
#define PV_LONGEST_PAUSE		(60 * 60 * INT64CONST(1000000))
#define PV_LONGEST_IN_DANGER	(5 * 60 * INT64CONST(1000000))

typedef struct PvFailureKey
{
	Oid			database;
	Oid			role;			/* the owner of the table */
	Oid			relid;			/* invalid: all tables of the role that are
								 * not remembered by themselves */
	uint32		analyze;		/* 1: ANALYZE; 0: a vacuum, or a sweep */
} PvFailureKey;

typedef struct PvFailure
{
	PvFailureKey key;
	int			count;			/* one after the other */
	TimestampTz failed_at;		/* the last one, by pv_now() */
	bool		canceled;		/* ... was a cancel */
} PvFailure;

/* How an attempt has ended */
typedef enum PvAttempt
{
	PV_ATTEMPT_LEFT,			/* nothing was done, and nothing is changed */
	PV_ATTEMPT_DONE,
	PV_ATTEMPT_FAILED,
	PV_ATTEMPT_CANCELED
} PvAttempt;

/* The table of failures, for the functions below and for unit tests. */
extern int64 pv_pause_after(int count, int64 naptime, bool danger);
extern void pv_failures_add(HTAB *failures, const PvFailureKey *key,
							bool canceled, TimestampTz now);
extern const PvFailure *pv_failures_find(HTAB *failures,
										 const PvFailureKey *key);

extern Size pv_failures_shmem_size(void);
extern void pv_failures_shmem_startup(LWLock *its_lock);

extern void pv_failures_begin(Relation rel, bool analyze);
extern void pv_failures_end(PvAttempt how);
extern void pv_failures_forget(Oid relid, Oid role, bool analyze_too);
extern int	pv_failures_lately(Oid relid, Oid role, bool analyze,
							   bool any_of_role);
extern TimestampTz pv_failures_pause(Oid relid, Oid role, bool analyze,
									 bool danger, bool *canceled);

#endif							/* PV_FAILURES_H */
