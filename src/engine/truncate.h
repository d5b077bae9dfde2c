/*-------------------------------------------------------------------------
 *
 * truncate.h
 *	  Truncating empty pages at the end of a table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_TRUNCATE_H
#define PV_TRUNCATE_H

#include "commands/vacuum.h"

#include "engine/participant.h"

/* A truncation that is tried */
typedef struct PvTruncation
{
	Relation	rel;
	BufferAccessStrategy bstrategy;
	PvErrorInfo *errinfo;
	int			elevel;			/* of messages about giving up */
	BlockNumber rel_pages;		/* current size; reduced by the truncation */
	BlockNumber nonempty_pages; /* pages that must stay */
} PvTruncation;

extern bool pv_truncation_worthwhile(const PvTruncation *trunc,
									 VacOptValue wanted);
extern void pv_truncate_heap(PvTruncation *trunc);

#endif							/* PV_TRUNCATE_H */
