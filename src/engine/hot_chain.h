/*-------------------------------------------------------------------------
 *
 * hot_chain.h
 *	  Pruning of HOT chains.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_HOT_CHAIN_H
#define PV_HOT_CHAIN_H

#include "engine/prune_state.h"

extern bool pv_redirect_is_broken(Page page, ItemId root);
extern bool pv_prune_chains(PvPagePruneState *state);
extern bool pv_list_actions(PvPagePruneState *state);

#endif							/* PV_HOT_CHAIN_H */
