/*-------------------------------------------------------------------------
 *
 * heap_scan.h
 *	  The first heap pass: prune, freeze, collect dead items.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_SCAN_H
#define PV_SCAN_H

#include "engine/participant.h"

extern void pv_scan_heap(PvParticipant *self);

#endif							/* PV_SCAN_H */
