/* What the CPU's kernel of writing by index does with elements of one dtype. */
#ifndef STNI_OPS_INDEX_ACCESS_FUNCTIONS_H
#define STNI_OPS_INDEX_ACCESS_FUNCTIONS_H

#include "ops/index/access_walk.h"

struct stni_access_functions {
    void (*constant)(const struct stni_access_write_args *, void *out);
    void (*spread)(void *table, int64_t step, int64_t n, const void *constant);
    void (*write)(const struct stni_access_write_args *, void *table, int64_t step, const void *values,
                  int64_t value_step, int64_t n);
    void (*write_each)(const struct stni_access_write_args *, void *table, const int64_t *offset, const void *values,
                       int64_t value_step, int64_t n);
    /* NULL: `write_each` serves. */
    void (*write_direct)(const struct stni_access_write_args *, void *table, const void *values,
                         const struct stni_access_line *line);
    int64_t table_size, value_size; /* bytes of an element */
};

/* Of i8 and i16, which are compiled once for all instruction sets. */
extern const struct stni_access_functions stni_access_narrow_functions[STN_DTYPE_COUNT];

#endif
