/*-------------------------------------------------------------------------
 *
 * sharded.h
 *	  Tables of which a vacuum on this server leaves out a part.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SHARDED_H
#define PV_SHARDED_H

/* The functions that leave something out, and say so. */
typedef enum PvLeftOutBy
{
	PV_LEFT_OUT_BY_RUN,
	PV_LEFT_OUT_BY_PLAN,
	PV_LEFT_OUT_BY_ENQUEUE
} PvLeftOutBy;

extern void pv_report_left_out(Oid relid, PvLeftOutBy by);

#endif							/* PV_SHARDED_H */
