/*-------------------------------------------------------------------------
 *
 * kept.c
 *	  The dead items that vacuums keep, should they be interrupted.
 *
 * Before the engine vacuums indexes, it writes the dead items to a file and
 * enters the table here.  From then on it notes here which indexes are done,
 * and on which segments of the table the second heap pass has begun.  If it is
 * interrupted, the next vacuum of the table finishes what is left
 * (engine/keep.c).
 *
 * engine/keep.c also says why that is right.  What it takes of this file:
 *
 * - Everything is in main shared memory but the items themselves.  So it ends
 *	 with the life of the server.  The files have the names of temporary files,
 *	 which core removes when the server starts.
 * - A number ("token") is never used again in one life of the server.  Who
 *	 notes something gives the token, and nothing happens if what it stands for
 *	 has been dropped.
 * - What is noted is seen by whoever locks the table afterwards.
 *
 * The vacuum that keeps its items and the one that takes them over hold
 * ShareUpdateExclusiveLock on the table, so there is one at a time.  Its
 * workers note things, too.  Others only drop what is kept, which is always
 * right: what nobody finishes the next vacuum finds again.
 *
 * The files of all tables together have parvacuum.keep_limit.  If there is no
 * room for one more, the owner who has the most gives way, so nobody can take
 * the room of others.
 *
 * One lightweight lock covers all.  It is held for a short time, and not while
 * files are written or removed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_tablespace.h"
#include "common/file_utils.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/shmem.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/settings.h"
#include "stats/kept.h"

typedef struct KeptShared
{
	uint64		life;			/* a number made at random with this memory */
	uint64		last_token;
	pg_atomic_uint32 nused;		/* slots in use, to be read without the lock */
	PvKept		slots[PV_KEPT_SLOTS];	/* token 0: the slot is free */
} KeptShared;

/* Which slots are meant */
typedef bool (*Matches) (const PvKept *kept, const void *arg);

/* Vacuums that may take over the same without getting any further */
#define MAX_IDLE				2

static KeptShared *shared = NULL;
static LWLock *lock;

Size
pv_kept_shmem_size(void)
{
	return sizeof(KeptShared);
}

/* Find it or set it up.  The caller holds AddinShmemInitLock. */
void
pv_kept_shmem_startup(LWLock *its_lock)
{
	bool		found;

	shared = ShmemInitStruct("parvacuum kept items", pv_kept_shmem_size(),
							 &found);
	lock = its_lock;
	if (found)
		return;
	memset(shared, 0, pv_kept_shmem_size());
	pg_atomic_init_u32(&shared->nused, 0);
	if (!pg_strong_random(&shared->life, sizeof(shared->life)))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random number")));
}

/*
 * Write the path of the file of the items, of MAXPGPATH bytes.  Return the
 * number of this life of the server, which the file has, too.
 */
uint64
pv_kept_path(const PvKept *kept, char *path)
{
	char		folder[MAXPGPATH];

	TempTablespacePath(folder, kept->tablespace);
	snprintf(path, MAXPGPATH, "%s/%s_parvacuum_%016llx.%llu", folder,
			 PG_TEMP_FILE_PREFIX, (unsigned long long) shared->life,
			 (unsigned long long) kept->ref.token);
	return shared->life;
}


/* ----------------------------------------------------------------
 *		Dropping
 * ----------------------------------------------------------------
 */

/* Free a slot.  The caller holds the lock, and removes the file afterwards. */
static void
free_slot(PvKept *slot)
{
	slot->ref.token = 0;
	slot->complete = false;
	pg_atomic_fetch_sub_u32(&shared->nused, 1);
}

/* Remove the file of what is no longer kept.  There may be none. */
void
pv_kept_remove_file(const PvKept *kept)
{
	char		path[MAXPGPATH];

	(void) pv_kept_path(kept, path);
	if (unlink(path) != 0 && errno != ENOENT)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", path)));
}

/*
 * Free the first slot that matches, and set *dropped to what it had.  Return
 * false if there is none.  Each DROP of any session comes here, so look no
 * further than the slots in use, which mostly are the first ones.
 */
static bool
drop_first(Matches matches, const void *arg, PvKept *dropped)
{
	uint32		left;
	bool		found = false;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	left = pg_atomic_read_u32(&shared->nused);
	for (int i = 0; left > 0 && !found; i++)
	{
		PvKept	   *slot = &shared->slots[i];

		if (slot->ref.token == 0)
			continue;
		left--;
		found = matches(slot, arg);
		if (found)
		{
			*dropped = *slot;
			free_slot(slot);
		}
	}
	LWLockRelease(lock);
	return found;
}

/*
 * Drop all that matches.  A file that another process has open can still be
 * read.  Return whether there was anything.
 */
static bool
drop_all(Matches matches, const void *arg)
{
	PvKept		dropped;
	bool		any = false;

	if (shared == NULL || pg_atomic_read_u32(&shared->nused) == 0)
		return false;
	while (drop_first(matches, arg, &dropped))
	{
		pv_kept_remove_file(&dropped);
		any = true;
	}
	return any;
}

static bool
is_named(const PvKept *kept, const void *ref)
{
	return kept->ref.token == ((const PvKeptRef *) ref)->token;
}

static bool
is_of_table(const PvKept *kept, const void *relid)
{
	return kept->relid == *(const Oid *) relid &&
		kept->database == MyDatabaseId;
}

static bool
is_of_database(const PvKept *kept, const void *database)
{
	return kept->database == *(const Oid *) database;
}

static bool
is_in_tablespace(const PvKept *kept, const void *tablespace)
{
	return kept->tablespace == *(const Oid *) tablespace;
}

/*
 * Is this made invalid by a vacuum of the table and file in arg, which takes
 * over what arg's token names?  Tools that swap the files of tables can make
 * another table have this file again.
 */
static bool
is_invalidated(const PvKept *kept, const void *arg)
{
	const PvKept *vacuum = arg;

	return kept->ref.token != vacuum->ref.token &&
		(is_of_table(kept, &vacuum->relid) ||
		 pv_locator_equals(kept->locator, vacuum->locator));
}

/*
 * A vacuum of the table begins.  Drop what is kept of the table or of its file,
 * but for what the vacuum takes over, which may be NULL.
 */
void
pv_kept_begin_vacuum(Relation rel, const PvKeptRef *taken_over)
{
	PvKept		vacuum = {.relid = RelationGetRelid(rel),
	.locator = pv_locator(rel)};

	if (taken_over != NULL)
		vacuum.ref = *taken_over;
	(void) drop_all(is_invalidated, &vacuum);
}

/* Drop it, if that has not been done before. */
void
pv_kept_drop(const PvKeptRef *ref)
{
	if (ref->token != 0)
		(void) drop_all(is_named, ref);
}

/*
 * Drop what is kept of this object: a table of this database, a database, or a
 * tablespace that has files of items.  Return false if nothing is.
 */
bool
pv_kept_drop_object(Oid classId, Oid objectId)
{
	Assert(classId == RelationRelationId || classId == DatabaseRelationId ||
		   classId == TableSpaceRelationId);
	return drop_all(classId == RelationRelationId ? is_of_table :
					classId == DatabaseRelationId ? is_of_database :
					is_in_tablespace, &objectId);
}


/* ----------------------------------------------------------------
 *		Keeping
 * ----------------------------------------------------------------
 */

/* What is kept of tables of one owner */
typedef struct OwnersPart
{
	uint64		bytes;
	int			slots;
	PvKept	   *oldest;			/* NULL: nothing */
} OwnersPart;

/* Add up what is kept of the tables of one owner.  The caller holds the lock. */
static OwnersPart
part_of(Oid owner)
{
	OwnersPart	part = {0};

	for (int i = 0; i < PV_KEPT_SLOTS; i++)
	{
		PvKept	   *slot = &shared->slots[i];

		if (slot->ref.token == 0 || slot->owner != owner)
			continue;
		part.bytes += slot->bytes;
		part.slots++;
		if (part.oldest == NULL || slot->ref.token < part.oldest->ref.token)
			part.oldest = slot;
	}
	return part;
}

/*
 * Return the slot that makes room for another one: the oldest one of the owner
 * who has the most bytes, or the most slots if there is no other one.  What is
 * wanted counts for its owner.  Return NULL if he would have the most, but has
 * nothing to give.  The caller holds the lock.
 */
static PvKept *
find_oldest(const PvKept *wanted, bool by_slots)
{
	OwnersPart	most = part_of(wanted->owner);

	most.bytes += wanted->bytes;
	most.slots++;
	for (int i = 0; i < PV_KEPT_SLOTS; i++)
	{
		const PvKept *kept = &shared->slots[i];
		OwnersPart	part;

		if (kept->ref.token == 0 || kept->owner == wanted->owner)
			continue;
		part = part_of(kept->owner);
		if (by_slots ? part.slots > most.slots : part.bytes > most.bytes)
			most = part;
	}
	return most.oldest;
}

/*
 * Return the first free slot if there is room for that many bytes more, else
 * NULL.  The caller holds the lock.
 */
static PvKept *
find_room(uint64 bytes, bool *by_slots)
{
	PvKept	   *room = NULL;

	for (int i = PV_KEPT_SLOTS - 1; i >= 0; i--)
	{
		if (shared->slots[i].ref.token == 0)
			room = &shared->slots[i];
		else
			bytes += shared->slots[i].bytes;
	}
	*by_slots = room == NULL;
	return bytes <= (uint64) pv_guc_keep_limit * 1024 ? room : NULL;
}

/*
 * Enter what is wanted, if there is room.  Otherwise drop what makes room for
 * it, and set *dropped to that, with token 0 if nothing can be dropped.
 */
static bool
try_to_enter(PvKept *wanted, PvKept *dropped)
{
	bool		by_slots;
	PvKept	   *slot;
	PvKept	   *oldest = NULL;

	dropped->ref.token = 0;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	slot = find_room(wanted->bytes, &by_slots);
	if (slot != NULL)
	{
		wanted->ref.slot = slot - shared->slots;
		wanted->ref.token = ++shared->last_token;
		*slot = *wanted;
		pg_atomic_fetch_add_u32(&shared->nused, 1);
	}
	else
		oldest = find_oldest(wanted, by_slots);
	if (oldest != NULL)
	{
		*dropped = *oldest;
		free_slot(oldest);
	}
	LWLockRelease(lock);
	return slot != NULL;
}

/*
 * Reserve a slot for the dead items of the table, and the bytes of their file,
 * and begin to fill in *kept.  Drop what was kept of the table before.  Return
 * false if there is no room.  Write the file then and call pv_kept_complete(),
 * or pv_kept_drop() and pv_kept_remove_file(), also after an error.
 */
bool
pv_kept_reserve(Relation rel, uint64 bytes, PvKept *kept)
{
	PvKept		dropped;

	(void) pv_kept_drop_object(RelationRelationId, RelationGetRelid(rel));
	memset(kept, 0, sizeof(*kept));
	kept->database = MyDatabaseId;
	kept->tablespace = MyDatabaseTableSpace;
	kept->relid = RelationGetRelid(rel);
	kept->locator = pv_locator(rel);
	kept->owner = rel->rd_rel->relowner;
	kept->since = GetCurrentTimestamp();
	kept->bytes = bytes;
	kept->vacuumed_at = pv_last_vacuum(RelationGetRelid(rel));

	while (!try_to_enter(kept, &dropped))
	{
		if (dropped.ref.token == 0)
			return false;
		pv_kept_remove_file(&dropped);
	}
	return true;
}

/*
 * Lock the slot of what is meant, and return it.  The caller must release the
 * lock.  If it has been dropped, return NULL without the lock.
 */
static PvKept *
lock_slot(const PvKeptRef *ref)
{
	PvKept	   *slot = &shared->slots[ref->slot];

	if (ref->token == 0)
		return NULL;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (slot->ref.token == ref->token)
		return slot;
	LWLockRelease(lock);
	return NULL;
}

/*
 * The file is complete.  From now on the items are kept, with what *kept has.
 * Return false if they have been dropped meanwhile.
 */
bool
pv_kept_complete(const PvKept *kept)
{
	PvKept	   *slot = lock_slot(&kept->ref);

	if (slot == NULL)
		return false;
	*slot = *kept;
	slot->complete = true;
	LWLockRelease(lock);
	return true;
}

/* Is the index one of those that are done, with the same file? */
bool
pv_kept_has_index(const PvKept *kept, Relation indrel)
{
	PvLocator	locator = pv_locator(indrel);

	for (int i = 0; i < kept->ndone; i++)
	{
		if (kept->done[i].indexrelid == RelationGetRelid(indrel) &&
			pv_locator_equals(kept->done[i].locator, locator))
			return true;
	}
	return false;
}

/* The index has no entries for the kept items any more. */
void
pv_kept_index_done(const PvKeptRef *ref, Relation indrel)
{
	PvKept	   *slot = lock_slot(ref);

	if (slot == NULL)
		return;
	if (slot->ndone < PV_KEPT_MAX_INDEXES)
	{
		PvKeptIndex *done = &slot->done[slot->ndone++];

		done->indexrelid = RelationGetRelid(indrel);
		done->locator = pv_locator(indrel);
		slot->idle = 0;
	}
	LWLockRelease(lock);
}

/*
 * The second heap pass is about to change pages of the segments before "end".
 * It claims segments in ascending order, so those from the highest "end" on
 * have not been begun.
 */
void
pv_kept_begin_segments(const PvKeptRef *ref, uint32 end)
{
	PvKept	   *slot = lock_slot(ref);

	if (slot == NULL)
		return;
	slot->begun = Max(slot->begun, end);
	slot->idle = 0;
	LWLockRelease(lock);
}

/*
 * The vacuum ends early by itself, for another session unless yielded_at is 0.
 * With goes_on the next one is to go on with the heap scan, too.  Return false
 * if nothing is kept.
 */
bool
pv_kept_end_early(const PvKeptRef *ref, bool goes_on, TimestampTz yielded_at)
{
	PvKept	   *slot = lock_slot(ref);

	if (slot == NULL)
		return false;
	slot->scan.goes_on |= goes_on;
	slot->yielded_at = yielded_at;
	LWLockRelease(lock);
	return true;
}

/*
 * A vacuum begins to finish what was found.  Return false if vacuums have tried
 * that before and got no further, or if it has been dropped.
 */
bool
pv_kept_take_over(const PvKept *kept)
{
	PvKept	   *slot = lock_slot(&kept->ref);
	bool		good;

	if (slot == NULL)
		return false;
	good = slot->idle++ < MAX_IDLE;
	LWLockRelease(lock);
	return good;
}

/*
 * Find what is kept of a table of this database.  Return false if nothing is.
 * A slot that the caller must know of was entered by a process that had the
 * lock on the table before, so the number of slots is not too old.
 */
bool
pv_kept_find(Relation rel, PvKept *kept)
{
	Oid			relid = RelationGetRelid(rel);
	bool		found = false;

	if (shared == NULL || pg_atomic_read_u32(&shared->nused) == 0)
		return false;
	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < PV_KEPT_SLOTS && !found; i++)
	{
		const PvKept *slot = &shared->slots[i];

		found = slot->complete && is_of_table(slot, &relid);
		if (found)
			*kept = *slot;
	}
	LWLockRelease(lock);

	/*
	 * A vacuum that the statistics know of and we do not was done by a
	 * library that this process has not loaded.
	 */
	if (found &&
		(!pv_locator_equals(kept->locator, pv_locator(rel)) ||
		 kept->vacuumed_at != pv_last_vacuum(RelationGetRelid(rel))))
		kept->stale = true;
	return found;
}

/* Return the number of tables of which items are kept, and a new array. */
int
pv_kept_list(PvKept **list)
{
	int			n = 0;

	*list = palloc(PV_KEPT_SLOTS * sizeof(PvKept));
	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < PV_KEPT_SLOTS; i++)
	{
		if (shared->slots[i].complete)
			(*list)[n++] = shared->slots[i];
	}
	LWLockRelease(lock);
	return n;
}
