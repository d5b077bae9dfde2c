/*-------------------------------------------------------------------------
 *
 * index_order.h
 *	  The order in which the participants of a vacuum take indexes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_ORDER_H
#define PV_ORDER_H

/* Which processes can work on an index in a phase */
typedef enum PvUnitKind
{
	PV_UNIT_LEADER_ONLY,		/* the leader */
	PV_UNIT_SINGLE,				/* one process, leader or worker */
	PV_UNIT_SHARED,				/* any number of processes */
	PV_UNIT_LATER				/* none; the leader does it afterwards */
} PvUnitKind;

typedef struct PvUnitState
{
	PvUnitKind	kind;
	bool		begun;			/* by any process, finished or not */
	uint64		pages;			/* to be visited; if a shared index has been
								 * begun, its unclaimed pages */
} PvUnitState;

/* There is nothing to take */
#define PV_ORDER_NONE			(-1)

extern int	pv_order_next(const PvUnitState *units, int nunits,
						  bool is_leader);

#endif							/* PV_ORDER_H */
