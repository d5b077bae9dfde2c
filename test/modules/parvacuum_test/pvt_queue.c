/*-------------------------------------------------------------------------
 *
 * pvt_queue.c
 *	  SQL functions that play launcher, workers, and sessions on a queue.
 *
 * The queue's source is a part of this file, so that what it takes from the
 * server can be replaced: shared memory by this process's own, the clock, the
 * database and the number of the process by variables.  So one session is as many
 * workers as there are places, each with what it has popped, and looks into the
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
static bool cancel_pending_of_test; /* a worker that has cancelled itself */
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

/* What a worker's own process knows. */
typedef struct PvtWorker
{
	uint32		token;
	bool		attached;
	PvItem		item;			/* popped last */
} PvtWorker;

static PvtWorker workers[PV_MAX_SCHED_WORKERS];

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
check_heap(pairingheap_node *node, PvSizeClass size_class, Oid database)
{
	int			n = 0;

	for (; node != NULL; node = node->next_sibling)
	{
		QueueEntry *entry = pairingheap_container(QueueEntry, size_node, node);

		check(entry->item.state == PV_ITEM_QUEUED);
		check(entry->item.key.database == database);
		check(size_class_of(&entry->item) == size_class);
		for (pairingheap_node *child = node->first_child; child; child = child->next_sibling)
			check(compare_entries(node, child, NULL) >= 0);
		n += 1 + check_heap(node->first_child, size_class, database);
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

/* What holds of an entry, and of the worker that is at it. */
static void
check_entry(QueueEntry *entry, int queueno)
{
	PvItem	   *item = &entry->item;
	int			nworkers = 0;

	check(find_entry(item->key.database, item->key.relid) == entry);
	check(item->key.database == shared->queues[queueno].database);
	check((item->state == PV_ITEM_WAITING) == (item->reason != PV_WAIT_NONE));
	check((item->state == PV_ITEM_RUNNING) == (item->worker_pid != 0));
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
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];

		if (worker->hired && worker->busy && worker->at.database == item->key.database &&
			worker->at.relid == item->key.relid)
		{
			check(worker->pid == item->worker_pid && worker->queue == queueno);
			nworkers++;
		}
	}
	check(nworkers == (item->state == PV_ITEM_RUNNING ? 1 : 0));
}

static int
check_queue(int queueno)
{
	DatabaseQueue *queue = &shared->queues[queueno];
	dlist_iter	iter;
	int			n = 0,
				nqueued = 0,
				nworkers = 0,
				nscanning = 0;

	dlist_foreach(iter, &queue->entries)
	{
		QueueEntry *entry = dlist_container(QueueEntry, node, iter.cur);

		check_entry(entry, queueno);
		nqueued += entry->item.state == PV_ITEM_QUEUED;
		n++;
	}
	for (PvSizeClass size_class = 0; size_class < PV_NUM_SIZES; size_class++)
		check(check_heap(queue->heap[size_class], size_class, queue->database) == queue->nqueued[size_class]);
	check(nqueued == queue->nqueued[PV_SIZE_SMALL] + queue->nqueued[PV_SIZE_LARGE]);
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		SchedWorker	   *worker = &shared->workers[i];

		if (worker->hired && worker->queue == queueno)
		{
			nworkers++;
			nscanning += worker->scanning;
		}
	}
	check(nworkers == queue->nworkers);
	check(nscanning == (queue->scanning ? 1 : 0));
	/* there must be somebody to do what others rely upon */
	check(nworkers > 0 || !queue->scan_requested);
	check(OidIsValid(queue->database) || (n == 0 && nworkers == 0));
	check(n == queue->nentries);
	return n;
}

static void
check_all(void)
{
	int			n = 0;
	int			nworkers = 0;
	int			nholders = 0;

	for (int i = 0; i < PV_MAX_QUEUES; i++)
	{
		nholders += check_holders(&shared->queues[i]);
		for (int j = 0; j < i; j++)
			check(!OidIsValid(shared->queues[i].database) ||
				  shared->queues[i].database != shared->queues[j].database);
		n += check_queue(i);
	}
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
		nworkers += shared->workers[i].hired && shared->workers[i].pid != 0;
	check(n == shared->nentries && n == hash_get_num_entries(entries));
	check(nholders == hash_get_num_entries(requesters));
	check(n <= Min(PV_QUEUE_SIZE, pv_guc_queue_limit));
	check(nworkers == pv_queue_nworkers());
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
	memset(workers, 0, sizeof(workers));
	me = NULL;
	now_of_test = USECS_PER_DAY;
	pid_of_test = 0;
	wakes_of_test = 0;
	pv_guc_queue_limit = limit;
	pv_queue_shmem_startup();
	pv_queue_launcher_begin();
}

/* Be that worker. */
static PvtWorker *
be(int worker)
{
	if (worker < 0 || worker >= PV_MAX_SCHED_WORKERS || !workers[worker].attached)
		elog(ERROR, "there is no worker %d", worker);
	me = &shared->workers[worker];
	pid_of_test = 1000 + worker;
	return &workers[worker];
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
attach(int worker)
{
	Oid			database;

	pid_of_test = 1000 + worker;
	if (!pv_queue_attach(worker, workers[worker].token, &database))
		return false;
	workers[worker].attached = true;
	return true;
}

static void
leave(int worker)
{
	be(worker);
	worker_exit(0, 0);
	workers[worker].attached = false;
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
 * The best of what the worker may take, found by looking at everything; NULL if
 * there is nothing.
 */
static QueueEntry *
find_best(int worker, int max_large)
{
	DatabaseQueue *queue = &shared->queues[shared->workers[worker].queue];
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
pop(int worker, int max_large)
{
	PvtWorker  *it = be(worker);
	QueueEntry *best = find_best(worker, max_large);
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
pvt_queue_be(int worker)
{
	be(worker);
}

bool
pvt_queue_attach(int worker, uint32 token)
{
	memset(&workers[worker], 0, sizeof(PvtWorker));
	workers[worker].token = token;
	return attach(worker);
}

void
pvt_queue_leave(int worker)
{
	leave(worker);
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
	int			worker = pv_queue_hire(PG_GETARG_OID(0), PG_GETARG_BOOL(1), PG_GETARG_BOOL(2), &token);

	check_all();
	if (worker >= 0)
	{
		memset(&workers[worker], 0, sizeof(PvtWorker));
		workers[worker].token = token;
	}
	PG_RETURN_INT32(worker);
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
	int			worker = PG_GETARG_INT32(0);

	pv_queue_dismiss(worker, workers[worker].token);
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
	int			worker = PG_GETARG_INT32(0);
	bool		found = pop(worker, PG_GETARG_INT32(1));

	check_all();
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_OID(workers[worker].item.key.relid);
}

Datum
parvacuum_test_put_back(PG_FUNCTION_ARGS)
{
	PvtWorker  *it = be(PG_GETARG_INT32(0));
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
	PvtWorker  *it = be(PG_GETARG_INT32(0));

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

/* By its worker. */
Datum
parvacuum_test_cancel(PG_FUNCTION_ARGS)
{
	bool		done;

	canceled_of_test = 0;
	done = pv_queue_cancel_worker(PG_GETARG_INT32(0));
	check_all();
	check(canceled_of_test == (done ? PG_GETARG_INT32(0) : 0));
	PG_RETURN_BOOL(done);
}

/* Has the worker that has looked again cancelled itself? */
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
		values[6] = Int32GetDatum(item->worker_pid);
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
		values[3] = Int32GetDatum(view.summaries[i].nworkers);
		values[4] = Int32GetDatum(view.summaries[i].nmovable);
		values[5] = Int32GetDatum(view.summaries[i].nexpected);
		values[6] = BoolGetDatum(view.summaries[i].scan_pending);
		values[7] = Int32GetDatum(view.nworkers);
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
random_worker(bool attached)
{
	int			first = up_to(PV_MAX_SCHED_WORKERS - 1);

	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		int			worker = (first + i) % PV_MAX_SCHED_WORKERS;

		if (shared->workers[worker].hired && workers[worker].attached == attached)
			return worker;
	}
	return -1;
}

static bool
has_place_for_worker(void)
{
	for (int i = 0; i < PV_MAX_SCHED_WORKERS; i++)
	{
		if (!shared->workers[i].hired)
			return true;
	}
	return false;
}

/* A scan of a few tables, the best first; not always to its end. */
static void
fuzz_scan(int worker)
{
	bool		full = false;
	double		score = 10;

	be(worker);
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
		leave(worker);
	else
		(void) pv_queue_end_scan(!full, up_to(3) * USECS_PER_SEC);
}

/*
 * One table, or a part of what is done with it.  What was just popped is still the
 * first, so that nobody who looks at it again and finds it as it was puts it back,
 * over and over.
 */
static void
fuzz_table(int worker, int max_large)
{
	PvtWorker  *it = be(worker);

	if (!me->busy)
	{
		if (pop(worker, max_large) && up_to(1) == 0)
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
	int			worker;
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
			has_place = has_place_for_worker();
			takes = up_to(3) == 0;
			worker = pv_queue_hire(database, up_to(1), takes, &token);
			check((worker >= 0) ==
				  (has_place && (has_queue || !view.full || (takes && !view.none_to_take))));
			if (worker >= 0)
			{
				memset(&workers[worker], 0, sizeof(PvtWorker));
				workers[worker].token = token;
			}
			break;
		case 2:
			worker = random_worker(false);
			if (worker >= 0 && up_to(3) == 0)
				pv_queue_dismiss(worker, workers[worker].token);
			else if (worker >= 0)
				check(attach(worker));
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
			check(view.nlarge <= view.nworkers);
			break;
		case 9:
			now_of_test += up_to(10) * USECS_PER_SEC;
			break;
	}
}

/*
 * Work a database's queue off, as far as its worker may: the last place for a large
 * table can be another database's.
 */
static void
fuzz_work_off(Oid database)
{
	uint32		token;
	int			steps = 0;
	int			worker = pv_queue_hire(database, true, false, &token);

	if (worker < 0)
	{
		check(find_queue(database) == NULL && find_free_queue(false) == NULL);
		return;
	}
	workers[worker].token = token;
	check(attach(worker));
	be(worker);
	check(pv_queue_begin_scan());
	(void) pv_queue_end_scan(true, 0);
	while (pop(worker, 1))
	{
		pv_queue_finish(&workers[worker].item, true, PV_WAIT_NONE, 0);
		check(++steps <= FUZZ_TABLES);
	}
	check(!pv_queue_begin_scan());
	leave(worker);
}

/*
 * Everybody goes, those who are at a table too, and the launcher.  What is left is
 * for others to find: the queues can be worked off, and are forgotten then.
 */
static void
fuzz_end(void)
{
	PvQueueView view;
	int			worker;

	while ((worker = random_worker(true)) >= 0)
		leave(worker);
	pv_queue_launcher_begin();
	pv_queue_view(&view, 1);
	check_all();
	check(view.nworkers == 0 && view.nlarge == 0);
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
		int			worker = random_worker(true);

		CHECK_FOR_INTERRUPTS();
		if (worker < 0 || up_to(1) == 0)
			fuzz_others();
		else if (up_to(30) == 0)
			leave(worker);
		else if (up_to(3) == 0)
			fuzz_scan(worker);
		else
		{
			fuzz_table(worker, up_to(3));
			npopped++;
		}
		check_all();
	}
	fuzz_end();
	PG_RETURN_INT32(npopped);
}
