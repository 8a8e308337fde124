/* The gradients of grid_sample on a CUDA device. The grid's: a thread each point. The input's: a block each channel,
 * which adds up what points give to elements in the order of points and of their reads, as the CPU does, so that sums
 * have the same bits in every run. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/turns.cuh"
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

enum {
    ADD_THREADS = 1024,
    ADD_CHANNELS = 4, /* of a block, for which it finds reads once; of f64 one */
    ADD_ENOUGH = 64   /* blocks; where there were fewer a block has one channel */
};

/* Read `read` of a batch entry's points. */
struct point_read {
    int64_t place;  /* its element, -1: none is there */
    int64_t output; /* its point's */
    double weight;
};

template <class S> STNI_DEVICE point_read find_read(const stni_sample_args &a, int64_t batch, int64_t read)
{
    const int n_reads = stni_sample_n_reads(&a);
    sampled_point p;
    int tap[STNI_SAMPLE_DIMS];
    int64_t place[STNI_SAMPLE_DIMS];
    find_point<S>(a, batch, read / n_reads, p);
    stni_sample_split(&a, (int)(read % n_reads), p.n_taps, tap);
    const bool is_there = stni_sample_locate(&a, p.taps, tap, place);
    return {is_there ? stni_sample_offset(&a.grad_input, place) : -1, stni_sample_offset(&a.output, p.at),
            p.taps[0].weight[tap[0]] * p.taps[1].weight[tap[1]] * p.taps[2].weight[tap[2]]};
}

/* The same; of a read beyond the last none is there. */
template <class S> STNI_DEVICE point_read find_read_of(const stni_sample_args &a, unsigned batch, int64_t read)
{
    if (read < a.n_points[0] * a.n_points[1] * a.n_points[2] * stni_sample_n_reads(&a))
        return find_read<S>(a, batch, read);
    return {-1, 0, 0};
}

STNI_DEVICE unsigned rounds_of(const stni_sample_args &a)
{
    const int64_t reads = a.n_points[0] * a.n_points[1] * a.n_points[2] * stni_sample_n_reads(&a);
    return (unsigned)((reads + ADD_THREADS - 1) / ADD_THREADS);
}

/* What many threads that wait have for one element, channel by channel; `to` is the thread's own element. */
template <class S, int CHANNELS>
STNI_DEVICE void add_crowd(S *to, int64_t apart, int64_t my_place, bool waits, const S (&mine)[CHANNELS], int left)
{
    STNI_SHARED(int64_t, place, ADD_THREADS);
    STNI_SHARED(S, value, ADD_THREADS);
    const int me = (int)threadIdx.x;
    place[me] = waits ? my_place : -1;
    __syncthreads();
    const bool is_first = is_first_of_place(place);
    STNI_UNROLL
    for (int c = 0; c < CHANNELS; c++) {
        value[me] = mine[c];
        __syncthreads();
        if (is_first && c < left) {
            S sum = to[c * apart];
            STNI_KEEP_LOOP
            for (int k = me; k < ADD_THREADS; k++)
                sum = place[k] == my_place ? sum + value[k] : sum;
            to[c * apart] = sum;
        }
        __syncthreads();
    }
}

/* Adds what the read gives to its element in `left` channels of CHANNELS. */
template <class S, int CHANNELS>
STNI_DEVICE void add_read(const stni_sample_args &a, const turns &t, const point_read &read, unsigned batch,
                          unsigned channel, int left)
{
    const S *grad = (const S *)a.output.data + batch * a.output.batch + channel * a.output.channel + read.output;
    S *to = (S *)a.grad_input.data + batch * a.grad_input.batch + channel * a.grad_input.channel + read.place;
    const unsigned slot = slot_of_place(read.place);
    bool waits = read.place >= 0, more = true;
    S value[CHANNELS];
    STNI_UNROLL
    for (int c = 0; c < CHANNELS; c++)
        value[c] = waits && c < left ? (S)read.weight * grad[c * a.output.channel] : 0;
    STNI_KEEP_LOOP
    for (int turn = 0; more && turn < MOST_TURNS; turn++) {
        const bool mine = begin_turn(t, slot, waits);
        STNI_UNROLL
        for (int c = 0; c < CHANNELS; c++)
            if (mine && c < left)
                value[c] += to[c * a.grad_input.channel];
        STNI_UNROLL
        for (int c = 0; c < CHANNELS; c++)
            if (mine && c < left)
                to[c * a.grad_input.channel] = value[c];
        waits = waits && !mine;
        more = end_turn(t, slot, mine, waits);
    }
    if (more)
        add_crowd(to, a.grad_input.channel, read.place, waits, value, left);
}

/* A block each batch entry and CHANNELS channels. Each round has so many points that every thread has a read of one;
 * reads of one element add in their order. */
template <class S, int CHANNELS>
__global__ void __launch_bounds__(ADD_THREADS)
    add_to_input(const __grid_constant__ stni_sample_args a, unsigned groups)
{
    STNI_SHARED(unsigned, slots, TURN_SLOTS);
    STNI_SHARED(unsigned, waiting, 1);
    const turns t = {slots, waiting};
    const unsigned batch = blockIdx.x / groups, channel = blockIdx.x % groups * CHANNELS, rounds = rounds_of(a);
    const int left = channel + CHANNELS < a.n_channels ? CHANNELS : (int)(a.n_channels - channel);
    init_turns(t, ADD_THREADS);
    STNI_KEEP_LOOP
    for (unsigned round = 0; round < rounds; round++) {
        const point_read read = find_read_of<S>(a, batch, (int64_t)round * ADD_THREADS + threadIdx.x);
        add_read<S, CHANNELS>(a, t, read, batch, channel, left);
    }
}

/* Over channels: the cotangent of a point times the element that it reads at each of READS offsets; -1: none. */
template <class S, int READS>
STNI_DEVICE void sum_reads(const stni_sample_args &a, int64_t batch, const int64_t (&at)[STNI_SAMPLE_DIMS],
                           const int64_t *offsets, double *sums)
{
    const S *grad = (const S *)a.output.data + batch * a.output.batch + stni_sample_offset(&a.output, at);
    const S *from = (const S *)a.input.data + batch * a.input.batch;
    int64_t offset[READS];
    double sum[READS] = {};
    STNI_UNROLL
    for (int k = 0; k < READS; k++)
        offset[k] = offsets[k];
    STNI_KEEP_LOOP
    for (int64_t c = 0; c < a.n_channels; c++) {
        const double g = (double)*grad;
        STNI_UNROLL
        for (int k = 0; k < READS; k++)
            sum[k] += offset[k] >= 0 ? g * (double)from[offset[k]] : 0;
        grad += a.output.channel;
        from += a.input.channel;
    }
    STNI_UNROLL
    for (int k = 0; k < READS; k++)
        sums[k] = sum[k];
}

template <class S> __global__ void __launch_bounds__(THREADS) put_gradients(const __grid_constant__ stni_sample_args a)
{
    enum { TOGETHER = 4 }; /* of bilinear sampling in two dims all, of bicubic and trilinear a row and a plane */
    const int64_t points = a.n_points[0] * a.n_points[1] * a.n_points[2];
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, batch = i / points;
    const int n_reads = stni_sample_n_reads(&a);
    int64_t offset[STNI_SAMPLE_READS];
    double sum[STNI_SAMPLE_READS], gradient[STNI_SAMPLE_DIMS] = {0};
    sampled_point p;
    if (batch >= a.n_batch)
        return;
    find_point<S>(a, batch, i % points, p);
    STNI_KEEP_LOOP
    for (int k = 0; k < n_reads; k++) {
        int tap[STNI_SAMPLE_DIMS];
        int64_t place[STNI_SAMPLE_DIMS];
        stni_sample_split(&a, k, p.n_taps, tap);
        offset[k] = stni_sample_locate(&a, p.taps, tap, place) ? stni_sample_offset(&a.input, place) : -1;
    }
    STNI_KEEP_LOOP
    for (int k = 0; k < n_reads; k += n_reads % TOGETHER == 0 ? TOGETHER : 1)
        if (n_reads % TOGETHER == 0)
            sum_reads<S, TOGETHER>(a, batch, p.at, offset + k, sum + k);
        else
            sum_reads<S, 1>(a, batch, p.at, offset + k, sum + k);
    STNI_KEEP_LOOP
    for (int k = 0; k < n_reads; k++) {
        int tap[STNI_SAMPLE_DIMS];
        if (offset[k] < 0)
            continue;
        stni_sample_split(&a, k, p.n_taps, tap);
        const double w[] = {p.taps[0].weight[tap[0]], p.taps[1].weight[tap[1]], p.taps[2].weight[tap[2]]};
        gradient[0] += sum[k] * p.taps[0].derivative[tap[0]] * w[1] * w[2];
        gradient[1] += sum[k] * w[0] * p.taps[1].derivative[tap[1]] * w[2];
        gradient[2] += sum[k] * w[0] * w[1] * p.taps[2].derivative[tap[2]];
    }
    S *to = (S *)a.grad_grid.data + batch * a.grad_grid.batch + stni_sample_offset(&a.grad_grid, p.at);
    for (int d = 0; d < a.dims; d++)
        to[d * a.grad_grid.channel] = (S)gradient[STNI_SAMPLE_DIMS - 1 - d];
}

template <class S, int CHANNELS> void launch_adding(const stni_sample_args &a, cudaStream_t stream)
{
    const int64_t groups = stni_ceil_div(a.n_channels, CHANNELS);
    STNI_LAUNCH((add_to_input<S, CHANNELS>), blocks_for(a.n_batch * groups, 1), ADD_THREADS, stream, a,
                (unsigned)groups);
}

template <class S> void launch_gradients_of(const stni_sample_args &a, cudaStream_t stream)
{
    const int64_t points = a.n_batch * a.n_points[0] * a.n_points[1] * a.n_points[2];
    const bool adds = a.grad_input.data && points > 0 && a.n_channels > 0;
    constexpr int channels = sizeof(S) < sizeof(double) ? (int)ADD_CHANNELS : 1;
    const bool is_wide = a.n_batch * (a.n_channels / channels) >= ADD_ENOUGH;
    if (adds && is_wide)
        launch_adding<S, channels>(a, stream);
    else if (adds)
        launch_adding<S, 1>(a, stream);
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
