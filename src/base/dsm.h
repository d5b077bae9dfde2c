/*-------------------------------------------------------------------------
 *
 * dsm.h
 *	  Is there room for more dynamic shared memory?
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_DSM_H
#define PV_DSM_H

extern bool pv_dsm_has_room(Size bytes, Size more);

#endif							/* PV_DSM_H */
