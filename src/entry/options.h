/*-------------------------------------------------------------------------
 *
 * options.h
 *	  The options of a table: as values, as text, and in the catalog.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_OPTIONS_H
#define PV_OPTIONS_H

#include "access/htup.h"
#include "nodes/pg_list.h"
#include "utils/hsearch.h"
#include "utils/rel.h"

/* The prefix of options and settings, and the provider of the labels. */
#define PV_NAMESPACE			"parvacuum"

/* In the order of their names, which is also their order in a label. */
typedef enum PvOption
{
	PV_OPTION_BUFFER_USAGE_LIMIT,	/* kilobytes; 0: no ring of buffers */
	PV_OPTION_ENABLED,			/* bool */
	PV_OPTION_SWEEP,			/* bool: the scheduler sweeps its B-trees */
	PV_OPTION_WINDOW,			/* bool: this server can use it */
	PV_OPTION_WORKERS,			/* maximum number of workers; 0: none */
	PV_NUM_OPTIONS
} PvOption;

/* Nearest first. */
typedef enum PvOrigin
{
	PV_ORIGIN_TABLE,			/* the table itself */
	PV_ORIGIN_ANCESTOR,			/* a table that it is a partition of */
	PV_ORIGIN_SETTING,			/* the setting of the same name */
	PV_ORIGIN_DEFAULT			/* none of these: parvacuum decides */
} PvOrigin;

/* The value of an option that parvacuum decides itself. */
#define PV_OPTION_NOT_GIVEN		(-1)

/* What a label says, or what applies to a table, and where it comes from. */
typedef struct PvOptions
{
	int			value[PV_NUM_OPTIONS];	/* PV_OPTION_NOT_GIVEN with
										 * PV_ORIGIN_DEFAULT */
	PvOrigin	origin[PV_NUM_OPTIONS];
	char	   *window;			/* as pv_window_parse() returns it, or NULL if
								 * no label gives it */
} PvOptions;

extern const char *pv_option_name(PvOption option);
extern bool pv_relkind_has_options(char relkind);
extern void pv_options_clear(PvOptions *options);
extern void pv_options_inherit(PvOptions *options, const PvOptions *more,
							   PvOrigin origin);

/* As an array like pg_class.reloptions, for the statements that set them */
extern Datum pv_options_of_label(const char *label);
extern Datum pv_options_change(Datum array, List *defs, bool reset);
extern Datum pv_options_merge(Datum array, Datum more);
extern char *pv_options_label(Datum array);

/* As the text of a label */
extern bool pv_options_parse(const char *label, PvOptions *options);
extern void pv_options_check_label(const char *label);

/* The statements that set them (command.c) */
extern void pv_command_init(void);

/* The label of one table in the catalog (labels.c) */
extern char *pv_label_read(Oid relid);
extern void pv_label_parse(Oid relid, PvOptions *options);
extern void pv_label_write(Oid relid, const char *label);
extern void pv_label_announce_change(void);

/* All labels of this database */
extern int	pv_labels_count(bool remove);

/* For a vacuum: these never wait for a lock, and fail only when canceled. */
extern bool pv_labels_read_safely(void (*reader) (void *arg), void *arg);
extern void pv_labels_lock_if_free(Oid catalog, Oid index, const char *name);

/* For a database scan */
typedef struct PvLabels
{
	bool		any;			/* there are labels, or they are unreadable */
	bool		readable;		/* the labels could be read */
	bool		inherits;		/* the parents could be read */
	HTAB	   *tables;			/* LabelEntry, in labels.c; incomplete, and
								 * not to be used, if they are not readable */
} PvLabels;

extern PvLabels *pv_labels_read(void);
extern void pv_labels_find(PvLabels *labels, Oid relid, bool is_partition,
						   PvOptions *options);

/* Which options apply to one table (effective_options.c) */
extern void pv_options_default(PvOptions *options);
extern void pv_options_look_up(Oid relid, bool is_partition,
							   PvOptions *options);
extern Oid	pv_toast_parent(Oid toast);
extern void pv_options_find(Relation rel, Oid *toast_parent,
							PvOptions *options);

/* The storage parameters autovacuum_* */
extern void pv_options_no_autovacuum(AutoVacOpts *options);
extern bool pv_options_read_autovacuum(HeapTuple tuple, TupleDesc desc,
									   AutoVacOpts *options);
extern void pv_options_autovacuum_of(Oid relid, Oid toast_parent,
									 AutoVacOpts *options);
extern void pv_options_autovacuum(Relation rel, Oid toast_parent,
								  AutoVacOpts *options);
extern int	pv_options_autovacuum_workers(Relation rel, Oid toast_parent);

#endif							/* PV_OPTIONS_H */
