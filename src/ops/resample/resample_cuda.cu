/* Resampling, average pools and grid_sample on a CUDA device: a thread sums up one target, in f64. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/resample/resample_target.cuh"
#include "ops/resample/sample_kernel.h"

namespace {

enum { THREADS = 128 };

/* The weight of a source in a target. */
STNI_DEVICE double weight_of(const stni_resample_args &a, int d, int64_t target, int64_t source)
{
    return a.transposed ? stni_resample_weight(&a.dim[d], source, target) : stni_resample_weight(&a.dim[d], target, source);
}

template <class S> STNI_DEVICE double sum_row(const stni_resample_args &a, const S *from, stni_range sources, int64_t target)
{
    double sum = 0;
    for (int64_t s = sources.begin; s < sources.end; s++)
        sum += weight_of(a, 2, target, s) * (double)load(from[(s - a.source[2].begin) * a.source_stride[2]]);
    return sum;
}

template <class S> STNI_DEVICE double sum_target(const stni_resample_args &a, const S *from, const int64_t (&target)[STNI_RESAMPLE_DIMS])
{
    const stni_range planes = stni_resample_sources(&a.dim[0], a.transposed, target[0]);
    const stni_range rows = stni_resample_sources(&a.dim[1], a.transposed, target[1]);
    const stni_range elements = stni_resample_sources(&a.dim[2], a.transposed, target[2]);
    double sum = 0;
    for (int64_t z = planes.begin; z < planes.end; z++) {
        const S *plane = from + (z - a.source[0].begin) * a.source_stride[0];
        double of_plane = 0;
        for (int64_t y = rows.begin; y < rows.end; y++)
            of_plane += weight_of(a, 1, target[1], y) *
                        sum_row(a, plane + (y - a.source[1].begin) * a.source_stride[1], elements, target[2]);
        sum += weight_of(a, 0, target[0], z) * of_plane;
    }
    return sum;
}

template <class S> __global__ void __launch_bounds__(THREADS) resample(const __grid_constant__ stni_resample_args a, int64_t count)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count)
        return;
    const resample_target target = target_of(a, i);
    S &element = ((S *)a.to)[target.to];
    store(element, (typename computed<S>::type)sum_target(a, (const S *)a.from + target.from, target.place));
}

template <class S> void launch_resample_of(const stni_resample_args &a, cudaStream_t stream)
{
    const int64_t count = count_of_targets(a);
    if (count > 0)
        STNI_LAUNCH(resample<S>, blocks_for(count, THREADS), THREADS, stream, a, count);
}

void launch_resample(const stni_resample_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) { launch_resample_of<decltype(element)>(a, stream); });
}

/* grid_sample: a thread each point, whose reads it finds once for all channels. */
template <class S> __global__ void __launch_bounds__(THREADS) sample_grid(const __grid_constant__ stni_sample_args a)
{
    const int64_t points = a.n_points[0] * a.n_points[1] * a.n_points[2], i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t batch = i / points;
    if (batch >= a.n_batch)
        return;
    int64_t at[STNI_SAMPLE_DIMS], offset[STNI_SAMPLE_READS];
    double coordinate[STNI_SAMPLE_DIMS] = {0}, weight[STNI_SAMPLE_READS];
    struct stni_sample_taps taps[STNI_SAMPLE_DIMS];
    stni_sample_point(&a, i % points, at);
    const S *grid = (const S *)a.grid.data + batch * a.grid.batch + stni_sample_offset(&a.grid, at);
    S *to = (S *)a.output.data + batch * a.output.batch + stni_sample_offset(&a.output, at);
    for (int d = 0; d < a.dims; d++)
        coordinate[d] = (double)load(grid[d * a.grid.channel]);
    const int n_taps = stni_sample_taps_of(&a, coordinate, taps), n_reads = stni_sample_n_reads(&a);
    for (int k = 0; k < n_reads; k++) {
        int tap[STNI_SAMPLE_DIMS];
        stni_sample_split(&a, k, n_taps, tap);
        offset[k] = stni_sample_locate(&a, taps, tap, at) ? stni_sample_offset(&a.input, at) : -1;
        weight[k] = taps[0].weight[tap[0]] * taps[1].weight[tap[1]] * taps[2].weight[tap[2]];
    }
    for (int64_t c = 0; c < a.n_channels; c++) {
        const S *from = (const S *)a.input.data + batch * a.input.batch + c * a.input.channel;
        double sum = 0;
        for (int k = 0; k < n_reads; k++)
            sum += offset[k] >= 0 ? weight[k] * (double)load(from[offset[k]]) : 0;
        store(to[c * a.output.channel], (typename computed<S>::type)sum);
    }
}

template <class S> void launch_sample_of(const stni_sample_args &a, cudaStream_t stream)
{
    const int64_t count = a.n_batch * a.n_points[0] * a.n_points[1] * a.n_points[2];
    if (count > 0)
        STNI_LAUNCH(sample_grid<S>, blocks_for(count, THREADS), THREADS, stream, a);
}

void launch_sample(const stni_sample_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) { launch_sample_of<decltype(element)>(a, stream); });
}

}

#define ROW(op) STNI_CUDA_KERNEL(op ".forward", STNI_RESAMPLE_DTYPES, stni_resample_args, launch_resample)

STNI_CUDA_KERNELS(resample) = {
    ROW("interpolate"),
    ROW("interpolate_backward"),
    ROW("avg_pool1d"),
    ROW("avg_pool2d"),
    ROW("avg_pool3d"),
    ROW("adaptive_avg_pool1d"),
    ROW("adaptive_avg_pool2d"),
    ROW("adaptive_avg_pool3d"),
    ROW("avg_pool_backward"),
    STNI_CUDA_KERNEL("grid_sample.forward", STNI_SAMPLE_DTYPES, stni_sample_args, launch_sample),
    STNI_CUDA_KERNELS_END
};
