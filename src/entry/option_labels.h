/*-------------------------------------------------------------------------
 *
 * option_labels.h
 *	  The options of a table in the catalog: its security label.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_OPTION_LABELS_H
#define PV_OPTION_LABELS_H

#include "entry/options.h"

extern Size pv_labels_shmem_size(void);
extern void pv_labels_shmem_startup(void);

/* Can a relation of this kind have options? */
extern bool pv_relkind_has_options(char relkind);

extern void pv_options_of_label(Oid relid, const char *label,
								PvOptions *options);
extern void pv_options_read(Oid relid, PvOptions *options);
extern void pv_options_write(Oid relid, const PvOptions *options);
extern void pv_options_announce_change(void);
extern void pv_options_announce_drop(Oid relid);

/* All tables of this database. */
extern int	pv_options_count(void);
extern int	pv_options_remove_all(void);

#endif							/* PV_OPTION_LABELS_H */
