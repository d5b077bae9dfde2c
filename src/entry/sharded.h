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

/* What is left out. */
typedef enum PvSharding
{
	PV_NOT_SHARDED,
	PV_SHARDED_BY_CITUS,		/* everything: the table is a shell */
	PV_FOREIGN_PARTITIONS		/* the partitions that are foreign tables */
} PvSharding;

/* The functions that say so. */
typedef enum PvLeftOutBy
{
	PV_LEFT_OUT_BY_RUN,
	PV_LEFT_OUT_BY_PLAN,
	PV_LEFT_OUT_BY_ENQUEUE
} PvLeftOutBy;

extern PvSharding pv_sharding(Oid relid);
extern void pv_report_left_out(Oid relid, PvLeftOutBy by);

#endif							/* PV_SHARDED_H */
