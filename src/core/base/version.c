/* The version that was compiled in, so that a program can compare it with the headers it was built against. */
#include <shardtensor/version.h>

#include <stddef.h>

#define QUOTE_EXPANDED(x) #x
#define QUOTE(x) QUOTE_EXPANDED(x)

void stn_version(int *major, int *minor, int *patch)
{
    if (major != NULL)
        *major = STN_VERSION_MAJOR;
    if (minor != NULL)
        *minor = STN_VERSION_MINOR;
    if (patch != NULL)
        *patch = STN_VERSION_PATCH;
}

const char *stn_version_string(void)
{
    return QUOTE(STN_VERSION_MAJOR) "." QUOTE(STN_VERSION_MINOR) "." QUOTE(STN_VERSION_PATCH);
}
