/*-------------------------------------------------------------------------
 *
 * pv_map.h
 *	  Making the visibility map of a small table.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_MAP_H
#define PV_MAP_H

#include "storage/block.h"
#include "utils/relcache.h"

extern void pv_map_make(Relation rel, BlockNumber rel_pages);

#endif							/* PV_MAP_H */
