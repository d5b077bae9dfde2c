/*-------------------------------------------------------------------------
 *
 * request.h
 *	  What parvacuum_run() and CALL parvacuum() are asked to do.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_REQUEST_H
#define PV_REQUEST_H

#include "commands/vacuum.h"

/* A table, which stands for its partitions too, and VACUUM's options. */
typedef struct PvRequest
{
	Oid			relid;
	VacuumParams params;
} PvRequest;

#endif							/* PV_REQUEST_H */
