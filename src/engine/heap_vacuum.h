/*-------------------------------------------------------------------------
 *
 * heap_vacuum.h
 *	  The second heap pass: dead line pointers become unused.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_REAP_H
#define PV_REAP_H

#include "engine/participant.h"

extern void pv_reap_heap(PvParticipant *self);

#endif							/* PV_REAP_H */
