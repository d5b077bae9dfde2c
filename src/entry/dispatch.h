/*-------------------------------------------------------------------------
 *
 * dispatch.h
 *	  The slot through which every vacuum passes, and the run in progress.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_HOOK_H
#define PV_HOOK_H

#include "catalog/pg_class.h"
#include "commands/vacuum.h"

#include "engine/result.h"
#include "entry/options.h"

/* One relation that a run has vacuumed. */
typedef struct PvRunEntry
{
	Oid			toast_parent;	/* the table of a TOAST table, else invalid */
	PvResult	result;
} PvRunEntry;

/*
 * A run is one call of parvacuum_run(), seen from the process that vacuums.
 * It outlives the transactions of the vacuums in it; only its own process
 * touches it.
 */
typedef struct PvRun
{
	/* who wants to know, and is called in the vacuum's transaction */
	void		(*begin_relation) (Oid relid, Oid toast_parent);
	void		(*end_relation) (const PvRunEntry *entry);

	/* the caller said nothing of truncation */
	bool		truncate_is_open;

	/* the newest entry, for the TOAST table that may follow its table */
	PvRunEntry	last;
} PvRun;

/* The slot. */
extern void pv_hook_init(void);
extern bool pv_hook_installed(void);
extern const char *pv_hook_problem(void);
extern bool pv_hook_is_called_for(Relation rel);
extern void pv_hook_check_preloaded(const char *what);
extern void pv_hook_warn_if_not_preloaded(void);
extern void pv_hook_check_server(const char *what);
extern const char *pv_hook_declines(Form_pg_class form, Oid toast_parent);
extern void pv_hook_resolve_truncate(Relation rel, VacuumParams *params, bool for_core);
extern void pv_hook_tell_options(Oid relid, Oid toast_parent,
								 const PvEffectiveOptions *options);
extern void pv_hook_forget_options(void);

/* The run of this process. */
extern void pv_hook_begin_run(PvRun *run);
extern void pv_hook_end_run(void);

#endif							/* PV_HOOK_H */
