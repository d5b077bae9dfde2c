/*-------------------------------------------------------------------------
 *
 * plans.c
 *	  Lets PostgreSQL's own tests run with parallel workers in every vacuum,
 *	  while queries and index builds have the plans that the tests expect.
 *
 * The number of workers of a vacuum depends on min_parallel_table_scan_size,
 * and whether they share a B-tree on min_parallel_index_scan_size.  The tables
 * of PostgreSQL's tests are smaller than the defaults of these settings.  So
 * scripts/core_suites sets both to 0 in the configuration file.  The library
 * puts PostgreSQL's defaults in their places for as long as a query is planned
 * or a utility statement other than VACUUM is executed.  What a test sets
 * itself stays as it is.
 *
 * This file runs in every process that plans a query or executes a statement.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

#if PG_VERSION_NUM >= 190000
#define PLAN_ARGS Query *parse, const char *query_string, int options, \
	ParamListInfo params, ExplainState *es
#define PLAN_PASS parse, query_string, options, params, es
#else
#define PLAN_ARGS Query *parse, const char *query_string, int options, \
	ParamListInfo params
#define PLAN_PASS parse, query_string, options, params
#endif

/* One of the two settings. */
typedef struct Threshold
{
	const char *name;
	int		   *value;			/* in blocks, like all that follows */
	int			standard;
	struct config_generic *setting;
} Threshold;

static Threshold thresholds[] = {
	{"min_parallel_table_scan_size", &min_parallel_table_scan_size,
	(8 * 1024 * 1024) / BLCKSZ},
	{"min_parallel_index_scan_size", &min_parallel_index_scan_size,
	(512 * 1024) / BLCKSZ}
};

static planner_hook_type previous_planner;
static ProcessUtility_hook_type previous_utility;

static struct config_generic *
setting_of_name(const char *name)
{
#if PG_VERSION_NUM >= 160000
	return find_option(name, false, false, ERROR);
#else
	struct config_generic **settings = get_guc_variables();
	int			i = 0;

	while (strcmp(settings[i]->name, name) != 0)
		i++;
	return settings[i];
#endif
}

/* Is the value in effect the 0 of the configuration file? */
static bool
is_ours(const Threshold *threshold)
{
	return *threshold->value == 0 && threshold->setting->source == PGC_S_FILE;
}

static void
raise_thresholds(bool *raised)
{
	for (int i = 0; i < lengthof(thresholds); i++)
	{
		raised[i] = is_ours(&thresholds[i]);
		if (raised[i])
			*thresholds[i].value = thresholds[i].standard;
	}
}

/* A statement may have set them meanwhile, which stays in effect. */
static void
restore_thresholds(const bool *raised)
{
	for (int i = 0; i < lengthof(thresholds); i++)
	{
		if (raised[i] && thresholds[i].setting->source == PGC_S_FILE)
			*thresholds[i].value = 0;
	}
}

static PlannedStmt *
plan(PLAN_ARGS)
{
	PlannedStmt *result;
	bool		raised[lengthof(thresholds)];

	raise_thresholds(raised);
	PG_TRY();
	{
		result = previous_planner != NULL ? previous_planner(PLAN_PASS) :
			standard_planner(PLAN_PASS);
	}
	PG_FINALLY();
	{
		restore_thresholds(raised);
	}
	PG_END_TRY();
	return result;
}

/*
 * Does the statement keep the settings of the file?  VACUUM does, but for
 * VACUUM FULL, which builds indexes.  SET and RESET would change the value
 * that is to be restored; statements that contain others are no vacuums
 * either, and those in them come here on their own.
 */
static bool
keeps_thresholds(Node *statement)
{
	VacuumStmt *vacuum = (VacuumStmt *) statement;
	ListCell   *cell;

	if (!IsA(statement, VacuumStmt))
		return IsA(statement, VariableSetStmt) || IsA(statement, DoStmt) ||
			IsA(statement, CallStmt) || IsA(statement, TransactionStmt) ||
			IsA(statement, VariableShowStmt);

	foreach(cell, vacuum->options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, "full") == 0)
			return false;
	}
	return vacuum->is_vacuumcmd;
}

static void
utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
		ProcessUtilityContext context, ParamListInfo params,
		QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *qc)
{
	bool		raised[lengthof(thresholds)] = {false};

	if (!keeps_thresholds(pstmt->utilityStmt))
		raise_thresholds(raised);
	PG_TRY();
	{
		if (previous_utility != NULL)
			previous_utility(pstmt, query_string, read_only_tree, context,
							 params, environment, dest, qc);
		else
			standard_ProcessUtility(pstmt, query_string, read_only_tree,
									context, params, environment, dest, qc);
	}
	PG_FINALLY();
	{
		restore_thresholds(raised);
	}
	PG_END_TRY();
}

void
_PG_init(void)
{
	for (int i = 0; i < lengthof(thresholds); i++)
		thresholds[i].setting = setting_of_name(thresholds[i].name);
	previous_planner = planner_hook;
	planner_hook = plan;
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
}
