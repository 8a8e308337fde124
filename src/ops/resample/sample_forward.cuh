/* grid_sample by rows (sample_rows.cuh): a block has some points, of which it finds the reads once; a team of threads
 * adds up a point's channels, neighbouring threads neighbouring ones, and the block writes them so that neighbouring
 * threads write neighbouring points. Sums are those of sample_points: the same terms in the same order. */
#ifndef STNI_OPS_RESAMPLE_SAMPLE_FORWARD_CUH
#define STNI_OPS_RESAMPLE_SAMPLE_FORWARD_CUH

#include "core/device/cuda/packs.cuh"
#include "ops/resample/sample_rows.cuh"

namespace {

enum {
    FORWARD_THREADS = 256,
    FORWARD_POINTS = WARP, /* of a block */
    FORWARD_AT_ONCE = 4    /* reads whose rows a thread waits for at once */
};

/* Some batch entries. */
template <class S> struct sampling {
    int64_t first_line, lines, points, elements, width;
    unsigned team, tiles, groups; /* threads of a point's channels; blocks along points and along channels */
    operands<1> places;           /* of points in the output */
    const S *rows;
    const unsigned *jumps; /* of the points that were looked at (sample_jumps.cuh) */
};

/* What the block's points read: read k of point i is at k * FORWARD_POINTS + i. */
struct forward_reads {
    int32_t *element; /* -1: none */
    double *weight;
};

template <class S>
STNI_DEVICE void find_reads(const stni_sample_args &a, int64_t batch, int64_t point, const forward_reads &r, int me)
{
    const int n_reads = stni_sample_n_reads(&a);
    sampled_point p;
    find_point<S>(a, batch, point, p);
    STNI_KEEP_LOOP
    for (int k = 0; k < n_reads; k++) {
        r.element[k * FORWARD_POINTS + me] = (int32_t)element_of_read(a, p, k);
        r.weight[k * FORWARD_POINTS + me] = weight_of_read(a, p, k);
    }
}

/* The sums of a pack of channels. */
template <class S>
STNI_DEVICE void sum_row(const S *rows, int64_t width, const forward_reads &r, int n_reads, int point,
                         double (&sum)[pack<S>::SIZE])
{
    STNI_KEEP_LOOP
    for (int first = 0; first < n_reads; first += FORWARD_AT_ONCE) {
        pack<S> row[FORWARD_AT_ONCE];
        int32_t element[FORWARD_AT_ONCE];
        STNI_UNROLL
        for (int u = 0; u < FORWARD_AT_ONCE; u++) {
            element[u] = first + u < n_reads ? r.element[(first + u) * FORWARD_POINTS + point] : -1;
            if (element[u] >= 0)
                row[u] = *(const pack<S> *)(rows + element[u] * width);
        }
        STNI_UNROLL
        for (int u = 0; u < FORWARD_AT_ONCE; u++)
            if (element[u] >= 0) {
                const double weight = r.weight[(first + u) * FORWARD_POINTS + point];
                typename computed<S>::type value[pack<S>::SIZE];
                load_pack(row[u], value);
                STNI_UNROLL
                for (int v = 0; v < pack<S>::SIZE; v++)
                    sum[v] += weight * (double)value[v];
            }
    }
}

template <class S>
STNI_DEVICE void put_points(const stni_sample_args &a, const sampling<S> &s, const S *tile, int64_t line, int64_t first,
                            int64_t column, int columns)
{
    const bool is_last = a.output.channel == 1;
    S *to = (S *)a.output.data + (s.first_line + line) * a.output.batch;
    STNI_KEEP_LOOP
    for (int i = (int)threadIdx.x; i < FORWARD_POINTS * columns; i += FORWARD_THREADS) {
        const int point = is_last ? i / columns : i % FORWARD_POINTS, c = is_last ? i % columns : i / FORWARD_POINTS;
        int64_t at[1];
        if (first + point >= s.points || column + c >= a.n_channels)
            continue;
        any_offsets_of(s.places, first + point, at);
        to[(column + c) * a.output.channel + at[0]] = tile[point * (columns + 1) + c];
    }
}

template <class S>
__global__ void __launch_bounds__(FORWARD_THREADS)
    sample_rows(const __grid_constant__ stni_sample_args a, const __grid_constant__ sampling<S> s)
{
    enum { VECTOR = pack<S>::SIZE };
    STNI_SHARED(int32_t, element, FORWARD_POINTS * STNI_SAMPLE_READS);
    STNI_SHARED(double, weight, FORWARD_POINTS * STNI_SAMPLE_READS);
    STNI_SHARED(S, tile, FORWARD_POINTS * (WARP * VECTOR + 1));
    const forward_reads reads = {element, weight};
    const int columns = (int)s.team * VECTOR, mine = (int)(threadIdx.x % s.team) * VECTOR;
    const int n_reads = stni_sample_n_reads(&a), me = (int)threadIdx.x;
    const unsigned group = blockIdx.x % s.groups, rest = blockIdx.x / s.groups;
    const int64_t line = rest / s.tiles, first = (int64_t)(rest % s.tiles) * FORWARD_POINTS;
    const int64_t column = (int64_t)group * columns;
    if (!jumps_are_many(s.jumps))
        return;
    if (me < FORWARD_POINTS && first + me < s.points)
        find_reads<S>(a, s.first_line + line, first + me, reads, me);
    __syncthreads();
    STNI_KEEP_LOOP
    for (int i = (int)(threadIdx.x / s.team); i < FORWARD_POINTS; i += FORWARD_THREADS / (int)s.team) {
        double sum[VECTOR] = {};
        if (first + i < s.points && column + mine < s.width)
            sum_row(s.rows + line * s.elements * s.width + column + mine, s.width, reads, n_reads, i, sum);
        STNI_UNROLL
        for (int v = 0; v < VECTOR; v++)
            store(tile[i * (columns + 1) + mine + v], (typename computed<S>::type)sum[v]);
    }
    __syncthreads();
    put_points(a, s, tile, line, first, column, columns);
}

template <class S> void launch_sampling(const stni_sample_args &a, sampling<S> s, cudaStream_t stream)
{
    s.team = 1;
    while (s.team < WARP && s.team * pack<S>::SIZE < s.width)
        s.team *= 2;
    s.tiles = (unsigned)stni_ceil_div(s.points, FORWARD_POINTS);
    s.groups = (unsigned)stni_ceil_div(s.width, s.team * pack<S>::SIZE);
    STNI_LAUNCH(sample_rows<S>, blocks_for(s.lines * s.tiles * s.groups, 1), FORWARD_THREADS, stream, a, s);
}

}

#endif
