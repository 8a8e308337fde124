/* The gradients of a grid's coordinates, where channels of cotangents and of the input lie next to each other
 * (sample_rows.cuh): a thread finds what its point reads, and a team of threads adds up the products over channels, of
 * a few reads of one point at a time. */
#ifndef STNI_OPS_RESAMPLE_SAMPLE_SLOPES_CUH
#define STNI_OPS_RESAMPLE_SAMPLE_SLOPES_CUH

#include "core/device/cuda/block.cuh"
#include "ops/resample/sample_point.cuh"

namespace {

enum {
    SLOPES_THREADS = 256, /* and points of a block */
    SLOPES_READS = 4      /* at a time: all of bilinear sampling of planes, a row of bicubic, a plane of trilinear */
};

template <class S> struct slopes {
    int64_t first_line, lines, first_point, points, width, elements;
    unsigned team, tiles; /* threads of a point's rows; blocks along points */
    const S *rows, *input_rows;
};

/* What the sum of read k's products gives to the coordinates. */
STNI_DEVICE void add_slope(const stni_sample_args &a, const sampled_point &p, int k, double sum,
                           double (&gradient)[STNI_SAMPLE_DIMS])
{
    int tap[STNI_SAMPLE_DIMS];
    stni_sample_split(&a, k, p.n_taps, tap);
    const double w[] = {p.taps[0].weight[tap[0]], p.taps[1].weight[tap[1]], p.taps[2].weight[tap[2]]};
    gradient[0] += sum * p.taps[0].derivative[tap[0]] * w[1] * w[2];
    gradient[1] += sum * w[0] * p.taps[1].derivative[tap[1]] * w[2];
    gradient[2] += sum * w[0] * w[1] * p.taps[2].derivative[tap[2]];
}

/* The thread's share of the products of the point's cotangents with what its reads found. */
template <class S, int VECTOR>
STNI_DEVICE void multiply_rows(const slopes<S> &s, const S *row, const S *input, const int32_t *element,
                               double (&sum)[SLOPES_READS])
{
    typedef side_by_side<S, VECTOR> columns;
    STNI_KEEP_LOOP
    for (int64_t c = threadIdx.x % s.team * VECTOR; c < s.width; c += s.team * VECTOR) {
        const columns g = *(const columns *)(row + c);
        columns x[SLOPES_READS];
        STNI_UNROLL
        for (int k = 0; k < SLOPES_READS; k++)
            if (element[k] >= 0)
                x[k] = *(const columns *)(input + element[k] * s.width + c);
        STNI_UNROLL
        for (int k = 0; k < SLOPES_READS; k++)
            if (element[k] >= 0)
                STNI_UNROLL
                for (int v = 0; v < VECTOR; v++)
                    sum[k] += (double)g.v[v] * (double)x[k].v[v];
    }
}

/* Of every point of the block; `element` and `sums` have SLOPES_READS of each. */
template <class S, int VECTOR>
STNI_DEVICE void multiply_points(const slopes<S> &s, int64_t line, int64_t first, const int32_t *element, double *sums)
{
    const S *rows = s.rows + (line * s.points + first) * s.width, *input = s.input_rows + line * s.elements * s.width;
    const int teams = SLOPES_THREADS / (int)s.team, mine = (int)(threadIdx.x / s.team);
    STNI_KEEP_LOOP
    for (int i = mine; i < SLOPES_THREADS; i += teams) {
        double sum[SLOPES_READS] = {};
        if (first + i < s.points)
            multiply_rows<S, VECTOR>(s, rows + i * s.width, input, element + i * SLOPES_READS, sum);
        STNI_KEEP_LOOP
        for (int by = (int)s.team / 2; by > 0; by /= 2)
            STNI_UNROLL
            for (int k = 0; k < SLOPES_READS; k++)
                sum[k] += value_across(sum[k], by);
        STNI_UNROLL
        for (int k = 0; k < SLOPES_READS; k++)
            if (threadIdx.x % s.team == 0)
                sums[i * SLOPES_READS + k] = sum[k];
    }
}

template <class S>
STNI_DEVICE void put_slopes(const stni_sample_args &a, int64_t batch, const sampled_point &p,
                            const double (&gradient)[STNI_SAMPLE_DIMS])
{
    S *to = (S *)a.grad_grid.data + batch * a.grad_grid.batch + stni_sample_offset(&a.grad_grid, p.at);
    for (int d = 0; d < a.dims; d++)
        to[d * a.grad_grid.channel] = (S)gradient[STNI_SAMPLE_DIMS - 1 - d];
}

template <class S, int VECTOR>
__global__ void __launch_bounds__(SLOPES_THREADS)
    add_slopes(const __grid_constant__ stni_sample_args a, const __grid_constant__ slopes<S> s)
{
    STNI_SHARED(int32_t, element, SLOPES_THREADS * SLOPES_READS);
    STNI_SHARED(double, sums, SLOPES_THREADS * SLOPES_READS);
    const int64_t line = blockIdx.x / s.tiles, first = (int64_t)(blockIdx.x % s.tiles) * SLOPES_THREADS;
    const int n_reads = stni_sample_n_reads(&a), me = (int)threadIdx.x * SLOPES_READS;
    const bool is_there = first + threadIdx.x < s.points;
    double gradient[STNI_SAMPLE_DIMS] = {};
    sampled_point p;
    if (is_there)
        find_point<S>(a, s.first_line + line, s.first_point + first + threadIdx.x, p);
    STNI_KEEP_LOOP
    for (int read = 0; read < n_reads; read += SLOPES_READS) {
        for (int k = 0; k < SLOPES_READS; k++)
            element[me + k] = is_there && read + k < n_reads ? (int32_t)element_of_read(a, p, read + k) : -1;
        __syncthreads();
        multiply_points<S, VECTOR>(s, line, first, element, sums);
        __syncthreads();
        for (int k = 0; k < SLOPES_READS && is_there; k++)
            if (element[me + k] >= 0)
                add_slope(a, p, read + k, sums[me + k], gradient);
        __syncthreads();
    }
    if (is_there)
        put_slopes<S>(a, s.first_line + line, p, gradient);
}

template <class S, int VECTOR> void launch_slopes(const stni_sample_args &a, slopes<S> s, cudaStream_t stream)
{
    s.team = 1;
    while (s.team < WARP && s.team * VECTOR < s.width)
        s.team *= 2;
    s.tiles = (unsigned)stni_ceil_div(s.points, SLOPES_THREADS);
    STNI_LAUNCH((add_slopes<S, VECTOR>), blocks_for(s.lines * s.tiles, 1), SLOPES_THREADS, stream, a, s);
}

}

#endif
