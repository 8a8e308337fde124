/* Products of functions and columns on a CUDA device: a block has a tile of results, a thread several of them in
 * registers. Each is added up in the order of what is summed over, whatever else is computed. */
#ifndef STNI_OPS_SHT_LEGENDRE_TILES_CUDA_CUH
#define STNI_OPS_SHT_LEGENDRE_TILES_CUDA_CUH

#include "core/device/cuda/elements.cuh"
#include "core/device/cuda/grid.h"

namespace
{

/* SIDE x SIDE results, DEPTH terms at a time. */
enum { SIDE = 64, DEPTH = 16, OWN_I = 4, ACROSS = SIDE / OWN_I };

/* A thread has OWN_I x OWN_J results. A line has what a term reads of a side; its end lets threads that load terms of
 * one row write to different banks. */
template <class R> struct tile {
    enum {
        OWN_J = sizeof(R) == 4 ? 8 : 4,
        THREADS = ACROSS * (SIDE / OWN_J),
        LINE = SIDE + pack<R>::SIZE,
        PACKS = LINE / pack<R>::SIZE
    };
};

/* One side of a product: n rows, `step` numbers from row to row, and from term to term where rows lie side by side;
 * else terms do. */
template <class R> struct side {
    const R *at;
    int64_t step;
    int n;
};

/* Terms d to d + DEPTH of `terms`; zeros where there are none. */
template <bool TERMS_SIDE_BY_SIDE, class R>
STNI_DEVICE void load_tile(pack<R> *to, const side<R> &from, int d, int terms)
{
    enum { THREADS = tile<R>::THREADS };
    R *const numbers = reinterpret_cast<R *>(to);
    STNI_UNROLL
    for (int e = 0; e < SIDE * DEPTH / THREADS; e++) {
        const int at = e * THREADS + (int)threadIdx.x;
        const int term = TERMS_SIDE_BY_SIDE ? at % DEPTH : at / SIDE, i = TERMS_SIDE_BY_SIDE ? at / DEPTH : at % SIDE;
        const int64_t place = TERMS_SIDE_BY_SIDE ? i * from.step + d + term : (d + term) * from.step + i;
        numbers[term * tile<R>::LINE + i] = i < from.n && d + term < terms ? from.at[place] : R(0);
    }
}

template <class R> STNI_DEVICE void multiply(const pack<R> *left, const pack<R> *right, R (&sum)[OWN_I][tile<R>::OWN_J])
{
    enum { PACK = pack<R>::SIZE, OWN_J = tile<R>::OWN_J };
    const pack<R> *x = left + (int)threadIdx.x % ACROSS * (OWN_I / PACK);
    const pack<R> *y = right + (int)threadIdx.x / ACROSS * (OWN_J / PACK);
    STNI_KEEP_LOOP
    for (int d = 0; d < DEPTH; d++, x += tile<R>::PACKS, y += tile<R>::PACKS) {
        pack<R> a[OWN_I / PACK], b[OWN_J / PACK];
        STNI_UNROLL
        for (int i = 0; i < OWN_I / PACK; i++)
            a[i] = x[i];
        STNI_UNROLL
        for (int j = 0; j < OWN_J / PACK; j++)
            b[j] = y[j];
        STNI_UNROLL
        for (int i = 0; i < OWN_I; i++)
            STNI_UNROLL
        for (int j = 0; j < OWN_J; j++)
            sum[i][j] = fma(a[i / PACK].v[i % PACK], b[j / PACK].v[j % PACK], sum[i][j]);
    }
}

/* Adds all terms of a tile's products: rows of functions (`i`) and columns. All threads of a block call it. */
template <bool TERMS_SIDE_BY_SIDE, class R>
STNI_DEVICE void add_products(pack<R> *left, pack<R> *right, const side<R> &i, const side<R> &j, int terms,
                              R (&sum)[OWN_I][tile<R>::OWN_J])
{
    STNI_KEEP_LOOP
    for (int d = 0; d < terms; d += DEPTH) {
        __syncthreads();
        load_tile<TERMS_SIDE_BY_SIDE>(left, i, d, terms);
        load_tile<true>(right, j, d, terms);
        __syncthreads();
        multiply(left, right, sum);
    }
}

/* The first of a thread's own results in its tile. */
STNI_DEVICE int own_i()
{
    return (int)threadIdx.x % ACROSS * OWN_I;
}

template <class R> STNI_DEVICE int own_j()
{
    return (int)threadIdx.x / ACROSS * tile<R>::OWN_J;
}

} // namespace

#endif
