/*-------------------------------------------------------------------------
 *
 * check_space.c
 *	  The rows of parvacuum_check() about tables and indexes that are larger
 *	  than what is in them.
 *
 * No page of a table or an index is read.  The free space map, which the last
 * vacuum has left, says what is free: the whole of it, or an even sample.  The
 * statistics say how large the entries of an index are.  Both are estimates,
 * and the rows say so.
 *
 * Sessions run this.  A relation is locked for a moment with AccessShareLock;
 * one whose lock is not to be had at once is left out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/hash.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/catalog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "entry/dispatch.h"
#include "sql/check.h"

/* Relations are checked from this size on, and may be this much too large */
#define GROWN_PAGES				1280
#define GROWN_FACTOR			2.0

/* Pages that the free space map is asked for */
#define SAMPLED_PAGES			4096

/* What a page of an index is filled to when it is built, and its overhead */
#define INDEX_FILL				0.9
#define INDEX_PAGE_OVERHEAD		40

/*
 * Return the evidence that most of the relation is free by its free space map,
 * beside what the fillfactor of a table leaves free.  Return NULL if that is
 * not so, or if it is locked.
 */
static const char *
mostly_free(Form_pg_class form)
{
	Relation	rel = pv_open_unlocked(form->oid, AccessShareLock);
	BlockNumber pages;
	BlockNumber step;
	double		bytes = 0;
	double		wanted = 0;
	double		share;
	int			n = 0;

	if (rel == NULL)
		return NULL;
	pages = RelationGetNumberOfBlocks(rel);
	step = pages / SAMPLED_PAGES + 1;
	for (BlockNumber block = 0; block < pages; block += step)
	{
		CHECK_FOR_INTERRUPTS();
		bytes += GetRecordedFreeSpace(rel, block);
		n++;
	}
	if (form->relkind != RELKIND_INDEX)
		wanted = (100 - RelationGetFillFactor(rel, HEAP_DEFAULT_FILLFACTOR)) /
			100.0;
	relation_close(rel, AccessShareLock);
	if (pages < GROWN_PAGES)
		return NULL;
	share = Max(bytes / ((double) n * BLCKSZ) - wanted, 0) / (1 - wanted);
	return share < 1 - 1 / GROWN_FACTOR ? NULL :
		psprintf("%u pages, about %.0f %% of them free (an estimate, from the free space map)",
				 pages, share * 100);
}

/*
 * Is most of the table free?  The next rows will go there, but until then all
 * of it is read by each scan.
 */
void
pv_check_free_space(List **rows, Form_pg_class form)
{
	const char *evidence;

	if ((BlockNumber) form->relpages < GROWN_PAGES ||
		form->relam != HEAP_TABLE_AM_OID)
		return;
	evidence = mostly_free(form);
	if (evidence == NULL)
		return;
	pv_advise(rows, form, PV_ADVICE, "free_space", NULL,
			  "Most of the table is free space, which each scan of the table reads.",
			  evidence,
			  psprintf("If there will not be as many rows again, rewrite it: VACUUM (FULL) %s, which locks the table meanwhile.  Vacuum it more often, so that it does not grow.",
					   pv_qualified_name(form)));
}

/*
 * Return the bytes that an entry of the index takes in a page on average; 0 if
 * a column has no statistics, or no fixed size in GiST, which may store
 * something else than the column has.
 */
static double
entry_size(Form_pg_class form, Form_pg_index index)
{
	int			bytes = 0;

	for (int i = 0; i < index->indnatts; i++)
	{
		HeapTuple	tuple = SearchSysCache2(ATTNUM,
											ObjectIdGetDatum(form->oid),
											Int16GetDatum(i + 1));
		Form_pg_attribute att;
		int			width;

		if (!HeapTupleIsValid(tuple))
			return 0;
		att = (Form_pg_attribute) GETSTRUCT(tuple);
		width = att->attlen;
		if (width <= 0 && form->relam != GIST_AM_OID)
			width = index->indkey.values[i] != 0 ?
				get_attavgwidth(index->indrelid, index->indkey.values[i]) :
				get_attavgwidth(form->oid, i + 1);
		bytes = att_align_nominal(bytes, att->attalign) + width;
		ReleaseSysCache(tuple);
		if (width <= 0)
			return 0;
	}
	return MAXALIGN(sizeof(IndexTupleData) + bytes) + sizeof(ItemIdData);
}

/*
 * Return how many pages an index would have if it were built now; 0 if that is
 * not known.
 *
 * Equal keys that share one entry make it smaller than this, so a row may be
 * missing, but none comes without reason.  The size of a GIN or BRIN index
 * does not follow from the number of rows.
 */
static double
expected_pages(Form_pg_class form, Form_pg_index index)
{
	double		size;

	if (form->reltuples < 0)
		return 0;
	switch (form->relam)
	{
		case HASH_AM_OID:
			size = MAXALIGN(sizeof(IndexTupleData) + sizeof(uint32)) +
				sizeof(ItemIdData);
			return form->reltuples * size /
				(BLCKSZ * HASH_DEFAULT_FILLFACTOR / 100.0) + 1;
		case BTREE_AM_OID:
		case GIST_AM_OID:
		case SPGIST_AM_OID:
			size = entry_size(form, index);
			return size == 0 ? 0 : form->reltuples * size /
				((BLCKSZ - INDEX_PAGE_OVERHEAD) * INDEX_FILL) + 1;
		default:
			return 0;
	}
}

/* Is an index much larger than it would be if it were built now? */
void
pv_check_index(List **rows, Form_pg_class form)
{
	HeapTuple	tuple;
	bool		concurrently;
	double		expected;
	BlockNumber pages = form->relpages; /* there it has a sign */
	const char *evidence;

	if (pages < GROWN_PAGES)
		return;
	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(form->oid));
	if (!HeapTupleIsValid(tuple))
		return;
	expected = expected_pages(form, (Form_pg_index) GETSTRUCT(tuple));
	concurrently = !IsCatalogRelationOid(form->oid) &&
		!((Form_pg_index) GETSTRUCT(tuple))->indisexclusion;
	ReleaseSysCache(tuple);

	if (expected > 0 && pages > expected * GROWN_FACTOR)
		evidence = psprintf("%u pages, about %.0f for %.0f entries (an estimate, from the statistics)",
							pages, expected, form->reltuples);
	else
		evidence = mostly_free(form);
	if (evidence == NULL)
		return;
	pv_advise(rows, form, PV_ADVICE, "grown_index", NULL,
			  "The index is much larger than its entries need, which slows down index scans and vacuums.",
			  evidence,
			  psprintf("REINDEX INDEX %s%s%s; to keep it small, vacuum the table more often%s.",
					   concurrently ? "CONCURRENTLY " : "",
					   pv_qualified_name(form),
					   concurrently ? "" : ", which locks the table meanwhile",
					   form->relam == BTREE_AM_OID ?
					   " or call parvacuum_sweep()" : ""));
}
