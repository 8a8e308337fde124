/* Several indices made one. */
#ifndef STNI_OPS_INDEX_PUT_KEYS_H
#define STNI_OPS_INDEX_PUT_KEYS_H

#include "core/tensor/tensor.h"
#include "ops/index/put_keys_kernel.h"

/* Indices of the first n dims of a tensor of this shape, negative ones from the end, as one index of these dims made
 * one; of the shape that they broadcast to. -1 where one is out of range, which is a value error of `what`, an
 * stni_op_index. */
stn_tensor *stni_put_keys(int n, stn_tensor *const *indices, const int64_t *shape, int what);

#endif
