/*-------------------------------------------------------------------------
 *
 * index_order.h
 *	  In which order the participants of a vacuum take indexes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_ORDER_H
#define PV_ORDER_H

/* Who can work on an index in a phase */
typedef enum PvUnitKind
{
	PV_UNIT_LEADER_ONLY,		/* one process, and that is the leader */
	PV_UNIT_SINGLE,				/* one process, whoever it is */
	PV_UNIT_SHARED,				/* any number of processes */
	PV_UNIT_LATER				/* nobody; the leader does it afterwards */
} PvUnitKind;

typedef struct PvUnitState
{
	PvUnitKind	kind;
	bool		begun;			/* somebody has it, or has had it */
	uint64		pages;			/* to be visited; of a shared index that has
								 * been begun, those that nobody has claimed */
} PvUnitState;

extern int	pv_order_next(const PvUnitState *units, int nunits, bool is_leader);

#endif							/* PV_ORDER_H */
