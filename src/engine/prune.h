/*-------------------------------------------------------------------------
 *
 * prune.h
 *	  The first pass's work on the tuples of one page.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PRUNE_H
#define PV_PRUNE_H

#include "engine/page.h"

/* What was found on, and done to, one heap page. */
typedef struct PvPageResult
{
	int			ndeleted;		/* tuples removed */
	int			live_tuples;
	int			recently_dead_tuples;
	bool		hastup;			/* the page prevents truncation */
	PvVisibility vis;			/* once its dead items are gone */
	bool		look_again;		/* for what could not be hinted yet ... */
	XLogRecPtr	commits_end;	/* ... before WAL is on disk up to here */
	int			lpdead_items;
	bool		marked_unused;	/* the dead items are unused already */
	OffsetNumber *deadoffsets;	/* ascending; in the room for them */
	OffsetNumber room[MaxHeapTuplesPerPage];
} PvPageResult;

extern void pv_prune_freeze_page(PvParticipant *self, Buffer buf,
								 BlockNumber blkno, PvPageResult *result);

#endif							/* PV_PRUNE_H */
