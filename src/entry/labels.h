/*-------------------------------------------------------------------------
 *
 * labels.h
 *	  The options of tables in the catalog: their security labels.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_LABELS_H
#define PV_LABELS_H

#include "entry/options.h"

/* One table */
extern char *pv_label_read(Oid relid);
extern void pv_label_parse(Oid relid, PvOptions *options);
extern void pv_label_write(Oid relid, const char *label);
extern void pv_label_announce_change(void);

/* All tables of this database */
extern int	pv_labels_count(void);
extern int	pv_labels_remove(void);

/* For a vacuum: these never wait for a lock, and fail only when canceled. */
extern bool pv_labels_read_safely(void (*reader) (void *arg), void *arg);
extern void pv_labels_lock_if_free(Oid catalog, Oid index, const char *name);

/* For a database scan */
typedef struct PvLabels PvLabels;

extern PvLabels *pv_labels_read(void);
extern void pv_labels_free(PvLabels *labels);
extern bool pv_labels_any(const PvLabels *labels);
extern void pv_labels_find(PvLabels *labels, Oid relid, bool is_partition,
						   PvOptions *options);

#endif							/* PV_LABELS_H */
