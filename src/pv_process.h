/*-------------------------------------------------------------------------
 *
 * pv_process.h
 *	  What all our background workers have in common.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_PROCESS_H
#define PV_PROCESS_H

#include "postmaster/bgworker.h"

extern void pv_process_describe(BackgroundWorker *worker, const char *type,
								const char *function);

#endif							/* PV_PROCESS_H */
