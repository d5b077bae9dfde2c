/*-------------------------------------------------------------------------
 *
 * index_work.h
 *	  Have the indexes of a table anything for a vacuum to do, whatever is dead?
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_INDEX_WORK_H
#define PV_INDEX_WORK_H

#include "utils/relcache.h"

extern bool pv_indexes_have_work(Relation rel);
extern void pv_index_empty_pending_lists(Relation rel);

#endif							/* PV_INDEX_WORK_H */
