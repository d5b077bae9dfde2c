/*-------------------------------------------------------------------------
 *
 * visibility_map.h
 *	  The visibility map of a small table: creating it, and counting its
 *	  bits.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_MAP_H
#define PV_MAP_H

#include "storage/block.h"
#include "utils/relcache.h"

/* Largest size of a small table, in pages: 1 MB */
#define PV_SMALL_PAGES			(1024 * 1024 / BLCKSZ)

extern void pv_map_make(Relation rel, BlockNumber rel_pages);
extern void pv_map_count(Relation rel, BlockNumber rel_pages,
						 BlockNumber *all_visible, BlockNumber *all_frozen);

#endif							/* PV_MAP_H */
