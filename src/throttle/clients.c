/*-------------------------------------------------------------------------
 *
 * clients.c
 *	  How long the server makes clients wait.
 *
 * The launcher looks at some clients for a while.  Linux counts exactly how
 * long a process has run, and how long it could have run but had no processor:
 * /proc/PID/schedstat.  Of how long it waited for anything else the server
 * knows only the present: its wait event.  So that is sampled.
 *
 * What counts are waits for what a vacuum uses too: the disk, WAL, buffers,
 * and the standbys.  Waits for the client itself, for sleeps and for locks,
 * which mostly other clients have, say nothing about a vacuum.
 *
 * The entries of PGPROC are read without a lock, as pg_stat_activity does: an
 * old value of a moment does no harm.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "storage/proc.h"

#include "base/clock.h"
#include "base/compat.h"
#include "throttle/pace.h"

/* The clients looked at, at most; of more, others each time */
#define MAX_CLIENTS				64

#define CLASS_OF_EVENT			0xFF000000

typedef struct Client
{
	const PGPROC *proc;
	int			pid;
	bool		busy;			/* it was not idle when the turn began */
	double		run;			/* microseconds since the process began */
	double		delay;
	int			nwaiting;		/* in the samples of this turn */
} Client;

static struct
{
	Client		clients[MAX_CLIENTS];
	int			n;
	int			nall;			/* these, and all others that are busy */
	bool		any_unreadable;
	uint32		next;			/* of all entries, the first to look at */
	int64		since;
	int			nsamples;
}			watch;

/*
 * Read how long a process has run, and has waited for a processor.  A kernel
 * that does not count that shows only zeros.
 */
static bool
read_schedstat(Client *client)
{
	char		buf[128];
	int			fd;
	int			len;
	long long	run;
	long long	delay;
	long long	slices;

	snprintf(buf, sizeof(buf), "/proc/%d/schedstat", client->pid);
	fd = open(buf, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (len <= 0)
		return false;
	buf[len] = '\0';
	if (sscanf(buf, "%lld %lld %lld", &run, &delay, &slices) != 3 ||
		slices == 0)
		return false;
	client->run = run / 1000.0;
	client->delay = delay / 1000.0;
	return true;
}

/*
 * Return the process that has this entry, or 0.  Before PG 17 the PID stays in
 * an entry that is free; that of its latch does not.
 */
static int
pid_of(const PGPROC *proc)
{
	return *(volatile const int *) &proc->procLatch.owner_pid;
}

/* Return what the process waits for. */
static uint32
wait_event(const PGPROC *proc)
{
	return *(volatile const uint32 *) &proc->wait_event_info;
}

/*
 * Does the process wait for what a vacuum uses, too?  Most waits for other
 * processes do not count, as a session can have them for as long as it likes.
 */
static bool
is_waiting(const PGPROC *proc)
{
	uint32		event = wait_event(proc);
	uint32		class = event & CLASS_OF_EVENT;

	return class == PG_WAIT_LWLOCK || class == PG_WAIT_BUFFER ||
		class == PG_WAIT_IO || event == WAIT_EVENT_BUFFER_IO ||
		event == WAIT_EVENT_SYNC_REP ||
		event == WAIT_EVENT_XACT_GROUP_UPDATE ||
		event == WAIT_EVENT_PROCARRAY_GROUP_UPDATE;
}

/* Add the clients that are idle, or those that are not, while there is room. */
static void
add_clients(bool idle)
{
	uint32		nprocs = ProcGlobal->allProcCount;
	uint32		first = watch.next;

	for (uint32 i = 0; i < nprocs; i++)
	{
		uint32		at = (first + i) % nprocs;
		const PGPROC *proc = &ProcGlobal->allProcs[at];
		Client		client = {.proc = proc,.pid = pid_of(proc),.busy = !idle};

		if (client.pid == 0 || !pv_is_client(proc) ||
			((wait_event(proc) & CLASS_OF_EVENT) == PG_WAIT_CLIENT) != idle)
			continue;
		if (watch.n == MAX_CLIENTS)
			watch.nall += client.busy;
		else if (read_schedstat(&client))
		{
			watch.clients[watch.n++] = client;
			watch.nall++;
			watch.next = at + 1;
		}
		else
			watch.any_unreadable = true;
	}
}

/* Begin to look at clients. */
void
pv_clients_begin(void)
{
	watch.n = watch.nall = 0;
	watch.any_unreadable = false;
	add_clients(false);
	add_clients(true);
	watch.since = pv_usecs_of_machine();
	watch.nsamples = 0;
}

/* Look at what they wait for now. */
void
pv_clients_sample(void)
{
	for (int i = 0; i < watch.n; i++)
	{
		Client	   *client = &watch.clients[i];

		if (pid_of(client->proc) == client->pid && is_waiting(client->proc))
			client->nwaiting++;
	}
	watch.nsamples++;
}

/*
 * Set what they have spent since pv_clients_begin(), and as much for each busy
 * one that there was no room for.  Those that are gone do not count.  Return
 * false if nothing could be measured, as when those that were busy are gone or
 * unreadable, and the others did nothing.
 */
bool
pv_clients_end(PvClientTimes *times)
{
	double		usecs = pv_usecs_since(watch.since);
	int			n = 0;
	bool		any_gone = watch.any_unreadable;

	times->usecs = usecs;
	times->run = times->wait = 0;
	for (int i = 0; i < watch.n; i++)
	{
		const Client *then = &watch.clients[i];
		Client		now = *then;

		if (pid_of(now.proc) != now.pid || !read_schedstat(&now))
		{
			any_gone |= then->busy;
			continue;
		}
		times->run += now.run - then->run;
		times->wait += now.delay - then->delay +
			usecs * then->nwaiting / Max(watch.nsamples, 1);
		n++;
	}
	if (watch.n == 0)
		return !watch.any_unreadable;
	if (n == 0 || (any_gone && pv_are_quiet(times)))
		return false;
	times->run *= (double) watch.nall / watch.n;
	times->wait *= (double) watch.nall / watch.n;
	return true;
}
