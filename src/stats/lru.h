/*-------------------------------------------------------------------------
 *
 * lru.h
 *	  A bounded table of records, whose groups share its places.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_LRU_H
#define PV_LRU_H

#include "lib/ilist.h"

typedef struct PvLruKey
{
	Oid			database;
	Oid			relid;
	uint64		number;			/* tells several of one relation apart */
} PvLruKey;

/* Who shares the places */
typedef struct PvLruGroup
{
	uint64		key;
	int			count;			/* of its records; 0: this one is free */
	dlist_head	records;		/* the most recently used first */
} PvLruGroup;

typedef struct PvLru
{
	int			capacity;		/* does not change */
	Size		node_size;		/* of a record and what precedes it */
	int			nused;
	int64		evictions;		/* records given up so far */
	char	   *nodes;
	dlist_head *buckets;		/* one for each place */
	PvLruGroup *groups;
} PvLru;

extern Size pv_lru_size(int capacity, Size record_size);
extern void pv_lru_init(PvLru *lru, int capacity, Size record_size,
						void *memory);
extern void pv_lru_clear(PvLru *lru);
extern void *pv_lru_find(const PvLru *lru, const PvLruKey *key);
extern void *pv_lru_touch(PvLru *lru, const PvLruKey *key, uint64 group,
						  bool *known);
extern bool pv_lru_has_room(const PvLru *lru, uint64 group);
extern void *pv_lru_next(const PvLru *lru, const void *record);

#endif							/* PV_LRU_H */
