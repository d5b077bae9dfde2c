/*-------------------------------------------------------------------------
 *
 * prune.h
 *	  Pruning and freezing one heap page in the first heap pass.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PRUNE_H
#define PV_PRUNE_H

#include "engine/prune_state.h"

extern void pv_prune_freeze_page(PvParticipant *self, Buffer buf,
								 BlockNumber blkno, Buffer vmbuffer,
								 PvPageResult *result);

#endif							/* PV_PRUNE_H */
