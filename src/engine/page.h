/*-------------------------------------------------------------------------
 *
 * page.h
 *	  What both heap passes do to a heap page.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PAGE_H
#define PV_PAGE_H

#include "base/compat_heap.h"
#include "engine/participant.h"

/* Which bits of the visibility map the tuples of a page allow */
typedef struct PvVisibility
{
	bool		all_visible;
	bool		all_frozen;		/* meaningful only if all_visible */
	TransactionId conflict_horizon; /* newest xmin that is not frozen */
} PvVisibility;

/* What is wrong with a page's bits, if anything */
typedef enum PvMapDoubt
{
	PV_MAP_NO_DOUBT,
	PV_MAP_HAS_DEAD_ITEMS,		/* no page with dead items is all-visible */
	PV_MAP_HAS_INVISIBLE		/* nor is one with such row versions */
} PvMapDoubt;

extern void pv_page_mark_unused(PvParticipant *self, Buffer buf,
								BlockNumber blkno,
								OffsetNumber *deadoffsets, int ndead);
extern void pv_page_vacuum(PvParticipant *self, Buffer buf, BlockNumber blkno,
						   Buffer vmbuffer, OffsetNumber *deadoffsets,
						   int ndead);
extern void pv_page_visibility(PvParticipant *self, Buffer buf,
							   BlockNumber blkno, PvVisibility *vis);
extern void pv_page_plan_map(PvParticipant *self, Buffer buf,
							 BlockNumber blkno, Buffer vmbuffer,
							 const PvVisibility *vis,
							 PvMapDoubt doubt, PvMapChange *map);
extern void pv_page_count_map(PvParticipant *self, const PvMapChange *map);
extern void pv_page_update_map(PvParticipant *self, Buffer buf,
							   BlockNumber blkno, Buffer vmbuffer,
							   const PvVisibility *vis, PvMapDoubt doubt);

extern void pv_page_pace_wal(PvParticipant *self);

#ifdef USE_ASSERT_CHECKING
extern bool pv_page_agrees(PvParticipant *self, Buffer buf, BlockNumber blkno,
						   const PvVisibility *vis);
#endif

#endif							/* PV_PAGE_H */
