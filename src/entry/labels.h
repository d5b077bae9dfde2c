/*-------------------------------------------------------------------------
 *
 * labels.h
 *	  The options of all tables of a database, for a database scan.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_LABELS_H
#define PV_LABELS_H

#include "entry/options.h"

typedef struct PvLabels PvLabels;

extern PvLabels *pv_labels_read(void);
extern void pv_labels_free(PvLabels *labels);
extern bool pv_labels_any(const PvLabels *labels);
extern void pv_labels_find(PvLabels *labels, Oid relid, bool is_partition,
						   PvOptions *options);

#endif							/* PV_LABELS_H */
