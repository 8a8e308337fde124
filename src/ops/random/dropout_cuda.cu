/* Dropout on a CUDA device: a thread has RUN elements that follow each other along the last dim; where their numbers
 * do too, a block of the cipher serves them all. */
#include "core/box/rng.h"
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/elements.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/random/dropout_kernel.h"

namespace {

enum { THREADS = 256, RUN = 4 };
enum { X, OUT, NUMBER, FIRST /* of the run along the last dim */, SIDES };

struct dropped {
    operands<SIDES> runs;
    int64_t n, x_step, out_step, number_step; /* the last dim */
    uint64_t base, threshold;
    const int64_t *stream;
    double scale;
};

/* The factor of the element with this number; `block` is the one of `drawn`, which was drawn last. */
STNI_DEVICE double factor_of(const dropped &d, uint64_t number, stni_philox &block, uint64_t &drawn)
{
    if (drawn != number / 4) {
        drawn = number / 4;
        block = stni_rng_block((uint64_t)d.stream[1], (uint64_t)d.stream[0], drawn);
    }
    return block.v[number % 4] < d.threshold ? 0 : d.scale;
}

template <class S>
__global__ void __launch_bounds__(THREADS) drop(const __grid_constant__ dropped d, const S *x, S *out)
{
    typedef typename computed<S>::type A;
    const int64_t run = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t drawn = UINT64_MAX; /* none has this number */
    stni_philox block = {};
    int64_t at[SIDES];
    if (run >= d.runs.count)
        return;
    any_offsets_of(d.runs, run, at);
    const uint64_t number = d.base + (uint64_t)at[NUMBER];
    for (int64_t i = 0; i < RUN && at[FIRST] + i < d.n; i++) {
        const A factor = (A)factor_of(d, number + (uint64_t)(i * d.number_step), block, drawn);
        store(out[at[OUT] + i * d.out_step], load(x[at[X] + i * d.x_step]) * factor);
    }
}

void launch_drop(const stni_dropout_args &a, cudaStream_t stream)
{
    const int last = a.ndim - 1;
    dropped d = {no_dims<SIDES>(), 1, 1, 1, 0, a.base, a.threshold, a.stream, a.scale};
    if (last >= 0) {
        d.n = a.shape[last];
        d.x_step = a.x_strides[last];
        d.out_step = a.out_strides[last];
        d.number_step = a.count[last];
    }
    for (int i = 0; i < last; i++)
        add_dim(d.runs, a.shape[i], {a.x_strides[i], a.out_strides[i], a.count[i], 0});
    add_dim(d.runs, (d.n + RUN - 1) / RUN, {RUN * d.x_step, RUN * d.out_step, RUN * d.number_step, RUN});
    end_dims(d.runs);
    if (d.runs.count == 0)
        return;
    dispatch_floating(a.dtype, [&](auto element) {
        typedef decltype(element) S;
        STNI_LAUNCH(drop<S>, blocks_for(d.runs.count, THREADS), THREADS, stream, d, static_cast<const S *>(a.x),
                    static_cast<S *>(a.out));
    });
}

}

#define KERNEL(op) STNI_CUDA_KERNEL(op ".drop", FLOATING_DTYPES, stni_dropout_args, launch_drop)

STNI_CUDA_KERNELS(dropout) = {
    KERNEL("dropout"), KERNEL("dropout_backward"), KERNEL("dropout_channels"),
    STNI_CUDA_KERNELS_END
};
