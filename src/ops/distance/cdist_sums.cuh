/* Gradients of sums of differences, or of their squares, where there are many rows: a block has SUMS_ROWS rows of
 * SUMS_WIDTH elements, a thread several of them in registers. What a pair's differences are multiplied with is found
 * once for all elements that the block has of a row. Two groups of threads take every other SUMS_DEPTH rows of the
 * other side, and their sums are joined at the end: the shape alone decides the order. */
#ifndef STNI_OPS_DISTANCE_CDIST_SUMS_CUH
#define STNI_OPS_DISTANCE_CDIST_SUMS_CUH

#include "ops/distance/cdist_distances.cuh"

#include <math.h>

namespace {

enum {
    SUMS_STEP1 = 8,  /* threads of a group that have the same elements of several rows */
    SUMS_STEP2 = 16, /* threads of a group that have elements of the same rows */
    SUMS_OWN1 = 2,   /* rows of a thread */
    SUMS_OWN2 = 4,   /* elements of each of them */
    SUMS_ROWS = SUMS_STEP1 * SUMS_OWN1,
    SUMS_WIDTH = SUMS_STEP2 * SUMS_OWN2,
    SUMS_GROUP = SUMS_STEP1 * SUMS_STEP2,
    SUMS_GROUPS = 2,
    SUMS_THREADS = SUMS_GROUPS * SUMS_GROUP,
    SUMS_DEPTH = 16,                        /* rows of the other side for a group at a time */
    SUMS_TILE = SUMS_GROUPS * SUMS_DEPTH,
    SUMS_LINE = SUMS_ROWS + 1,              /* of one row of the other side */
    SUMS_SHORT = 16,                        /* elements of rows of which most threads would have none */
    SUMS_ENOUGH = 32                        /* with fewer blocks, a thread an element uses more of a device */
};

/* The rows at hand: where those of both sides, and of the pairs, begin. */
template <class S> struct sides {
    const S *x1, *x2, *distance, *grad;
    int64_t rows, n; /* from here on */
};

STNI_HOST_DEVICE int64_t sums_along(int64_t n, int each)
{
    return (n + each - 1) / each;
}

/* Blocks of such tiles; 0: a thread an element serves. */
inline int64_t sums_of(const distances &v)
{
    const int64_t blocks = v.own.count * sums_along(v.rows1, SUMS_ROWS) * sums_along(v.n, SUMS_WIDTH);
    return is_of_sums(v.m) && v.n >= SUMS_SHORT && blocks >= SUMS_ENOUGH && blocks <= INT32_MAX ? blocks : 0;
}

/* Elements of rows j … of the other side, row by row. */
template <class S> STNI_DEVICE void load_others(double *tile, const distances &v, const sides<S> &s, int64_t j)
{
    enum { EACH = SUMS_TILE * SUMS_WIDTH / SUMS_THREADS, STEP = SUMS_THREADS / SUMS_WIDTH };
    const int k = (int)threadIdx.x % SUMS_WIDTH, first = (int)threadIdx.x / SUMS_WIDTH;
    S held[EACH];
    STNI_UNROLL
    for (int e = 0; e < EACH; e++) {
        const int64_t row = j + first + e * STEP;
        held[e] = k < s.n && row < v.rows2 ? s.x2[row * v.row[X2] + k * v.col[X2]] : S{};
    }
    STNI_UNROLL
    for (int e = 0; e < EACH; e++)
        tile[(first + e * STEP) * SUMS_WIDTH + k] = (double)load(held[e]);
}

/* What differences are multiplied with; 0 for pairs that are not there. Neighbouring threads are of pairs beside each
 * other in memory. */
template <class S> STNI_DEVICE void load_weights(double *weight, const distances &v, const sides<S> &s, int64_t j)
{
    enum { EACH = SUMS_ROWS * SUMS_TILE / SUMS_THREADS };
    const bool by_rows = v.row[DISTANCE] < v.col[DISTANCE];
    STNI_UNROLL
    for (int e = 0; e < EACH; e++) {
        const int at = (int)threadIdx.x + e * SUMS_THREADS;
        const int i = by_rows ? at % SUMS_ROWS : at / SUMS_TILE, l = by_rows ? at / SUMS_ROWS : at % SUMS_TILE;
        double w = 0;
        if (i < s.rows && j + l < v.rows2) {
            const double d = (double)load(s.distance[i * v.row[DISTANCE] + (j + l) * v.col[DISTANCE]]);
            const double g = (double)load(s.grad[i * v.row[GRAD] + (j + l) * v.col[GRAD]]);
            w = d == 0 ? 0 : v.m == STNI_CDIST_TWO ? g / d : g;
        }
        weight[l * SUMS_LINE + i] = w;
    }
}

template <metric M> STNI_DEVICE double with_derivative(double sum, double difference, double weight)
{
    if constexpr (M == STNI_CDIST_TWO)
        return fma(difference, weight, sum);
    else
        return sum + (difference > 0 ? weight : difference < 0 ? -weight : 0);
}

/* The rows of the other side that a group has of a tile. */
template <metric M>
STNI_DEVICE void add_rows(const double *others, const double *weights, const double (&x)[SUMS_OWN1][SUMS_OWN2],
                          double (&sum)[SUMS_OWN1][SUMS_OWN2])
{
    const int group = (int)threadIdx.x / SUMS_GROUP, me = (int)threadIdx.x % SUMS_GROUP;
    const double *other = others + group * SUMS_DEPTH * SUMS_WIDTH + me % SUMS_STEP2;
    const double *weight = weights + group * SUMS_DEPTH * SUMS_LINE + me / SUMS_STEP2;
    STNI_KEEP_LOOP
    for (int l = 0; l < SUMS_DEPTH; l++, other += SUMS_WIDTH, weight += SUMS_LINE) {
        double w[SUMS_OWN1], y[SUMS_OWN2];
        STNI_UNROLL
        for (int a = 0; a < SUMS_OWN1; a++)
            w[a] = weight[a * SUMS_STEP1];
        STNI_UNROLL
        for (int b = 0; b < SUMS_OWN2; b++)
            y[b] = other[b * SUMS_STEP2];
        STNI_UNROLL
        for (int a = 0; a < SUMS_OWN1; a++)
            STNI_UNROLL
            for (int b = 0; b < SUMS_OWN2; b++)
                sum[a][b] = with_derivative<M>(sum[a][b], x[a][b] - y[b], w[a]);
    }
}

/* Adds one batch. */
template <class S>
STNI_DEVICE void add_batch(double *others, double *weights, const distances &v, const sides<S> &s,
                           double (&sum)[SUMS_OWN1][SUMS_OWN2])
{
    const int me = (int)threadIdx.x % SUMS_GROUP;
    double x[SUMS_OWN1][SUMS_OWN2];
    STNI_UNROLL
    for (int a = 0; a < SUMS_OWN1; a++)
        STNI_UNROLL
        for (int b = 0; b < SUMS_OWN2; b++) {
            const int i = me / SUMS_STEP2 + a * SUMS_STEP1, k = me % SUMS_STEP2 + b * SUMS_STEP2;
            x[a][b] = i < s.rows && k < s.n ? (double)load(s.x1[i * v.row[X1] + k * v.col[X1]]) : 0;
        }
    for (int64_t j = 0; j < v.rows2; j += SUMS_TILE) {
        load_others(others, v, s, j);
        load_weights(weights, v, s, j);
        __syncthreads();
        if (v.m == STNI_CDIST_ONE)
            add_rows<STNI_CDIST_ONE>(others, weights, x, sum);
        else
            add_rows<STNI_CDIST_TWO>(others, weights, x, sum);
        __syncthreads();
    }
}

/* The first group gets the sums of both. */
STNI_DEVICE void join_groups(double *shared, double (&sum)[SUMS_OWN1][SUMS_OWN2])
{
    const int group = (int)threadIdx.x / SUMS_GROUP, me = (int)threadIdx.x % SUMS_GROUP;
    STNI_UNROLL
    for (int e = 0; e < SUMS_OWN1 * SUMS_OWN2; e++)
        if (group == 1)
            shared[e * SUMS_GROUP + me] = sum[e / SUMS_OWN2][e % SUMS_OWN2];
    __syncthreads();
    STNI_UNROLL
    for (int e = 0; e < SUMS_OWN1 * SUMS_OWN2; e++)
        if (group == 0)
            sum[e / SUMS_OWN2][e % SUMS_OWN2] += shared[e * SUMS_GROUP + me];
}

template <class S> __global__ void __launch_bounds__(SUMS_THREADS)
sum_gradient_tiles(const __grid_constant__ distances v, S *grad1, const S *x1, const S *x2, const S *distance,
                   const S *grad)
{
    STNI_SHARED(double, others, SUMS_TILE * SUMS_WIDTH);
    STNI_SHARED(double, weights, SUMS_TILE * SUMS_LINE);
    const int64_t along = sums_along(v.rows1, SUMS_ROWS), across = sums_along(v.n, SUMS_WIDTH), block = blockIdx.x;
    const int64_t i = block / across % along * SUMS_ROWS, k = block % across * SUMS_WIDTH;
    int64_t at[OPERANDS], of_sum[OPERANDS];
    double sum[SUMS_OWN1][SUMS_OWN2] = {};
    any_offsets_of(v.own, block / across / along, at);
    for (int64_t b = 0; b < v.summed.count; b++) {
        any_offsets_of(v.summed, b, of_sum);
        const sides<S> s = {x1 + at[X1] + of_sum[X1] + i * v.row[X1] + k * v.col[X1],
                            x2 + at[X2] + of_sum[X2] + k * v.col[X2],
                            distance + at[DISTANCE] + of_sum[DISTANCE] + i * v.row[DISTANCE],
                            grad + at[GRAD] + of_sum[GRAD] + i * v.row[GRAD], v.rows1 - i, v.n - k};
        add_batch(others, weights, v, s, sum);
    }
    join_groups(others, sum);
    const int me = (int)threadIdx.x, first1 = me / SUMS_STEP2, first2 = me % SUMS_STEP2;
    STNI_UNROLL
    for (int a = 0; a < SUMS_OWN1; a++)
        STNI_UNROLL
        for (int b = 0; b < SUMS_OWN2; b++) {
            const int64_t row = i + first1 + a * SUMS_STEP1, element = k + first2 + b * SUMS_STEP2;
            if (me < SUMS_GROUP && row < v.rows1 && element < v.n)
                store(grad1[at[GRAD1] + row * v.row[GRAD1] + element * v.col[GRAD1]],
                      (typename computed<S>::type)sum[a][b]);
        }
}

}

#endif
