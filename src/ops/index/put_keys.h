/* Several indices made one. */
#ifndef STNI_OPS_INDEX_PUT_KEYS_H
#define STNI_OPS_INDEX_PUT_KEYS_H

#include "core/tensor/tensor.h"
#include "ops/index/put_keys_kernel.h"

/* A table whose first n dims are one, and the indices of these dims as one index of that. */
struct stni_put_keys {
    stn_tensor *table, *keys;    /* of one index: these themselves */
    int64_t shape[STN_MAX_NDIM]; /* of the table */
    int ndim;
};

/* Negative indices count from the end; the keys have the shape that the indices broadcast to. Of several, one out of
 * range is -1, and a value error of `what`, an stni_op_index; one alone is as it was. */
stn_status stni_put_keys(stn_tensor *table, int n, stn_tensor *const *indices, int what, struct stni_put_keys *out);

#endif
