/*-------------------------------------------------------------------------
 *
 * pvt_queue.c
 *	  SQL functions that play launcher, runners, and sessions on a queue.
 *
 * The queue's source is a part of this file, so that what it takes from the
 * server can be replaced: shared memory by this process's own, the clock, the
 * database and the number of the process by variables.  So one session is as many
 * runners as there are places, each with what it has popped, and looks into the
 * queue as well: after each step everything in it is compared with everything
 * else.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "common/pg_prng.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "pvt_queue.h"

/* What stands for the server. */
static TimestampTz now_of_test;
static Oid	database_of_test;
static int	pid_of_test;
static int	wakes_of_test;
static int	canceled_of_test;	/* who got SIGINT last, or 0 */
static bool cancel_pending_of_test; /* a runner that has cancelled itself */
static LWLockPadded lock_of_test;

int			pv_guc_queue_limit = INT_MAX;

static void *
allocate(Size size, bool *found)
{
	*found = false;
	return MemoryContextAlloc(TopMemoryContext, size);
}

static void *
allocate_entries(Size size)
{
	return MemoryContextAlloc(TopMemoryContext, size);
}

/* The first ones serve all queues of this session: they cannot be destroyed. */
static HTAB *
create_hash(const char *name, long size, HASHCTL *info)
{
	static HTAB *hashes[2] = {NULL};
	HTAB	  **hash = &hashes[strstr(name, "requesters") != NULL];
	HASH_SEQ_STATUS status;
	void	   *entry;

	info->alloc = allocate_entries;
	if (*hash == NULL)
		*hash = hash_create(name, size, info, HASH_ELEM | HASH_BLOBS | HASH_ALLOC);
	hash_seq_init(&status, *hash);
	while ((entry = hash_seq_search(&status)) != NULL)
		(void) hash_search(*hash, entry, HASH_REMOVE, NULL);
	return *hash;
}

#define GetCurrentTimestamp() now_of_test
#define MyDatabaseId database_of_test
#define MyProcPid pid_of_test
#define SetLatch(latch) (wakes_of_test++)
#define QueryCancelPending cancel_pending_of_test
#define kill(pid, sig) (canceled_of_test = (pid), 0)
#define before_shmem_exit(function, arg) ((void) (function))
#define ShmemInitStruct(name, size, found) allocate(size, found)
#define ShmemInitHash(name, least, most, info, flags) create_hash(name, most, info)
#define GetNamedLWLockTranche(name) (&lock_of_test)
#include "sched/queue.c"
#undef MyDatabaseId
#undef MyProcPid
#undef kill
#undef QueryCancelPending

PG_FUNCTION_INFO_V1(parvacuum_test_queue);
PG_FUNCTION_INFO_V1(parvacuum_test_queue_wait);
PG_FUNCTION_INFO_V1(parvacuum_test_hire);
PG_FUNCTION_INFO_V1(parvacuum_test_attach);
PG_FUNCTION_INFO_V1(parvacuum_test_dismiss);
PG_FUNCTION_INFO_V1(parvacuum_test_launcher);
PG_FUNCTION_INFO_V1(parvacuum_test_exit);
PG_FUNCTION_INFO_V1(parvacuum_test_begin_scan);
PG_FUNCTION_INFO_V1(parvacuum_test_offer);
PG_FUNCTION_INFO_V1(parvacuum_test_end_scan);
PG_FUNCTION_INFO_V1(parvacuum_test_pop);
PG_FUNCTION_INFO_V1(parvacuum_test_put_back);
PG_FUNCTION_INFO_V1(parvacuum_test_finish);
PG_FUNCTION_INFO_V1(parvacuum_test_should_leave);
PG_FUNCTION_INFO_V1(parvacuum_test_pass_is_over);
PG_FUNCTION_INFO_V1(parvacuum_test_enqueue);
PG_FUNCTION_INFO_V1(parvacuum_test_withdraw);
PG_FUNCTION_INFO_V1(parvacuum_test_cancel);
PG_FUNCTION_INFO_V1(parvacuum_test_is_canceled);
PG_FUNCTION_INFO_V1(parvacuum_test_request_scan);
PG_FUNCTION_INFO_V1(parvacuum_test_call_back);
PG_FUNCTION_INFO_V1(parvacuum_test_drop_database);
PG_FUNCTION_INFO_V1(parvacuum_test_items);
PG_FUNCTION_INFO_V1(parvacuum_test_summaries);
PG_FUNCTION_INFO_V1(parvacuum_test_rests);
PG_FUNCTION_INFO_V1(parvacuum_test_queue_fuzz);

/* What a runner's own process knows. */
typedef struct PvtRunner
{
	uint32		token;
	bool		attached;
	PvItem		item;			/* popped last */
} PvtRunner;

static PvtRunner runners[PV_MAX_RUNNERS];

static const char *const reason_names[] = {
	[PV_WAIT_NONE] = "none",
	[PV_WAIT_WINDOW] = "window",
	[PV_WAIT_LOCK] = "lock",
	[PV_WAIT_HORIZON] = "horizon",
	[PV_WAIT_CANCELED] = "canceled",
	[PV_WAIT_ERROR] = "error",
};

static const char *const state_names[] = {
	[PV_ITEM_QUEUED] = "queued",
	[PV_ITEM_RUNNING] = "running",
	[PV_ITEM_WAITING] = "waiting",
};


/* ----------------------------------------------------------------
 *		Checks
 * ----------------------------------------------------------------
 */

#define check(condition) \
	do { \
		if (!(condition)) \
			elog(ERROR, "the queue is broken: not %s", #condition); \
	} while (0)

/* Count a heap's entries, and see that they are where they belong. */
static int
check_heap(pairingheap_node *node, PvLane lane, Oid database)
{
	int			n = 0;

	for (; node != NULL; node = node->next_sibling)
	{
		QueueEntry *entry = pairingheap_container(QueueEntry, lane_node, node);

		check(entry->item.state == PV_ITEM_QUEUED);
		check(entry->item.key.database == database);
		check(lane_of(&entry->item) == lane);
		for (pairingheap_node *child = node->first_child; child; child = child->next_sibling)
			check(compare_entries(node, child, NULL) >= 0);
		n += 1 + check_heap(node->first_child, lane, database);
	}
	return n;
}

/* The same for the heap of a holder. */
static int
check_least(pairingheap_node *node, const Holder *holder)
{
	int			n = 0;

	for (; node != NULL; node = node->next_sibling)
	{
		QueueEntry *entry = pairingheap_container(QueueEntry, least_node, node);

		check(entry->item.state != PV_ITEM_RUNNING && entry->holder == holder);
		for (pairingheap_node *child = node->first_child; child; child = child->next_sibling)
			check(compare_least(node, child, NULL) >= 0);
		n += 1 + check_least(node->first_child, holder);
	}
	return n;
}

/* What a holder has is what there is of it. */
static void
check_holder(DatabaseQueue *queue, Holder *holder)
{
	dlist_iter	iter;
	int			n = 0,
				nrunning = 0;

	dlist_foreach(iter, &queue->entries)
	{
		QueueEntry *entry = dlist_container(QueueEntry, node, iter.cur);

		if (entry->holder != holder)
			continue;
		check(entry->item.role == holder->key.role);
		nrunning += entry->item.state == PV_ITEM_RUNNING;
		n++;
	}
	check(n == holder->nentries);
	check(check_least(holder->least, holder) == n - nrunning);
	check(!OidIsValid(queue->database) || holder->key.database == queue->database);
}

/* Returns how many there are. */
static int
check_holders(DatabaseQueue *queue)
{
	dlist_iter	iter;
	int			n = 0,
				nrequests = 0;

	check_holder(queue, &queue->found);
	dlist_foreach(iter, &queue->requesters)
	{
		Holder	   *holder = dlist_container(Holder, node, iter.cur);

		check(find_holder(queue, holder->key.role) == holder && holder->nentries > 0);
		check_holder(queue, holder);
		nrequests += holder->nentries;
		n++;
	}
	check(queue->nrequests == nrequests);
	check(queue->nentries == nrequests + queue->found.nentries);
	return n;
}

/* What holds of an entry, and of the runner that is at it. */
static void
check_entry(QueueEntry *entry, int queueno)
{
	PvItem	   *item = &entry->item;
	int			nrunners = 0;

	check(find_entry(item->key.database, item->key.relid) == entry);
	check(item->key.database == shared->queues[queueno].database);
	check((item->state == PV_ITEM_WAITING) == (item->reason != PV_WAIT_NONE));
	check((item->state == PV_ITEM_RUNNING) == (item->runner_pid != 0));
	check(item->state_since != 0 && item->state_since <= now_of_test);
	check(item->state == PV_ITEM_RUNNING || !item->again);
	check(item->state != PV_ITEM_QUEUED || item->score.total >= item->priority);
	check((item->priority > 0) == OidIsValid(item->role));
	check(entry->placed == (item->state != PV_ITEM_RUNNING));
	check(item->needed_since <= now_of_test);
	check(item->state != PV_ITEM_WAITING || item->priority == 0 || item->reason == PV_WAIT_LOCK);
	check(!item->only_analyze || (item->state != PV_ITEM_WAITING && TransactionIdIsValid(item->horizon)));
	check(!item->only_analyze || item->state == PV_ITEM_RUNNING || item->priority == 0);
	check(!item->only_analyze || (item->score.analyze && !item->score.vacuum));
	for (int i = 0; i < PV_MAX_RUNNERS; i++)
	{
		Runner	   *runner = &shared->runners[i];

		if (runner->hired && runner->busy && runner->at.database == item->key.database &&
			runner->at.relid == item->key.relid)
		{
			check(runner->pid == item->runner_pid && runner->queue == queueno);
			nrunners++;
		}
	}
	check(nrunners == (item->state == PV_ITEM_RUNNING ? 1 : 0));
}

static int
check_queue(int queueno)
{
	DatabaseQueue *queue = &shared->queues[queueno];
	dlist_iter	iter;
	int			n = 0,
				nqueued = 0,
				nrunners = 0,
				nscanning = 0;

	dlist_foreach(iter, &queue->entries)
	{
		QueueEntry *entry = dlist_container(QueueEntry, node, iter.cur);

		check_entry(entry, queueno);
		nqueued += entry->item.state == PV_ITEM_QUEUED;
		n++;
	}
	for (PvLane lane = 0; lane < PV_NUM_LANES; lane++)
		check(check_heap(queue->heap[lane], lane, queue->database) == queue->nqueued[lane]);
	check(nqueued == queue->nqueued[PV_LANE_SMALL] + queue->nqueued[PV_LANE_LARGE]);
	for (int i = 0; i < PV_MAX_RUNNERS; i++)
	{
		Runner	   *runner = &shared->runners[i];

		if (runner->hired && runner->queue == queueno)
		{
			nrunners++;
			nscanning += runner->scanning;
		}
	}
	check(nrunners == queue->nrunners);
	check(nscanning == (queue->scanning ? 1 : 0));
	/* there must be somebody to do what others rely upon */
	check(nrunners > 0 || !queue->scan_requested);
	check(OidIsValid(queue->database) || (n == 0 && nrunners == 0));
	check(n == queue->nentries);
	return n;
}

static void
check_all(void)
{
	int			n = 0;
	int			nrunners = 0;
	int			nholders = 0;

	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		nholders += check_holders(&shared->queues[i]);
		for (int j = 0; j < i; j++)
			check(!OidIsValid(shared->queues[i].database) ||
				  shared->queues[i].database != shared->queues[j].database);
		n += check_queue(i);
	}
	for (int i = 0; i < PV_MAX_RUNNERS; i++)
		nrunners += shared->runners[i].hired && shared->runners[i].pid != 0;
	check(n == shared->nentries && n == hash_get_num_entries(entries));
	check(nholders == hash_get_num_entries(requesters));
	check(n <= Min(PV_QUEUE_SIZE, pv_guc_queue_limit));
	check(nrunners == pv_queue_nrunners());
}


/* ----------------------------------------------------------------
 *		Steps
 * ----------------------------------------------------------------
 */

/* A queue with nothing in it. */
static void
set_up(int limit)
{
	if (shared != NULL)
		pfree(shared);
	LWLockInitialize(&lock_of_test.lock, LWTRANCHE_FIRST_USER_DEFINED);
	memset(runners, 0, sizeof(runners));
	me = NULL;
	now_of_test = USECS_PER_DAY;
	pid_of_test = 0;
	wakes_of_test = 0;
	pv_guc_queue_limit = limit;
	pv_queue_shmem_startup();
	pv_queue_launcher_begin();
}

/* Be that runner. */
static PvtRunner *
be(int runner)
{
	if (runner < 0 || runner >= PV_MAX_RUNNERS || !runners[runner].attached)
		elog(ERROR, "there is no runner %d", runner);
	me = &shared->runners[runner];
	pid_of_test = 1000 + runner;
	return &runners[runner];
}

static PvWaitReason
get_reason(const char *name)
{
	for (size_t i = 0; i < lengthof(reason_names); i++)
	{
		if (strcmp(name, reason_names[i]) == 0)
			return i;
	}
	elog(ERROR, "there is no reason \"%s\"", name);
}

static bool
attach(int runner)
{
	Oid			database;

	pid_of_test = 1000 + runner;
	if (!pv_queue_attach(runner, runners[runner].token, &database))
		return false;
	runners[runner].attached = true;
	return true;
}

static void
leave(int runner)
{
	be(runner);
	runner_exit(0, 0);
	runners[runner].attached = false;
}

/*
 * The first large table that is queued, of all databases if NULL; NULL if there is none.
 */
static QueueEntry *
best_large(DatabaseQueue *queue)
{
	QueueEntry *best = NULL;

	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		dlist_iter	iter;

		if (queue != NULL && queue != &shared->queues[i])
			continue;
		dlist_foreach(iter, &shared->queues[i].entries)
		{
			QueueEntry *entry = dlist_container(QueueEntry, node, iter.cur);

			if (entry->item.state == PV_ITEM_QUEUED && entry->item.pages >= PV_LARGE_PAGES &&
				goes_before(entry, best))
				best = entry;
		}
	}
	return best;
}

/*
 * The best of what the runner may take, found by looking at everything; NULL if
 * there is nothing.
 */
static QueueEntry *
find_best(int runner, int max_large)
{
	DatabaseQueue *queue = &shared->queues[shared->runners[runner].queue];
	dlist_iter	iter;
	QueueEntry *best = NULL;
	int			ndanger;
	int			nlarge = count_large(&ndanger);
	bool		allowed = large_is_allowed(queue, first_with_large(), nlarge, ndanger, max_large);
	QueueEntry *large = best_large(queue);

	check(!allowed || nlarge < max_large ||
		  (large != NULL && large->item.rank.danger && ndanger < max_large));
	check(allowed || nlarge >= max_large ||
		  (nlarge == max_large - 1 && !goes_before(large, best_large(NULL))));
	check(allowed || large == NULL || !large->item.rank.danger || ndanger >= max_large);
	dlist_foreach(iter, &queue->entries)
	{
		QueueEntry *entry = dlist_container(QueueEntry, node, iter.cur);

		if (entry->item.state == PV_ITEM_QUEUED &&
			(entry->item.pages < PV_LARGE_PAGES || allowed) &&
			goes_before(entry, best))
			best = entry;
	}
	return best;
}

/* Take the first table, which must be the best one. */
static bool
pop(int runner, int max_large)
{
	PvtRunner  *it = be(runner);
	QueueEntry *best = find_best(runner, max_large);
	PvRank		rank = {0};

	if (best != NULL)
		rank = best->item.rank;
	if (!pv_queue_pop(max_large, &it->item))
	{
		check(best == NULL);
		return false;
	}
	check(best != NULL && pv_compare_ranks(&it->item.rank, &rank) == 0);
	return true;
}


/* ----------------------------------------------------------------
 *		The same for other files
 * ----------------------------------------------------------------
 */

void
pvt_queue_set_up(int limit)
{
	set_up(limit);
}

void
pvt_queue_check(void)
{
	check_all();
}

TimestampTz
pvt_queue_now(void)
{
	return now_of_test;
}

void
pvt_queue_advance(int64 microseconds)
{
	now_of_test += microseconds;
}

void
pvt_queue_be_session(Oid database)
{
	database_of_test = database;
}

void
pvt_queue_be(int runner)
{
	be(runner);
}

bool
pvt_queue_attach(int runner, uint32 token)
{
	memset(&runners[runner], 0, sizeof(PvtRunner));
	runners[runner].token = token;
	return attach(runner);
}

void
pvt_queue_leave(int runner)
{
	leave(runner);
}


/* ----------------------------------------------------------------
 *		SQL functions
 * ----------------------------------------------------------------
 */

Datum
parvacuum_test_queue(PG_FUNCTION_ARGS)
{
	set_up(PG_GETARG_INT32(0));
	check_all();
	PG_RETURN_VOID();
}

/* The clock goes on by so many seconds. */
Datum
parvacuum_test_queue_wait(PG_FUNCTION_ARGS)
{
	now_of_test += PG_GETARG_INT32(0) * USECS_PER_SEC;
	PG_RETURN_VOID();
}

Datum
parvacuum_test_hire(PG_FUNCTION_ARGS)
{
	uint32		token;
	int			runner = pv_queue_hire(PG_GETARG_OID(0), PG_GETARG_BOOL(1), PG_GETARG_BOOL(2), &token);

	check_all();
	if (runner >= 0)
	{
		memset(&runners[runner], 0, sizeof(PvtRunner));
		runners[runner].token = token;
	}
	PG_RETURN_INT32(runner);
}

Datum
parvacuum_test_attach(PG_FUNCTION_ARGS)
{
	bool		good = attach(PG_GETARG_INT32(0));

	check_all();
	PG_RETURN_BOOL(good);
}

Datum
parvacuum_test_dismiss(PG_FUNCTION_ARGS)
{
	int			runner = PG_GETARG_INT32(0);

	pv_queue_dismiss(runner, runners[runner].token);
	check_all();
	PG_RETURN_VOID();
}

/* Another launcher comes. */
Datum
parvacuum_test_launcher(PG_FUNCTION_ARGS)
{
	pv_queue_launcher_begin();
	check_all();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_exit(PG_FUNCTION_ARGS)
{
	leave(PG_GETARG_INT32(0));
	check_all();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_begin_scan(PG_FUNCTION_ARGS)
{
	bool		wanted;

	be(PG_GETARG_INT32(0));
	wanted = pv_queue_begin_scan();
	check_all();
	PG_RETURN_BOOL(wanted);
}

Datum
parvacuum_test_offer(PG_FUNCTION_ARGS)
{
	PvItem		item = {0};
	bool		full = false;

	be(PG_GETARG_INT32(0));
	item.key.database = shared->queues[me->queue].database;
	item.key.relid = PG_GETARG_OID(1);
	item.score.total = PG_GETARG_FLOAT8(2);
	item.pages = (BlockNumber) PG_GETARG_INT64(3);
	item.reason = get_reason(text_to_cstring(PG_GETARG_TEXT_PP(4)));
	item.horizon = (TransactionId) PG_GETARG_INT32(5);
	item.score.vacuum = true;
	item.score.analyze = PG_GETARG_BOOL(6);
	item.score.modified = item.score.analyze ? item.score.total / 10 : 0;
	item.score.wraparound = PG_GETARG_BOOL(7);
	item.score.mxid = PG_GETARG_FLOAT8(8);
	item.score.danger = PG_GETARG_BOOL(9);
	item.done_at = PG_GETARG_BOOL(10) ? now_of_test : 0;
	item.score.dead = PG_GETARG_FLOAT8(11);
	pv_queue_offer(&item, &full);
	check_all();
	PG_RETURN_BOOL(full);
}

Datum
parvacuum_test_end_scan(PG_FUNCTION_ARGS)
{
	be(PG_GETARG_INT32(0));
	if (PG_GETARG_BOOL(3))
		pv_queue_note_nothing();
	(void) pv_queue_end_scan(PG_GETARG_BOOL(1), (int64) (PG_GETARG_FLOAT8(2) * USECS_PER_SEC));
	check_all();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_pop(PG_FUNCTION_ARGS)
{
	int			runner = PG_GETARG_INT32(0);
	bool		found = pop(runner, PG_GETARG_INT32(1));

	check_all();
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_OID(runners[runner].item.key.relid);
}

Datum
parvacuum_test_put_back(PG_FUNCTION_ARGS)
{
	PvtRunner  *it = be(PG_GETARG_INT32(0));
	bool		put_back;

	it->item.score.total = PG_GETARG_FLOAT8(1);
	it->item.pages = (BlockNumber) PG_GETARG_INT64(2);
	it->item.score.wraparound |= PG_GETARG_BOOL(3);
	put_back = pv_queue_gives_way(&it->item);
	if (put_back)
		pv_queue_put_back(&it->item);
	check_all();
	PG_RETURN_BOOL(put_back);
}

Datum
parvacuum_test_finish(PG_FUNCTION_ARGS)
{
	PvtRunner  *it = be(PG_GETARG_INT32(0));

	pv_queue_finish(&it->item, PG_GETARG_BOOL(3), get_reason(text_to_cstring(PG_GETARG_TEXT_PP(1))),
					(TransactionId) PG_GETARG_INT32(2));
	check_all();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_should_leave(PG_FUNCTION_ARGS)
{
	be(PG_GETARG_INT32(0));
	PG_RETURN_BOOL(pv_queue_should_leave());
}

Datum
parvacuum_test_pass_is_over(PG_FUNCTION_ARGS)
{
	be(PG_GETARG_INT32(0));
	PG_RETURN_BOOL(pv_queue_pass_is_over(false));
}

Datum
parvacuum_test_enqueue(PG_FUNCTION_ARGS)
{
	static const char *const results[] = {
		[PV_ENQUEUED] = "queued",
		[PV_ENQUEUED_BEFORE] = "before",
		[PV_ENQUEUED_HIGHER] = "higher",
		[PV_ENQUEUED_AGAIN] = "again",
		[PV_ENQUEUE_FULL] = "full",
		[PV_ENQUEUE_SHARE] = "share",
	};
	PvEnqueueResult result;

	database_of_test = PG_GETARG_OID(0);
	result = pv_queue_enqueue(PG_GETARG_OID(1), InvalidOid, (BlockNumber) PG_GETARG_INT64(3),
							  PG_GETARG_FLOAT8(2), PG_GETARG_OID(4), PG_GETARG_BOOL(5));
	check_all();
	PG_RETURN_TEXT_P(cstring_to_text(results[result]));
}

/* What has become of it; and who got a signal, or 0. */
Datum
parvacuum_test_withdraw(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {
		[PV_WITHDRAWN_NOTHING] = "nothing",
		[PV_WITHDRAWN_DONE] = "done",
		[PV_WITHDRAWN_REFUSED] = "refused",
	};
	PvWithdrawn result;

	database_of_test = PG_GETARG_OID(0);
	canceled_of_test = 0;
	result = pv_queue_withdraw(PG_GETARG_OID(1), PG_GETARG_BOOL(2));
	check_all();
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s, %d", names[result], canceled_of_test)));
}

/* By its runner. */
Datum
parvacuum_test_cancel(PG_FUNCTION_ARGS)
{
	bool		done;

	canceled_of_test = 0;
	done = pv_queue_cancel_runner(PG_GETARG_INT32(0));
	check_all();
	check(canceled_of_test == (done ? PG_GETARG_INT32(0) : 0));
	PG_RETURN_BOOL(done);
}

/* Has the runner that has looked again cancelled itself? */
Datum
parvacuum_test_is_canceled(PG_FUNCTION_ARGS)
{
	bool		canceled = cancel_pending_of_test;

	cancel_pending_of_test = false;
	PG_RETURN_BOOL(canceled);
}

Datum
parvacuum_test_request_scan(PG_FUNCTION_ARGS)
{
	pv_queue_request_scan(PG_GETARG_OID(0));
	check_all();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_call_back(PG_FUNCTION_ARGS)
{
	pv_queue_call_back(PG_GETARG_OID(0));
	check_all();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_drop_database(PG_FUNCTION_ARGS)
{
	pv_queue_drop_database(PG_GETARG_OID(0));
	check_all();
	PG_RETURN_VOID();
}

Datum
parvacuum_test_items(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int			nlarge;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, pv_queue_copy(InvalidOid, &nlarge))
	{
		PvItem	   *item = lfirst(lc);
		bool		nulls[9] = {0};
		Datum		values[9];

		values[0] = ObjectIdGetDatum(item->key.database);
		values[1] = ObjectIdGetDatum(item->key.relid);
		values[2] = CStringGetTextDatum(state_names[item->state]);
		values[3] = CStringGetTextDatum(reason_names[item->reason]);
		values[4] = Float8GetDatum(item->score.total);
		values[5] = Float8GetDatum(item->priority);
		values[6] = Int32GetDatum(item->runner_pid);
		values[7] = Int64GetDatum((now_of_test - item->state_since) / USECS_PER_SEC);
		values[8] = BoolGetDatum(item->only_analyze);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
parvacuum_test_summaries(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	PvQueueView view;

	pv_queue_view(&view, PG_GETARG_INT32(0));
	check_all();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < view.n; i++)
	{
		bool		nulls[9] = {0};
		Datum		values[9];

		values[0] = ObjectIdGetDatum(view.summaries[i].database);
		values[1] = Float8GetDatum(rint(view.summaries[i].top_score * 100) / 100);
		values[2] = Int32GetDatum(view.summaries[i].nqueued);
		values[3] = Int32GetDatum(view.summaries[i].nrunners);
		values[4] = Int32GetDatum(view.summaries[i].nmovable);
		values[5] = Int32GetDatum(view.summaries[i].nexpected);
		values[6] = BoolGetDatum(view.summaries[i].scan_pending);
		values[7] = Int32GetDatum(view.nrunners);
		values[8] = Int32GetDatum(view.nlarge);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
parvacuum_test_rests(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	PvQueueView view;

	pv_queue_view(&view, 1);
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < view.n; i++)
	{
		bool		nulls[2] = {0};
		Datum		values[2];

		values[0] = ObjectIdGetDatum(view.summaries[i].database);
		values[1] = Int64GetDatum((view.summaries[i].rests_until - now_of_test) / USECS_PER_SEC);
		nulls[1] = view.summaries[i].rests_until <= now_of_test;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}


/* ----------------------------------------------------------------
 *		Random steps
 * ----------------------------------------------------------------
 */

static pg_prng_state prng;

#define FUZZ_DATABASES		4
#define FUZZ_TABLES			30

static int
up_to(int n)
{
	return (int) pg_prng_uint64_range(&prng, 0, n);
}

static BlockNumber
random_pages(void)
{
	return up_to(3) == 0 ? PV_LARGE_PAGES + up_to(5) : up_to(100);
}

/* Somebody who is hired, and attached or not as wanted; -1 if nobody is. */
static int
random_runner(bool attached)
{
	int			first = up_to(PV_MAX_RUNNERS - 1);

	for (int i = 0; i < PV_MAX_RUNNERS; i++)
	{
		int			runner = (first + i) % PV_MAX_RUNNERS;

		if (shared->runners[runner].hired && runners[runner].attached == attached)
			return runner;
	}
	return -1;
}

static bool
has_place_for_runner(void)
{
	for (int i = 0; i < PV_MAX_RUNNERS; i++)
	{
		if (!shared->runners[i].hired)
			return true;
	}
	return false;
}

/* A scan of a few tables, the best first; not always to its end. */
static void
fuzz_scan(int runner)
{
	bool		full = false;
	double		score = 10;

	be(runner);
	if (me->busy || !pv_queue_begin_scan())
		return;
	for (Oid relid = 1 + up_to(3); relid <= FUZZ_TABLES && !full; relid += 1 + up_to(3))
	{
		PvItem		item = {.key = {shared->queues[me->queue].database, relid}};

		score -= up_to(1) * 0.25;
		item.score.total = score;
		item.score.vacuum = true;
		item.score.analyze = up_to(2) == 0;
		item.score.wraparound = up_to(9) == 0;
		item.score.danger = item.score.wraparound && up_to(1) == 0;
		item.done_at = up_to(5) == 0 ? now_of_test : 0;
		item.pages = random_pages();
		item.reason = up_to(5) == 0 ? PV_WAIT_WINDOW : PV_WAIT_NONE;
		item.horizon = 100 + up_to(1);
		pv_queue_offer(&item, &full);
		check_all();
	}
	if (up_to(9) == 0)
		leave(runner);
	else
		(void) pv_queue_end_scan(!full, up_to(3) * USECS_PER_SEC);
}

/*
 * One table, or a part of what is done with it.  What was just popped is still the
 * first, so that nobody who looks at it again and finds it as it was puts it back,
 * over and over.
 */
static void
fuzz_table(int runner, int max_large)
{
	PvtRunner  *it = be(runner);

	if (!me->busy)
	{
		if (pop(runner, max_large) && up_to(1) == 0)
		{
			PvItem		same = it->item;

			check(!pv_queue_gives_way(&same));
		}
	}
	else if (up_to(3) == 0)
	{
		it->item.pages = random_pages();
		it->item.score.total = Max(up_to(40) / 4.0, it->item.priority);
		if (pv_queue_gives_way(&it->item))
			pv_queue_put_back(&it->item);
	}
	else
		pv_queue_finish(&it->item, up_to(1), up_to(1) ? PV_WAIT_NONE : PV_WAIT_LOCK + up_to(3), 100 + up_to(1));
}

/* What a launcher, or a session, may do. */
static void
fuzz_others(void)
{
	PvQueueView view;
	Oid			database = 1 + up_to(FUZZ_DATABASES - 1);
	Oid			relid = 1 + up_to(FUZZ_TABLES - 1);
	int			runner;
	uint32		token;
	bool		has_queue,
				has_place,
				takes;

	database_of_test = database;
	switch (up_to(9))
	{
		case 0:
		case 1:
			pv_queue_view(&view, up_to(3));
			has_queue = find_queue(database) != NULL;
			has_place = has_place_for_runner();
			takes = up_to(3) == 0;
			runner = pv_queue_hire(database, up_to(1), takes, &token);
			check((runner >= 0) ==
				  (has_place && (has_queue || !view.full || (takes && !view.none_to_take))));
			if (runner >= 0)
			{
				memset(&runners[runner], 0, sizeof(PvtRunner));
				runners[runner].token = token;
			}
			break;
		case 2:
			runner = random_runner(false);
			if (runner >= 0 && up_to(3) == 0)
				pv_queue_dismiss(runner, runners[runner].token);
			else if (runner >= 0)
				check(attach(runner));
			break;
		case 3:
			pv_queue_request_scan(database);
			break;
		case 4:
			pv_queue_call_back(database);
			break;
		case 5:
			if (up_to(9) == 0)
				pv_queue_drop_database(database);
			break;
		case 6:
			(void) pv_queue_enqueue(relid, InvalidOid, random_pages(), 1 + up_to(20),
									10 + up_to(3), up_to(1));
			break;
		case 7:
			(void) pv_queue_withdraw(relid, up_to(1));
			break;
		case 8:
			if (up_to(9) == 0)
				pv_queue_launcher_begin();
			pv_queue_view(&view, up_to(3));
			check(view.nlarge <= view.nrunners);
			break;
		case 9:
			now_of_test += up_to(10) * USECS_PER_SEC;
			break;
	}
}

/*
 * Work a database's queue off, as far as its runner may: the last place for a large
 * table can be another database's.
 */
static void
fuzz_work_off(Oid database)
{
	uint32		token;
	int			steps = 0;
	int			runner = pv_queue_hire(database, true, false, &token);

	if (runner < 0)
	{
		check(find_queue(database) == NULL && find_free_queue(false) == NULL);
		return;
	}
	runners[runner].token = token;
	check(attach(runner));
	be(runner);
	check(pv_queue_begin_scan());
	(void) pv_queue_end_scan(true, 0);
	while (pop(runner, 1))
	{
		pv_queue_finish(&runners[runner].item, true, PV_WAIT_NONE, 0);
		check(++steps <= FUZZ_TABLES);
	}
	check(!pv_queue_begin_scan());
	leave(runner);
}

/*
 * Everybody goes, those who are at a table too, and the launcher.  What is left is
 * for others to find: the queues can be worked off, and are forgotten then.
 */
static void
fuzz_end(void)
{
	PvQueueView view;
	int			runner;

	while ((runner = random_runner(true)) >= 0)
		leave(runner);
	pv_queue_launcher_begin();
	pv_queue_view(&view, 1);
	check_all();
	check(view.nrunners == 0 && view.nlarge == 0);
	for (int round = 0; round < FUZZ_DATABASES; round++)
	{
		for (Oid database = 1; database <= FUZZ_DATABASES; database++)
			fuzz_work_off(database);
	}
	check_all();
	pv_queue_view(&view, 1);
	check(shared->nentries == 0 && view.n == 0);
}

/*
 * So many random steps with a limit on the queue's size, and checks after each;
 * what comes of it follows from the seed.
 */
Datum
parvacuum_test_queue_fuzz(PG_FUNCTION_ARGS)
{
	int			steps = PG_GETARG_INT32(0);
	int			npopped = 0;

	pg_prng_seed(&prng, PG_GETARG_INT64(1));
	set_up(PG_GETARG_INT32(2));
	for (int i = 0; i < steps; i++)
	{
		int			runner = random_runner(true);

		CHECK_FOR_INTERRUPTS();
		if (runner < 0 || up_to(1) == 0)
			fuzz_others();
		else if (up_to(30) == 0)
			leave(runner);
		else if (up_to(3) == 0)
			fuzz_scan(runner);
		else
		{
			fuzz_table(runner, up_to(3));
			npopped++;
		}
		check_all();
	}
	fuzz_end();
	PG_RETURN_INT32(npopped);
}
