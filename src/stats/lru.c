/*-------------------------------------------------------------------------
 *
 * lru.c
 *	  A bounded table of records, whose groups share its places.
 *
 * Each record has a key and is in a group.  A new record gets a free place.
 * If there is none, the group with the most records gives up the one that it
 * has not used for the longest time, and the group of the new record counts
 * with one more.  So no group takes from others more than an equal share, and
 * at its share it takes from itself.
 *
 * An operation looks through the groups at most, not through the records.
 * With more groups than MAX_GROUPS, some are taken for one.
 *
 * This file knows nothing of processes and locks: the caller holds what covers
 * the memory.  The memory has pointers into itself, so all processes must have
 * it at the same address.  Nothing here fails or allocates memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "stats/records.h"

#define MAX_GROUPS				1024

/* Precedes each record */
typedef struct Node
{
	PvLruKey	key;
	PvLruGroup *group;
	dlist_node	in_group;
	dlist_node	in_bucket;
} Node;

#define NODE_SIZE				MAXALIGN(sizeof(Node))

static inline void *
record_of(Node *node)
{
	return (char *) node + NODE_SIZE;
}

static inline Node *
node_of(const void *record)
{
	return (Node *) ((char *) record - NODE_SIZE);
}

static inline int
ngroups(int capacity)
{
	return Min(capacity, MAX_GROUPS);
}

/* Return the size in bytes of the memory of such a table. */
Size
pv_lru_size(int capacity, Size record_size)
{
	return capacity * (NODE_SIZE + MAXALIGN(record_size) +
					   sizeof(dlist_head)) +
		ngroups(capacity) * sizeof(PvLruGroup);
}

/* Initialize a table in memory of pv_lru_size() bytes. */
void
pv_lru_init(PvLru *lru, int capacity, Size record_size, void *memory)
{
	lru->capacity = capacity;
	lru->node_size = NODE_SIZE + MAXALIGN(record_size);
	lru->nodes = memory;
	lru->buckets = (dlist_head *) (lru->nodes + capacity * lru->node_size);
	lru->groups = (PvLruGroup *) (lru->buckets + capacity);
	pv_lru_clear(lru);
}

/* Remove all records, and forget how many were given up. */
void
pv_lru_clear(PvLru *lru)
{
	lru->nused = 0;
	lru->evictions = 0;
	for (int i = 0; i < lru->capacity; i++)
		dlist_init(&lru->buckets[i]);
	for (int i = 0; i < ngroups(lru->capacity); i++)
	{
		lru->groups[i].count = 0;
		dlist_init(&lru->groups[i].records);
	}
}

static dlist_head *
bucket_of(const PvLru *lru, const PvLruKey *key)
{
	uint32		hash = hash_bytes((const unsigned char *) key, sizeof(*key));

	return &lru->buckets[hash % lru->capacity];
}

/*
 * Return the group with this key, or, if it has no records, a free one; if
 * there is none, the one that it is taken for.
 */
static PvLruGroup *
find_group(const PvLru *lru, uint64 key)
{
	PvLruGroup *unused = &lru->groups[key % ngroups(lru->capacity)];

	for (int i = ngroups(lru->capacity) - 1; i >= 0; i--)
	{
		PvLruGroup *group = &lru->groups[i];

		if (group->count == 0)
			unused = group;
		else if (group->key == key)
			return group;
	}
	return unused;
}

static void
leave_group(Node *node)
{
	node->group->count--;
	dlist_delete(&node->in_group);
}

/* Return the group that gives up a place for a new record of a group. */
static PvLruGroup *
victim(const PvLru *lru, uint64 key)
{
	PvLruGroup *own = find_group(lru, key);
	PvLruGroup *most = lru->groups;

	for (int i = 1; i < ngroups(lru->capacity); i++)
	{
		if (lru->groups[i].count > most->count)
			most = &lru->groups[i];
	}
	return own->count > 0 && own->count + 1 >= most->count ? own : most;
}

/* Take the place that gives way to a new record of the group. */
static Node *
evict(PvLru *lru, uint64 group)
{
	Node	   *node = dlist_tail_element(Node, in_group,
										  &victim(lru, group)->records);

	dlist_delete(&node->in_bucket);
	leave_group(node);
	lru->evictions++;
	return node;
}

/* Return the record with this key, or NULL.  This is not a use of it. */
void *
pv_lru_find(const PvLru *lru, const PvLruKey *key)
{
	dlist_iter	iter;

	if (lru->capacity == 0)
		return NULL;
	dlist_foreach(iter, bucket_of(lru, key))
	{
		Node	   *node = dlist_container(Node, in_bucket, iter.cur);

		if (memcmp(&node->key, key, sizeof(*key)) == 0)
			return record_of(node);
	}
	return NULL;
}

/*
 * Return the record with this key, which is in this group from now on, as its
 * most recently used one.  Set *known to false if it is new, so that it has
 * the contents of another one, or of the memory.  The capacity must not be 0.
 */
void *
pv_lru_touch(PvLru *lru, const PvLruKey *key, uint64 group, bool *known)
{
	void	   *record = pv_lru_find(lru, key);
	PvLruGroup *to;
	Node	   *node;

	*known = record != NULL;
	if (*known)
	{
		node = node_of(record);
		leave_group(node);
	}
	else
	{
		node = lru->nused == lru->capacity ? evict(lru, group) :
			(Node *) (lru->nodes + lru->nused++ * lru->node_size);
		node->key = *key;
		dlist_push_head(bucket_of(lru, key), &node->in_bucket);
	}
	to = find_group(lru, group);
	if (to->count++ == 0)
		to->key = group;
	node->group = to;
	dlist_push_head(&to->records, &node->in_group);
	return record_of(node);
}

/* Does a new record of this group get a place without the group losing one? */
bool
pv_lru_has_room(const PvLru *lru, uint64 group)
{
	return lru->nused < lru->capacity ||
		(lru->capacity > 0 && victim(lru, group)->key != group);
}

/*
 * Return the record after this one, or the first one after NULL, or NULL: group
 * by group, and of a group the least recently used one first.
 */
void *
pv_lru_next(const PvLru *lru, const void *record)
{
	PvLruGroup *group = lru->groups;

	if (record != NULL)
	{
		Node	   *node = node_of(record);

		group = node->group;
		if (dlist_has_prev(&group->records, &node->in_group))
			return record_of(dlist_container(Node, in_group,
											 node->in_group.prev));
		group++;
	}
	for (; group < lru->groups + ngroups(lru->capacity); group++)
	{
		if (group->count > 0)
			return record_of(dlist_tail_element(Node, in_group,
												&group->records));
	}
	return NULL;
}
