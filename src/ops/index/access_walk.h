/* Steps through the positions of an indexed access, for kernels of the CPU: whatever the index names, a kernel is given lines of the table
 * beside lines of values, or single elements. */
#ifndef STNI_OPS_INDEX_ACCESS_WALK_H
#define STNI_OPS_INDEX_ACCESS_WALK_H

#include "ops/index/access_kernel.h"

enum { STNI_ACCESS_BLOCK = 128 };

/* What a kernel does. Offsets are in elements; -1 names an element that is not here. */
struct stni_access_visitor {
    void *arg;
    void (*line)(void *arg, int64_t value, int64_t value_step, int64_t table, int64_t table_step, int64_t n);
    void (*elements)(void *arg, int64_t value, int64_t value_step, const int64_t *table, int64_t n);
};

void stni_access_walk(const struct stni_access *access, const struct stni_access_visitor *visitor);

#endif
