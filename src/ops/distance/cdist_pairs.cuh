/* Distances of many rows that are sums of differences, or of their squares: a block has a square of pairs, a thread
 * PAIRS x PAIRS of them in registers, so that an element that is read from shared memory serves several pairs. */
#ifndef STNI_OPS_DISTANCE_CDIST_PAIRS_CUH
#define STNI_OPS_DISTANCE_CDIST_PAIRS_CUH

#include "ops/distance/cdist_distances.cuh"

#include <math.h>

namespace {

enum {
    PAIRS = 4,
    PAIRS_STEP = 16, /* rows from one pair of a thread to the next, and threads in a row of pairs */
    SQUARE = PAIRS * PAIRS_STEP,
    SQUARE_THREADS = PAIRS_STEP * PAIRS_STEP,
    SQUARE_DEPTH = 16,       /* elements of rows at a time */
    SQUARE_LINE = SQUARE + 1, /* of one element of all rows; neighbouring elements lie in different banks */
    SQUARES_ENOUGH = 64      /* with fewer blocks, smaller tiles use more of a device */
};

/* The square at hand: where its rows and its distances begin, and how many rows there are. */
template <class S> struct square {
    const S *x[2];
    S *out;
    int64_t rows[2];
};

STNI_HOST_DEVICE int64_t squares_along(int64_t rows)
{
    return (rows + SQUARE - 1) / SQUARE;
}

/* Blocks of such tiles; 0: smaller tiles serve better. */
inline int64_t squares_of(const distances &v)
{
    const int64_t blocks = v.own.count * squares_along(v.rows1) * squares_along(v.rows2);
    return is_of_sums(v.m) && blocks >= SQUARES_ENOUGH && blocks <= INT32_MAX ? blocks : 0;
}

/* Elements from k on of the rows of one side, element by element; of rows that are not there zeros. */
template <class S>
STNI_DEVICE void load_square(double *tile, const distances &v, const square<S> &s, int side, int64_t k)
{
    const int l = (int)threadIdx.x % SQUARE_DEPTH, first = (int)threadIdx.x / SQUARE_DEPTH;
    const bool has = k + l < v.n;
    S held[PAIRS];
    STNI_UNROLL
    for (int a = 0; a < PAIRS; a++) {
        const int64_t i = first + a * PAIRS_STEP;
        held[a] = has && i < s.rows[side] ? s.x[side][i * v.row[side] + (k + l) * v.col[side]] : S{};
    }
    STNI_UNROLL
    for (int a = 0; a < PAIRS; a++)
        tile[l * SQUARE_LINE + first + a * PAIRS_STEP] = (double)load(held[a]);
}

template <metric M> STNI_DEVICE double with_difference(double sum, double d)
{
    return M == STNI_CDIST_TWO ? fma(d, d, sum) : sum + fabs(d);
}

/* Adds n elements of all rows. */
template <metric M>
STNI_DEVICE void add_elements(const double *left, const double *right, int n, double (&sum)[PAIRS][PAIRS])
{
    const double *from1 = left + threadIdx.x / PAIRS_STEP, *from2 = right + threadIdx.x % PAIRS_STEP;
    STNI_KEEP_LOOP
    for (int l = 0; l < n; l++, from1 += SQUARE_LINE, from2 += SQUARE_LINE) {
        double x[PAIRS], y[PAIRS];
        STNI_UNROLL
        for (int a = 0; a < PAIRS; a++) {
            x[a] = from1[a * PAIRS_STEP];
            y[a] = from2[a * PAIRS_STEP];
        }
        STNI_UNROLL
        for (int a = 0; a < PAIRS; a++)
            STNI_UNROLL
            for (int b = 0; b < PAIRS; b++)
                sum[a][b] = with_difference<M>(sum[a][b], x[a] - y[b]);
    }
}

template <class S>
STNI_DEVICE void distances_in_square(double *left, double *right, const distances &v, const square<S> &s)
{
    double sum[PAIRS][PAIRS] = {};
    for (int64_t k = 0; k < v.n; k += SQUARE_DEPTH) {
        load_square(left, v, s, X1, k);
        load_square(right, v, s, X2, k);
        __syncthreads();
        const int n = v.n - k < SQUARE_DEPTH ? (int)(v.n - k) : SQUARE_DEPTH;
        if (v.m == STNI_CDIST_ONE)
            add_elements<STNI_CDIST_ONE>(left, right, n, sum);
        else
            add_elements<STNI_CDIST_TWO>(left, right, n, sum);
        __syncthreads();
    }
    const int first1 = (int)threadIdx.x / PAIRS_STEP, first2 = (int)threadIdx.x % PAIRS_STEP;
    STNI_UNROLL
    for (int a = 0; a < PAIRS; a++)
        STNI_UNROLL
        for (int b = 0; b < PAIRS; b++) {
            const int64_t i = first1 + a * PAIRS_STEP, j = first2 + b * PAIRS_STEP;
            const double distance = v.m == STNI_CDIST_TWO ? sqrt(sum[a][b]) : sum[a][b];
            if (i < s.rows[X1] && j < s.rows[X2])
                store(s.out[i * v.row[DISTANCE] + j * v.col[DISTANCE]], (typename computed<S>::type)distance);
        }
}

template <class S> __global__ void __launch_bounds__(SQUARE_THREADS, 2)
distance_squares(const __grid_constant__ distances v, S *out, const S *x1, const S *x2)
{
    STNI_SHARED(double, left, SQUARE_DEPTH * SQUARE_LINE);
    STNI_SHARED(double, right, SQUARE_DEPTH * SQUARE_LINE);
    const int64_t along1 = squares_along(v.rows1), along2 = squares_along(v.rows2), block = blockIdx.x;
    const int64_t first1 = block / along2 % along1 * SQUARE, first2 = block % along2 * SQUARE;
    int64_t at[OPERANDS];
    any_offsets_of(v.own, block / along2 / along1, at);
    const square<S> s = {{x1 + at[X1] + first1 * v.row[X1], x2 + at[X2] + first2 * v.row[X2]},
                         out + at[DISTANCE] + first1 * v.row[DISTANCE] + first2 * v.col[DISTANCE],
                         {v.rows1 - first1, v.rows2 - first2}};
    distances_in_square(left, right, v, s);
}

}

#endif
