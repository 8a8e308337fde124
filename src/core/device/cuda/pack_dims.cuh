/* Dims whose innermost one counts packs of elements instead of elements. */
#ifndef STNI_CORE_DEVICE_CUDA_PACK_DIMS_CUH
#define STNI_CORE_DEVICE_CUDA_PACK_DIMS_CUH

#include "core/device/cuda/index.cuh"

namespace {

/* Divides the innermost dim into packs of `size` elements. `dense` has a bit for each operand of which packs are read;
 * the others lie still along that dim. False where packs would not begin where an operand of `dense` has one, but for
 * its first element. */
template <int N> inline bool divide_in_packs(operands<N> &o, uint32_t dense, int64_t size)
{
    const int last = o.ndim - 1;
    bool packs = last >= 0 && o.shape[last] % size == 0;
    for (int k = 0; packs && k < N; k++) {
        packs = o.stride[k][last] == (dense >> k & 1);
        for (int d = 0; packs && (dense >> k & 1) && d < last; d++)
            packs = o.stride[k][d] % size == 0;
    }
    if (!packs)
        return false;
    o.count /= size;
    o.shape[last] /= size;
    for (int k = 0; k < N; k++)
        o.stride[k][last] *= size;
    return true;
}

/* Whether operands of `dense` begin where packs do at every index. */
template <int N> inline bool begins_in_packs(const operands<N> &o, uint32_t dense, int64_t size)
{
    for (int k = 0; k < N; k++)
        for (int d = 0; (dense >> k & 1) && d < o.ndim; d++)
            if (o.stride[k][d] % size != 0)
                return false;
    return true;
}

}

#endif
