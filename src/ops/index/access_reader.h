/* What elements are read from and to by index, on the CPU. */
#ifndef STNI_OPS_INDEX_ACCESS_READER_H
#define STNI_OPS_INDEX_ACCESS_READER_H

#include "ops/index/access_gather.h"
#include "ops/index/access_walk.h"

#include <string.h>

struct reader {
    void *values;
    const void *table;
    int keeps;
};

/* Whether the indices of a dense line all name elements that are here, and so are in bounds. A pass of its own,
 * which the compiler makes of vectors, costs less than the comparison beside each element that is read. */
static inline __attribute__((always_inline)) int stni_access_all_here(const struct stni_access_line *l, stn_dtype dtype)
{
    const struct stni_access *a = l->access;
    const uint64_t first = (uint64_t)a->first, here = (uint64_t)a->key_shape[0];
    int64_t outside = 0;
    for (int64_t i = 0; i < l->n; i++)
        outside |= (uint64_t)stni_access_index(a->index, dtype, l->index + i) - first >= here;
    return !outside;
}

#endif
