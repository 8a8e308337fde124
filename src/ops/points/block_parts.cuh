/* The parts of a block on a CUDA device, which has no boxes. */
#ifndef STNI_OPS_POINTS_BLOCK_PARTS_CUH
#define STNI_OPS_POINTS_BLOCK_PARTS_CUH

#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "ops/points/block_kernel.h"

namespace {

template <class A> struct block_parts {
    int64_t *index;
    A *x;
};

template <class A> STNI_HOST_DEVICE block_parts<A> parts_of(void *block, const stni_block_shape &shape)
{
    const struct stni_block_layout at = stni_block_layout(&shape, 0);
    char *begin = static_cast<char *>(block);
    return {reinterpret_cast<int64_t *>(begin + at.indices), reinterpret_cast<A *>(begin + at.coordinates)};
}

}

#endif
