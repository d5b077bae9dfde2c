/*-------------------------------------------------------------------------
 *
 * history_file.h
 *	  The file that keeps the history while the server is down.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_HISTORY_FILE_H
#define PV_HISTORY_FILE_H

#include "stats/records.h"

extern bool pv_history_file_write(const char *image, Size size);
extern void pv_history_file_read(PvRecords *records);

#endif							/* PV_HISTORY_FILE_H */
