/*-------------------------------------------------------------------------
 *
 * options.h
 *	  The options of a table: parvacuum.enabled and its like.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_OPTIONS_H
#define PV_OPTIONS_H

#include "access/htup.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"

/* The prefix of options and settings, and the provider of the labels. */
#define PV_NAMESPACE			"parvacuum"

/* In the order of their names, which is also that of the label's text. */
typedef enum PvOption
{
	PV_OPTION_BUFFER_USAGE_LIMIT,	/* kilobytes; 0: no ring of buffers */
	PV_OPTION_ENABLED,			/* bool */
	PV_OPTION_WINDOW,			/* text, as pv_window_print() has it */
	PV_OPTION_WORKERS,			/* at most so many; 0: none */
	PV_NUM_OPTIONS
} PvOption;

/* What a table says itself. */
typedef struct PvOptions
{
	bool		given[PV_NUM_OPTIONS];
	int			value[PV_NUM_OPTIONS];	/* valid where given */
	char	   *text[PV_NUM_OPTIONS];	/* of an option that is text, allocated
										 * where it was set or read */
	bool		unusable[PV_NUM_OPTIONS];	/* given, but this server can do
											 * nothing with it */
} PvOptions;

/* Nearest first. */
typedef enum PvOrigin
{
	PV_ORIGIN_TABLE,			/* the table's own */
	PV_ORIGIN_ANCESTOR,			/* of a table that it is a partition of */
	PV_ORIGIN_SETTING,			/* the setting of the same name */
	PV_ORIGIN_DEFAULT			/* nobody says: parvacuum decides */
} PvOrigin;

/* What holds for a table, and where it comes from. */
typedef struct PvEffectiveOptions
{
	int			value[PV_NUM_OPTIONS];	/* -1 with PV_ORIGIN_DEFAULT */
	char	   *text[PV_NUM_OPTIONS];	/* as in PvOptions, never NULL then */
	PvOrigin	origin[PV_NUM_OPTIONS];
} PvEffectiveOptions;

extern Size pv_options_shmem_size(void);
extern void pv_options_shmem_startup(void);

/* Can a relation of this kind have options? */
extern bool pv_relkind_has_options(char relkind);

/* Changing; errors for what is unknown or out of range. */
extern void pv_options_set(PvOptions *options, const List *defs);
extern void pv_options_reset(PvOptions *options, const List *defs);
extern void pv_options_merge(PvOptions *options, const PvOptions *more);

extern bool pv_options_any(const PvOptions *options);

/* As text: canonical, or NULL where there is none; and back. */
extern char *pv_options_print(const PvOptions *options);
extern void pv_options_check_label(const char *label);

/* In the catalog. */
extern void pv_options_read(Oid relid, PvOptions *options);
extern void pv_options_announce_change(void);
extern void pv_options_announce_drop(Oid relid);
extern void pv_options_write(Oid relid, const PvOptions *options);
extern int	pv_options_count(void);
extern int	pv_options_remove_all(void);
extern void pv_options_default(PvEffectiveOptions *effective);
extern void pv_options_look_up(Oid relid, bool is_partition,
							   PvEffectiveOptions *effective);

/* The same for who vacuums: never waits for a lock, and never fails. */
extern struct HTAB *pv_options_labelled(void);
extern void pv_options_effective(Oid relid, bool is_partition,
								 PvEffectiveOptions *effective);
extern void pv_options_of(Relation rel, Oid toast_parent,
						  PvEffectiveOptions *effective);
extern void pv_options_find(Relation rel, Oid *toast_parent,
							PvEffectiveOptions *effective);

/* The storage parameters autovacuum_*; false if there are none. */
extern bool pv_options_read_autovacuum(HeapTuple tuple, TupleDesc desc,
									   AutoVacOpts *options);
extern bool pv_options_autovacuum(Relation rel, Oid toast_parent,
								  AutoVacOpts *options);

#endif							/* PV_OPTIONS_H */
