/*-------------------------------------------------------------------------
 *
 * visibility_map.h
 *	  Counts the bits in a table's visibility map.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_MAP_H
#define PV_MAP_H

#include "storage/block.h"
#include "utils/relcache.h"

/* The vacuum of a table with at most this many pages (1 MB) is soon done. */
#define PV_SMALL_PAGES			(1024 * 1024 / BLCKSZ)

extern void pv_map_count(Relation rel, BlockNumber rel_pages,
						 BlockNumber *all_visible, BlockNumber *all_frozen);

#endif							/* PV_MAP_H */
