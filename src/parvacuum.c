/*-------------------------------------------------------------------------
 *
 * parvacuum.c
 *	  The library: what it installs in the server.
 *
 * src/README is the map of the source.
 *
 * _PG_init() runs in the postmaster if the library is in
 * shared_preload_libraries, and all processes inherit what it did.  If a
 * session loads the library later, by CREATE EXTENSION or LOAD, it only
 * defines the settings; SQL functions that need more raise an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "base/clock.h"
#include "base/compat.h"
#include "base/process.h"
#include "base/settings.h"
#include "engine/participant.h"
#include "entry/dispatch.h"
#include "entry/failures.h"
#include "entry/options.h"
#include "sched/queue.h"
#include "sched/table.h"
#include "sql/call.h"
#include "stats/history.h"
#include "stats/kept.h"
#include "stats/registry.h"
#include "throttle/cost.h"

#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "parvacuum", .version = PV_VERSION);
#else
PG_MODULE_MAGIC;
#endif

extern PGDLLEXPORT void _PG_init(void);

static const PvShmemPart shmem_parts[] = {
	{pv_wait_shmem_size, NULL, pv_wait_shmem_startup},
	{pv_reserve_shmem_size, NULL, pv_reserve_shmem_startup},
	{pv_cost_shmem_size, NULL, pv_cost_shmem_startup},
	{pv_queue_shmem_size, "parvacuum_queue", pv_queue_shmem_startup},
	{pv_failures_shmem_size, "parvacuum_failures", pv_failures_shmem_startup},
	{pv_history_shmem_size, "parvacuum_history", pv_history_shmem_startup},
	{pv_registry_shmem_size, "parvacuum_registry", pv_registry_shmem_startup},
	{pv_kept_shmem_size, "parvacuum_kept", pv_kept_shmem_startup},
};

/* Install what the server is to have of us. */
void
_PG_init(void)
{
	const char *other = pv_built_for_other();

	pv_versions_init();
	pv_guc_init();

	if (!process_shared_preload_libraries_in_progress)
		return;
	if (other != NULL)
	{
		ereport(WARNING,
				(errmsg("parvacuum does not work with PostgreSQL %s",
						GetConfigOption("server_version", false, false)),
				 errdetail("It was built for PostgreSQL %s.  Tables are vacuumed by PostgreSQL's own VACUUM.",
						   other),
				 errhint("Build and install it for this server, and restart the server.")));
		return;
	}

	pv_clock_init();
	pv_shmem_init(shmem_parts, lengthof(shmem_parts));
	pv_dispatch_leaves_alone = pv_need_leaves_alone;
	pv_dispatch_init();
	pv_command_init();
	pv_launcher_init();
}
