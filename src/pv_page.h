/*-------------------------------------------------------------------------
 *
 * pv_page.h
 *	  What both heap passes do to a heap page.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PAGE_H
#define PV_PAGE_H

#include "pv_participant.h"

extern void pv_page_mark_unused(PvParticipant *self, Buffer buf,
								BlockNumber blkno, Buffer vmbuffer,
								OffsetNumber *deadoffsets, int ndead);

#ifdef USE_ASSERT_CHECKING
extern bool pv_page_agrees(PvParticipant *self, Buffer buf, BlockNumber blkno,
						   const PvPageResult *found);
#endif

#endif							/* PV_PAGE_H */
