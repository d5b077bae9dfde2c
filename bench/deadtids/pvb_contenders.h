/*-------------------------------------------------------------------------
 *
 * pvb_contenders.h
 *	  The structures that are measured, behind one interface.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PVB_CONTENDERS_H
#define PVB_CONTENDERS_H

#include "store/deadtids.h"
#include "pvb_pattern.h"

typedef struct PvbContender
{
	const char *name;

	/* Make a set of the pattern's TIDs, in the current memory context. */
	void	   *(*load) (const PvbPattern *pattern);

	/* How many of these are in it?  The second may be NULL. */
	int			(*lookup) (void *set, ItemPointerData *tids, int n);
	int			(*lookup_batch) (void *set, ItemPointerData *tids, int n);

	Size		(*bytes) (void *set);

	/* Free what is not in the memory context; NULL if there is nothing. */
	void		(*drop) (void *set);
} PvbContender;

/* The last has no name. */
extern const PvbContender pvb_contenders[];

/* So many TIDs are looked up at a time, like those of an index page. */
#define PVB_BATCH		300

/* What a store may take; the larger, the larger are the chunks it grows by. */
#define PVB_STORE_LIMIT ((Size) 1 << 30)

extern void pvb_store_load(PvDeadTids *store, const PvbPattern *pattern,
						   uint32 segno, uint32 end);

#endif							/* PVB_CONTENDERS_H */
