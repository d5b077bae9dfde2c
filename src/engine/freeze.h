/*-------------------------------------------------------------------------
 *
 * freeze.h
 *	  Whether to freeze a whole page, and the plans for that.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_FREEZE_H
#define PV_FREEZE_H

#include "engine/prune_state.h"

extern bool pv_freezing_page_is_cheap(const PvPagePruneState *state);
extern bool pv_plan_freezing_page(PvPagePruneState *state);
extern void pv_plan_freezing_more(PvPagePruneState *state);

#endif							/* PV_FREEZE_H */
