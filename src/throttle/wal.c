/*-------------------------------------------------------------------------
 *
 * wal.c
 *	  What the WAL of vacuums makes others do later.
 *
 * A comparison of vacuums that work with vacuums that pause does not show it:
 *
 * A checkpoint that comes because max_wal_size is used up makes clients write
 * all pages to WAL once more.  One that comes sooner than checkpoint_warning
 * after the one before is too frequent, as the server says itself.  So the
 * share of max_wal_size that is used up must not be more than the share of this
 * time that has passed, but for what may be written at once.
 *
 * A standby that cannot replay what vacuums write shows old rows, and takes
 * long to become the primary.  What was written parvacuum.pace_max_lag ago must
 * have been replayed.
 *
 * The launcher runs this.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "postmaster/bgwriter.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"

#include "base/settings.h"
#include "throttle/pace.h"

/* Share of the WAL between two checkpoints that may be written at once */
#define AT_ONCE					0.2

/* The last redo point, and the last look before it was seen */
static XLogRecPtr redo = InvalidXLogRecPtr;
static int64 redo_since;
static int64 looked_at = 0;

/* Places in WAL up to which it had been flushed, the last one and those before */
#define NPLACES					16

static struct
{
	XLogRecPtr	place;
	int64		at;
}			flushed[NPLACES];
static int	last = 0;

/* Note how far WAL has come.  now is by the machine's clock. */
void
pv_wal_look(int64 now)
{
	XLogRecPtr	new_redo = GetRedoRecPtr();

	if (redo != new_redo)
		redo_since = looked_at;
	redo = new_redo;
	looked_at = now;
	if (now - flushed[last].at <
		pv_guc_pace_max_lag * INT64CONST(1000) / (NPLACES - 1))
		return;
	last = (last + 1) % NPLACES;
	flushed[last].place = GetFlushRecPtr(NULL);
	flushed[last].at = now;
}

/* Would the next checkpoint come too soon, if this goes on? */
static bool
is_checkpoint_near(int64 now)
{
	double		usecs = Min(CheckPointWarning, CheckPointTimeout) * 1e6;
	double		between = Max(CheckPointSegments - 1, 1) *
		(double) wal_segment_size;

	return usecs > 0 && GetXLogInsertRecPtr() - redo >
		between * (AT_ONCE + (1 - AT_ONCE) * (now - redo_since) / usecs);
}

/*
 * Is there a standby, or a subscriber, that has not replayed WAL up to this
 * place?  One that is catching up, or that replays nothing, does not count.
 */
static bool
is_any_behind(XLogRecPtr place)
{
	for (int i = 0; i < max_wal_senders; i++)
	{
		WalSnd	   *sender = &WalSndCtl->walsnds[i];
		bool		behind;

		SpinLockAcquire(&sender->mutex);
		behind = sender->pid != 0 && sender->state == WALSNDSTATE_STREAMING &&
			sender->apply != InvalidXLogRecPtr && sender->apply < place;
		SpinLockRelease(&sender->mutex);
		if (behind)
			return true;
	}
	return false;
}

/* Return why vacuums must not be faster than the floor, or PV_PACE_NOTHING. */
PvPaceLimit
pv_wal_limit(int64 now)
{
	if (pv_guc_pace_max_lag > 0 &&
		is_any_behind(flushed[(last + 1) % NPLACES].place))
		return PV_PACE_STANDBY;
	if (is_checkpoint_near(now))
		return PV_PACE_CHECKPOINT;
	return PV_PACE_NOTHING;
}
