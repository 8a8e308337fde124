/* The index space of a copy on a CUDA device: its dims, with their strides on both sides. */
#ifndef STNI_CORE_BOX_BOX_SIDES_CUH
#define STNI_CORE_BOX_BOX_SIDES_CUH

#include "core/device/cuda/elements.cuh"
#include "core/device/cuda/index.cuh"

namespace {

enum { DST, SRC, SIDES };
typedef operands<SIDES> sides;

/* The dims but `one` and `another`. */
inline sides outer_sides(const sides &s, int one, int another)
{
    sides outer = no_dims<SIDES>();
    for (int d = 0; d < s.ndim; d++)
        if (d != one && d != another)
            add_dim(outer, s.shape[d], {s.stride[DST][d], s.stride[SRC][d]});
    end_dims(outer);
    return outer;
}

/* The strides of all dims but the last `inner` of them, ored together: what they are multiples of, it is. */
inline uint64_t stride_bits(const sides &s, int side, int inner)
{
    uint64_t bits = 0;
    for (int d = 0; d < s.ndim - inner; d++)
        bits |= (uint64_t)s.stride[side][d];
    return bits;
}

}

#endif
