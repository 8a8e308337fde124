/* Reductions on CUDA devices, by the rows of reduce_kernel.h; the kernels are those of reduce_launch.cuh. Here are the
 * ones whose accumulators are wide. */
#include "ops/reduce/reduce_cuda.h"

#include "ops/reduce/reduce_launch.cuh"

namespace {

/* Room for the largest accumulators. */
size_t reduce_workspace(stn_queue *, const void *args)
{
    const reduction g = reduction_of(*static_cast<const stni_reduce_args *>(args));
    return g.part.count > 1 ? (size_t)(g.part.count * g.kept.count) * sizeof(stni_complex<double>) : 0;
}

void launch_reduce(const struct stni_reduce_args &a, cudaStream_t stream)
{
    const reduction g = reduction_of(a);
    switch (a.op) {
#define CASE_WIDE(name) \
    case STNI_REDUCTION_##name: return launch_op<STNI_REDUCTION_##name>(a, g, stream);
#define CASE_OWN(name) \
    case STNI_REDUCTION_##name: return stni_reduce_own(&a, stream);
#define CASE(name, accumulator, ...) CASE_##accumulator(name)
        STNI_REDUCTION_LIST(CASE)
#undef CASE
#undef CASE_OWN
#undef CASE_WIDE
    case STNI_REDUCTION_COUNT: break;
    }
}

}

#define KERNEL(slot, dtypes) \
    STNI_CUDA_KERNEL_WITH(slot, dtypes, struct stni_reduce_args, launch_reduce, reduce_workspace),
STNI_CUDA_KERNELS(reduce) = {
    KERNEL("all.forward", ALL_DTYPES)
    KERNEL("amax.forward", ALL_DTYPES)
    KERNEL("amin.forward", ALL_DTYPES)
    KERNEL("any.forward", ALL_DTYPES)
    KERNEL("count_nonzero.forward", ALL_DTYPES)
    KERNEL("euclidean_norm.roots", FLOATING_DTYPES)
    KERNEL("euclidean_norm.squares", FLOATING_DTYPES)
    KERNEL("max_all.forward", ALL_DTYPES)
    KERNEL("mean.forward", ALL_DTYPES)
    KERNEL("mean_wide.forward", ALL_DTYPES)
    KERNEL("min_all.forward", ALL_DTYPES)
    KERNEL("prod.forward", ALL_DTYPES)
    KERNEL("sum.forward", ALL_DTYPES)
    STNI_CUDA_KERNELS_END
};
