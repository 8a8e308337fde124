/* What a reduction walks on a CUDA device: the dims that stay, in the input and in the result, and those that are
 * reduced. */
#ifndef STNI_OPS_REDUCE_REDUCE_DIMS_CUH
#define STNI_OPS_REDUCE_REDUCE_DIMS_CUH

#include "core/device/cuda/index.cuh"
#include "ops/reduce/reduce_kernel.h"

namespace {

enum { IN, RESULT, SIDES };

/* Without elements `reduced` counts 0. */
inline void reduce_dims(const stni_reduce_args &a, operands<SIDES> &kept, operands<1> &reduced)
{
    kept = no_dims<SIDES>();
    reduced = no_dims<1>();
    for (int d = 0; d < a.n_kept; d++)
        add_dim(kept, a.kept[d], {a.kept_in[d], a.kept_out[d]});
    for (int d = 0; d < a.n_reduced && !a.empty; d++)
        add_dim(reduced, a.reduced[d], {a.reduced_in[d]});
    end_dims(kept);
    end_dims(reduced);
    if (a.empty)
        reduced.count = 0;
}

}

#endif
