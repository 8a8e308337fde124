/* Tensors whose chunks have gaps in memory, as a part of a larger chunk has. */
#ifndef SHARDTENSOR_TESTS_CORE_GAPS_H
#define SHARDTENSOR_TESTS_CORE_GAPS_H

#include "core/tensor/tensor.h"

/* A tensor of `spec` whose chunk lies in memory for before[d] + local_shape[d] + after[d] elements along each dim,
 * in the spec's memory order. Elements are not set; one reference, the caller's. */
static inline stn_status make_with_gaps(stn_context *context, const stn_spec *spec, const int64_t *before,
                                        const int64_t *after, stn_tensor **out)
{
    const int64_t element = (int64_t)stn_dtype_size(spec->layout.dtype);
    int64_t strides[STN_MAX_NDIM] = {0}, numel = 1, first = 0;
    for (int i = spec->layout.ndim; i-- > 0;) {
        const int dim = spec->layout.memory_order[i];
        strides[dim] = numel;
        first += before[dim] * numel;
        numel *= before[dim] + spec->local_shape[dim] + after[dim];
    }
    struct stni_storage *storage = NULL;
    STNI_TRY(stni_storage_create(context, (size_t)(numel * element), &storage));
    stn_status status =
        stni_tensor_on(context, spec, storage, (char *)storage->data + first * element, strides, 0, out);
    stni_storage_release(storage);
    return status;
}

#endif
