/*-------------------------------------------------------------------------
 *
 * heap_vacuum.h
 *	  The second heap pass: dead line pointers become unused.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_HEAP_VACUUM_H
#define PV_HEAP_VACUUM_H

#include "engine/participant.h"

extern void pv_vacuum_heap(PvParticipant *self);

#endif							/* PV_HEAP_VACUUM_H */
