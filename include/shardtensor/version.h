/* Version of the library. The build reads the three numbers here: they are the release's number and, while the major is
 * 0, the minor is the SONAME's, because each minor release may then change the ABI; from 1.0 on the major is. */
#ifndef SHARDTENSOR_VERSION_H
#define SHARDTENSOR_VERSION_H

#include <shardtensor/export.h>

#define STN_VERSION_MAJOR 0
#define STN_VERSION_MINOR 1
#define STN_VERSION_PATCH 0

STN_BEGIN_DECLS

/** Version of the library that is loaded, which may be newer than the headers that a program was compiled with.
 *
 * Collective: no.
 * @param major, minor, patch  written; each may be NULL. */
STN_API void stn_version(int *major, int *minor, int *patch);

/** The same as text, "major.minor.patch".
 *
 * Collective: no.
 * @return static storage, never NULL. */
STN_API const char *stn_version_string(void);

STN_END_DECLS

#endif
