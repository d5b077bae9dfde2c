/*-------------------------------------------------------------------------
 *
 * cluster.c
 *	  What the extension parvacuum_cluster cannot do in SQL.
 *
 * Its functions connect to other servers, for superusers too, in databases
 * that others own.  A name that is looked up at one time and used at another
 * may be that of an object of somebody else by then.  So foreign servers are
 * locked here while they are checked and connected to, and functions of dblink
 * are called by their OIDs after a check that they are of the extension: the
 * owner of its schema may rename the schema and create another one of that
 * name.
 *
 * The session that calls the functions runs this, with the rights of the
 * current role.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parser.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(parvacuum_cluster_by_postgres);
PG_FUNCTION_INFO_V1(parvacuum_cluster_may_use);
PG_FUNCTION_INFO_V1(parvacuum_cluster_connect);
PG_FUNCTION_INFO_V1(parvacuum_cluster_dblink);
PG_FUNCTION_INFO_V1(parvacuum_cluster_set_limit);

#define LIMIT_SETTING			"parvacuum.max_workers"

/* The functions of dblink that we call have at most so many arguments. */
#define MAX_ARGUMENTS			2


/* ----------------------------------------------------------------
 *		The functions of dblink
 * ----------------------------------------------------------------
 */

static bool
is_member(Oid function, const char *extension)
{
	Oid			found = getExtensionOfObject(ProcedureRelationId, function);

	return OidIsValid(found) &&
		strcmp(get_extension_name(found), extension) == 0;
}

/*
 * Find a function of the extension dblink by its name and arguments.  Its
 * owner could replace it, so he must be a superuser.
 */
static Oid
find_dblink(const char *name, int nargs, const Oid *types)
{
	Oid			found = InvalidOid;
	CatCList   *list;

	if (!OidIsValid(get_extension_oid("dblink", true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the extension \"dblink\" is needed to reach foreign servers"),
				 errhint("Execute CREATE EXTENSION dblink.")));

	list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
	for (int i = 0; i < list->n_members && !OidIsValid(found); i++)
	{
		HeapTuple	tuple = &list->members[i]->tuple;
		Form_pg_proc form = (Form_pg_proc) GETSTRUCT(tuple);

		if (form->pronargs == nargs &&
			memcmp(form->proargtypes.values, types,
				   nargs * sizeof(Oid)) == 0 &&
			is_member(form->oid, "dblink") && superuser_arg(form->proowner))
			found = form->oid;
	}
	ReleaseCatCacheList(list);

	if (!OidIsValid(found))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("the extension \"dblink\" has no function %s() of a superuser",
						name),
				 errhint("Create the extension as a superuser.")));
	return found;
}

/*
 * Check the right to call a function by its name: EXECUTE on it, and USAGE on
 * its schema.
 */
static void
check_may_call(Oid function)
{
	Datum		schema = ObjectIdGetDatum(get_func_namespace(function));

	if (!DatumGetBool(DirectFunctionCall2(has_schema_privilege_id, schema,
										  CStringGetTextDatum("USAGE"))) ||
		!DatumGetBool(DirectFunctionCall2(has_function_privilege_id,
										  ObjectIdGetDatum(function),
										  CStringGetTextDatum("EXECUTE"))))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for function %s",
						get_func_name(function)),
				 errhint("EXECUTE on the function and USAGE on its schema are needed.")));
	InvokeFunctionExecuteHook(function);
}

/* Return the first value of the first row of a result, a text, or NULL. */
static char *
first_value(ReturnSetInfo *rsinfo)
{
	TupleTableSlot *slot;
	char	   *value = NULL;

	if (rsinfo->setResult == NULL)
		return NULL;
	if (TupleDescAttr(rsinfo->setDesc, 0)->atttypid != TEXTOID)
		elog(ERROR, "unexpected type of the first column of a result");
	slot = MakeSingleTupleTableSlot(rsinfo->setDesc, &TTSOpsMinimalTuple);
	if (tuplestore_gettupleslot(rsinfo->setResult, true, false, slot))
	{
		bool		is_null;
		Datum		datum = slot_getattr(slot, 1, &is_null);

		if (!is_null)
			value = TextDatumGetCString(datum);
	}
	ExecDropSingleTupleTableSlot(slot);
	tuplestore_end(rsinfo->setResult);
	return value;
}

/*
 * Call a function of dblink.  Return its value as text; of a function that
 * returns rows that is the first value of the first row.
 */
static char *
call_dblink(const char *name, int nargs, const Oid *types, const Datum *values)
{
	LOCAL_FCINFO(fcinfo, MAX_ARGUMENTS);
	ReturnSetInfo rsinfo = {.type = T_ReturnSetInfo};
	FmgrInfo	flinfo;
	Oid			function = find_dblink(name, nargs, types);
	Oid			output;
	bool		is_varlena;
	Datum		value;
	char	   *result = NULL;

	check_may_call(function);

	fmgr_info(function, &flinfo);
	rsinfo.econtext = CreateStandaloneExprContext();
	rsinfo.expectedDesc = BuildDescFromLists(list_make1(makeString("value")),
											 list_make1_oid(TEXTOID),
											 list_make1_int(-1),
											 list_make1_oid(InvalidOid));
	rsinfo.allowedModes = SFRM_Materialize;
	InitFunctionCallInfoData(*fcinfo, &flinfo, nargs, InvalidOid, NULL,
							 (Node *) &rsinfo);
	for (int i = 0; i < nargs; i++)
	{
		fcinfo->args[i].value = values[i];
		fcinfo->args[i].isnull = false;
	}
	value = FunctionCallInvoke(fcinfo);

	if (flinfo.fn_retset)
		result = first_value(&rsinfo);
	else if (!fcinfo->isnull)
	{
		getTypeOutputInfo(get_func_rettype(function), &output, &is_varlena);
		result = OidOutputFunctionCall(output, value);
	}
	FreeExprContext(rsinfo.econtext, true);
	return result;
}

/*
 * parvacuum_cluster_dblink(function, VARIADIC arguments): call the function of
 * dblink of that name, with or without arguments of the type text.  The second
 * argument of dblink_get_result() is a bool, whether to raise an error.
 */
Datum
parvacuum_cluster_dblink(PG_FUNCTION_ARGS)
{
	char	   *name = psprintf("dblink_%s",
								text_to_cstring(PG_GETARG_TEXT_PP(0)));
	Oid			types[MAX_ARGUMENTS] = {TEXTOID, TEXTOID};
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(1);
	Datum	   *values;
	int			n;
	char	   *result;

	if (array_contains_nulls(array))
		PG_RETURN_NULL();
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &values, NULL,
					  &n);
	if (n > MAX_ARGUMENTS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_ARGUMENTS),
				 errmsg("cannot pass more than %d arguments to a function",
						MAX_ARGUMENTS)));
	if (n == 2 && strcmp(name, "dblink_get_result") == 0)
	{
		const char *flag = TextDatumGetCString(values[1]);

		types[1] = BOOLOID;
		values[1] = DirectFunctionCall1(boolin, CStringGetDatum(flag));
	}

	result = call_dblink(name, n, types, values);
	if (result == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(result));
}


/* ----------------------------------------------------------------
 *		Foreign servers
 * ----------------------------------------------------------------
 */

/*
 * Is it a server of postgres_fdw, so that its options are those of libpq?
 * NULL is none.
 */
static bool
by_postgres(const ForeignServer *server)
{
	return server != NULL &&
		is_member(GetForeignDataWrapper(server->fdwid)->fdwhandler,
				  "postgres_fdw");
}

/*
 * Does parvacuum_cluster connect to the server for the current role?
 *
 * The owner of a server says where it leads, and can make user mappings for
 * all roles.  So whoever connects to it gives away what it can be made to
 * send: a superuser the passwords and the name that libpq finds on this
 * machine, and from PG 18 on each role the keys of its own SCRAM login.
 * Therefore the owner must be a superuser or the current role itself.  That
 * role may be a member of others without a wish of its own, so their servers
 * do not count.
 */
static bool
may_use(Oid serverid)
{
	ForeignServer *server = GetForeignServerExtended(serverid, FSV_MISSING_OK);
	Oid			role = GetUserId();

	if (!by_postgres(server) ||
		!(superuser_arg(server->owner) || server->owner == role) ||
		!DatumGetBool(DirectFunctionCall2(has_server_privilege_id,
										  ObjectIdGetDatum(serverid),
										  CStringGetTextDatum("USAGE"))))
		return false;

	return SearchSysCacheExists2(USERMAPPINGUSERSERVER,
								 ObjectIdGetDatum(role),
								 ObjectIdGetDatum(serverid)) ||
		SearchSysCacheExists2(USERMAPPINGUSERSERVER,
							  ObjectIdGetDatum(InvalidOid),
							  ObjectIdGetDatum(serverid));
}

Datum
parvacuum_cluster_by_postgres(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerExtended(PG_GETARG_OID(0),
													 FSV_MISSING_OK);

	PG_RETURN_BOOL(by_postgres(server));
}

Datum
parvacuum_cluster_may_use(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(may_use(PG_GETARG_OID(0)));
}

/* Lock the server that has that name, and keeps it under the lock. */
static Oid
lock_server(char *name)
{
	Relation	none;
	Node	   *object = (Node *) makeString(name);
	Oid			serverid = get_object_address(OBJECT_FOREIGN_SERVER, object,
											  &none, AccessShareLock,
											  true).objectId;

	if (!OidIsValid(serverid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server \"%s\" does not exist", name),
				 errhint("It was dropped or renamed a moment ago.")));
	return serverid;
}

/*
 * parvacuum_cluster_connect(connection, server): connect dblink to a foreign
 * server.
 *
 * dblink looks for the server by its name, and would take a name that no
 * server has for a connection string.  ALTER SERVER ... RENAME and DROP lock
 * the server, so it keeps its name until dblink has connected.  A change of
 * the owner takes no lock, so check the owner again before anything is sent.
 */
Datum
parvacuum_cluster_connect(PG_FUNCTION_ARGS)
{
	const Oid	types[] = {TEXTOID, TEXTOID};
	char	   *name = NameStr(*PG_GETARG_NAME(1));
	Datum		arguments[] = {PG_GETARG_DATUM(0), CStringGetTextDatum(name)};
	Oid			serverid = lock_server(name);
	bool		usable = may_use(serverid);

	if (usable)
	{
		(void) call_dblink("dblink_connect", 2, types, arguments);
		AcceptInvalidationMessages();
		usable = may_use(serverid);
		if (!usable)
			(void) call_dblink("dblink_disconnect", 1, types, arguments);
	}
	if (!usable)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the current role cannot use server \"%s\"", name),
				 errhint("It needs the privilege USAGE and a user mapping, and the server must belong to a superuser or to that role.")));
	UnlockDatabaseObject(ForeignServerRelationId, serverid, 0,
						 AccessShareLock);
	PG_RETURN_VOID();
}

/*
 * parvacuum_cluster_set_limit(workers): do what ALTER SYSTEM does, which
 * checks the rights and, unlike the statement, can be done in a function.  The
 * other processes know of it after a reload.  This one cannot reload before
 * the end of its statement, so give it the value that it will have then.
 */
Datum
parvacuum_cluster_set_limit(PG_FUNCTION_ARGS)
{
	char	   *value = psprintf("%d", PG_GETARG_INT32(0));
	char	   *command = psprintf("ALTER SYSTEM SET " LIMIT_SETTING " = %s", value);
	List	   *parsed = raw_parser(command, RAW_PARSE_DEFAULT);
	RawStmt    *statement = linitial_node(RawStmt, parsed);

	AlterSystemSetConfigFile(castNode(AlterSystemStmt, statement->stmt));
	(void) set_config_option(LIMIT_SETTING, value, PGC_SIGHUP, PGC_S_FILE,
							 GUC_ACTION_SAVE, true, 0, false);
	PG_RETURN_VOID();
}
