/*-------------------------------------------------------------------------
 *
 * options.h
 *	  The options of a table as values and as text.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_OPTIONS_H
#define PV_OPTIONS_H

#include "nodes/pg_list.h"

/* The prefix of options and settings, and the provider of the labels. */
#define PV_NAMESPACE			"parvacuum"

/* In the order of their names, which is also their order in a label. */
typedef enum PvOption
{
	PV_OPTION_BUFFER_USAGE_LIMIT,	/* kilobytes; 0: no ring of buffers */
	PV_OPTION_ENABLED,			/* bool */
	PV_OPTION_SWEEP,			/* bool: the scheduler sweeps its B-trees */
	PV_OPTION_WINDOW,			/* text, as pv_window_print() writes it */
	PV_OPTION_WORKERS,			/* maximum number of workers; 0: none */
	PV_NUM_OPTIONS				/* also: no option */
} PvOption;

/* What a table says itself. */
typedef struct PvOptions
{
	bool		given[PV_NUM_OPTIONS];
	int			value[PV_NUM_OPTIONS];	/* valid where given */
	char	   *text[PV_NUM_OPTIONS];	/* of an option that is text,
										 * allocated where it was set or read */
	bool		unusable[PV_NUM_OPTIONS];	/* given, but this server cannot
											 * use the value */
} PvOptions;

/* Nearest first. */
typedef enum PvOrigin
{
	PV_ORIGIN_TABLE,			/* the table itself */
	PV_ORIGIN_ANCESTOR,			/* a table that it is a partition of */
	PV_ORIGIN_SETTING,			/* the setting of the same name */
	PV_ORIGIN_DEFAULT			/* none of these: parvacuum decides */
} PvOrigin;

/* The value of an option that parvacuum decides itself. */
#define PV_OPTION_NOT_GIVEN		(-1)

/* What applies to a table, and where it comes from. */
typedef struct PvEffectiveOptions
{
	int			value[PV_NUM_OPTIONS];	/* PV_OPTION_NOT_GIVEN with
										 * PV_ORIGIN_DEFAULT */
	char	   *text[PV_NUM_OPTIONS];	/* as in PvOptions, never NULL for an
										 * option that is text */
	PvOrigin	origin[PV_NUM_OPTIONS];
} PvEffectiveOptions;

/* Changing; errors for unknown names and invalid values. */
extern void pv_options_set(PvOptions *options, const List *defs);
extern void pv_options_reset(PvOptions *options, const List *defs);
extern void pv_options_merge(PvOptions *options, const PvOptions *more);

extern bool pv_options_any(const PvOptions *options);
extern const char *pv_option_name(PvOption option);
extern PvOption pv_options_first_unusable(const PvOptions *options);

/* As the text of a label, and back. */
extern char *pv_options_print(const PvOptions *options);
extern void pv_options_check_label(const char *label);
extern bool pv_options_parse_label(const char *label, PvOptions *options);

#endif							/* PV_OPTIONS_H */
