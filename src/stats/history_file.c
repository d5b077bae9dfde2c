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

#include "stats/history_file.h"

#define HISTORY_FILE	PGSTAT_STAT_PERMANENT_DIRECTORY "/parvacuum.stat"
#define NEW_FILE		HISTORY_FILE ".tmp"
#define BAD_FILE		HISTORY_FILE ".bad"

/* More than the largest settings need */
#define MAX_FILE_SIZE	((off_t) 1024 * 1024 * 1024)

/*
 * Replaces the file by an image (stats/records.c).  Returns whether that
 * succeeded; if not, the log has the reason, and the file is the former one.
 */
bool
pv_history_file_write(const char *image, Size size)
{
	FILE	   *file = AllocateFile(NEW_FILE, PG_BINARY_W);
	bool		good;

	if (file == NULL)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", NEW_FILE)));
		return false;
	}
	errno = 0;
	good = fwrite(image, 1, size, file) == size;
	if (!good && errno == 0)
		errno = ENOSPC;
	if (FreeFile(file) != 0)
		good = false;
	if (!good)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", NEW_FILE)));
		(void) unlink(NEW_FILE);
		return false;
	}
	return durable_rename(NEW_FILE, HISTORY_FILE, LOG) == 0;
}

/*
 * Reads the file into new memory, and sets *size.  Returns NULL if there is no
 * file, or if it could not be read; then *problem says why.
 */
static char *
read_file(Size *size, const char **problem)
{
	FILE	   *file = AllocateFile(HISTORY_FILE, PG_BINARY_R);
	struct stat st;
	char	   *image = NULL;

	*problem = NULL;
	if (file == NULL)
	{
		if (errno != ENOENT)
			*problem = "It could not be opened.";
		return NULL;
	}
	if (fstat(fileno(file), &st) != 0 || st.st_size > MAX_FILE_SIZE)
		*problem = "It is too large.";
	else
	{
		*size = (Size) st.st_size;
		image = palloc_extended(*size + 1,
								MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
		if (image == NULL)
			*problem = "There is not enough memory to read it.";
		else if (fread(image, 1, *size, file) != *size)
		{
			*problem = "It could not be read.";
			pfree(image);
			image = NULL;
		}
	}
	FreeFile(file);
	return image;
}

/*
 * Postmaster: reads the file into records that have just been initialized, if
 * there is one.  A file that cannot be used is kept under another name.
 */
void
pv_history_file_read(PvRecords *records)
{
	const char *problem;
	Size		size;
	char	   *image = read_file(&size, &problem);

	if (image != NULL)
	{
		problem = pv_records_read_image(records, GetSystemIdentifier(),
										image, size);
		pfree(image);
	}
	if (problem == NULL)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("could not use parvacuum's history in file \"%s\"",
					HISTORY_FILE),
			 errdetail("%s  The history begins anew.", problem),
			 errhint("The file is kept as \"%s\".", BAD_FILE)));
	(void) durable_rename(HISTORY_FILE, BAD_FILE, LOG);
}
