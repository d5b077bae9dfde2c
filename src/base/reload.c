/*-------------------------------------------------------------------------
 *
 * reload.c
 *	  Settings that are changed while a table is being vacuumed.
 *
 * The vacuum of a table may take hours.  From PG 16 on, core's delay point
 * makes an autovacuum worker read the files again in the middle of a table.  A
 * leader cannot do that, because in parallel mode ProcessConfigFile() fails:
 * it also sets what no file contains, such as client_encoding.  PG 15 reads
 * the files only between two tables.
 *
 * So the leader reads the files by itself, on all versions, with core's parser,
 * and passes each value to set_config_option(), which knows what is valid and
 * what has precedence over a file.  ProcessConfigFile() does the same, but with
 * GUC_ACTION_SET.  Parallel mode allows only GUC_ACTION_SAVE, which has the
 * same effect for a value from a file.
 *
 * Only the settings in the table below are read.  They matter while a table is
 * vacuumed, and checking and assigning them takes no catalog, no lock and no
 * time.  It must not, because the callback of a bulk deletion has a page
 * locked.  Memory limits are not among them: the memory was divided among the
 * participants at the start.
 *
 * Workers ignore SIGHUP.  The leader writes the values to shared memory, and
 * the workers store them in their variables (throttle/cost.c says when).
 *
 * Core must not notice the reload before parallel mode is over, by an error
 * too.  Then it is notified, and reads everything.
 *
 * Core: utils/misc/guc-file.l (15), guc.c, ProcessConfigFileInternal.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "base/settings.h"

/* A setting that is read again after a reload */
typedef struct Followed
{
	const char *name;

	/* The variable that workers set, if any */
	int		   *number;
	bool	   *flag;
} Followed;

static const Followed followed[] = {
	/* the cost limits of this vacuum; see throttle/cost.c */
	{"autovacuum_vacuum_cost_delay", NULL, NULL},
	{"autovacuum_vacuum_cost_limit", NULL, NULL},
	{"vacuum_cost_delay", NULL, NULL},
	{"vacuum_cost_limit", NULL, NULL},
	{"parvacuum.autovacuum_cost_limit_scale", NULL, NULL},
	{"vacuum_cost_page_hit", &VacuumCostPageHit, NULL},
	{"vacuum_cost_page_miss", &VacuumCostPageMiss, NULL},
	{"vacuum_cost_page_dirty", &VacuumCostPageDirty, NULL},

	/* when the wraparound failsafe begins */
	{"vacuum_failsafe_age", &vacuum_failsafe_age, NULL},
	{"vacuum_multixact_failsafe_age", &vacuum_multixact_failsafe_age, NULL},

	/* how it reads */
	{"maintenance_io_concurrency", &maintenance_io_concurrency, NULL},

	/* what is measured */
	{"track_io_timing", NULL, &track_io_timing},
	{"track_wal_io_timing", NULL, &track_wal_io_timing},
	{"track_cost_delay_timing", NULL, PV_TRACK_DELAYS},
};

StaticAssertDecl(lengthof(followed) <= PV_MAX_FOLLOWED, "there is a place for each setting");

volatile sig_atomic_t pv_reload_is_due = false;

/* Has core still to notice a reload? */
static volatile sig_atomic_t owed_to_core = false;

/* Handler of SIGHUP while a leader is at work. */
static void
note_reload(SIGNAL_ARGS)
{
	int			save_errno = errno;

	pv_reload_is_due = true;
	owed_to_core = true;
	SetLatch(MyLatch);

	errno = save_errno;
}

/* Leader: apply reloads itself from now on. */
void
pv_reload_defer(void)
{
	pqsignal(SIGHUP, note_reload);
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		pv_reload_is_due = true;
		owed_to_core = true;
	}
}

/*
 * Leader: leave reloads to core again, including those that have come
 * meanwhile.  Call this after an error, too, when parallel mode ends with the
 * transaction.
 */
void
pv_reload_resume(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pv_reload_is_due = false;
	if (owed_to_core)
	{
		owed_to_core = false;
		ConfigReloadPending = true;
	}
}

/* Return the default of a setting, as text. */
static char *
boot_value(struct config_generic *setting)
{
	switch (setting->vartype)
	{
		case PGC_BOOL:
			return PV_SETTING_BOOL(setting)->boot_val ? "on" : "off";
		case PGC_INT:
			return psprintf("%d", PV_SETTING_INT(setting)->boot_val);
		case PGC_REAL:
			return psprintf("%.17g", PV_SETTING_REAL(setting)->boot_val);
		default:
			break;
	}
	elog(ERROR, "setting \"%s\" has an unexpected type", setting->name);
}

/*
 * Does the server know all names in the files?  If not, core ignores the files
 * as a whole.  Names with a dot belong to extensions, and may be unknown.
 */
static bool
knows_all_names(const ConfigVariable *items)
{
	for (const ConfigVariable *item = items; item != NULL; item = item->next)
	{
		if (!item->ignore && strchr(item->name, '.') == NULL &&
			pv_find_setting(item->name) == NULL &&
			GetConfigOption(item->name, true, false) == NULL)
			return false;
	}
	return true;
}

/*
 * Give a setting the last value that the files have for it.  A setting that is
 * no longer in the files returns to its default.  An invalid value changes
 * nothing.  Older servers do not have all settings.
 */
static void
follow(const char *name, const ConfigVariable *items)
{
	struct config_generic *setting = pv_find_setting(name);
	const char *value = NULL;

	for (const ConfigVariable *item = items; item != NULL; item = item->next)
	{
		if (!item->ignore && pg_strcasecmp(item->name, name) == 0)
			value = item->value;
	}
	if (setting == NULL)
		return;
	if (value == NULL && setting->reset_source == PGC_S_FILE)
		value = boot_value(setting);
	if (value != NULL)
		(void) set_config_option(name, value, PGC_SIGHUP, PGC_S_FILE,
								 GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Leader: read the configuration, and return what the workers need of it.  A
 * page may be locked, so serve no interrupt and read no catalog.  Files with
 * errors change nothing; the postmaster logs the errors.
 */
void
pv_reload_now(PvSettings *settings)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "parvacuum reload",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	ConfigVariable *head = NULL;
	ConfigVariable *tail = NULL;

	Assert(CritSectionCount == 0);

	/* First, so that a reload that comes from now on is not lost */
	pv_reload_is_due = false;

	if (ParseConfigFile(ConfigFileName, true, NULL, 0, 0, DEBUG2, &head,
						&tail) &&
		ParseConfigFile(PG_AUTOCONF_FILENAME, false, NULL, 0, 0, DEBUG2, &head,
						&tail) &&
		knows_all_names(head))
	{
		for (size_t i = 0; i < lengthof(followed); i++)
			follow(followed[i].name, head);
	}

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);

	for (size_t i = 0; i < lengthof(followed); i++)
	{
		if (followed[i].number != NULL)
			settings->value[i] = *followed[i].number;
		else if (followed[i].flag != NULL)
			settings->value[i] = *followed[i].flag;
	}
}

/* Worker: apply the settings of the leader.  A page may be locked. */
void
pv_reload_adopt(const PvSettings *settings)
{
	for (size_t i = 0; i < lengthof(followed); i++)
	{
		if (followed[i].number != NULL)
			*followed[i].number = (int) settings->value[i];
		else if (followed[i].flag != NULL)
			*followed[i].flag = settings->value[i] != 0;
	}
}
