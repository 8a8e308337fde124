#include "waits.h"

#include <string.h>

static const char *const reasons[STN_SYNC_REASONS] = {
    [STN_SYNC_CALLER] = "the caller", [STN_SYNC_VALUES] = "values",    [STN_SYNC_COUNTS] = "counts of what is sent",
    [STN_SYNC_MEMORY] = "memory",     [STN_SYNC_EXPORT] = "an export", [STN_SYNC_GROUP] = "a communicator",
    [STN_SYNC_TRACE] = "a trace",
};

/* What each of these sends to which rank is known from indices or from the order of elements alone. */
static const char *const counting[] = {"argsort",
                                       "embedding",
                                       "gather",
                                       "index",
                                       "index_add",
                                       "index_copy",
                                       "index_fill",
                                       "index_put",
                                       "index_select",
                                       "knn",
                                       "radius_search",
                                       "scatter",
                                       "repeat_interleave",
                                       "scatter_add",
                                       "scatter_reduce",
                                       "sort",
                                       "signed_distance_field",
                                       "take_along_dim",
                                       "topk",
                                       "unique",
                                       NULL};

/* The shape of the result follows from elements, but where it is given. */
static const char *const shapeless[] = {"index",   "index_put", "masked_scatter",    "masked_select",      "nonzero",
                                        "one_hot", "unique",    "repeat_interleave", "unique_consecutive", NULL};

static int is_among(const char *op, const char *const *ops)
{
    while (*ops && strcmp(op, *ops) != 0)
        ops++;
    return *ops != NULL;
}

/* A request over a communicator that moves memory of the host is waited for by the caller. */
static int may_wait(const char *op, const stn_stats *stats, int reason)
{
    switch (reason) {
    case STN_SYNC_COUNTS: return is_among(op, counting);
    case STN_SYNC_VALUES: return is_among(op, shapeless);
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
