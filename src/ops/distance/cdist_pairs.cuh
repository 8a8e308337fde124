/* Distances of many rows that are sums of differences, or of their squares: a block has a tile of pairs, a thread
 * several of them in registers, so that an element that is read from shared memory serves several pairs.
 *
 * Differences are taken in the type of arithmetic. Of f32 the sums over a tile's elements are f32, and those over
 * tiles f64: two operations of f32 an element of a pair are all the work, and no error grows with the rows' length. */
#ifndef STNI_OPS_DISTANCE_CDIST_PAIRS_CUH
#define STNI_OPS_DISTANCE_CDIST_PAIRS_CUH

#include "ops/distance/cdist_distances.cuh"

#include <math.h>

namespace {

enum {
    PAIRS_STEP = 16, /* threads along each side */
    PAIRS_THREADS = PAIRS_STEP * PAIRS_STEP,
    PAIRS_DEPTH = 32,   /* elements of rows at a time */
    PAIRS_ACROSS = 8    /* of them, neighbouring threads load these of one row */
};

/* The rows of a thread, and of a block. A line has one element of all rows of a side; its end lets threads that load
 * neighbouring elements write to different banks. */
template <class A> struct pairs {
    enum {
        OWN1 = sizeof(A) == 4 ? 8 : 4,
        OWN2 = 4,
        ROWS1 = OWN1 * PAIRS_STEP,
        ROWS2 = OWN2 * PAIRS_STEP,
        LINE1 = ROWS1 + pack<A>::SIZE,
        LINE2 = ROWS2 + pack<A>::SIZE
    };
};

/* The tile at hand: where its rows and its distances begin, and how many rows there are. */
template <class S> struct pairs_place {
    const S *x[2];
    S *out;
    int64_t rows[2];
};

STNI_DEVICE int thread_row()
{
    return (int)threadIdx.x / WARP / 2 * WARP_ROWS + row_in_warp();
}

STNI_DEVICE int thread_col()
{
    return (int)threadIdx.x / WARP % 2 * WARP_COLS + col_in_warp();
}

STNI_HOST_DEVICE int64_t tiles_along(int64_t rows, int each)
{
    return (rows + each - 1) / each;
}

/* Blocks of such tiles; 0: smaller tiles serve better. */
template <class A> int64_t pair_tiles_of(const distances &v)
{
    const int64_t blocks = v.own.count * tiles_along(v.rows1, pairs<A>::ROWS1) * tiles_along(v.rows2, pairs<A>::ROWS2);
    return is_of_sums(v.m) && blocks >= STNI_DISTANCE_ENOUGH && blocks <= INT32_MAX ? blocks : 0;
}

/* Elements from k on of ROWS rows of one side, element by element; of rows that are not there zeros. */
template <int ROWS, int LINE, class S, class A>
STNI_DEVICE void load_rows(A *tile, const distances &v, const pairs_place<S> &s, int side, int64_t k)
{
    enum { STEP = PAIRS_THREADS / PAIRS_ACROSS, EACH = ROWS / STEP, STEPS = PAIRS_DEPTH / PAIRS_ACROSS };
    const int l = (int)threadIdx.x % PAIRS_ACROSS, first = (int)threadIdx.x / PAIRS_ACROSS;
    const S *const from = s.x[side] + first * v.row[side] + (k + l) * v.col[side];
    const int64_t row = STEP * v.row[side], col = PAIRS_ACROSS * v.col[side];
    S held[EACH][STEPS];
    STNI_UNROLL
    for (int a = 0; a < EACH; a++)
        STNI_UNROLL
        for (int b = 0; b < STEPS; b++) {
            const bool has = first + a * STEP < s.rows[side] && k + l + b * PAIRS_ACROSS < v.n;
            held[a][b] = has ? from[a * row + b * col] : S{};
        }
    STNI_UNROLL
    for (int a = 0; a < EACH; a++)
        STNI_UNROLL
        for (int b = 0; b < STEPS; b++)
            tile[(l + b * PAIRS_ACROSS) * LINE + first + a * STEP] = load(held[a][b]);
}

template <metric M, class W> STNI_DEVICE W with_difference(W sum, W d)
{
    return M == STNI_CDIST_TWO ? fma(d, d, sum) : sum + fabs(d);
}

/* Adds n elements of all rows, in W. */
template <metric M, class A, class W>
STNI_DEVICE void add_elements(const pack<A> *left, const pack<A> *right, int n,
                              W (&sum)[pairs<A>::OWN1][pairs<A>::OWN2])
{
    enum { PACK = pack<A>::SIZE };
    const pack<A> *from1 = left + thread_row(), *from2 = right + thread_col();
    STNI_KEEP_LOOP
    for (int l = 0; l < n; l++, from1 += pairs<A>::LINE1 / PACK, from2 += pairs<A>::LINE2 / PACK) {
        A x[pairs<A>::OWN1], y[pairs<A>::OWN2];
        read_packs(from1, PAIRS_STEP, x);
        read_packs(from2, PAIRS_STEP, y);
        STNI_UNROLL
        for (int a = 0; a < pairs<A>::OWN1; a++)
            STNI_UNROLL
            for (int b = 0; b < pairs<A>::OWN2; b++)
                sum[a][b] = with_difference<M>(sum[a][b], (W)x[a] - (W)y[b]);
    }
}

/* Whether a sum of squares of f32 is neither too large for it nor made of squares whose digits it lost. */
STNI_DEVICE bool has_room(float sum)
{
    return sum >= 0x1p-100f && sum <= 0x1p100f;
}

/* Whether f64 should add one of the sums anew. 0 counts as that of equal rows; NaN stays. */
template <int N1, int N2> STNI_DEVICE bool want_room(const float (&sum)[N1][N2])
{
    bool all = true, wants = false;
    STNI_UNROLL
    for (int e = 0; e < N1 * N2; e++)
        all = all && has_room(sum[e / N2][e % N2]);
    if (!all) {
        STNI_UNROLL
        for (int e = 0; e < N1 * N2; e++)
            wants = wants || (sum[e / N2][e % N2] > 0 && !has_room(sum[e / N2][e % N2]));
    }
    return wants;
}

/* Adds n elements of all rows to sums over tiles. */
template <metric M, class A>
STNI_DEVICE void add_tile(const pack<A> *left, const pack<A> *right, int n,
                          double (&sum)[pairs<A>::OWN1][pairs<A>::OWN2])
{
    if constexpr (sizeof(A) == sizeof(double)) {
        add_elements<M>(left, right, n, sum);
    } else {
        A part[pairs<A>::OWN1][pairs<A>::OWN2] = {};
        add_elements<M>(left, right, n, part);
        if (M == STNI_CDIST_TWO && want_room(part)) {
            add_elements<M>(left, right, n, sum);
            return;
        }
        STNI_UNROLL
        for (int a = 0; a < pairs<A>::OWN1; a++)
            STNI_UNROLL
            for (int b = 0; b < pairs<A>::OWN2; b++)
                sum[a][b] += (double)part[a][b];
    }
}

/* The root of a sum of squares, in f32 where that has room: a root of f64 takes as long as 25 elements. */
template <class A> STNI_DEVICE A root_of(double sum)
{
    const A near = (A)sum;
    if (sizeof(A) == sizeof(float) && has_room((float)near))
        return sqrt(near);
    return (A)sqrt(sum);
}

/* Distances of a row with rows side by side. */
template <class S, int N>
STNI_DEVICE void store_distances(S *to, int64_t col, int64_t n, const double (&sum)[N], metric m)
{
    typedef typename computed<S>::type A;
    stored_pack<S> made;
    STNI_UNROLL
    for (int e = 0; e < N; e++)
        store(made.v[e], m == STNI_CDIST_TWO ? root_of<A>(sum[e]) : (A)sum[e]);
    if (n >= N && col == 1 && (uintptr_t)to % sizeof made == 0) {
        *(stored_pack<S> *)to = made;
        return;
    }
    STNI_UNROLL
    for (int e = 0; e < N; e++)
        if (e < n)
            to[e * col] = made.v[e];
}

template <class S, class A>
STNI_DEVICE void store_pairs(const distances &v, const pairs_place<S> &s,
                             const double (&sum)[pairs<A>::OWN1][pairs<A>::OWN2])
{
    enum { PACK = pack<A>::SIZE };
    STNI_UNROLL
    for (int a = 0; a < pairs<A>::OWN1; a++)
        STNI_UNROLL
        for (int b = 0; b < pairs<A>::OWN2; b += PACK) {
            const int64_t i = place_in_line<A>(a, thread_row(), PAIRS_STEP);
            const int64_t j = place_in_line<A>(b, thread_col(), PAIRS_STEP);
            double of_pack[PACK];
            STNI_UNROLL
            for (int e = 0; e < PACK; e++)
                of_pack[e] = sum[a][b + e];
            if (i < s.rows[X1])
                store_distances(s.out + i * v.row[DISTANCE] + j * v.col[DISTANCE], v.col[DISTANCE], s.rows[X2] - j,
                                of_pack, v.m);
        }
}

template <class S, class A>
STNI_DEVICE void distances_of_pairs(pack<A> *left, pack<A> *right, const distances &v, const pairs_place<S> &s)
{
    double sum[pairs<A>::OWN1][pairs<A>::OWN2] = {};
    for (int64_t k = 0; k < v.n; k += PAIRS_DEPTH) {
        load_rows<pairs<A>::ROWS1, pairs<A>::LINE1>((A *)left, v, s, X1, k);
        load_rows<pairs<A>::ROWS2, pairs<A>::LINE2>((A *)right, v, s, X2, k);
        __syncthreads();
        const int n = v.n - k < PAIRS_DEPTH ? (int)(v.n - k) : PAIRS_DEPTH;
        if (v.m == STNI_CDIST_ONE)
            add_tile<STNI_CDIST_ONE>(left, right, n, sum);
        else
            add_tile<STNI_CDIST_TWO>(left, right, n, sum);
        __syncthreads();
    }
    store_pairs<S, A>(v, s, sum);
}

template <class S> __global__ void __launch_bounds__(PAIRS_THREADS, 2)
distance_pairs(const __grid_constant__ distances v, S *out, const S *x1, const S *x2)
{
    typedef typename computed<S>::type A;
    enum { PACK = pack<A>::SIZE };
    STNI_SHARED(pack<A>, left, PAIRS_DEPTH * pairs<A>::LINE1 / PACK);
    STNI_SHARED(pack<A>, right, PAIRS_DEPTH * pairs<A>::LINE2 / PACK);
    const int64_t along1 = tiles_along(v.rows1, pairs<A>::ROWS1), along2 = tiles_along(v.rows2, pairs<A>::ROWS2);
    const int64_t block = blockIdx.x;
    const int64_t first1 = block / along2 % along1 * pairs<A>::ROWS1, first2 = block % along2 * pairs<A>::ROWS2;
    int64_t at[OPERANDS];
    any_offsets_of(v.own, block / along2 / along1, at);
    const pairs_place<S> s = {{x1 + at[X1] + first1 * v.row[X1], x2 + at[X2] + first2 * v.row[X2]},
                              out + at[DISTANCE] + first1 * v.row[DISTANCE] + first2 * v.col[DISTANCE],
                              {v.rows1 - first1, v.rows2 - first2}};
    distances_of_pairs(left, right, v, s);
}

}

#endif
