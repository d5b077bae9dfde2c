/*-------------------------------------------------------------------------
 *
 * shmem.h
 *	  parvacuum's parts of the main shared memory segment, and room for more
 *	  dynamic shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SHMEM_H
#define PV_SHMEM_H

#include "storage/lwlock.h"

/* The part of one module */
typedef struct PvShmemPart
{
	Size		(*size) (void); /* NULL: it needs no space */
	const char *lock;			/* name of its lock; NULL: it has none */
	void		(*startup) (LWLock *lock);	/* called with AddinShmemInitLock
											 * held */
} PvShmemPart;

extern void pv_shmem_init(const PvShmemPart *all_parts, int n);
extern bool pv_shmem_attached(void);
extern bool pv_dsm_has_room(Size bytes, Size more);

#endif							/* PV_SHMEM_H */
