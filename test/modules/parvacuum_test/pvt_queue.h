/*-------------------------------------------------------------------------
 *
 * pvt_queue.h
 *	  A queue with a clock of its own, in which one process plays all others.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PVT_QUEUE_H
#define PVT_QUEUE_H

#include "datatype/timestamp.h"

/* An empty queue of so many places; the clock shows a day. */
extern void pvt_queue_set_up(int limit);
extern void pvt_queue_check(void);

extern TimestampTz pvt_queue_now(void);
extern void pvt_queue_advance(int64 microseconds);

/* Be a session in that database, or a runner. */
extern void pvt_queue_be_session(Oid database);
extern void pvt_queue_be(int runner);

/* A runner comes, and leaves. */
extern bool pvt_queue_attach(int runner, uint32 token);
extern void pvt_queue_leave(int runner);

#endif							/* PVT_QUEUE_H */
