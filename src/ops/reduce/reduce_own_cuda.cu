/* Reductions by accumulators of the input's dtype on CUDA devices: half of the kernels, which take nvcc as long as the
 * other half. */
#include "ops/reduce/reduce_cuda.h"

#include "ops/reduce/reduce_launch.cuh"

void stni_reduce_own(const struct stni_reduce_args *args, void *stream)
{
    const reduction g = reduction_of(*args);
    switch (args->op) {
#define CASE_OWN(name) \
    case STNI_REDUCTION_##name: return launch_op<STNI_REDUCTION_##name>(*args, g, static_cast<cudaStream_t>(stream));
#define CASE_WIDE(name)
#define CASE(name, accumulator, ...) CASE_##accumulator(name)
        STNI_REDUCTION_LIST(CASE)
    default: break;
    }
}
