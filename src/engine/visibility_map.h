/*-------------------------------------------------------------------------
 *
 * visibility_map.h
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

/* A table that has no more pages is done soon: 1 MB */
#define PV_SMALL_PAGES			(1024 * 1024 / BLCKSZ)

extern void pv_map_make(Relation rel, BlockNumber rel_pages);
extern void pv_map_count(Relation rel, BlockNumber rel_pages,
						 BlockNumber *all_visible, BlockNumber *all_frozen);

#endif							/* PV_MAP_H */
