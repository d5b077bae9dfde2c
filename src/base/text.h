/*-------------------------------------------------------------------------
 *
 * text.h
 *	  Texts whose encoding may not be that of the database.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_TEXT_H
#define PV_TEXT_H

extern const char *pv_readable(const char *text, int encoding);

#endif							/* PV_TEXT_H */
