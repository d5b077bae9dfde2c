/*-------------------------------------------------------------------------
 *
 * relation.h
 *	  Which relations a vacuum of a table includes or leaves out, their names
 *	  and locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RELATION_H
#define PV_RELATION_H

#include "nodes/pg_list.h"
#include "storage/lockdefs.h"
#include "utils/rel.h"

extern List *pv_expand_relation(Oid relid, char relkind);
extern char *pv_qualified_relname(Oid relid);
extern char *pv_quoted_relname(Oid relid);
extern Relation pv_open_unlocked(Oid relid, LOCKMODE lockmode);
extern bool pv_is_toast_of(Relation rel, Oid toast_parent);
extern void pv_report_left_out(Oid relid);

#endif							/* PV_RELATION_H */
