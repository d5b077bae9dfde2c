/*-------------------------------------------------------------------------
 *
 * lru.c
 *	  A bounded table of relations, which gives up the least recently used.
 *
 * It says at which place of an array the caller keeps what belongs to a
 * relation.  A relation that is new gets a free place, or that of the relation
 * that was not used for the longest time.  Each operation takes constant time.
 *
 *		bucket [hash] --> node -- chain --> node
 *		newest <--> ... <--> oldest: a list of all nodes
 *
 * This file knows nothing of processes and locks; the caller holds whatever
 * covers the memory.  Nothing here fails or allocates memory.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "stats/lru.h"

#define NOWHERE					(-1)

typedef struct Node
{
	PvLruKey	key;
	int			chain;			/* next in the same bucket, or NOWHERE */
	int			newer;			/* neighbours in the list, or NOWHERE */
	int			older;
} Node;

static inline Node *
node_at(const PvLru *lru, int place)
{
	return (Node *) ((char *) lru + MAXALIGN(sizeof(PvLru))) + place;
}

/* The head of the chain of this relation. */
static int *
bucket_of(const PvLru *lru, const PvLruKey *key)
{
	int		   *buckets = (int *) node_at(lru, lru->capacity);
	uint32		hash = hash_combine(murmurhash32(key->database),
									murmurhash32(key->relid));

	return &buckets[hash % lru->nbuckets];
}

/* The size in bytes of a table with that many places. */
Size
pv_lru_size(int capacity)
{
	return MAXALIGN(sizeof(PvLru)) +
		MAXALIGN((Size) capacity * (sizeof(Node) + sizeof(int)));
}

/* Forgets all relations, and how many were given up. */
void
pv_lru_clear(PvLru *lru)
{
	int		   *buckets = (int *) node_at(lru, lru->capacity);

	lru->nused = 0;
	lru->newest = lru->oldest = NOWHERE;
	lru->evictions = 0;
	for (int i = 0; i < lru->nbuckets; i++)
		buckets[i] = NOWHERE;
}

/* Initializes a table in memory of pv_lru_size() bytes. */
void
pv_lru_init(PvLru *lru, int capacity)
{
	lru->capacity = capacity;
	lru->nbuckets = capacity;
	pv_lru_clear(lru);
}

static void
leave_list(PvLru *lru, int place)
{
	Node	   *node = node_at(lru, place);

	if (node->newer != NOWHERE)
		node_at(lru, node->newer)->older = node->older;
	else
		lru->newest = node->older;
	if (node->older != NOWHERE)
		node_at(lru, node->older)->newer = node->newer;
	else
		lru->oldest = node->newer;
}

static void
become_newest(PvLru *lru, int place)
{
	Node	   *node = node_at(lru, place);

	node->newer = NOWHERE;
	node->older = lru->newest;
	if (lru->newest != NOWHERE)
		node_at(lru, lru->newest)->newer = place;
	else
		lru->oldest = place;
	lru->newest = place;
}

/* Takes the place of the relation that was not used for the longest time. */
static int
evict(PvLru *lru)
{
	int			place = lru->oldest;
	int		   *link = bucket_of(lru, &node_at(lru, place)->key);

	while (*link != place)
		link = &node_at(lru, *link)->chain;
	*link = node_at(lru, place)->chain;
	leave_list(lru, place);
	lru->evictions++;
	return place;
}

/* Does another relation get a place only if one is given up? */
bool
pv_lru_is_full(const PvLru *lru)
{
	return lru->nused == lru->capacity;
}

/*
 * The place of a relation, or -1 if it has none.  This is not a use of it.
 */
int
pv_lru_find(const PvLru *lru, const PvLruKey *key)
{
	int			i;

	if (lru->capacity == 0)
		return NOWHERE;
	i = *bucket_of(lru, key);
	while (i != NOWHERE && (node_at(lru, i)->key.database != key->database ||
							node_at(lru, i)->key.relid != key->relid))
		i = node_at(lru, i)->chain;
	return i;
}

/*
 * Sets *place to the place of a relation, which is the most recently used one
 * from now on.  Returns false if it is new there, so that the place has what
 * belonged to another relation, or nothing.  The capacity must not be 0.
 */
bool
pv_lru_touch(PvLru *lru, const PvLruKey *key, int *place)
{
	int		   *bucket = bucket_of(lru, key);
	int			i = pv_lru_find(lru, key);

	*place = i;
	if (i != NOWHERE)
	{
		leave_list(lru, i);
		become_newest(lru, i);
		return true;
	}

	i = lru->nused < lru->capacity ? lru->nused++ : evict(lru);
	node_at(lru, i)->key = *key;
	node_at(lru, i)->chain = *bucket;
	*bucket = i;
	become_newest(lru, i);
	*place = i;
	return false;
}

/* The relation at a place that is in use. */
PvLruKey
pv_lru_key(const PvLru *lru, int place)
{
	return node_at(lru, place)->key;
}

/*
 * The place of the relation that was used next after this one, or -1 if there
 * is none.  lru->oldest is where to begin.
 */
int
pv_lru_newer(const PvLru *lru, int place)
{
	return node_at(lru, place)->newer;
}
