/* Steps through the positions of an indexed access, for kernels of the CPU: whatever the index names, a kernel is
 * given lines of the table beside lines of values, or single elements. */
#ifndef STNI_OPS_INDEX_ACCESS_WALK_H
#define STNI_OPS_INDEX_ACCESS_WALK_H

#include "ops/index/access_kernel.h"

enum { STNI_ACCESS_BLOCK = 512 };

/* At most STNI_ACCESS_BLOCK positions along which an index of one digit changes: position p has the index at index +
 * p * index_step, the value at value + p * value_step, and of the table the element at table + p * table_step +
 * (index - access->first) * access->key_strides[0]. In elements, from where the operands begin. */
struct stni_access_line {
    const struct stni_access *access;
    int64_t index, index_step, value, value_step, table, table_step, n;
};

/* What a kernel does. Offsets are in elements; -1 names an element that is not here. `direct` (NULL: never) may
 * serve a line without offsets; it returns 0 where an index is not within 0 … n - 1, having written nothing that
 * `elements` does not write again. */
struct stni_access_visitor {
    stn_queue *queue; /* that the kernel runs on: bad indices are reported there */
    const void *table; /* whose lines are prefetched before they are visited, of elements of `size` bytes */
    size_t size;
    void *arg;
    int leaves_missing; /* 1: what is not here is left alone, so that a block without elements needs no call */
    int (*direct)(void *arg, const struct stni_access_line *line);
    void (*line)(void *arg, int64_t value, int64_t value_step, int64_t table, int64_t table_step, int64_t n);
    void (*elements)(void *arg, int64_t value, int64_t value_step, const int64_t *table, int64_t n);
};

/* Compiled for every instruction set, as who calls it is. */
void STNI_ISA_NAME(stni_access_walk)(const struct stni_access *access, const struct stni_access_visitor *visitor);

#endif
