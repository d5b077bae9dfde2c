/*-------------------------------------------------------------------------
 *
 * shmem.h
 *	  parvacuum's parts of the main shared memory segment, and room for more
 *	  dynamic shared memory.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SHMEM_H
#define PV_SHMEM_H

#include "storage/lwlock.h"

extern void pv_shmem_register(Size (*size) (void), const char *lock,
							  void (*startup) (LWLock *lock));
extern void pv_shmem_init(void);
extern bool pv_shmem_attached(void);
extern bool pv_dsm_has_room(Size bytes, Size more);

#endif							/* PV_SHMEM_H */
