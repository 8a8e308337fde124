/* Factories on a CUDA device: a thread makes RUN elements that follow each other along the last dim, so that a block
 * of the cipher serves them all. */
#include "core/device/cuda/convert.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/factory/factory_value.h"

namespace {

enum { THREADS = 256, RUN = 4 };
enum { AT, PLACE, FIRST /* of the run along the last dim */, SIDES };

struct values {
    operands<SIDES> runs;
    int64_t begin; /* place of the piece's first element */
    int64_t n, step; /* the last dim */
    stni_factory_args args;
};

__global__ void __launch_bounds__(THREADS) make_values(const __grid_constant__ values v)
{
    const int64_t run = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    stni_factory_words words = {};
    int64_t at[SIDES];
    if (run >= v.runs.count)
        return;
    any_offsets_of(v.runs, run, at);
    for (int64_t i = 0; i < RUN && at[FIRST] + i < v.n; i++)
        write_element(v.args.dst.data, v.args.dtype, at[AT] + i * v.step,
                      stni_factory_element(&v.args, &words, v.begin + at[PLACE] + i));
}

void launch_values(const stni_factory_args &args, cudaStream_t stream)
{
    const stn_box &dst = args.dst;
    const int last = dst.ndim - 1;
    int64_t below[STN_MAX_BOX_NDIM]; /* places from one index to the next */
    values v = {no_dims<SIDES>(), 0, last >= 0 ? dst.shape[last] : 1, last >= 0 ? dst.strides[last] : 1, args};
    for (int d = last; d >= 0; d--) {
        below[d] = d == last ? 1 : below[d + 1] * args.shape[d + 1];
        v.begin += args.offset[d] * below[d];
    }
    for (int d = 0; d < last; d++)
        add_dim(v.runs, dst.shape[d], {dst.strides[d], below[d], 0});
    add_dim(v.runs, (v.n + RUN - 1) / RUN, {RUN * v.step, RUN, RUN});
    end_dims(v.runs);
    if (v.runs.count > 0)
        STNI_LAUNCH(make_values, blocks_for(v.runs.count, THREADS), THREADS, stream, v);
}

}

STNI_CUDA_KERNELS(factory) = {
    STNI_CUDA_KERNEL("factory.values", ALL_DTYPES, stni_factory_args, launch_values),
    STNI_CUDA_KERNELS_END
};
