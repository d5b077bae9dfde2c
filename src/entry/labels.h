/*-------------------------------------------------------------------------
 *
 * labels.h
 *	  The options of tables: in statements, in the catalog, and which apply.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_LABELS_H
#define PV_LABELS_H

#include "access/htup.h"
#include "utils/hsearch.h"
#include "utils/rel.h"

#include "entry/options.h"

/* The statements that set them (command.c) */
extern void pv_command_init(void);

/* The label of one table */
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
	MemoryContext context;		/* of all this */
	bool		any;			/* there are labels, or they are unreadable */
	bool		readable;		/* the labels could be read */
	bool		inherits;		/* the parents could be read */
	HTAB	   *tables;			/* LabelEntry, in labels.c; incomplete, and
								 * not to be used, if they are not readable */
} PvLabels;

extern PvLabels *pv_labels_read(void);
extern void pv_labels_free(PvLabels *labels);
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

#endif							/* PV_LABELS_H */
