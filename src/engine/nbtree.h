/*-------------------------------------------------------------------------
 *
 * nbtree.h
 *	  B-trees that several participants vacuum together.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_NBTREE_H
#define PV_NBTREE_H

#include "access/nbtree.h"

#include "engine/participant.h"

extern bool pv_nbtree_handles(Relation indrel);
extern Size pv_nbtree_bitmap_bytes(BlockNumber pages);
extern int	pv_nbtree_count_ranges(BlockNumber pages, int participants);
extern void pv_nbtree_init(PvBtreeShared *btree);
extern bool pv_nbtree_begin(PvParticipant *leader, int i, PvPhase phase,
							Size kept);
extern void pv_nbtree_end(PvParticipant *leader, int i);
extern BlockNumber pv_nbtree_pages_left(const PvParticipant *self, int i);
extern bool pv_nbtree_work(PvParticipant *self, int i, PvPhase phase,
						   IndexVacuumInfo *ivinfo);

#endif							/* PV_NBTREE_H */
