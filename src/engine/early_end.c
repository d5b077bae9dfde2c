/*-------------------------------------------------------------------------
 *
 * early_end.c
 *	  A vacuum that ends before it is complete, because its time is over or
 *	  because another session waits for the table.
 *
 * Any participant may find that out, between two pages.  It sets a flag, and
 * all participants stop at the next border: of a segment in the heap scan, of
 * a range of a B-tree or of an index, of a range of segments in the second heap
 * pass.  The leader then keeps what the next vacuum needs to go on
 * (engine/keep.c), and leaves the table.
 *
 * No vacuum ends early with the failsafe on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#include "engine/participant.h"

/* Milliseconds between two looks for sessions that wait */
#define LOOK_EVERY_MS			100

/* Does a session wait for the table, or for the one that is locked, too? */
static bool
has_waiters(const PvParticipant *self)
{
	LOCKTAG		tag;

	if (LockHasWaitersRelation(self->rel, ShareUpdateExclusiveLock))
		return true;
	if (!self->is_leader || !OidIsValid(self->shared->plan.locked_too))
		return false;
	SET_LOCKTAG_RELATION(tag, MyDatabaseId, self->shared->plan.locked_too);
	return LockHasWaiters(&tag, ShareUpdateExclusiveLock, true);
}

/*
 * Has a session waited for longer than deadlock_timeout?  After that time core
 * cancels an autovacuum worker, unless it prevents wraparound.  All
 * participants have the lock on the table, so each may ask for its waiters.
 */
static bool
somebody_waits(PvParticipant *self, TimestampTz now)
{
	if (!TimestampDifferenceExceeds(self->looked_at, now, LOOK_EVERY_MS))
		return false;
	self->looked_at = now;
	if (!has_waiters(self))
		self->waiting_since = 0;
	else if (self->waiting_since == 0)
		self->waiting_since = now;
	return self->waiting_since != 0 &&
		TimestampDifferenceExceeds(self->waiting_since, now, DeadlockTimeout);
}

/*
 * Must at least one more index be done?  If the vacuum before has ended early
 * without any progress, this one must not do the same.
 */
static bool
must_go_on(PvShared *shared)
{
	return shared->plan.must_progress && shared->phase == PV_PHASE_INDEX &&
		pg_atomic_read_u32(&shared->indexes_done) <= shared->indexes_before;
}

/*
 * Between two pages, none of which is locked: end the vacuum early if it is
 * time.  For another session it ends only if something is kept.
 */
void
pv_look_for_early_end(PvParticipant *self)
{
	PvShared   *shared = self->shared;
	TimestampTz now;
	uint32		none = PV_END_NONE;
	PvEarlyEnd	why;

	if (likely(shared->deadline == 0 && shared->yields_from == 0) ||
		pg_atomic_read_u32(&shared->early_end) != PV_END_NONE ||
		must_go_on(shared))
		return;
	now = GetCurrentTimestamp();
	if (shared->deadline != 0 && now >= shared->deadline)
		why = PV_END_TIME;
	else if (shared->yields_from != 0 && now >= shared->yields_from &&
			 (shared->phase == PV_PHASE_SCAN || shared->kept.token != 0) &&
			 somebody_waits(self, now))
		why = PV_END_YIELD;
	else
		return;
	(void) pg_atomic_compare_exchange_u32(&shared->early_end, &none, why);
}

/*
 * Leader, between phases: what the vacuum has done could not be kept, so it
 * goes on, and does not end early any more for that reason.
 */
void
pv_forbid_early_end(PvShared *shared)
{
	if (pg_atomic_read_u32(&shared->early_end) == PV_END_TIME)
		shared->deadline = 0;
	else
		shared->yields_from = 0;
	pg_atomic_write_u32(&shared->early_end, PV_END_NONE);
}
