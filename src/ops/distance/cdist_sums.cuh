/* Gradients of sums of differences, or of their squares, where there are many rows: a block has ROWS rows of
 * SUMS_WIDTH elements, a thread several of them in registers. What a pair's differences are multiplied with is found
 * once for all elements that the block has of a row. SUMS_GROUPS groups of threads take DEPTH rows of the other side
 * in turn, and their sums are joined at the end: the shape alone decides the order.
 *
 * Of f32 the sums over a tile's rows are f32, and those over tiles f64, as of distances (cdist_pairs.cuh). */
#ifndef STNI_OPS_DISTANCE_CDIST_SUMS_CUH
#define STNI_OPS_DISTANCE_CDIST_SUMS_CUH

#include "ops/distance/cdist_distances.cuh"

#include <float.h>
#include <math.h>

namespace {

enum {
    SUMS_OWN = 4,    /* rows of a thread, and elements of each of them */
    SUMS_STEP1 = 4,  /* threads of a group that have the same elements of several rows */
    SUMS_STEP2 = 16, /* threads of a group that have elements of the same rows */
    SUMS_ROWS = SUMS_STEP1 * SUMS_OWN,
    SUMS_WIDTH = SUMS_STEP2 * SUMS_OWN,
    SUMS_GROUP = SUMS_STEP1 * SUMS_STEP2,
    SUMS_GROUPS = 4,
    SUMS_THREADS = SUMS_GROUPS * SUMS_GROUP,
    SUMS_SHORT = 16 /* elements of rows of which most threads would have none */
};

/* What a block has of the other side at a time. */
template <class A> struct sums {
    enum {
        PACK = pack<A>::SIZE,
        DEPTH = 128 / sizeof(A),   /* rows for a group */
        TILE = SUMS_GROUPS * DEPTH,
        OTHERS = SUMS_WIDTH / PACK,
        LINE = SUMS_ROWS / PACK + 1 /* weights of one row of the other side; rows begin in different banks */
    };
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
    return is_of_sums(v.m) && v.n >= SUMS_SHORT && blocks >= STNI_DISTANCE_ENOUGH && blocks <= INT32_MAX ? blocks : 0;
}

/* Whether elements side by side can be read at once. */
template <class S> STNI_DEVICE bool has_packs(const distances &v, const S *x)
{
    enum { BYTES = sizeof(stored_pack<S>), SIZE = BYTES / sizeof(S) };
    return v.col[X2] == 1 && (v.row[X2] | v.n) % SIZE == 0 && (uintptr_t)x % BYTES == 0;
}

template <class S, class A> STNI_DEVICE void put_others(pack<A> &to, const stored_pack<S> &held)
{
    pack<A> computed;
    STNI_UNROLL
    for (int c = 0; c < pack<A>::SIZE; c++)
        computed.v[c] = load(held.v[c]);
    to = computed;
}

/* Elements of rows j … of the other side, row by row; of what is not there zeros. */
template <class S, class A>
STNI_DEVICE void load_others(pack<A> *tile, const distances &v, const sides<S> &s, int64_t j)
{
    enum { SIZE = pack<A>::SIZE, STEP = SUMS_THREADS / sums<A>::OTHERS, AT_ONCE = 16 / sizeof(A) /* packs */ };
    const int f = (int)threadIdx.x % sums<A>::OTHERS, first = (int)threadIdx.x / sums<A>::OTHERS, k = f * SIZE;
    const int rows = v.rows2 - j < sums<A>::TILE ? (int)(v.rows2 - j) : sums<A>::TILE;
    const bool whole = has_packs(v, s.x2);
    const S *from = s.x2 + (j + first) * v.row[X2] + k * v.col[X2];
    pack<A> *to = tile + first * sums<A>::OTHERS + f;
    STNI_KEEP_LOOP
    for (int i = first; i < sums<A>::TILE; i += AT_ONCE * STEP) {
        stored_pack<S> held[AT_ONCE] = {};
        if (whole) {
            STNI_UNROLL
            for (int e = 0; e < AT_ONCE; e++)
                if (k < s.n && i + e * STEP < rows)
                    held[e] = *(const stored_pack<S> *)(from + e * STEP * v.row[X2]);
        } else {
            STNI_UNROLL
            for (int e = 0; e < AT_ONCE * SIZE; e++)
                if (k + e % SIZE < s.n && i + e / SIZE * STEP < rows)
                    held[e / SIZE].v[e % SIZE] = from[e / SIZE * STEP * v.row[X2] + e % SIZE * v.col[X2]];
        }
        STNI_UNROLL
        for (int e = 0; e < AT_ONCE; e++)
            put_others(to[e * SUMS_THREADS], held[e]);
        from += AT_ONCE * STEP * v.row[X2];
        to += AT_ONCE * SUMS_THREADS;
    }
}

/* What the differences of a pair are multiplied with. */
template <class W> STNI_DEVICE W weight_in(metric m, W grad, W distance)
{
    return distance == 0 ? 0 : m == STNI_CDIST_TWO ? grad / distance : grad;
}

/* Whether weights in A may have no room where the gradient has. */
template <class A> STNI_HOST_DEVICE bool loses_range(metric m)
{
    return sizeof(A) == sizeof(float) && m == STNI_CDIST_TWO;
}

template <class A> STNI_DEVICE bool is_finite(A value)
{
    return value - value == 0;
}

/* The same in the type of arithmetic. NaN where f32 has no room for the quotient or would lose its digits, and so are
 * the sums that it goes into: those elements are added anew (sum_gradient). */
template <class A> STNI_DEVICE A tile_weight(metric m, A grad, A distance)
{
    const A w = weight_in(m, grad, distance);
    const bool has_room = fabs(w) >= (A)FLT_MIN && fabs(w) <= (A)FLT_MAX;
    return has_room || grad == 0 || distance == 0 || !loses_range<A>(m) ? w : (A)NAN;
}

/* Of a thread's pairs. Neighbouring threads are of pairs beside each other in memory. */
template <class S> struct held_pairs {
    typedef sums<typename computed<S>::type> T;
    enum { STEP = SUMS_THREADS / SUMS_ROWS, EACH = T::TILE / STEP };
    int i, first; /* row, and the first row of the other side; they are STEP apart */
    S distance[EACH], grad[EACH];
};

/* Distances and cotangents of a tile's pairs; 0 for pairs that are not there. */
template <class S>
STNI_DEVICE void fetch_pairs(held_pairs<S> &to, const distances &v, const sides<S> &s, int64_t j)
{
    enum { STEP = held_pairs<S>::STEP };
    const bool by_rows = v.row[DISTANCE] < v.col[DISTANCE];
    const int p = (int)threadIdx.x % SUMS_ROWS, q = (int)threadIdx.x / SUMS_ROWS;
    to.i = by_rows ? p : q;
    to.first = by_rows ? q : p;
    const int64_t rows = v.rows2 - j - to.first;
    const S *distance = s.distance + to.i * v.row[DISTANCE] + (j + to.first) * v.col[DISTANCE];
    const S *grad = s.grad + to.i * v.row[GRAD] + (j + to.first) * v.col[GRAD];
    STNI_UNROLL
    for (int e = 0; e < held_pairs<S>::EACH; e++) {
        const bool has = to.i < s.rows && e * STEP < rows;
        to.distance[e] = has ? *distance : S{};
        to.grad[e] = has ? *grad : S{};
        distance += STEP * v.col[DISTANCE];
        grad += STEP * v.col[GRAD];
    }
}

template <class S, class A> STNI_DEVICE void put_weights(A *weight, const held_pairs<S> &from, metric m)
{
    typedef sums<A> T;
    STNI_UNROLL
    for (int e = 0; e < held_pairs<S>::EACH; e++)
        weight[(from.first + e * held_pairs<S>::STEP) * T::LINE * T::PACK + from.i] =
            tile_weight<A>(m, load(from.grad[e]), load(from.distance[e]));
}

template <metric M, class W> STNI_DEVICE W with_derivative(W sum, W difference, W weight)
{
    if constexpr (M == STNI_CDIST_TWO)
        return fma(difference, weight, sum);
    else
        return sum + (difference > 0 ? weight : difference < 0 ? -weight : difference); /* 0 or NaN */
}

/* Threads of a group: by rows, and by elements. */
STNI_DEVICE int sums_row()
{
    return row_in_warp();
}

STNI_DEVICE int sums_col()
{
    return (int)threadIdx.x / WARP % 2 * WARP_COLS + col_in_warp();
}

/* The rows of the other side that a group has of a tile. */
template <metric M, class A>
STNI_DEVICE void add_rows(const pack<A> *others, const pack<A> *weights, const A (&x)[SUMS_OWN][SUMS_OWN],
                          A (&sum)[SUMS_OWN][SUMS_OWN])
{
    const int group = (int)threadIdx.x / SUMS_GROUP;
    const pack<A> *other = others + group * sums<A>::DEPTH * sums<A>::OTHERS + sums_col();
    const pack<A> *weight = weights + group * sums<A>::DEPTH * sums<A>::LINE + sums_row();
    STNI_KEEP_LOOP
    for (int l = 0; l < sums<A>::DEPTH; l++, other += sums<A>::OTHERS, weight += sums<A>::LINE) {
        A w[SUMS_OWN], y[SUMS_OWN];
        read_packs(weight, SUMS_STEP1, w);
        read_packs(other, SUMS_STEP2, y);
        STNI_UNROLL
        for (int a = 0; a < SUMS_OWN; a++)
            STNI_UNROLL
            for (int b = 0; b < SUMS_OWN; b++)
                sum[a][b] = with_derivative<M>(sum[a][b], x[a][b] - y[b], w[a]);
    }
}

/* Adds the rows of a tile to sums over tiles. */
template <metric M, class A>
STNI_DEVICE void add_sums_tile(const pack<A> *others, const pack<A> *weights, const A (&x)[SUMS_OWN][SUMS_OWN],
                               double (&sum)[SUMS_OWN][SUMS_OWN])
{
    if constexpr (sizeof(A) == sizeof(double)) {
        add_rows<M>(others, weights, x, sum);
    } else {
        A part[SUMS_OWN][SUMS_OWN] = {};
        add_rows<M>(others, weights, x, part);
        STNI_UNROLL
        for (int e = 0; e < SUMS_OWN * SUMS_OWN; e++)
            sum[e / SUMS_OWN][e % SUMS_OWN] += (double)part[e / SUMS_OWN][e % SUMS_OWN];
    }
}

/* Adds one batch. */
template <class S, class A>
STNI_DEVICE void add_batch(pack<A> *others, pack<A> *weights, const distances &v, const sides<S> &s,
                           double (&sum)[SUMS_OWN][SUMS_OWN])
{
    A x[SUMS_OWN][SUMS_OWN];
    STNI_UNROLL
    for (int a = 0; a < SUMS_OWN; a++)
        STNI_UNROLL
        for (int b = 0; b < SUMS_OWN; b++) {
            const int i = place_in_line<A>(a, sums_row(), SUMS_STEP1), k = place_in_line<A>(b, sums_col(), SUMS_STEP2);
            x[a][b] = i < s.rows && k < s.n ? load(s.x1[i * v.row[X1] + k * v.col[X1]]) : A(0);
        }
    for (int64_t j = 0; j < v.rows2; j += sums<A>::TILE) {
        /* Pairs of f32 come from memory while the rows are loaded; those of f64 would want too many registers. */
        const bool early = sizeof(A) == sizeof(float);
        held_pairs<S> held;
        if (early)
            fetch_pairs(held, v, s, j);
        load_others(others, v, s, j);
        if (!early)
            fetch_pairs(held, v, s, j);
        put_weights((A *)weights, held, v.m);
        __syncthreads();
        if (v.m == STNI_CDIST_ONE)
            add_sums_tile<STNI_CDIST_ONE>(others, weights, x, sum);
        else
            add_sums_tile<STNI_CDIST_TWO>(others, weights, x, sum);
        __syncthreads();
    }
}

/* The first group gets the sums of all. */
STNI_DEVICE void join_groups(double *shared, double (&sum)[SUMS_OWN][SUMS_OWN])
{
    enum { N = SUMS_OWN * SUMS_OWN };
    const int group = (int)threadIdx.x / SUMS_GROUP, me = (int)threadIdx.x % SUMS_GROUP;
    STNI_UNROLL
    for (int e = 0; e < N; e++)
        if (group > 0)
            shared[((group - 1) * N + e) * SUMS_GROUP + me] = sum[e / SUMS_OWN][e % SUMS_OWN];
    __syncthreads();
    STNI_UNROLL
    for (int e = 0; e < N; e++)
        for (int g = 1; g < SUMS_GROUPS && group == 0; g++)
            sum[e / SUMS_OWN][e % SUMS_OWN] += shared[((g - 1) * N + e) * SUMS_GROUP + me];
}

template <class S> __global__ void __launch_bounds__(SUMS_THREADS, 2)
sum_gradient_tiles(const __grid_constant__ distances v, S *grad1, const S *x1, const S *x2, const S *distance,
                   const S *grad)
{
    typedef typename computed<S>::type A;
    STNI_SHARED(pack<A>, others, sums<A>::TILE * sums<A>::OTHERS);
    STNI_SHARED(pack<A>, weights, sums<A>::TILE * sums<A>::LINE);
    const int64_t along = sums_along(v.rows1, SUMS_ROWS), across = sums_along(v.n, SUMS_WIDTH), block = blockIdx.x;
    const int64_t i = block / across % along * SUMS_ROWS, k = block % across * SUMS_WIDTH;
    int64_t at[OPERANDS], of_sum[OPERANDS];
    double sum[SUMS_OWN][SUMS_OWN] = {};
    any_offsets_of(v.own, block / across / along, at);
    for (int64_t b = 0; b < v.summed.count; b++) {
        any_offsets_of(v.summed, b, of_sum);
        const sides<S> s = {x1 + at[X1] + of_sum[X1] + i * v.row[X1] + k * v.col[X1],
                            x2 + at[X2] + of_sum[X2] + k * v.col[X2],
                            distance + at[DISTANCE] + of_sum[DISTANCE] + i * v.row[DISTANCE],
                            grad + at[GRAD] + of_sum[GRAD] + i * v.row[GRAD], v.rows1 - i, v.n - k};
        add_batch(others, weights, v, s, sum);
    }
    static_assert((SUMS_GROUPS - 1) * SUMS_GROUP * sizeof sum <= sums<A>::TILE * sums<A>::OTHERS * sizeof *others,
                  "sums that are joined lie where rows did");
    join_groups((double *)others, sum);
    STNI_UNROLL
    for (int a = 0; a < SUMS_OWN; a++)
        STNI_UNROLL
        for (int b = 0; b < SUMS_OWN; b++) {
            const int64_t row = i + place_in_line<A>(a, sums_row(), SUMS_STEP1);
            const int64_t element = k + place_in_line<A>(b, sums_col(), SUMS_STEP2);
            if ((int)threadIdx.x < SUMS_GROUP && row < v.rows1 && element < v.n)
                store(grad1[at[GRAD1] + row * v.row[GRAD1] + element * v.col[GRAD1]], (A)sum[a][b]);
        }
}

}

#endif
