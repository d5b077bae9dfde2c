/*-------------------------------------------------------------------------
 *
 * pvb_contenders.h
 *	  Common interface of the structures that are measured.
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

	/* Make a set of the pattern's TIDs in the current memory context. */
	void	   *(*load) (const PvbPattern *pattern);

	/* Return how many of the TIDs are in the set.  lookup_batch may be NULL. */
	int			(*lookup) (void *set, ItemPointerData *tids, int n);
	int			(*lookup_batch) (void *set, ItemPointerData *tids, int n);

	Size		(*bytes) (void *set);

	/* Free what is not in the memory context.  NULL if there is nothing. */
	void		(*drop) (void *set);
} PvbContender;

/* The last element has no name. */
extern const PvbContender pvb_contenders[];

/* TIDs of one batch, about as many as an index page has. */
#define PVB_BATCH		300

/* Memory limit of a store.  With a larger limit it grows in larger chunks. */
#define PVB_STORE_LIMIT ((Size) 1 << 30)

extern void pvb_store_load(PvDeadTids *store, const PvbPattern *pattern,
						   uint32 segno, uint32 end);

#endif							/* PVB_CONTENDERS_H */
