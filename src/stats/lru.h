/*-------------------------------------------------------------------------
 *
 * lru.h
 *	  A bounded table of keys, whose groups share its places.
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
	uint64		number;			/* tells several of one relation apart */
} PvLruKey;

/*
 * The nodes, the buckets and the groups follow this header in memory.  It has
 * no pointers, so it can be at any address.
 */
typedef struct PvLru
{
	int			capacity;		/* does not change */
	int			nused;			/* places in use are 0 .. nused - 1 */
	int64		evictions;		/* keys given up so far */
} PvLru;

extern Size pv_lru_size(int capacity);
extern void pv_lru_init(PvLru *lru, int capacity);
extern void pv_lru_clear(PvLru *lru);
extern int	pv_lru_find(const PvLru *lru, const PvLruKey *key);
extern bool pv_lru_touch(PvLru *lru, const PvLruKey *key, uint64 group,
						 int *place);
extern bool pv_lru_has_room(const PvLru *lru, uint64 group);
extern int	pv_lru_next(const PvLru *lru, int place);

#endif							/* PV_LRU_H */
