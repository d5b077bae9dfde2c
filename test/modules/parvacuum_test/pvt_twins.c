/*-------------------------------------------------------------------------
 *
 * pvt_twins.c
 *	  SQL functions that compare twins: tables that had the same contents, one
 *	  of which was vacuumed by parvacuum and the other by stock VACUUM; and
 *	  their B-trees.
 *
 * test/pages.sql compares the same in SQL, and says why twins may differ in some
 * things.  These functions are for millions of pages.  Nothing else may write to
 * the tables meanwhile.
 *
 * A page is copied under a share lock, and compared without one.  So an error
 * never leaves a lock behind.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "access/visibilitymap.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(parvacuum_test_compare_pages);
PG_FUNCTION_INFO_V1(parvacuum_test_compare_btrees);

/* Where twins can differ */
typedef enum Kind
{
	PAGE_HEADER,
	LINE_POINTERS,
	TUPLE,
	INSERTER_NOT_FROZEN,
	INSERTER_FROZEN,
	DELETER,
	TUPLE_HEADER,
	VISIBILITY_MAP,
	FREE_SPACE_MAP,
	NKINDS
} Kind;

static const char *const kinds[NKINDS] = {
	[PAGE_HEADER] = "page header",
	[LINE_POINTERS] = "line pointers",
	[TUPLE] = "tuple",
	[INSERTER_NOT_FROZEN] = "inserter is not frozen",
	[INSERTER_FROZEN] = "inserter is frozen",
	[DELETER] = "deleter is there",
	[TUPLE_HEADER] = "tuple header",
	[VISIBILITY_MAP] = "visibility map",
	[FREE_SPACE_MAP] = "free space map"
};

/* Differences of one kind: how many, and the first one */
typedef struct Difference
{
	int64		count;
	BlockNumber blkno;
	OffsetNumber offnum;		/* 0 if it is one of the page */
	uint32		stock[3];
	uint32		ours[3];
} Difference;

typedef struct Comparison
{
	Difference	found[NKINDS];
	bool		vacuumed;		/* our table may have more frozen tuples */
	bool		skips_alike;	/* it has at least those of its twin */
	BlockNumber blkno;			/* being compared */
} Comparison;

static void
differ(Comparison *c, Kind kind, OffsetNumber offnum,
	   uint32 s0, uint32 s1, uint32 s2, uint32 o0, uint32 o1, uint32 o2)
{
	Difference *d = &c->found[kind];

	if (d->count++ > 0)
		return;
	d->blkno = c->blkno;
	d->offnum = offnum;
	d->stock[0] = s0;
	d->stock[1] = s1;
	d->stock[2] = s2;
	d->ours[0] = o0;
	d->ours[1] = o1;
	d->ours[2] = o2;
}

/*
 * A tuple without any XID, for readers
 */
static bool
is_frozen(HeapTupleHeader tup)
{
	return (tup->t_infomask & HEAP_XMIN_FROZEN) == HEAP_XMIN_FROZEN &&
		(tup->t_infomask & HEAP_XMAX_INVALID) != 0 &&
		HeapTupleHeaderGetRawXmax(tup) == InvalidTransactionId;
}

/*
 * Compare tuples at the same place.  Command numbers differ, because the
 * statements for one table came before those for the other.
 */
static void
compare_tuples(Comparison *c, OffsetNumber offnum, HeapTupleHeader s,
			   HeapTupleHeader o, Size len)
{
	bool		s_inserter = (s->t_infomask & HEAP_XMIN_FROZEN) == HEAP_XMIN_FROZEN;
	bool		o_inserter = (o->t_infomask & HEAP_XMIN_FROZEN) == HEAP_XMIN_FROZEN;
	TransactionId s_xmax = HeapTupleHeaderGetRawXmax(s);
	TransactionId o_xmax = HeapTupleHeaderGetRawXmax(o);
	uint16		all_hints = HEAP_XMIN_COMMITTED | HEAP_XMAX_COMMITTED |
		HEAP_XMAX_INVALID;
	uint16		hints = all_hints;

	if (o_xmax == InvalidTransactionId)
		hints &= ~HEAP_XMAX_INVALID;

#define DIFFER(kind) \
	differ(c, kind, offnum, s->t_infomask, s->t_infomask2, s_xmax, \
		   o->t_infomask, o->t_infomask2, o_xmax)

	if (!ItemPointerEquals(&s->t_ctid, &o->t_ctid) ||
		HeapTupleHeaderGetRawXmin(s) != HeapTupleHeaderGetRawXmin(o) ||
		HeapTupleHeaderGetNatts(s) != HeapTupleHeaderGetNatts(o) ||
		s->t_hoff != o->t_hoff || len < SizeofHeapTupleHeader ||
		memcmp((char *) s + SizeofHeapTupleHeader,
			   (char *) o + SizeofHeapTupleHeader,
			   len - SizeofHeapTupleHeader) != 0)
		DIFFER(TUPLE);
	if (s_inserter && !o_inserter && c->skips_alike)
		DIFFER(INSERTER_NOT_FROZEN);
	if (o_inserter && !s_inserter && !c->vacuumed)
		DIFFER(INSERTER_FROZEN);
	if (s_xmax == InvalidTransactionId && o_xmax != InvalidTransactionId &&
		c->skips_alike)
		DIFFER(DELETER);
	if (is_frozen(s) == is_frozen(o) && s_inserter == o_inserter &&
		((s->t_infomask & ~hints) !=
		 (o->t_infomask & ~(all_hints & ~s->t_infomask) & ~hints) ||
		 s_xmax != o_xmax || s->t_infomask2 != o->t_infomask2))
		DIFFER(TUPLE_HEADER);
#undef DIFFER
}

/*
 * Compare the items of a page.  Tuples may be at different places of it.
 */
static void
compare_items(Comparison *c, Page stock, Page ours)
{
	OffsetNumber nstock = PageIsNew(stock) ? 0 : PageGetMaxOffsetNumber(stock);
	OffsetNumber nours = PageIsNew(ours) ? 0 : PageGetMaxOffsetNumber(ours);

	if (nstock != nours)
		differ(c, LINE_POINTERS, 0, nstock, 0, 0, nours, 0, 0);
	for (OffsetNumber offnum = 1; offnum <= Min(nstock, nours); offnum++)
	{
		ItemId		s = PageGetItemId(stock, offnum);
		ItemId		o = PageGetItemId(ours, offnum);

		if (ItemIdGetFlags(s) != ItemIdGetFlags(o) ||
			(ItemIdIsNormal(s) && ItemIdGetLength(s) != ItemIdGetLength(o)) ||
			(ItemIdIsRedirected(s) && ItemIdGetRedirect(s) != ItemIdGetRedirect(o)) ||
			(ItemIdIsDead(s) && ItemIdHasStorage(s) != ItemIdHasStorage(o)))
			differ(c, LINE_POINTERS, offnum,
				   ItemIdGetFlags(s), ItemIdGetLength(s), ItemIdGetOffset(s),
				   ItemIdGetFlags(o), ItemIdGetLength(o), ItemIdGetOffset(o));
		else if (ItemIdIsNormal(s))
			compare_tuples(c, offnum,
						   (HeapTupleHeader) PageGetItem(stock, s),
						   (HeapTupleHeader) PageGetItem(ours, o),
						   ItemIdGetLength(s));
	}
}

/*
 * Is there a tuple with this deleter?
 */
static bool
has_deleter(Page page, TransactionId xid)
{
	for (OffsetNumber offnum = 1; offnum <= PageGetMaxOffsetNumber(page); offnum++)
	{
		ItemId		itemid = PageGetItemId(page, offnum);

		if (ItemIdIsNormal(itemid) &&
			HeapTupleHeaderGetRawXmax((HeapTupleHeader) PageGetItem(page, itemid)) == xid)
			return true;
	}
	return false;
}

static void
compare_page_headers(Comparison *c, Page stock, Page ours)
{
	PageHeader	s = (PageHeader) stock;
	PageHeader	o = (PageHeader) ours;
	uint16		same = PD_HAS_FREE_LINES | PD_PAGE_FULL | PD_ALL_VISIBLE;

	if (s->pd_lower != o->pd_lower || s->pd_upper != o->pd_upper ||
		s->pd_special != o->pd_special ||
		s->pd_pagesize_version != o->pd_pagesize_version ||
		(s->pd_flags & same) != (o->pd_flags & same) ||
		(s->pd_prune_xid != o->pd_prune_xid && has_deleter(stock, s->pd_prune_xid)))
		differ(c, PAGE_HEADER, 0,
			   s->pd_lower | (uint32) s->pd_upper << 16, s->pd_flags, s->pd_prune_xid,
			   o->pd_lower | (uint32) o->pd_upper << 16, o->pd_flags, o->pd_prune_xid);
}

static void
copy_page(Relation rel, BlockNumber blkno, BufferAccessStrategy strategy, Page copy)
{
	Buffer		buf = ReadBufferExtended(rel, MAIN_FORKNUM, blkno, RBM_NORMAL, strategy);

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	memcpy(copy, BufferGetPage(buf), BLCKSZ);
	UnlockReleaseBuffer(buf);
}

/*
 * Our table may have more all-frozen pages, but not more all-visible ones: a
 * page that is visible to too few would not be noticed otherwise.  Free space is compared as recorded: it may
 * differ where one of the vacuums has not read the page, but no more than the
 * page has may be recorded for ours.
 */
static void
compare_maps(Comparison *c, Relation stock, Relation ours, Buffer *stock_map,
			 Buffer *our_map, Page our_page)
{
	uint8		s = visibilitymap_get_status(stock, c->blkno, stock_map);
	uint8		o = visibilitymap_get_status(ours, c->blkno, our_map);
	Size		s_space = GetRecordedFreeSpace(stock, c->blkno);
	Size		o_space = GetRecordedFreeSpace(ours, c->blkno);
	PageHeader	header = (PageHeader) our_page;

	if (!c->skips_alike)
		s &= ~VISIBILITYMAP_ALL_FROZEN;
	if ((s & ~o) != 0 || (o & ~s & VISIBILITYMAP_ALL_VISIBLE) != 0)
		differ(c, VISIBILITY_MAP, 0, s, 0, 0, o, 0, 0);
	if (s_space != o_space &&
		(o_space == 0 ||
		 o_space > (Size) (PageIsNew(our_page) ? BLCKSZ : header->pd_upper - header->pd_lower)))
		differ(c, FREE_SPACE_MAP, 0, s_space, 0, 0, o_space, 0, 0);
}

static char *
describe(Comparison *c)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int kind = 0; kind < NKINDS; kind++)
	{
		Difference *d = &c->found[kind];

		if (d->count == 0)
			continue;
		appendStringInfo(&text, "%s%s: " INT64_FORMAT ", first (%u,%u): stock %u %u %u, ours %u %u %u",
						 text.len > 0 ? "; " : "", kinds[kind], d->count,
						 d->blkno, d->offnum, d->stock[0], d->stock[1],
						 d->stock[2], d->ours[0], d->ours[1], d->ours[2]);
	}
	return text.len > 0 ? text.data : NULL;
}

/*
 * parvacuum_test_compare_pages(stock regclass, ours regclass, vacuumed bool,
 *								skips_alike bool, since pg_lsn)
 * returns (pages bigint, changed bigint, differences text)
 *
 * Compares the pages that both tables have, and the maps if they have been
 * vacuumed.  "changed" is the number of pages that one of them has changed
 * after the given position of the WAL.  "differences" is NULL if there are
 * none.
 */
Datum
parvacuum_test_compare_pages(PG_FUNCTION_ARGS)
{
	Relation	stock = table_open(PG_GETARG_OID(0), AccessShareLock);
	Relation	ours = table_open(PG_GETARG_OID(1), AccessShareLock);
	bool		vacuumed = PG_GETARG_BOOL(2);
	XLogRecPtr	since = PG_GETARG_LSN(4);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	BlockNumber pages = Min(RelationGetNumberOfBlocks(stock),
							RelationGetNumberOfBlocks(ours));
	int64		changed = 0;
	Buffer		stock_map = InvalidBuffer;
	Buffer		our_map = InvalidBuffer;
	PGAlignedBlock s,
				o;
	Comparison	c = {.vacuumed = vacuumed,.skips_alike = PG_GETARG_BOOL(3)};
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3] = {false};
	char	   *differences;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	for (c.blkno = 0; c.blkno < pages; c.blkno++)
	{
		CHECK_FOR_INTERRUPTS();
		copy_page(stock, c.blkno, strategy, s.data);
		copy_page(ours, c.blkno, strategy, o.data);
		changed += PageGetLSN(s.data) > since || PageGetLSN(o.data) > since;
		compare_page_headers(&c, s.data, o.data);
		compare_items(&c, s.data, o.data);
		if (vacuumed)
			compare_maps(&c, stock, ours, &stock_map, &our_map, o.data);
	}
	if (BufferIsValid(stock_map))
		ReleaseBuffer(stock_map);
	if (BufferIsValid(our_map))
		ReleaseBuffer(our_map);
	table_close(stock, AccessShareLock);
	table_close(ours, AccessShareLock);

	differences = describe(&c);
	values[0] = Int64GetDatum(pages);
	values[1] = Int64GetDatum(changed);
	nulls[2] = differences == NULL;
	values[2] = differences ? CStringGetTextDatum(differences) : (Datum) 0;
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/*
 * All heap TIDs of a B-tree, in its order
 */
typedef struct TidList
{
	ItemPointer tids;
	Size		ntids;
	Size		room;
} TidList;

static void
add_tids(TidList *list, ItemPointer tids, int n)
{
	while (list->ntids + n > list->room)
	{
		list->room *= 2;
		list->tids = repalloc_huge(list->tids, list->room * sizeof(ItemPointerData));
	}
	memcpy(list->tids + list->ntids, tids, n * sizeof(ItemPointerData));
	list->ntids += n;
}

static void
read_leaf(Page page, TidList *list)
{
	BTPageOpaque opaque = (BTPageOpaque) PageGetSpecialPointer(page);

	if (P_IGNORE(opaque))
		return;
	for (OffsetNumber offnum = P_FIRSTDATAKEY(opaque);
		 offnum <= PageGetMaxOffsetNumber(page);
		 offnum++)
	{
		IndexTuple	itup = (IndexTuple) PageGetItem(page, PageGetItemId(page, offnum));

		if (BTreeTupleIsPosting(itup))
			add_tids(list, BTreeTupleGetPosting(itup), BTreeTupleGetNPosting(itup));
		else
			add_tids(list, &itup->t_tid, 1);
	}
}

/*
 * From the leftmost leaf to the right.  Equal keys are ordered by TID, so
 * B-trees with the same entries have the same order of TIDs, wherever their
 * pages begin.
 */
static TidList
read_btree(Oid relid)
{
	Relation	rel = index_open(relid, AccessShareLock);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	TidList		list = {.room = 1024};
	PGAlignedBlock page;
	BlockNumber blkno;

	list.tids = palloc(list.room * sizeof(ItemPointerData));
	copy_page(rel, BTREE_METAPAGE, strategy, page.data);
	blkno = BTPageGetMeta((Page) page.data)->btm_root;
	while (blkno != P_NONE)
	{
		BTPageOpaque opaque;

		CHECK_FOR_INTERRUPTS();
		copy_page(rel, blkno, strategy, page.data);
		opaque = (BTPageOpaque) PageGetSpecialPointer(page.data);
		if (P_ISLEAF(opaque))
		{
			read_leaf(page.data, &list);
			blkno = opaque->btpo_next;
		}
		else
			blkno = BTreeTupleGetDownLink((IndexTuple)
										  PageGetItem(page.data, PageGetItemId(page.data, P_FIRSTDATAKEY(opaque))));
	}
	index_close(rel, AccessShareLock);
	return list;
}

/*
 * parvacuum_test_compare_btrees(stock regclass, ours regclass)
 * returns (entries bigint, difference text)
 */
Datum
parvacuum_test_compare_btrees(PG_FUNCTION_ARGS)
{
	TidList		s = read_btree(PG_GETARG_OID(0));
	TidList		o = read_btree(PG_GETARG_OID(1));
	Size		n = 0;
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	while (n < s.ntids && n < o.ntids && ItemPointerEquals(&s.tids[n], &o.tids[n]))
		n++;
	values[0] = Int64GetDatum(o.ntids);
	nulls[1] = n == s.ntids && n == o.ntids;
	values[1] = nulls[1] ? (Datum) 0 :
		CStringGetTextDatum(psprintf("stock has %zu entries, ours %zu, and they differ from the %zu. on",
									 s.ntids, o.ntids, n + 1));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}
