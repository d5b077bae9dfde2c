/*-------------------------------------------------------------------------
 *
 * command.h
 *	  Options of parvacuum in ALTER TABLE, CREATE TABLE and SECURITY LABEL.
 *
 * Portions Copyright (c) 2026, parvacuum developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_COMMAND_H
#define PV_COMMAND_H

extern void pv_command_init(void);

#endif							/* PV_COMMAND_H */
