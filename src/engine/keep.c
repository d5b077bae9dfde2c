/*-------------------------------------------------------------------------
 *
 * keep.c
 *	  Dead items that outlive an interrupted vacuum: written before the index
 *	  scan, and taken over by the next vacuum of the table.
 *
 * The leader writes the items of the store to a file before an index scan
 * begins (pv_keep_items), and all participants note in shared memory what they
 * have done since (stats/kept.c).  If the vacuum completes the index scan, that
 * is dropped (pv_keep_end).  Otherwise the next vacuum by the engine first does
 * what is left of it: the indexes that are not noted as done, and the second
 * heap pass for the segments on which it has not begun.  Then it runs as usual,
 * with cutoffs of its own from the beginning.
 *
 * No live index entry is removed, and no index entry outlives its item:
 *
 * - A kept item is a dead line pointer on a segment on which the second heap
 *	 pass has not begun.  Only a vacuum makes a dead line pointer unused:
 *	 the second heap pass, and pruning in a table without indexes.  Every vacuum
 *	 of a heap table comes to our slot, with ShareUpdateExclusiveLock on the
 *	 table.  There it drops what is kept before it changes a page, or it is the
 *	 one that takes it over.  If another library has taken the slot after us,
 *	 nothing is kept.  So a kept item is dead.  The second heap pass checks
 *	 that, too.
 * - No entry is made in an index for a dead line pointer.  An entry is made for
 *	 a tuple, by the transaction that inserts it before that ends, or by the
 *	 build of an index.  So each entry for a kept item is one that is to be
 *	 removed, and it does no harm to look for them again.
 * - An index that is noted as done had no entries for any kept item, and gets
 *	 none, as long as it has the same file.  A file is named by its tablespace,
 *	 database and number.  ALTER INDEX SET TABLESPACE copies entries to another
 *	 file, and ALTER TABLE can give the file of one index to another one.
 *	 Neither is the index that was noted.  An index made meanwhile is vacuumed,
 *	 too, although it has no entries for kept items.
 * - A segment on which the second heap pass has begun is not kept any more.
 *	 That it begins is noted before its first page is changed.  An item that was
 *	 made unused can have a new row, and be dead again with entries in all
 *	 indexes.
 * - A table whose file has been replaced, as by CLUSTER or TRUNCATE, is another
 *	 one.  Files of tables get shorter only in a vacuum.
 * - All workers of a vacuum have ended when its lock on the table is released,
 *	 also after an error.  So they have noted what they did.
 *
 * To the indexes it is one more index scan of this vacuum.  GIN empties its
 * pending list in each of them (engine/index_am.c).
 *
 * A vacuum of a library that only another process has loaded does not come to
 * our slot.  If it was completed, the statistics know it, and what was kept
 * before is not taken over.
 *
 * Only the leader runs this, between phases.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/transam.h"
#include "postmaster/autovacuum.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/settings.h"
#include "engine/vacuum.h"

/*
 * A vacuum of a table with fewer pages, those of its indexes included, is soon
 * repeated, unless it is worth workers
 */
#define KEEP_MIN_PAGES			1024

/* What the file begins with */
typedef struct FileHead
{
	uint64		life;			/* of the server; see stats/kept.c */
	uint64		token;
	PvLocator	locator;
} FileHead;

/* Fill in what a file must begin with, and return its path. */
static char *
describe_file(const PvKept *kept, FileHead *head)
{
	char	   *path = palloc(MAXPGPATH);

	memset(head, 0, sizeof(*head));
	head->life = pv_kept_path(kept, path);
	head->token = kept->ref.token;
	head->locator = kept->locator;
	return path;
}

/* Open a new file in the folder of temporary files, which may have to be made. */
static FILE *
create_file(const char *path)
{
	char		folder[MAXPGPATH];

	strlcpy(folder, path, sizeof(folder));
	get_parent_directory(folder);
	(void) MakePGDirectory(folder);
	errno = 0;
	return AllocateFile(path, PG_BINARY_W);
}

/*
 * Write the items in the segments before "end".  Return false, with errno set,
 * if that failed.
 */
static bool
write_items(PvDeadTids *store, uint32 end, const PvKept *kept)
{
	FileHead	head;
	char	   *path = describe_file(kept, &head);
	FILE	   *file = create_file(path);
	bool		good = file != NULL &&
		fwrite(&head, sizeof(head), 1, file) == 1 &&
		(store == NULL || pv_deadtids_write(store, end, file) > 0);

	if (file != NULL && FreeFile(file) != 0)
		good = false;
	if (!good && errno == 0)
		errno = ENOSPC;
	pfree(path);
	return good;
}

/* Give up what could not be written.  Somebody may have dropped it before. */
static void
give_up(int code, Datum arg)
{
	const PvKept *kept = (const PvKept *) DatumGetPointer(arg);

	pv_kept_drop(&kept->ref);
	pv_kept_remove_file(kept);
}

/* Note how far the heap scan is: the blocks before this one are done. */
static void
describe_scan(const PvVacuum *vac, BlockNumber upto, PvKeptScan *scan)
{
	const PvCounters *sum = &vac->sum;
	BlockNumber start = vac->goes_on ? vac->kept.scan.upto : 0;
	double		share;

	scan->upto = upto - upto % PV_SEGMENT_BLOCKS;

	/* Other blocks that were scanned will be scanned again */
	share = (double) (Max(scan->upto, start) - start) / Max(sum->covered, 1);
	scan->pages = sum->pages_scanned * share;
	scan->tuples = sum->live_tuples * share;
	if (vac->goes_on)
	{
		scan->pages += vac->kept.scan.pages;
		scan->tuples += vac->kept.scan.tuples;
	}
	scan->tuples_recently_dead = sum->tuples_recently_dead;
	scan->tuples_missed = sum->tuples_missed;
	scan->nonempty_pages = sum->nonempty_pages;
	scan->skippedallvis = sum->skippedallvis;
	scan->relfrozenxid = sum->NewRelfrozenXid;
	scan->relminmxid = sum->NewRelminMxid;
	scan->freeze_min_age = vac->params->freeze_min_age;
	scan->index_vacuuming = vac->do_index_vacuuming;
}

/*
 * Keep the items in the segments before "end"; the heap scan has done the
 * blocks before upto.  Return false, after a message to the log, if that is not
 * possible.
 */
static bool
keep(PvVacuum *vac, uint32 end, BlockNumber upto, bool goes_on)
{
	PvDeadTids *store = vac->leader.store;
	const PvErrorInfo *info = &vac->leader.errinfo;
	PvKept		kept;
	bool		written;

	if (!pv_kept_reserve(vac->rel, sizeof(FileHead) +
						 (store ? pv_deadtids_write(store, end, NULL) : 0),
						 &kept))
	{
		ereport(LOG,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("parvacuum does not keep the dead items of table \"%s.%s.%s\" for the case that its vacuum is interrupted",
						info->dbname, info->relnamespace, info->relname),
				 errdetail("The setting parvacuum.keep_limit leaves no room for them."),
				 errhint("Consider increasing \"parvacuum.keep_limit\".")));
		return false;
	}
	kept.items = store ? pv_deadtids_count_before(store, end) : 0;
	kept.nsegments = end;
	kept.live_tuples = vac->new_live_tuples;
	kept.pages = vac->plan.rel_pages;
	kept.nindexes = vac->leader.nindexes;
	kept.yielded_at = vac->kept.yielded_at;
	describe_scan(vac, upto, &kept.scan);
	kept.scan.goes_on = goes_on;

	/*
	 * Before the end of the heap scan the number of rows is not known.  Most
	 * pages that the next vacuum skips are those that were scanned so far.
	 */
	if (kept.live_tuples < 0 && kept.scan.pages > 0)
		kept.live_tuples = kept.scan.tuples / kept.scan.pages * kept.pages;

	PG_ENSURE_ERROR_CLEANUP(give_up, PointerGetDatum(&kept));
	{
		written = write_items(store, end, &kept);
	}
	PG_END_ENSURE_ERROR_CLEANUP(give_up, PointerGetDatum(&kept));
	if (!written)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write the dead items of table \"%s.%s.%s\" to a temporary file: %m",
						info->dbname, info->relnamespace, info->relname),
				 errdetail("If its vacuum is interrupted, the next one begins anew.")));
	if (!written || !pv_kept_complete(&kept))
	{
		give_up(0, PointerGetDatum(&kept));
		return false;
	}
	vac->leader.shared->kept = kept.ref;
	vac->result->items_kept = kept.items;
	return true;
}

/*
 * Before an index scan: keep the items in the store.  If that is not possible,
 * the vacuum goes on without it.  The heap scan has done the blocks before
 * upto.
 *
 * The items that this vacuum has taken over are in the store, too, if they have
 * been kept until now.  They must not be kept any longer in any case.
 */
void
pv_keep_items(PvVacuum *vac, BlockNumber upto)
{
	uint64		pages = vac->plan.rel_pages;

	for (int i = 0; i < vac->leader.nindexes; i++)
		pages += vac->leader.index_pages[i];
	if (vac->options->may_keep && pv_guc_keep_limit > 0 &&
		pages >= (uint64) Min(KEEP_MIN_PAGES, pv_guc_min_parallel_pages) &&
		keep(vac, pv_deadtids_nsegments(vac->leader.store), upto, false))
		vac->leader.shared->keeps_indexes = true;
	pv_kept_drop(&vac->kept.ref);
}

/*
 * The heap scan ends early.  Keep what it has collected from the blocks before
 * upto, and how far it is.  Return false if that is not possible.  Other blocks
 * may have been scanned, too; the next vacuum will do that again.
 */
bool
pv_keep_scanned(PvVacuum *vac, BlockNumber upto)
{
	return vac->options->may_keep && pv_guc_keep_limit > 0 &&
		upto >= PV_SEGMENT_BLOCKS &&
		keep(vac, upto / PV_SEGMENT_BLOCKS, upto, true) &&
		pv_keep_end_early(vac);
}

/*
 * The vacuum ends early.  If what is kept is of this vacuum, so is what is
 * known of its heap scan.  Return false if nothing is kept.
 */
bool
pv_keep_end_early(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;
	bool		yields =
		pg_atomic_read_u32(&shared->early_end) == PV_END_YIELD;

	return pv_kept_end_early(&shared->kept,
							 shared->kept.token != vac->kept.ref.token,
							 yields ? GetCurrentTimestamp() : 0);
}

/* The index scan is complete, or there is none: nothing is kept any more. */
void
pv_keep_end(PvVacuum *vac)
{
	pv_kept_drop(&vac->leader.shared->kept);
	pv_kept_drop(&vac->kept.ref);
	pv_keep_let_go(vac);
	vac->result->items_kept = 0;
}

/*
 * Can this vacuum do what an earlier one has left?  The failsafe leaves
 * indexes alone, and so do the options of some vacuums.
 */
static bool
can_take_over(const PvVacuum *vac)
{
	const PvKept *kept = &vac->kept;
	const PvParticipant *leader = &vac->leader;

	return vac->options->may_keep && !kept->stale &&
		!pv_failsafe_triggered(leader) &&
		(kept->items == 0 ||
		 (vac->do_index_vacuuming && leader->nindexes > 0 &&
		  kept->nsegments <= pv_deadtids_nsegments(leader->store)));
}

/*
 * Is what the vacuum before has left behind old, so that this one would not
 * advance relfrozenxid far enough?  Half of the ages that autovacuum acts by is
 * old.
 */
static bool
has_left_old(const PvKeptScan *scan)
{
	return (int32) (ReadNextTransactionId() - scan->relfrozenxid) >
		autovacuum_freeze_max_age / 2 ||
		(int32) (ReadNextMultiXactId() - scan->relminmxid) >
		autovacuum_multixact_freeze_max_age / 2;
}

/*
 * Can this vacuum go on with the heap scan of the one before?  Not if that has
 * had other options, or has skipped pages that this one has to read.  A vacuum
 * that somebody asks for does so only if it is a slice, too, or was to be
 * completed: it is to remove what is dead now.
 */
static bool
can_go_on(const PvVacuum *vac)
{
	const PvKept *kept = &vac->kept;
	const PvKeptScan *scan = &kept->scan;
	bool		wanted = pv_is_automatic() || vac->options->deadline != 0 ||
		(vac->options->yields && kept->yielded_at != 0);

	return wanted && scan->goes_on && scan->upto > 0 &&
		scan->upto <= vac->plan.rel_pages &&
		scan->freeze_min_age == vac->params->freeze_min_age &&
		scan->index_vacuuming == vac->do_index_vacuuming &&
		(vac->params->options & VACOPT_DISABLE_PAGE_SKIPPING) == 0 &&
		!(vac->plan.aggressive &&
		  (scan->skippedallvis || has_left_old(scan)));
}

/*
 * Before the first heap pass: take over what an earlier vacuum has kept, or
 * drop it.  Return whether there is anything to be finished.
 */
bool
pv_keep_take_over(PvVacuum *vac)
{
	PvParticipant *leader = &vac->leader;
	PvKept	   *kept = &vac->kept;
	int			ndone = 0;

	if (kept->ref.token != 0 &&
		(!can_take_over(vac) || !pv_kept_take_over(kept)))
		kept->ref.token = 0;
	pv_kept_begin_vacuum(vac->rel, &kept->ref);
	if (kept->ref.token == 0)
		return false;
	vac->goes_on = can_go_on(vac);
	leader->index_is_done = palloc(leader->nindexes * sizeof(bool));
	for (int i = 0; i < leader->nindexes; i++)
	{
		leader->index_is_done[i] = pv_kept_has_index(kept, leader->indrels[i]);
		ndone += leader->index_is_done[i];
	}
	leader->shared->kept = kept->ref;
	vac->result->items_kept = kept->items;
	vac->result->indexes_taken_over = ndone;
	ereport(pv_message_level(vac),
			(errmsg("going on with an interrupted vacuum of \"%s.%s.%s\"",
					leader->errinfo.dbname, leader->errinfo.relnamespace,
					leader->errinfo.relname),
			 errdetail("It has found %lld dead items.  %d of %d indexes are done, and the second heap pass has come to page %u.  The heap scan %s page %u.",
					   (long long) kept->items, ndone, leader->nindexes,
					   kept->begun * PV_SEGMENT_BLOCKS,
					   vac->goes_on ? "goes on with" : "begins with",
					   vac->goes_on ? kept->scan.upto : 0)));
	return true;
}

/*
 * Can the items that are kept be put together with those of the rest of the
 * heap scan, for one index scan?  Not if that has begun, or if items are kept
 * of a segment that will be scanned again.
 */
bool
pv_keep_collects(const PvKept *kept)
{
	return kept->ndone == 0 && kept->begun == 0 &&
		kept->nsegments <= kept->scan.upto / PV_SEGMENT_BLOCKS;
}

/* What follows is not what is noted of the kept items. */
void
pv_keep_let_go(PvVacuum *vac)
{
	PvShared   *shared = vac->leader.shared;

	shared->kept.token = 0;
	shared->keeps_indexes = false;
	vac->leader.index_is_done = NULL;
}

/* Add what an earlier vacuum knew of the blocks that it had scanned. */
void
pv_keep_add_scanned(const PvKeptScan *scan, PvCounters *sum)
{
	if (TransactionIdPrecedes(scan->relfrozenxid, sum->NewRelfrozenXid))
		sum->NewRelfrozenXid = scan->relfrozenxid;
	if (MultiXactIdPrecedes(scan->relminmxid, sum->NewRelminMxid))
		sum->NewRelminMxid = scan->relminmxid;
	sum->tuples_recently_dead += scan->tuples_recently_dead;
	sum->tuples_missed += scan->tuples_missed;
	sum->nonempty_pages = Max(sum->nonempty_pages, scan->nonempty_pages);
	sum->skippedallvis |= scan->skippedallvis;
}

/*
 * Read kept items from segment *first on into the empty store, as many as it
 * has room for, and move *first on behind them.  Return false if there are
 * none left.  If they cannot be read, or somebody has dropped them, the vacuum
 * scans the whole table, and finds those items itself.
 */
bool
pv_keep_load(PvVacuum *vac, uint32 *first)
{
	PvParticipant *leader = &vac->leader;
	FileHead	expected;
	FileHead	head;
	char	   *path;
	FILE	   *file;
	uint32		end = 0;
	PvDeadTidsRead outcome = PV_READ_DAMAGED;

	if (*first >= vac->kept.nsegments || vac->kept.items == 0)
		return false;
	path = describe_file(&vac->kept, &expected);
	file = AllocateFile(path, PG_BINARY_R);
	if (file == NULL && errno == ENOENT)
	{
		vac->goes_on = false;
		return false;
	}
	if (file != NULL && fread(&head, sizeof(head), 1, file) == 1 &&
		memcmp(&head, &expected, sizeof(head)) == 0)
		outcome = pv_deadtids_read(leader->store, *first, file, &end);
	if (file != NULL)
		FreeFile(file);
	if (outcome == PV_READ_DAMAGED)
	{
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not read the dead items that an interrupted vacuum of table \"%s.%s.%s\" has kept in file \"%s\"",
						leader->errinfo.dbname, leader->errinfo.relnamespace,
						leader->errinfo.relname, path),
				 errdetail("The vacuum begins anew.")));
		vac->goes_on = false;
		vac->result->indexes_taken_over = 0;
		return false;
	}
	leader->shared->keeps_indexes = outcome == PV_READ_ALL;
	*first = end;
	vac->result->items_taken_over += pv_deadtids_num_items(leader->store);
	return pv_deadtids_num_items(leader->store) > 0;
}
