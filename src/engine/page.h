/*-------------------------------------------------------------------------
 *
 * page.h
 *	  What both heap passes do to a heap page.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PAGE_H
#define PV_PAGE_H

#include "engine/participant.h"

/* Which bits of the visibility map the tuples of a page allow */
typedef struct PvVisibility
{
	bool		all_visible;
	bool		all_frozen;		/* meaningful only if all_visible */
	TransactionId conflict_horizon; /* newest xmin that is not frozen */
} PvVisibility;

extern void pv_page_mark_unused(PvParticipant *self, Buffer buf,
								BlockNumber blkno,
								OffsetNumber *deadoffsets, int ndead);
extern void pv_page_visibility(PvParticipant *self, Buffer buf,
							   BlockNumber blkno, PvVisibility *vis);
extern void pv_page_update_map(PvParticipant *self, Buffer buf,
							   BlockNumber blkno, Buffer vmbuffer,
							   const PvVisibility *vis, bool has_dead_items);

extern void pv_page_pace_wal(PvParticipant *self);

#ifdef USE_ASSERT_CHECKING
extern bool pv_page_agrees(PvParticipant *self, Buffer buf, BlockNumber blkno,
						   const PvVisibility *vis);
#endif

#endif							/* PV_PAGE_H */
