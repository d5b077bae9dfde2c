/*
 * pvt_tableam.c
 *	  A table access method that is heap except for its vacuum, which reports
 *	  its parameters and does nothing.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "utils/rel.h"

#include "base/compat.h"

PG_FUNCTION_INFO_V1(parvacuum_test_tableam);

static void
say_what_was_asked(Relation rel, PvSlotParams *params, BufferAccessStrategy bstrategy)
{
	static const char *const names[] = {
		[VACOPTVALUE_UNSPECIFIED] = "unspecified",
		[VACOPTVALUE_AUTO] = "auto",
		[VACOPTVALUE_DISABLED] = "disabled",
		[VACOPTVALUE_ENABLED] = "enabled"
	};

	ereport(WARNING,
			(errmsg("vacuum of \"%s\": index_cleanup %s, truncate %s",
					RelationGetRelationName(rel), names[params->index_cleanup],
					names[params->truncate])));
}

Datum
parvacuum_test_tableam(PG_FUNCTION_ARGS)
{
	static TableAmRoutine routine;

	routine = *GetHeapamTableAmRoutine();
	routine.relation_vacuum = say_what_was_asked;
	PG_RETURN_POINTER(&routine);
}
