/*-------------------------------------------------------------------------
 *
 * text.c
 *	  Texts whose encoding may not be that of the database.
 *
 * Names and statements that the whole cluster can see are in the encoding of
 * the database that they come from.  Any role can choose them, so a text that
 * cannot be converted must not make a view or a vacuum fail.
 *
 * Sessions and leaders of vacuums run this.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "base/text.h"

/*
 * Returns a text of some database in the encoding of this one.  What is not
 * ASCII is replaced if the encodings differ, or if the text is not valid.  The
 * result is the text itself, or a copy in the current memory context.
 */
const char *
pv_readable(const char *text, int encoding)
{
	char	   *copy;

	if (encoding == GetDatabaseEncoding() &&
		pg_verify_mbstr(encoding, text, strlen(text), true))
		return text;
	copy = pstrdup(text);
	for (char *c = copy; *c != '\0'; c++)
	{
		if (IS_HIGHBIT_SET(*c))
			*c = '?';
	}
	return copy;
}
