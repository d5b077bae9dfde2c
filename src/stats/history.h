/*-------------------------------------------------------------------------
 *
 * history.h
 *	  The history of vacuums and their totals, what holds back the horizon,
 *	  and what processes have used.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_HISTORY_H
#define PV_HISTORY_H

#include "access/genam.h"
#include "access/transam.h"
#include "datatype/timestamp.h"
#include "executor/instrument.h"
#include "lib/stringinfo.h"
#include "storage/lockdefs.h"
#include "storage/lwlock.h"
#include "utils/backend_status.h"
#include "utils/pg_rusage.h"
#include "utils/relcache.h"

#include "base/clock.h"
#include "stats/records.h"
#include "stats/result.h"

/* What holds back the horizon (blocker.c) */

typedef enum PvBlockerKind
{
	PV_BLOCKER_NONE = 0,
	PV_BLOCKER_PROCESS,			/* a snapshot or transaction ID of a process */
	PV_BLOCKER_PREPARED,		/* a prepared transaction */
	PV_BLOCKER_FEEDBACK,		/* a standby without a replication slot */
	PV_BLOCKER_SLOT_XMIN,		/* a replication slot: all rows */
	PV_BLOCKER_SLOT_CATALOG		/* a replication slot: rows of catalogs */
} PvBlockerKind;

/* Core has a horizon for each of these kinds of tables */
typedef enum PvHorizon
{
	PV_HORIZON_DATA,			/* tables of this database */
	PV_HORIZON_CATALOG,			/* its catalogs, and what is decoded like them */
	PV_HORIZON_SHARED			/* shared catalogs */
} PvHorizon;

/* Of a fixed size, so that it can be kept in shared memory */
typedef struct PvBlocker
{
	PvBlockerKind kind;
	int			pid;			/* of a slot: the process that uses it; 0:
								 * none */
	Oid			database;		/* invalid: of none */
	Oid			role;			/* who logged in; invalid: not known */
	TransactionId xmin;			/* rows that it or a later one deleted stay */
	TransactionId xid;			/* of the transaction itself, if it has one */
	TimestampTz inactive_since; /* of a slot; 0: not known */
	bool		synced;			/* of a slot: it follows one of the primary */
	bool		temporary;		/* of a slot: it ends with its process */
	NameData	slot;
} PvBlocker;

/* What is known of a blocker beside that, at a later moment */
typedef struct PvBlockerDetails
{
	bool		visible;		/* may the viewer see the rest? */
	bool		gone;			/* there is no such process any more */
	const char *kind;			/* as parvacuum_blockers shows it */
	const char *name;			/* this and the rest: NULL or 0 if not known */
	const char *gid;			/* of a prepared transaction: its name, in the
								 * encoding of its database */
	const char *role;
	TimestampTz since;
	TimestampTz began;			/* it held nothing before; 0: not known */
	const char *state;
	const char *query;
} PvBlockerDetails;

/* Finding */
extern PvHorizon pv_horizon_of(Relation rel);
extern bool pv_blocker_affects(const PvBlocker *blocker, PvHorizon horizon);
extern bool pv_blockers_matter(void);
extern int	pv_blockers_collect(PvBlocker **blockers);
extern uint64 pv_blocker_key(const PvBlocker *blocker);
extern bool pv_blocker_is_cause(const PvBlocker *blocker,
								const PvBlocker *blockers, int n,
								PvHorizon horizon);
extern const PvBlocker *pv_blocker_cause(const PvBlocker *blocker,
										 const PvBlocker *blockers, int n);
extern void pv_blocker_find(PvHorizon horizon, TransactionId cutoff,
							PvBlocker *blocker);

extern const PgBackendStatus *pv_status_of(int pid);
extern const char *pv_readable(const char *text, int encoding);

/* Describing: a viewer that is no valid role sees everything */
extern void pv_blocker_look_up(const PvBlocker *blocker, Oid viewer,
							   PvBlockerDetails *details);
extern void pv_blocker_describe(StringInfo buf, const PvBlocker *blocker,
								const PvBlockerDetails *details,
								TimestampTz found_at);

/* Why another process terminates this one, filled in before the signal */
typedef struct PvHistoryReason
{
	int			sqlerrcode;		/* 0: not known */
	char		text[PV_RECORD_TEXT];
} PvHistoryReason;

extern Size pv_history_shmem_size(void);
extern void pv_history_shmem_startup(LWLock *its_lock);

extern bool pv_history_exists(void);
extern void pv_history_add(PvHistoryRun *run, PvHistoryIndex *indexes,
						   int nindexes);
extern void pv_history_reset(bool totals);

extern const PvRecords *pv_history_lock(void);
extern void pv_history_unlock(void);
extern int	pv_history_copy(PvRecordKind kind, void **to);

/* Transaction IDs; 0 if not known */
extern double pv_history_xid_rate(double *seconds);
extern TimestampTz pv_history_known_since(uint64 xid_age,
										  TimestampTz *not_before);

/* The process that takes samples, and writes the file from time to time. */
extern long pv_history_do_due(void);

/* The vacuum in this process, until it is added (history_run.c) */
extern void pv_history_set_reason(const PvHistoryReason *reason);
extern void pv_history_fill_reason(PvHistoryReason *reason,
								   const ErrorData *edata);
extern void pv_history_begin(Relation rel, PvWork action,
							 PvStartedBy started_by, bool wraparound,
							 const PvResult *result);
extern void pv_history_note_index(Relation index,
								  const IndexBulkDeleteResult *istat,
								  int64 usecs);
extern void pv_history_skipped(Oid relid, PvWork action, LOCKMODE mode);
extern void pv_history_note_mark(const PvSweepMark *mark);
extern void pv_history_note_blocker(const PvBlocker *blocker,
									TimestampTz found_at);
extern void pv_history_done(void);
extern void pv_history_failed(void);

/* What the process has used (usage.c) */

/* The counters and clocks of the process when the work began */
typedef struct PvUsageStart
{
	int64		time;			/* as pv_usecs_of_machine() */
	BufferUsage buffers;
	WalUsage	wal;
	PGRUsage	rusage;			/* only for a report */
} PvUsageStart;

extern void pv_usage_start(PvUsageStart *start, bool for_report);
extern void pv_usage_since(const PvUsageStart *start, PvResult *result);
extern void pv_usage_append(StringInfo text, const PvUsageStart *start,
							const PvResult *used, const char *memory);
extern char *pv_usage_text(const PvUsageStart *start);

#endif							/* PV_HISTORY_H */
