/* A rank's counters: tests compare what an op moved and called with what it may. */
#ifndef SHARDTENSOR_TESTS_STATS_H
#define SHARDTENSOR_TESTS_STATS_H

#include "harness.h"

#include <shardtensor/context.h>

/** The counters as they are now. Local. */
static inline stn_stats test_stats(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    CHECK_STATUS(stn_context_stats(context, &stats), STN_OK);
    return stats;
}

/** The same, and they begin anew. Local. */
static inline stn_stats test_stats_reset(stn_context *context)
{
    const stn_stats stats = test_stats(context);
    stn_context_stats_reset(context);
    return stats;
}

#endif
