/*-------------------------------------------------------------------------
 *
 * blocker.h
 *	  What holds back the horizon, so that dead rows cannot be removed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_BLOCKER_H
#define PV_BLOCKER_H

#include "access/transam.h"
#include "datatype/timestamp.h"
#include "lib/stringinfo.h"
#include "utils/backend_status.h"
#include "utils/relcache.h"

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

#endif							/* PV_BLOCKER_H */
