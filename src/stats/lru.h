/*-------------------------------------------------------------------------
 *
 * lru.h
 *	  A bounded table of relations, which gives up the least recently used.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_LRU_H
#define PV_LRU_H

typedef struct PvLruKey
{
	Oid			database;
	Oid			relid;
} PvLruKey;

/*
 * The nodes and the buckets follow this header in memory.  It has no pointers,
 * so it can be at any address.
 */
typedef struct PvLru
{
	int			capacity;		/* does not change, as the next one */
	int			nbuckets;
	int			nused;			/* places in use are 0 .. nused - 1 */
	int			newest;			/* places, or -1 */
	int			oldest;
	int64		evictions;		/* relations given up so far */
} PvLru;

extern Size pv_lru_size(int capacity);
extern void pv_lru_init(PvLru *lru, int capacity);
extern void pv_lru_clear(PvLru *lru);
extern bool pv_lru_is_full(const PvLru *lru);
extern int	pv_lru_find(const PvLru *lru, const PvLruKey *key);
extern bool pv_lru_touch(PvLru *lru, const PvLruKey *key, int *place);
extern PvLruKey pv_lru_key(const PvLru *lru, int place);
extern int	pv_lru_newer(const PvLru *lru, int place);

#endif							/* PV_LRU_H */
