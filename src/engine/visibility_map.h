/*-------------------------------------------------------------------------
 *
 * visibility_map.h
 *	  Reads the bits in a table's visibility map.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_MAP_H
#define PV_MAP_H

#include "storage/block.h"
#include "storage/buf.h"
#include "utils/relcache.h"

/* The vacuum of a table with at most this many pages (1 MB) is soon done. */
#define PV_SMALL_PAGES			(1024 * 1024 / BLCKSZ)

/* Blocks whose bits are in one page of the map; the page has 24 other bytes */
#define PV_MAP_PAGE_BLOCKS		((BLCKSZ - 24) * 4)

extern void pv_map_count(Relation rel, BlockNumber rel_pages,
						 BlockNumber *all_visible, BlockNumber *all_frozen);
extern BlockNumber pv_map_pass_words(Relation rel, BlockNumber blkno,
									 BlockNumber limit, bool frozen,
									 bool *some_not_frozen, Buffer *vmbuffer);

#endif							/* PV_MAP_H */
