/*-------------------------------------------------------------------------
 *
 * check.h
 *	  The rows of parvacuum_check().
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_CHECK_H
#define PV_CHECK_H

#include "catalog/pg_class.h"

typedef enum PvSeverity
{
	PV_CRITICAL,				/* act now */
	PV_WARNING,					/* act before it does harm */
	PV_ADVICE					/* it would be better otherwise */
} PvSeverity;

/*
 * One row.  All strings are allocated in the memory context of the call, or
 * constant.
 */
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

typedef struct PvAdviceList
{
	int			n;
	int			room;
	PvAdvice   *rows;
} PvAdviceList;

extern PvAdvice *pv_advise(PvAdviceList *list, Form_pg_class form,
						   PvSeverity severity, const char *name,
						   const char *setting, const char *reason,
						   const char *evidence, const char *advice);
extern char *pv_qualified_name(Form_pg_class form);
extern void pv_check_server_settings(PvAdviceList *list);
extern void pv_check_databases(PvAdviceList *list);
extern const char *pv_wraparound_text(int64 age);
extern void pv_check_free_space(PvAdviceList *list, Form_pg_class form);
extern void pv_check_index(PvAdviceList *list, Form_pg_class form);
extern void pv_check_tables(PvAdviceList *list);

#endif							/* PV_CHECK_H */
