/*-------------------------------------------------------------------------
 *
 * lru.c
 *	  A bounded table of keys, whose groups share its places.
 *
 * It says at which place of an array the caller keeps what belongs to a key.
 * Each key is in a group.  A key that is new gets a free place.  If there is
 * none, the group with the most places gives up the one that it has not used
 * for the longest time, and the group of the new key counts with one more.  So
 * no group takes from others more than an equal share, and at its share it
 * takes from itself.
 *
 *		bucket [hash] --> node -- chain --> node
 *		group: newest <--> ... <--> oldest, a list of its nodes
 *
 * An operation looks through the groups at most, not through the nodes.  With
 * more groups than MAX_GROUPS, some are taken for one.
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
#define MAX_GROUPS				1024

typedef struct Node
{
	PvLruKey	key;
	int			group;			/* index of its group */
	int			chain;			/* next in the same bucket, or NOWHERE */
	int			newer;			/* neighbours in the group, or NOWHERE */
	int			older;
} Node;

typedef struct Group
{
	uint64		key;
	int			count;			/* 0: this one is free */
	int			newest;			/* places, or NOWHERE */
	int			oldest;
} Group;

static inline Node *
node_at(const PvLru *lru, int place)
{
	return (Node *) ((char *) lru + MAXALIGN(sizeof(PvLru))) + place;
}

static inline int *
buckets_of(const PvLru *lru)
{
	return (int *) node_at(lru, lru->capacity);
}

static inline int
ngroups(const PvLru *lru)
{
	return Min(lru->capacity, MAX_GROUPS);
}

static inline Group *
group_at(const PvLru *lru, int group)
{
	char	   *groups = (char *) buckets_of(lru) +
		MAXALIGN((Size) lru->capacity * sizeof(int));

	return (Group *) groups + group;
}

/* Return the head of the chain of this key. */
static int *
bucket_of(const PvLru *lru, const PvLruKey *key)
{
	uint32		hash = hash_combine(murmurhash32(key->database),
									murmurhash32(key->relid));

	hash = hash_combine(hash, murmurhash32((uint32) key->number ^
										   (uint32) (key->number >> 32)));
	return &buckets_of(lru)[hash % lru->capacity];
}

/* Return the size in bytes of a table with that many places. */
Size
pv_lru_size(int capacity)
{
	return MAXALIGN(sizeof(PvLru)) + (Size) capacity * sizeof(Node) +
		MAXALIGN((Size) capacity * sizeof(int)) +
		Min(capacity, MAX_GROUPS) * sizeof(Group);
}

/* Forget all keys, and how many were given up. */
void
pv_lru_clear(PvLru *lru)
{
	lru->nused = 0;
	lru->evictions = 0;
	for (int i = 0; i < lru->capacity; i++)
		buckets_of(lru)[i] = NOWHERE;
	for (int i = 0; i < ngroups(lru); i++)
		group_at(lru, i)->count = 0;
}

/* Initialize a table in memory of pv_lru_size() bytes. */
void
pv_lru_init(PvLru *lru, int capacity)
{
	lru->capacity = capacity;
	pv_lru_clear(lru);
}

/*
 * Return the index of a group, or, if it has no places, of a free one; if
 * there is none, that of a group that it is taken for.
 */
static int
find_group(const PvLru *lru, uint64 key)
{
	int			unused = key % ngroups(lru);

	for (int i = ngroups(lru) - 1; i >= 0; i--)
	{
		if (group_at(lru, i)->count == 0)
			unused = i;
		else if (group_at(lru, i)->key == key)
			return i;
	}
	return unused;
}

/* Take a place out of its group. */
static void
leave_group(PvLru *lru, int place)
{
	Node	   *node = node_at(lru, place);
	Group	   *group = group_at(lru, node->group);

	group->count--;
	if (node->newer != NOWHERE)
		node_at(lru, node->newer)->older = node->older;
	else
		group->newest = node->older;
	if (node->older != NOWHERE)
		node_at(lru, node->older)->newer = node->newer;
	else
		group->oldest = node->newer;
}

/* Make a place, which is in no group, the newest of this one. */
static void
join_group(PvLru *lru, int place, uint64 key)
{
	int			i = find_group(lru, key);
	Group	   *group = group_at(lru, i);
	Node	   *node = node_at(lru, place);

	if (group->count == 0)
	{
		group->key = key;
		group->newest = group->oldest = NOWHERE;
	}
	node->group = i;
	node->newer = NOWHERE;
	node->older = group->newest;
	if (group->newest != NOWHERE)
		node_at(lru, group->newest)->newer = place;
	else
		group->oldest = place;
	group->newest = place;
	group->count++;
}

/*
 * Return the index of the group that gives up a place for a new key of a
 * group.
 */
static int
victim(const PvLru *lru, uint64 key)
{
	int			own = find_group(lru, key);
	int			most = 0;

	for (int i = 1; i < ngroups(lru); i++)
	{
		if (group_at(lru, i)->count > group_at(lru, most)->count)
			most = i;
	}
	if (group_at(lru, own)->count > 0 &&
		group_at(lru, own)->count + 1 >= group_at(lru, most)->count)
		return own;
	return most;
}

/* Take the place that gives way to a new key of the group. */
static int
evict(PvLru *lru, uint64 group)
{
	int			place = group_at(lru, victim(lru, group))->oldest;
	int		   *link = bucket_of(lru, &node_at(lru, place)->key);

	while (*link != place)
		link = &node_at(lru, *link)->chain;
	*link = node_at(lru, place)->chain;
	leave_group(lru, place);
	lru->evictions++;
	return place;
}

/*
 * Return the place of a key, or -1 if it has none.  This is not a use of it.
 */
int
pv_lru_find(const PvLru *lru, const PvLruKey *key)
{
	int			i;

	if (lru->capacity == 0)
		return NOWHERE;
	i = *bucket_of(lru, key);
	while (i != NOWHERE && (node_at(lru, i)->key.database != key->database ||
							node_at(lru, i)->key.relid != key->relid ||
							node_at(lru, i)->key.number != key->number))
		i = node_at(lru, i)->chain;
	return i;
}

/*
 * Set *place to the place of a key, which is in this group from now on, as its
 * most recently used one.  Return false if it is new there, so that the place
 * has what belonged to another key, or nothing.  The capacity must not be 0.
 */
bool
pv_lru_touch(PvLru *lru, const PvLruKey *key, uint64 group, int *place)
{
	int			i = pv_lru_find(lru, key);
	bool		known = i != NOWHERE;

	if (known)
		leave_group(lru, i);
	else
	{
		int		   *bucket = bucket_of(lru, key);

		i = lru->nused < lru->capacity ? lru->nused++ : evict(lru, group);
		node_at(lru, i)->key = *key;
		node_at(lru, i)->chain = *bucket;
		*bucket = i;
	}
	join_group(lru, i, group);
	*place = i;
	return known;
}

/*
 * Does a new key of this group get a place that the group does not lose
 * elsewhere?
 */
bool
pv_lru_has_room(const PvLru *lru, uint64 group)
{
	if (lru->nused < lru->capacity)
		return true;
	return lru->capacity > 0 &&
		group_at(lru, victim(lru, group))->key != group;
}

/*
 * Return the place after this one, or the first one after -1, or -1 if there
 * is none: group by group, and those of a group from the oldest to the newest.
 */
int
pv_lru_next(const PvLru *lru, int place)
{
	int			group = -1;

	if (place != NOWHERE)
	{
		if (node_at(lru, place)->newer != NOWHERE)
			return node_at(lru, place)->newer;
		group = node_at(lru, place)->group;
	}
	while (++group < ngroups(lru))
	{
		if (group_at(lru, group)->count > 0)
			return group_at(lru, group)->oldest;
	}
	return NOWHERE;
}
