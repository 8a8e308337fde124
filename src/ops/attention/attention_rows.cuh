/* What attention row by row computes of scores, in every dtype: where tiles do not serve, and for gradients of masks.
 *
 * A block of threads computes the probabilities of THREADS keys (of a query row) or of THREADS query rows (of a key) at
 * a time, keeps them in shared memory, and multiplies them into rows, a thread each column. No scores lie in memory,
 * and no number is added to by two blocks, so that results have the same bits in every run.
 *
 * Scores are computed in the type of arithmetic, sums over keys and rows in f64. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_ROWS_CUH
#define STNI_OPS_ATTENTION_ATTENTION_ROWS_CUH

#include "ops/attention/attention_mma_cuda.h"
#include "ops/attention/attention_place.cuh"
#include "ops/attention/attention_tiles.cuh"

#include <math.h>

namespace {

enum { THREADS = 128 };

template <class S> STNI_DEVICE const S *row_of(const stni_attention_operand &o, int64_t at, int64_t row)
{
    return (const S *)o.data + at + row * o.row;
}

template <class S>
STNI_DEVICE typename computed<S>::type dot(const S *a, int64_t a_col, const S *b, int64_t b_col, int64_t n)
{
    typename computed<S>::type sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += load(a[i * a_col]) * load(b[i * b_col]);
    return sum;
}

/* The score of query row i and key row j; -infinity where i may not attend to j. */
template <class S>
STNI_DEVICE typename computed<S>::type score(const arguments &p, const place &at, int64_t i, int64_t j)
{
    typedef typename computed<S>::type A;
    const int64_t mask = at.mask + i * p.mask.row + j * p.mask.col;
    if ((p.is_causal && j > p.row_offset + i) ||
        (p.mask_kind == STNI_ATTENTION_ALLOWS && !((const uint8_t *)p.mask.data)[mask]))
        return -(A)INFINITY;
    const A product =
        (A)p.scale * dot(row_of<S>(p.query, at.query, i), p.query.col, row_of<S>(p.key, at.key, j), p.key.col, p.e);
    return p.mask_kind == STNI_ATTENTION_ADDS ? product + load(((const S *)p.mask.data)[mask]) : product;
}

/* Results and gradients: in the dtype, or in that of sums (stni_attention_args.is_wide). */
template <class S>
STNI_DEVICE void put(const arguments &p, const stni_attention_operand &o, int64_t at, typename computed<S>::type value)
{
    typedef typename computed<S>::type A;
    if (sizeof(S) < sizeof(A) && p.is_wide)
        ((A *)o.data)[at] = value;
    else
        store(((S *)o.data)[at], value);
}

/* f32 has tiles, 16-bit floats have products of tensor cores: of rows that stay in registers, of any strides. */
template <class S> constexpr bool has_tiles = false;
template <> constexpr bool has_tiles<float> = true;
template <class S> constexpr bool has_products = sizeof(S) < sizeof(float);

inline bool takes_tiles(const arguments &p)
{
    return p.e <= 2 * SIDE && p.v <= 2 * SIDE;
}

inline bool takes_products(const arguments &p)
{
    return p.e <= STNI_ATTENTION_MMA_WIDTH && p.v <= STNI_ATTENTION_MMA_WIDTH;
}

}

#endif
