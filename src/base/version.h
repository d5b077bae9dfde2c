/*-------------------------------------------------------------------------
 *
 * version.h
 *	  The version of parvacuum: major, minor, patch.
 *
 * This is its one place.  Whatever else names it is compared with this by
 * scripts/check_style.  The version of the extensions is that of the library
 * without the patch.  CHANGELOG.md says what a new version may change.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PV_VERSION_H
#define PV_VERSION_H

#define PV_VERSION				"1.0.0"

#endif							/* PV_VERSION_H */
