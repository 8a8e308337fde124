#include "waits.h"

#include <string.h>

static const char *const reasons[STN_SYNC_REASONS] = {
    [STN_SYNC_CALLER] = "the caller", [STN_SYNC_VALUES] = "values",    [STN_SYNC_COUNTS] = "counts of what is sent",
    [STN_SYNC_MEMORY] = "memory",     [STN_SYNC_EXPORT] = "an export", [STN_SYNC_GROUP] = "a communicator",
    [STN_SYNC_TRACE] = "a trace",
};

/* What each of these sends to which rank is known from indices or from the order of elements alone. */
static int depends_on_values(const char *op)
{
    static const char *const ops[] = {"argsort",       "embedding",         "gather",
                                      "index_add",     "index_copy",        "index_fill",
                                      "index_put",     "index_select",      "knn",
                                      "radius_search", "repeat_interleave", "scatter",
                                      "scatter_add",   "scatter_reduce",    "signed_distance_field",
                                      "sort",          "take_along_dim",    "topk"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(op, ops[i]) == 0)
            return 1;
    return 0;
}

/* A request over a communicator that moves memory of the host is waited for by the caller. */
static int may_wait(const char *op, const stn_stats *stats, int reason)
{
    switch (reason) {
    case STN_SYNC_COUNTS: return depends_on_values(op);
    case STN_SYNC_CALLER: return stats->host_syncs_by[STN_SYNC_STAGING] > 0;
    default: return reasons[reason] == NULL;
    }
}

const char *waits_wrong(const char *op, const stn_stats *stats)
{
    for (int i = 0; i < STN_SYNC_REASONS; i++)
        if (stats->host_syncs_by[i] > 0 && !may_wait(op, stats, i))
            return reasons[i];
    return NULL;
}
