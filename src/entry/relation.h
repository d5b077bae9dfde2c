/*-------------------------------------------------------------------------
 *
 * relation.h
 *	  Which relations a vacuum of a table includes or leaves out, their names
 *	  and locks.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_RELATION_H
#define PV_RELATION_H

#include "nodes/pg_list.h"
#include "storage/lockdefs.h"
#include "utils/rel.h"

/* The functions that report what they leave out */
typedef enum PvLeftOutBy
{
	PV_LEFT_OUT_BY_RUN,
	PV_LEFT_OUT_BY_PLAN,
	PV_LEFT_OUT_BY_ENQUEUE
} PvLeftOutBy;

extern List *pv_expand_relation(Oid relid, char relkind);
extern char *pv_qualified_relname(Oid relid);
extern char *pv_quoted_relname(Oid relid);
extern Relation pv_open_unlocked(Oid relid, LOCKMODE lockmode);
extern bool pv_is_toast_of(Relation rel, Oid toast_parent);
extern void pv_report_left_out(Oid relid, PvLeftOutBy by);

#endif							/* PV_RELATION_H */
