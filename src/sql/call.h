/*-------------------------------------------------------------------------
 *
 * call.h
 *	  What SQL functions check before they do anything.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_CALL_H
#define PV_CALL_H

#include "catalog/pg_class.h"
#include "fmgr.h"

/* The server. */
extern void pv_check_preloaded(const char *what);
extern void pv_warn_unless_preloaded(void);
extern void pv_check_server(const char *what);

/* The place of the call. */
extern void pv_check_function_call(FunctionCallInfo fcinfo, const char *what);
extern void pv_check_procedure_call(FunctionCallInfo fcinfo,
									const char *what);
extern void pv_commit_procedure(void);

/* The snapshot of the statement that calls a function. */
extern void pv_release_snapshot(FunctionCallInfo fcinfo);
extern void pv_renew_snapshot(void);

/* The number of workers that the caller leaves to the engine. */
#define PV_WORKERS_NOT_GIVEN	(-1)

/* Arguments. */
extern void pv_check_not_null(FunctionCallInfo fcinfo, int arg,
							  const char *name, const char *hint);
extern int	pv_workers_arg(FunctionCallInfo fcinfo, int arg);

#define PV_HINT_DEFAULT			"Omit the argument to use its default."

/* The table. */
extern bool pv_check_relation(Form_pg_class form, int elevel);
extern void pv_raise_no_relation(Oid relid);

/* The versions of the library and of the extensions (versions.c) */

#define PV_NUM_EXTENSIONS		2

extern const char *const pv_extensions[PV_NUM_EXTENSIONS];

extern void pv_versions_init(void);
extern int	pv_extension_compare(const char *name, char **version);
extern bool pv_columns_may_differ(void);
extern bool pv_library_replaced(const char **evidence);

#endif							/* PV_CALL_H */
