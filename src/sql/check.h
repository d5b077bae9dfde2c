/*-------------------------------------------------------------------------
 *
 * check.h
 *	  The rows of parvacuum_check().
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_CHECK_H
#define PV_CHECK_H

#include "catalog/pg_class.h"
#include "nodes/pg_list.h"

typedef enum PvSeverity
{
	PV_CRITICAL,				/* act now */
	PV_WARNING,					/* act before it does harm */
	PV_ADVICE					/* it would be better otherwise */
} PvSeverity;

/* One row.  The strings live as long as the call. */
typedef struct PvAdvice
{
	PvSeverity	severity;
	const char *name;			/* what was checked */
	const char *subject;		/* what the row is about, with its schema */
	Oid			relid;			/* of a table or an index, else invalid */
	const char *setting;		/* the setting to change, or NULL */
	const char *reason;			/* why it matters: a sentence */
	const char *evidence;		/* the numbers */
	const char *advice;			/* what to do: a sentence or a statement */
} PvAdvice;

extern PvAdvice *pv_advise(List **rows, Form_pg_class form,
						   PvSeverity severity, const char *name,
						   const char *setting, const char *reason,
						   const char *evidence, const char *advice);
extern char *pv_qualified_name(Form_pg_class form);
extern bool pv_is_being_vacuumed(Oid relid);
extern void pv_check_databases(List **rows);
extern void pv_check_free_space(List **rows, Form_pg_class form);
extern void pv_check_index(List **rows, Form_pg_class form);
extern void pv_check_tables(List **rows);

#endif							/* PV_CHECK_H */
