/* Ranks that share two devices, or where STN_TEST_ONE_DEVICE is set one; the test module's unless the build names
 * another. */
#include "module/ranks_door.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef RANKS_DEVICE
#define RANKS_DEVICE "probe"
#endif

stn_comm *ranks_comm(stn_comm *threads)
{
    return threads;
}

const char *ranks_device(int rank, char *text)
{
    snprintf(text, 16, "%s:%d", RANKS_DEVICE, getenv("STN_TEST_ONE_DEVICE") ? 0 : rank % 2);
    return text;
}

int ranks_fit(int ranks)
{
    (void)ranks;
    return 1;
}
