/* grid_sample on a CUDA device: a thread each point, which finds its reads once for all channels, or, where
 * neighbouring points read far from each other, by rows of channels (sample_forward.cuh). */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/kernel.cuh"
#include "ops/resample/sample_forward.cuh"

namespace {

enum { THREADS = 128, MOST_AT_ONCE = 16 /* elements that a thread waits for at once */ };

/* What a point reads of each channel. */
template <int READS> struct point_reads {
    int64_t offset[READS]; /* -1: nothing */
    double weight[READS];
};

template <int READS>
STNI_DEVICE void find_offsets(const stni_sample_args &a, const sampled_point &p, point_reads<READS> &reads)
{
    STNI_UNROLL
    for (int k = 0; k < READS; k++) {
        int tap[STNI_SAMPLE_DIMS];
        int64_t at[STNI_SAMPLE_DIMS];
        stni_sample_split(&a, k, p.n_taps, tap);
        reads.offset[k] = stni_sample_locate(&a, p.taps, tap, at) ? stni_sample_offset(&a.input, at) : -1;
        reads.weight[k] = p.taps[0].weight[tap[0]] * p.taps[1].weight[tap[1]] * p.taps[2].weight[tap[2]];
    }
}

/* `n` channels, at most CHANNELS, whose elements are all read before any is added. */
template <class S, int READS, int CHANNELS>
STNI_DEVICE void sum_channels(const stni_sample_args &a, const point_reads<READS> &reads, const S *from, S *to, int n)
{
    typedef typename computed<S>::type A;
    A value[CHANNELS][READS];
    STNI_UNROLL
    for (int c = 0; c < CHANNELS; c++)
        STNI_UNROLL
        for (int k = 0; k < READS; k++)
            if (c < n && reads.offset[k] >= 0)
                value[c][k] = load(from[c * a.input.channel + reads.offset[k]]);
    STNI_UNROLL
    for (int c = 0; c < CHANNELS; c++) {
        double sum = 0;
        STNI_UNROLL
        for (int k = 0; k < READS; k++)
            if (c < n && reads.offset[k] >= 0)
                sum += reads.weight[k] * (double)value[c][k];
        if (c < n)
            store(to[c * a.output.channel], (A)sum);
    }
}

/* `jumps`, where there are any counts: it returns at once where rows serve. */
template <class S, int READS>
__global__ void __launch_bounds__(THREADS)
    sample_points(const __grid_constant__ stni_sample_args a, const unsigned *jumps)
{
    enum { CHANNELS = MOST_AT_ONCE / READS };
    const int64_t points = a.n_points[0] * a.n_points[1] * a.n_points[2];
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, batch = i / points;
    if (batch >= a.n_batch || (jumps && jumps_are_many(jumps)))
        return;
    sampled_point p;
    point_reads<READS> reads;
    find_point<S>(a, batch, i % points, p);
    find_offsets(a, p, reads);
    const S *from = (const S *)a.input.data + batch * a.input.batch;
    S *to = (S *)a.output.data + batch * a.output.batch + stni_sample_offset(&a.output, p.at);
    STNI_KEEP_LOOP
    for (int64_t c = 0; c < a.n_channels; c += CHANNELS) {
        sum_channels<S, READS, CHANNELS>(a, reads, from, to, (int)smaller(CHANNELS, a.n_channels - c));
        from += CHANNELS * a.input.channel;
        to += CHANNELS * a.output.channel;
    }
}

template <class S> void launch_points(const stni_sample_args &a, const unsigned *jumps, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(a.n_batch * points_of(a), THREADS);
    switch (stni_sample_n_reads(&a)) {
    case 1: STNI_LAUNCH((sample_points<S, 1>), blocks, THREADS, stream, a, jumps); break;
    case 4: STNI_LAUNCH((sample_points<S, 4>), blocks, THREADS, stream, a, jumps); break;
    case 8: STNI_LAUNCH((sample_points<S, 8>), blocks, THREADS, stream, a, jumps); break;
    case 16: STNI_LAUNCH((sample_points<S, 16>), blocks, THREADS, stream, a, jumps); break;
    }
}

enum { COUNTS_BYTES = 256 };

/* Batch entries whose copies are made at once; 0: no copies. */
template <class S> int64_t lines_by_rows(const stni_sample_args &a)
{
    const int64_t line = elements_of(a) * padded_channels(a, pack<S>::SIZE) * (int64_t)sizeof(S);
    if (line == 0 || points_of(a) == 0 || a.n_batch == 0 || !pays_by_rows(a, pack<S>::SIZE, sizeof(S)))
        return 0;
    return stni_ceil_div(a.n_batch, stni_ceil_div(a.n_batch, SPAN_BYTES / line));
}

size_t sample_workspace(stn_queue *, const void *args)
{
    const stni_sample_args &a = *static_cast<const stni_sample_args *>(args);
    size_t bytes = 0;
    dispatch_floating(a.dtype, [&](auto element) {
        typedef decltype(element) S;
        const int64_t lines = lines_by_rows<S>(a);
        if (lines > 0)
            bytes = COUNTS_BYTES + (size_t)(lines * elements_of(a) * padded_channels(a, pack<S>::SIZE)) * sizeof(S);
    });
    return bytes;
}

template <class S> void launch_sample_of(const stni_sample_args &a, cudaStream_t stream)
{
    const int64_t lines = lines_by_rows<S>(a);
    unsigned *counts = lines > 0 ? static_cast<unsigned *>(a.work) : NULL;
    if (lines > 0)
        launch_jumps<S>(a, counts, stream);
    for (int64_t line = 0; lines > 0 && line < a.n_batch; line += lines) {
        S *rows = reinterpret_cast<S *>(static_cast<char *>(a.work) + COUNTS_BYTES);
        sampling<S> s = {line, smaller(lines, a.n_batch - line), points_of(a), elements_of(a),
                         padded_channels(a, pack<S>::SIZE), 0, 0, 0, places_of(a.output, a.n_points), rows, counts};
        copy_input(a, s.first_line, s.lines, s.width, rows, counts, stream);
        launch_sampling(a, s, stream);
    }
    launch_points<S>(a, counts, stream);
}

void launch_sample(const stni_sample_args &a, cudaStream_t stream)
{
    dispatch_floating(a.dtype, [&](auto element) { launch_sample_of<decltype(element)>(a, stream); });
}

}

STNI_CUDA_KERNELS(sample) = {
    STNI_CUDA_KERNEL_WITH("grid_sample.forward", STNI_SAMPLE_DTYPES, stni_sample_args, launch_sample, sample_workspace),
    STNI_CUDA_KERNELS_END
};
