/*-------------------------------------------------------------------------
 *
 * candidates.h
 *	  Which tables of a database need a vacuum or an analyze.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_NEED_H
#define PV_NEED_H

#include "catalog/pg_class.h"
#include "utils/rel.h"

#include "base/window.h"
#include "entry/options.h"
#include "sched/queue.h"

extern List *pv_need_scan(bool *nothing);
extern void pv_need_state(Form_pg_class form, PvTableState *state,
						  TimestampTz *done_at);
extern void pv_need_thresholds(Form_pg_class form, const AutoVacOpts *own,
							   PvThresholds *limits);
extern void pv_need_score_of(Relation rel, const AutoVacOpts *own, bool sweep,
							 PvScore *score);
extern bool pv_need_is_served(Oid relid, bool opted_in);
extern TimestampTz pv_need_deadline(const PvWindow *window,
									const PvScore *score);
extern bool pv_need_is_outside(const char *text, const PvScore *score,
							   PvWindow *window);
extern PvWaitReason pv_need_leave_out_failed(Form_pg_class form,
											 BlockNumber pages,
											 PvScore *score,
											 TimestampTz *until);
extern bool pv_need_leaves_alone(Relation rel, Oid toast_parent,
								 const PvOptions *options);

#endif							/* PV_NEED_H */
