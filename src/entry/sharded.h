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

extern PvSharding pv_sharding(Oid relid);

#endif							/* PV_SHARDED_H */
