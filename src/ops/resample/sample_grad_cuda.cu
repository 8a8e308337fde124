/* The gradients of grid_sample on a CUDA device. The grid's: a thread each point. The input's: a block each channel,
 * which adds up what points give to elements in the order of points and of their reads, as the CPU does, so that sums
 * have the same bits in every run. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/resample/sample_kernel.h"

namespace {

enum { THREADS = 128 };

/* What a point reads. */
struct sampled_point {
    int64_t at[STNI_SAMPLE_DIMS];
    stni_sample_taps taps[STNI_SAMPLE_DIMS];
    int n_taps;
};

template <class S> STNI_DEVICE void find_point(const stni_sample_args &a, int64_t batch, int64_t i, sampled_point &p)
{
    double coordinate[STNI_SAMPLE_DIMS] = {0};
    stni_sample_point(&a, i, p.at);
    const S *grid = (const S *)a.grid.data + batch * a.grid.batch + stni_sample_offset(&a.grid, p.at);
    for (int d = 0; d < a.dims; d++)
        coordinate[d] = (double)grid[d * a.grid.channel];
    p.n_taps = stni_sample_taps_of(&a, coordinate, p.taps);
}

/* A block each batch entry and channel. Each round has so many points that every thread has a read of one; of the reads of one element the first
 * adds all. */
template <class S> __global__ void __launch_bounds__(THREADS) add_to_input(const __grid_constant__ stni_sample_args a)
{
    STNI_SHARED(int64_t, element, THREADS);
    STNI_SHARED(S, value, THREADS);
    const int me = (int)threadIdx.x, n_reads = stni_sample_n_reads(&a);
    const int64_t batch = blockIdx.x / a.n_channels, channel = blockIdx.x % a.n_channels,
                  reads = a.n_points[0] * a.n_points[1] * a.n_points[2] * n_reads;
    const S *grad = (const S *)a.output.data + batch * a.output.batch + channel * a.output.channel;
    S *to = (S *)a.grad_input.data + batch * a.grad_input.batch + channel * a.grad_input.channel;
    for (int64_t first = 0; first < reads; first += THREADS) {
        const int64_t read = first + me;
        element[me] = -1;
        value[me] = 0;
        if (read < reads) {
            sampled_point p;
            int tap[STNI_SAMPLE_DIMS];
            int64_t place[STNI_SAMPLE_DIMS];
            find_point<S>(a, batch, read / n_reads, p);
            stni_sample_split(&a, (int)(read % n_reads), p.n_taps, tap);
            if (stni_sample_locate(&a, p.taps, tap, place))
                element[me] = stni_sample_offset(&a.grad_input, place);
            value[me] = (S)(p.taps[0].weight[tap[0]] * p.taps[1].weight[tap[1]] * p.taps[2].weight[tap[2]]) *
                        grad[stni_sample_offset(&a.output, p.at)];
        }
        __syncthreads();
        bool is_first = element[me] >= 0;
        for (int k = 0; k < me && is_first; k++)
            is_first = element[k] != element[me];
        if (is_first) {
            S sum = to[element[me]];
            for (int k = me; k < THREADS; k++)
                sum += element[k] == element[me] ? value[k] : 0;
            to[element[me]] = sum;
        }
        __syncthreads();
    }
}

/* Over channels: the cotangent of a point times the element that it reads there. */
template <class S> STNI_DEVICE double sum_read(const stni_sample_args &a, int64_t batch, const int64_t (&at)[STNI_SAMPLE_DIMS], int64_t offset)
{
    const S *grad = (const S *)a.output.data + batch * a.output.batch + stni_sample_offset(&a.output, at);
    const S *from = (const S *)a.input.data + batch * a.input.batch + offset;
    double sum = 0;
    for (int64_t c = 0; c < a.n_channels; c++)
        sum += (double)grad[c * a.output.channel] * (double)from[c * a.input.channel];
    return sum;
}

template <class S> __global__ void __launch_bounds__(THREADS) put_gradients(const __grid_constant__ stni_sample_args a)
{
    const int64_t points = a.n_points[0] * a.n_points[1] * a.n_points[2], i = (int64_t)blockIdx.x * THREADS + threadIdx.x, batch = i / points;
    double gradient[STNI_SAMPLE_DIMS] = {0};
    sampled_point p;
    if (batch >= a.n_batch)
        return;
    find_point<S>(a, batch, i % points, p);
    for (int k = 0; k < stni_sample_n_reads(&a); k++) {
        int tap[STNI_SAMPLE_DIMS];
        int64_t place[STNI_SAMPLE_DIMS];
        stni_sample_split(&a, k, p.n_taps, tap);
        if (!stni_sample_locate(&a, p.taps, tap, place))
            continue;
        const double sum = sum_read<S>(a, batch, p.at, stni_sample_offset(&a.input, place));
        const double w[] = {p.taps[0].weight[tap[0]], p.taps[1].weight[tap[1]], p.taps[2].weight[tap[2]]};
        gradient[0] += sum * p.taps[0].derivative[tap[0]] * w[1] * w[2];
        gradient[1] += sum * w[0] * p.taps[1].derivative[tap[1]] * w[2];
        gradient[2] += sum * w[0] * w[1] * p.taps[2].derivative[tap[2]];
    }
    S *to = (S *)a.grad_grid.data + batch * a.grad_grid.batch + stni_sample_offset(&a.grad_grid, p.at);
    for (int d = 0; d < a.dims; d++)
        to[d * a.grad_grid.channel] = (S)gradient[STNI_SAMPLE_DIMS - 1 - d];
}

template <class S> void launch_gradients_of(const stni_sample_args &a, cudaStream_t stream)
{
    const int64_t points = a.n_batch * a.n_points[0] * a.n_points[1] * a.n_points[2];
    if (a.grad_input.data && points > 0 && a.n_channels > 0)
        STNI_LAUNCH(add_to_input<S>, blocks_for(a.n_batch * a.n_channels, 1), THREADS, stream, a);
    if (a.grad_grid.data && points > 0)
        STNI_LAUNCH(put_gradients<S>, blocks_for(points, THREADS), THREADS, stream, a);
}

void launch_gradients(const stni_sample_args &a, cudaStream_t stream)
{
    if (a.grad_input.data && a.grad_input_bytes > 0)
        cudaMemsetAsync(a.grad_input.data, 0, a.grad_input_bytes, stream);
    dispatch<float, double>(a.dtype, [&](auto element) { launch_gradients_of<decltype(element)>(a, stream); });
}

}

STNI_CUDA_KERNELS(sample_grad) = {
    STNI_CUDA_KERNEL("grid_sample_backward.forward", STNI_SAMPLE_GRAD_DTYPES, stni_sample_args, launch_gradients),
    STNI_CUDA_KERNELS_END
};
