/* Several indices made one. */
#ifndef STNI_OPS_INDEX_PUT_KEYS_H
#define STNI_OPS_INDEX_PUT_KEYS_H

#include "core/tensor/tensor.h"

#include <shardtensor/op.h>

/* Indices of the first n dims of a tensor of this shape, negative ones from the end, as one index of these dims made one; of the shape that
 * they broadcast to. -1 where one is out of range, which is a value error. */
stn_tensor *stni_put_keys(int n, stn_tensor *const *indices, const int64_t *shape);

struct stni_put_keys_operand {
    const void *data;
    stn_dtype dtype;
    int64_t strides[STN_MAX_NDIM], size; /* of its dim */
};

struct stni_put_keys_args {
    int n, ndim;
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM]; /* of the chunk of keys; its first one in the whole */
    int64_t *keys, strides[STN_MAX_NDIM];
    struct stni_put_keys_operand operand[STN_MAX_NDIM];
    int op; /* whose value error it is */
};

stn_status stni_put_keys_cpu(stn_queue *queue, const void *args);

#endif
