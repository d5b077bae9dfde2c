/*-------------------------------------------------------------------------
 *
 * wait.h
 *	  Places where a test can have a vacuum wait.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_WAIT_H
#define PV_WAIT_H

#include "base/settings.h"

extern void pv_wait_at(const char *place);

/* A place; hold no page's lock */
static inline void
pv_wait_point(const char *place)
{
	if (unlikely(pv_guc_wait_at[0] != '\0'))
		pv_wait_at(place);
}

#endif							/* PV_WAIT_H */
