/*-------------------------------------------------------------------------
 *
 * progress_line.c
 *	  The lines about the progress of a vacuum that VERBOSE writes.
 *
 * The leader runs this, from time to time while it works or waits, with no
 * page locked.  A client that does not read its messages delays the leader, as
 * it does with any other message.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "lib/stringinfo.h"

#include "base/settings.h"
#include "engine/vacuum.h"

/*
 * Append a time for people: the unit is such that two or more digits make
 * sense.
 */
static void
append_time(StringInfo buf, double usecs)
{
	double		secs = usecs / 1e6;

	if (secs < 180)
		appendStringInfo(buf, "%.0f s", secs);
	else if (secs < 180 * 60)
		appendStringInfo(buf, "%.0f min", secs / 60);
	else
		appendStringInfo(buf, "%.1f h", secs / 3600);
}

/*
 * Append what the phase has done.
 */
static void
append_done(StringInfo buf, const PvVacuumProgress *progress)
{
	const PvTrackedVacuum *tracked = &progress->tracked;
	const PvEtaInput *input = &tracked->eta;
	const char *name = "scanning heap";
	double		done = input->passed;
	double		total = input->blocks;

	if (input->phase == PV_PHASE_VACUUM_HEAP)
	{
		name = "vacuuming heap";
		done = input->vacuumed - progress->vacuumed_before;
		total = input->dead_pages - progress->vacuumed_before;
	}
	else if (tracked->nindexes > 0)
	{
		name = input->phase == PV_PHASE_INDEX ?
			"vacuuming indexes" : "cleaning up indexes";
		done = input->index_done;
		total = input->index_total;
	}
	appendStringInfo(buf, "%s, %.0f %% (%.0f of %.0f blocks", name,
					 total > 0 ? floor(100 * Min(done / total, 1)) : 100,
					 floor(Min(done, total)), total);
	if (tracked->nindexes > 0)
		appendStringInfo(buf, ", %d of %d indexes", tracked->indexes_done,
						 tracked->nindexes);
	appendStringInfoChar(buf, ')');
}

/*
 * Append what is expected.
 */
static void
append_expected(StringInfo buf, const PvTrackedVacuum *tracked,
				const PvEta *eta)
{
	int			present = tracked->eta.index_scans + 1;

	if (eta->index_scans > 1 && tracked->eta.phase != PV_PHASE_CLEANUP)
		appendStringInfo(buf, ", index scan %d of about %d",
						 Min(present, eta->index_scans), eta->index_scans);
	if (eta->phase_usecs < 0)
		return;
	appendStringInfoString(buf, ", about ");
	append_time(buf, eta->phase_usecs);
	appendStringInfoString(buf, " of this phase");
	if (eta->usecs >= 0)
	{
		appendStringInfoString(buf, " and ");
		append_time(buf, eta->usecs);
		appendStringInfoString(buf, " in all");
	}
	appendStringInfoString(buf, " remain");
}

/*
 * Leader, with no page locked: write a line about the progress, if VERBOSE was
 * given and it is time for one.  The context would say the same again, so
 * there is none.
 */
void
pv_progress_line(PvVacuum *vac)
{
	const PvTrackedVacuum *tracked = &vac->progress.tracked;
	PvErrorInfo *info = &vac->leader.errinfo;
	PvPhase		phase = info->phase;
	StringInfoData buf;
	PvEta		eta;

	if (!vac->verbose || pv_guc_progress_interval == 0 ||
		pv_usecs_since(vac->progress.last_line) <
		pv_guc_progress_interval * INT64CONST(1000000))
		return;
	INSTR_TIME_SET_CURRENT(vac->progress.last_line);

	pv_eta(&tracked->eta, &tracked->past, &eta);
	initStringInfo(&buf);
	append_done(&buf, &vac->progress);
	append_expected(&buf, tracked, &eta);

	info->phase = PV_PHASE_IDLE;
	ereport(INFO,
			(errmsg("vacuuming \"%s.%s.%s\": %s", info->dbname,
					info->relnamespace, info->relname, buf.data)));
	info->phase = phase;
	pfree(buf.data);
}
