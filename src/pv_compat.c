/*-------------------------------------------------------------------------
 *
 * pv_compat.c
 *	  What each major version of PostgreSQL does in its own way, to a heap page
 *	  above all.
 *
 * Leader and workers run this, with a cleanup lock on the page (pruning) or an
 * exclusive one (removing line pointers).
 *
 * On PostgreSQL 15 pruning and freezing are two steps with a WAL record each.
 * heap_page_prune() removes dead tuples, then we look at what it left, decide
 * what to freeze, and freeze.  Between the two looks a running transaction can
 * abort, which makes a tuple dead that pruning had to keep; such a page is
 * pruned again, because a dead tuple with storage must never be frozen nor
 * counted.
 *
 * What must follow the back branches: the oldest_xmin argument of
 * heap_page_prune() (15.8), and the restart on a tuple found dead.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam_xlog.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "access/xloginsert.h"
#include "utils/guc_tables.h"
#include "utils/rel.h"

#include "pv_compat.h"

/* The work on one page, while its tuples are looked at */
typedef struct PageExam
{
	Relation	rel;
	Buffer		buf;
	BlockNumber blkno;
	const PvCutoffs *cutoffs;
	PvPageResult *result;

	/* Trackers for this page; copied out once the page is through */
	TransactionId relfrozenxid;
	MultiXactId relminmxid;

	/*
	 * The last xmin found committed, not to be frozen, and already counted in
	 * the trackers.  Most pages have one inserter, so nearly every tuple is
	 * settled by comparing with this.
	 */
	TransactionId settled_xmin;

	int			nfrozen;
	xl_heap_freeze_tuple frozen[MaxHeapTuplesPerPage];
} PageExam;

/*
 * Compute the cutoffs of a vacuum; returns whether it is aggressive.  Leader
 * only, once, and before the relation's size is read.
 * Core: commands/vacuum.c, vacuum_set_xid_limits.
 */
bool
pv_get_cutoffs(Relation rel, const VacuumParams *params, PvCutoffs *cutoffs)
{
	cutoffs->relfrozenxid = rel->rd_rel->relfrozenxid;
	cutoffs->relminmxid = rel->rd_rel->relminmxid;

	return vacuum_set_xid_limits(rel,
								 params->freeze_min_age,
								 params->freeze_table_age,
								 params->multixact_freeze_min_age,
								 params->multixact_freeze_table_age,
								 &cutoffs->OldestXmin, &cutoffs->OldestMxact,
								 &cutoffs->FreezeLimit,
								 &cutoffs->MultiXactCutoff);
}

/*
 * A live tuple keeps the page all-visible only if its inserter is hinted
 * committed and older than every snapshot.  The hint matters: an inserter that
 * committed asynchronously may not be on disk yet.
 */
static void
note_live_xmin(PageExam *exam, HeapTupleHeader htup)
{
	PvPageResult *result = exam->result;
	TransactionId xmin;

	if (!result->all_visible)
		return;

	if (!HeapTupleHeaderXminCommitted(htup))
	{
		result->all_visible = false;
		return;
	}

	xmin = HeapTupleHeaderGetXmin(htup);
	if (!TransactionIdPrecedes(xmin, exam->cutoffs->OldestXmin))
		result->all_visible = false;
	else if (TransactionIdFollows(xmin, result->vm_conflict_horizon))
		result->vm_conflict_horizon = xmin;
}

/*
 * Is this tuple plainly live, with nothing in its header that freezing would
 * change?  Then it needs neither a visibility check nor a freeze plan.  False
 * only means that the tuple has to be looked at properly.
 */
static inline bool
tuple_is_settled(PageExam *exam, HeapTupleHeader htup)
{
	const uint16 mask = HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID |
	HEAP_XMAX_IS_MULTI | HEAP_MOVED;
	TransactionId xmin;

	if ((htup->t_infomask & mask) != (HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID) ||
		HeapTupleHeaderGetRawXmax(htup) != InvalidTransactionId)
		return false;

	xmin = HeapTupleHeaderGetXmin(htup);
	if (xmin == exam->settled_xmin)
	{
		exam->result->all_frozen = false;
		return true;
	}
	if (!TransactionIdIsNormal(xmin))
	{
		/* frozen or bootstrapped: nothing to do, whatever the cutoffs are */
		return true;
	}
	if (TransactionIdPrecedes(xmin, exam->cutoffs->relfrozenxid) ||
		TransactionIdPrecedes(xmin, exam->cutoffs->FreezeLimit))
		return false;

	/* A new inserter that stays as it is */
	note_live_xmin(exam, htup);
	if (TransactionIdPrecedes(xmin, exam->relfrozenxid))
		exam->relfrozenxid = xmin;
	exam->result->all_frozen = false;
	exam->settled_xmin = xmin;
	return true;
}

/*
 * Decide about one tuple that pruning left with storage.  Returns false if it
 * has become dead, so that the page must be pruned again.
 * Core: access/heap/vacuumlazy.c (15), lazy_scan_prune.
 */
static bool
examine_tuple(PageExam *exam, ItemId itemid, OffsetNumber offnum)
{
	PvPageResult *result = exam->result;
	const PvCutoffs *cutoffs = exam->cutoffs;
	HeapTupleData tuple;
	bool		totally_frozen;

	tuple.t_data = (HeapTupleHeader) PageGetItem(BufferGetPage(exam->buf), itemid);
	if (tuple_is_settled(exam, tuple.t_data))
	{
		result->live_tuples++;
		return true;
	}

	ItemPointerSet(&tuple.t_self, exam->blkno, offnum);
	tuple.t_len = ItemIdGetLength(itemid);
	tuple.t_tableOid = RelationGetRelid(exam->rel);

	switch (HeapTupleSatisfiesVacuum(&tuple, cutoffs->OldestXmin, exam->buf))
	{
		case HEAPTUPLE_DEAD:
			return false;
		case HEAPTUPLE_LIVE:
			result->live_tuples++;
			note_live_xmin(exam, tuple.t_data);
			break;
		case HEAPTUPLE_RECENTLY_DEAD:
			result->recently_dead_tuples++;
			result->all_visible = false;
			break;
		case HEAPTUPLE_DELETE_IN_PROGRESS:

			/*
			 * The deleter will report its deletion when it commits, so until
			 * then the tuple counts as live, as in ANALYZE.
			 */
			result->live_tuples++;
			result->all_visible = false;
			break;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			/* Likewise, the inserter will report it */
			result->all_visible = false;
			break;
	}

	if (heap_prepare_freeze_tuple(tuple.t_data,
								  cutoffs->relfrozenxid, cutoffs->relminmxid,
								  cutoffs->FreezeLimit, cutoffs->MultiXactCutoff,
								  &exam->frozen[exam->nfrozen], &totally_frozen,
								  &exam->relfrozenxid, &exam->relminmxid))
		exam->frozen[exam->nfrozen++].offset = offnum;
	if (!totally_frozen)
		result->all_frozen = false;
	return true;
}

/*
 * Look at everything that pruning left on the page.  Returns false if the page
 * must be pruned again.
 */
static bool
examine_page(PageExam *exam, OffsetNumber *off_loc)
{
	Page		page = BufferGetPage(exam->buf);
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	PvPageResult *result = exam->result;

	result->live_tuples = 0;
	result->recently_dead_tuples = 0;
	result->lpdead_items = 0;
	result->hastup = false;
	result->all_visible = true;
	result->all_frozen = true;
	result->vm_conflict_horizon = InvalidTransactionId;
	exam->settled_xmin = InvalidTransactionId;
	exam->nfrozen = 0;

	for (OffsetNumber offnum = FirstOffsetNumber; offnum <= maxoff;
		 offnum = OffsetNumberNext(offnum))
	{
		ItemId		itemid = PageGetItemId(page, offnum);

		if (!ItemIdIsUsed(itemid))
			continue;

		if (ItemIdIsDead(itemid))
		{
			/*
			 * It will be unused by the time truncation is thought of, so it
			 * does not count as a tuple in the page's way.
			 */
			result->deadoffsets[result->lpdead_items++] = offnum;
			result->all_visible = false;
			continue;
		}

		result->hastup = true;
		if (ItemIdIsRedirected(itemid))
			continue;

		*off_loc = offnum;
		if (!examine_tuple(exam, itemid, offnum))
			return false;
	}

	*off_loc = InvalidOffsetNumber;
	return true;
}

/*
 * Freeze what the examination planned, with one WAL record.
 */
static void
freeze_tuples(PageExam *exam)
{
	Page		page = BufferGetPage(exam->buf);

	START_CRIT_SECTION();

	MarkBufferDirty(exam->buf);
	for (int i = 0; i < exam->nfrozen; i++)
	{
		ItemId		itemid = PageGetItemId(page, exam->frozen[i].offset);

		heap_execute_freeze_tuple((HeapTupleHeader) PageGetItem(page, itemid),
								  &exam->frozen[i]);
	}

	/* The record makes the change safe against truncation of pg_xact */
	if (RelationNeedsWAL(exam->rel))
	{
		XLogRecPtr	recptr = log_heap_freeze(exam->rel, exam->buf,
											 exam->cutoffs->FreezeLimit,
											 exam->frozen, exam->nfrozen);

		PageSetLSN(page, recptr);
	}

	END_CRIT_SECTION();
}

/*
 * Prune one heap page and freeze what is old on it.
 *
 * The caller holds a pin and a cleanup lock, and keeps both.  *off_loc follows
 * the tuple being worked on, for error messages.  The trackers
 * *new_relfrozen_xid and *new_relmin_mxid are moved back to the oldest value
 * that stays on the page.  (PG 17 has core's heap_page_prune_and_freeze() for
 * all of this.)
 */
void
pv_prune_freeze_page(Relation rel, Buffer buf, GlobalVisState *vistest,
					 const PvCutoffs *cutoffs, PvPageResult *result,
					 OffsetNumber *off_loc, TransactionId *new_relfrozen_xid,
					 MultiXactId *new_relmin_mxid)
{
	PageExam	exam;
	int			nnewlpdead;

	exam.rel = rel;
	exam.buf = buf;
	exam.blkno = BufferGetBlockNumber(buf);
	exam.cutoffs = cutoffs;
	exam.result = result;
	result->ndeleted = 0;

	do
	{
		exam.relfrozenxid = *new_relfrozen_xid;
		exam.relminmxid = *new_relmin_mxid;
		result->ndeleted += heap_page_prune(rel, buf, cutoffs->OldestXmin,
											vistest, InvalidTransactionId, 0,
											&nnewlpdead, off_loc);
	} while (!examine_page(&exam, off_loc));

	*new_relfrozen_xid = exam.relfrozenxid;
	*new_relmin_mxid = exam.relminmxid;

	if (exam.nfrozen > 0)
		freeze_tuples(&exam);
}

/*
 * WAL-log that line pointers of a page went from dead to unused.  The caller
 * holds an exclusive lock, has made the change and marked the buffer dirty, and
 * is still in its critical section.  The record carries no conflict horizon:
 * the one that made the items dead did.
 */
void
pv_log_lp_unused(Relation rel, Buffer buf, OffsetNumber *unused, int nunused)
{
	xl_heap_vacuum xlrec;
	XLogRecPtr	recptr;

	xlrec.nunused = nunused;

	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfHeapVacuum);
	XLogRegisterBuffer(0, buf, REGBUF_STANDARD);
	XLogRegisterBufData(0, (char *) unused, nunused * sizeof(OffsetNumber));

	/* NB: PageSetLSN() is a macro that evaluates its argument twice */
	recptr = XLogInsert(RM_HEAP2_ID, XLOG_HEAP2_VACUUM);
	PageSetLSN(BufferGetPage(buf), recptr);
}

/*
 * Make a ring of about so many kilobytes, 0 for none.  A part of it is a ring
 * of core's.
 */
void
pv_ring_create(PvRing *ring, int size_kb)
{
	memset(ring, 0, sizeof(*ring));
	if (size_kb == 0)
		return;

	ring->nparts = Max(1, size_kb / PV_DEFAULT_RING_KB);
	ring->parts = palloc(ring->nparts * sizeof(BufferAccessStrategy));
	for (int i = 0; i < ring->nparts; i++)
		ring->parts[i] = GetAccessStrategy(BAS_VACUUM);
}

/*
 * Is the setting the same for all databases and roles, as far as this process
 * knows?  Then a change of the configuration files changes it here, too.
 */
bool
pv_setting_is_cluster_wide(const char *name)
{
	struct config_generic **settings = get_guc_variables();

	for (int i = 0; i < GetNumConfigOptions(); i++)
	{
		if (strcmp(settings[i]->name, name) == 0)
			return settings[i]->reset_source < PGC_S_GLOBAL;
	}
	return false;
}
