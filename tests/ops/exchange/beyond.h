/* What lies beyond an end, by definition: the truth that halos and windows are held to. */
#ifndef SHARDTENSOR_TESTS_OPS_EXCHANGE_BEYOND_H
#define SHARDTENSOR_TESTS_OPS_EXCHANGE_BEYOND_H

#include "ops/exchange/window.h"

/** The element of a line of `n` that stands at `at`, one step at a time towards the line; -1 where there is none,
 * which counts as zero. */
static inline int64_t element_at(enum stni_boundary boundary, int64_t n, int64_t at)
{
    while (at < 0 || at >= n) {
        if (n == 0 || boundary == STNI_BOUNDARY_ZERO)
            return -1;
        if (boundary == STNI_BOUNDARY_REPLICATE || n == 1)
            at = at < 0 ? 0 : n - 1;
        else if (boundary == STNI_BOUNDARY_CIRCULAR)
            at += at < 0 ? n : -n;
        else
            at = at < 0 ? -at : 2 * (n - 1) - at;
    }
    return at;
}

#endif
