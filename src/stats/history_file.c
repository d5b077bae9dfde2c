/*-------------------------------------------------------------------------
 *
 * history_file.c
 *	  The file that keeps the history while the server is down.
 *
 * The postmaster reads the file when it initializes shared memory, also after
 * a crash.  The launcher writes it while the server runs, and the postmaster
 * when it stops (stats/history.c says when).  A file is written under another
 * name, flushed, and renamed.  So there is a complete file at any time, also
 * after a crash of the system.
 *
 * A file that cannot be read is no reason not to start.  It is renamed, so
 * that nothing is lost, and the history begins anew.  Nothing here raises an
 * error.
 *
 * The server's own statistics of the last shutdown are in the same directory.
 * A base backup includes it, so a standby has the history of its primary as it
 * was then.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#include "stats/history.h"

#define HISTORY_FILE	PGSTAT_STAT_PERMANENT_DIRECTORY "/parvacuum.stat"
#define NEW_FILE		HISTORY_FILE ".tmp"
#define BAD_FILE		HISTORY_FILE ".bad"

/* More than the largest settings need */
#define MAX_FILE_SIZE	((off_t) 1024 * 1024 * 1024)

/*
 * A file that cannot be used is still there under its name.  Set in the
 * postmaster before it starts the launcher, which inherits it.
 */
static bool in_the_way = false;

/* Is it still there?  The administrator may have moved it away. */
static bool
must_not_be_replaced(void)
{
	struct stat st;

	if (in_the_way && lstat(HISTORY_FILE, &st) != 0 && errno == ENOENT)
		in_the_way = false;
	return in_the_way;
}

/*
 * Replace the file by an image (stats/records.c).  If that fails, log the
 * reason, keep the former file, and return false.
 */
bool
pv_history_file_write(const char *image, Size size)
{
	FILE	   *file;
	bool		good;

	if (must_not_be_replaced())
		return false;

	/* what a crash or somebody else has left under this name is of no use */
	(void) unlink(NEW_FILE);
	errno = 0;
	file = AllocateFile(NEW_FILE, PG_BINARY_W);
	good = file != NULL && fwrite(image, 1, size, file) == size;
	if (file != NULL && FreeFile(file) != 0)
		good = false;
	if (!good)
	{
		if (errno == 0)
			errno = ENOSPC;
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", NEW_FILE)));
	}
	if (!good || durable_rename(NEW_FILE, HISTORY_FILE, LOG) != 0)
	{
		(void) unlink(NEW_FILE);
		return false;
	}
	return true;
}

/*
 * Read the file into new memory, and set *size.  Return NULL if there is no
 * file, or if it could not be read; then *problem says why.  Open nothing but
 * a file: a pipe, for instance, could keep the server from starting.
 */
static char *
read_file(Size *size, const char **problem)
{
	struct stat st;
	FILE	   *file = NULL;
	char	   *image;

	*problem = NULL;
	if (stat(HISTORY_FILE, &st) != 0)
	{
		if (errno != ENOENT)
			*problem = psprintf("It could not be found: %m.");
		return NULL;
	}
	if (!S_ISREG(st.st_mode))
		*problem = "It is not a regular file.";
	else if (st.st_size > MAX_FILE_SIZE)
		*problem = "It is too large.";
	else if ((file = AllocateFile(HISTORY_FILE, PG_BINARY_R)) == NULL)
		*problem = psprintf("It could not be opened: %m.");
	if (*problem != NULL)
		return NULL;

	*size = (Size) st.st_size;
	image = palloc_extended(*size + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	errno = 0;
	if (image == NULL)
		*problem = "There is not enough memory to read it.";
	else if (fread(image, 1, *size, file) != *size)
		*problem = errno == 0 ? "It could not be read." :
			psprintf("It could not be read: %m.");
	FreeFile(file);
	return *problem == NULL ? image : NULL;
}

/*
 * Give a file that cannot be used another name, and log why.  durable_rename()
 * would open the file, which may be just what is not possible.  If the system
 * crashes before the new name is on disk, the file is found again under its
 * former name, and the same is done once more.
 */
static void
keep_aside(const char *problem)
{
	int			failed = rename(HISTORY_FILE, BAD_FILE) != 0 ? errno : 0;

	in_the_way = failed != 0;
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("could not use parvacuum's history in file \"%s\"",
					HISTORY_FILE),
			 errdetail("%s  The history begins anew.", problem),
			 failed ?
			 errhint("Move the file away, so that the new history can be written.") :
			 errhint("The file is kept as \"%s\".", BAD_FILE)));
	if (failed)
	{
		errno = failed;
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not rename file \"%s\" to \"%s\": %m",
						HISTORY_FILE, BAD_FILE)));
	}
}

/*
 * Postmaster: read the file, if there is one, into records that have just been
 * initialized.  Keep a file that cannot be used under another name.
 */
void
pv_history_file_read(PvRecords *records)
{
	const char *problem;
	Size		size;
	char	   *image = read_file(&size, &problem);

	in_the_way = false;			/* it may have been moved before a crash */
	if (image != NULL)
	{
		problem = pv_records_read_image(records, GetSystemIdentifier(),
										image, size);
		pfree(image);
	}
	if (problem != NULL)
		keep_aside(problem);
}
