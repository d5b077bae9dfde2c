/*-------------------------------------------------------------------------
 *
 * versions.h
 *	  The versions of the library, of its file, and of the extensions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_VERSIONS_H
#define PV_VERSIONS_H

#define PV_NUM_EXTENSIONS		2

extern const char *const pv_extensions[PV_NUM_EXTENSIONS];

extern void pv_versions_init(void);
extern int	pv_extension_compare(const char *name, char **version);
extern bool pv_columns_may_differ(void);
extern bool pv_library_replaced(const char **evidence);

#endif							/* PV_VERSIONS_H */
