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

/* Be a session in that database, or a worker. */
extern void pvt_queue_be_session(Oid database);
extern void pvt_queue_be(int worker);

/* A worker comes, and leaves. */
extern bool pvt_queue_attach(int worker, uint32 token);
extern void pvt_queue_leave(int worker);

#endif							/* PVT_QUEUE_H */
