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

/* What a page has that no all-visible page may have */
typedef enum PvMapDoubtKind
{
	PV_MAP_NO_DOUBT,
	PV_MAP_HAS_DEAD_ITEMS,
	PV_MAP_HAS_INVISIBLE		/* a row version that not all may see */
} PvMapDoubtKind;

typedef struct PvMapDoubt
{
	PvMapDoubtKind kind;
	OffsetNumber offnum;		/* where that is, if known; for messages */
} PvMapDoubt;

extern void pv_page_mark_unused(PvParticipant *self, Buffer buf,
								BlockNumber blkno,
								OffsetNumber *deadoffsets, int ndead);
extern void pv_page_vacuum(PvParticipant *self, Buffer buf, BlockNumber blkno,
						   Buffer vmbuffer, OffsetNumber *deadoffsets,
						   int ndead);
extern void pv_page_visibility(PvParticipant *self, Buffer buf,
							   BlockNumber blkno, const OffsetNumber *unused,
							   int nunused, bool allow_update,
							   PvVisibility *vis);
extern void pv_page_plan_map(PvParticipant *self, Buffer buf,
							 BlockNumber blkno, Buffer vmbuffer,
							 const PvVisibility *vis, PvMapChange *map);
extern void pv_page_repair_map(PvParticipant *self, Buffer buf,
							   BlockNumber blkno, Buffer vmbuffer,
							   PvMapDoubt doubt);
extern void pv_page_count_map(PvParticipant *self, const PvMapChange *map);
extern void pv_page_update_map(PvParticipant *self, Buffer buf,
							   BlockNumber blkno, Buffer vmbuffer,
							   const PvVisibility *vis);

extern void pv_page_pace_wal(PvParticipant *self);

#ifdef USE_ASSERT_CHECKING
extern bool pv_page_agrees(PvParticipant *self, Buffer buf, BlockNumber blkno,
						   const PvVisibility *vis);
#endif

#endif							/* PV_PAGE_H */
