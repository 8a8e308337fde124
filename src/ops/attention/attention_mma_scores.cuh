/* From products of query rows and keys to scores and probabilities, 16 of a warp's own rows by 16 N others at a time
 * (attention_mma.cuh). BY_KEYS: the warp's own rows are keys. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_MMA_SCORES_CUH
#define STNI_OPS_ATTENTION_ATTENTION_MMA_SCORES_CUH

#include "ops/attention/attention_mma.cuh"

#include <math.h>

namespace {

constexpr float LOG2_E = 1.44269504f;

/* Wrong by about 2^-22 of itself: far less than the rounding of probabilities to 16 bits. */
#ifdef __CUDA_ARCH__
STNI_DEVICE float near_exp2(float x)
{
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}
#else
STNI_DEVICE float near_exp2(float x)
{
    return exp2f(x);
}
#endif

/* exp(number unit - from). Of plain scores the factor of powers of 2 goes with the unit, which saves an operation;
 * a mask may add numbers that leave no room for that. */
template <bool IS_PLAIN> STNI_DEVICE float near_exp_of(float number, float unit, float from)
{
    if (IS_PLAIN)
        return near_exp2(fmaf(number, unit * LOG2_E, -(from * LOG2_E)));
    return near_exp2(fmaf(number, unit, -from) * LOG2_E);
}

/* Query row and key of a number, from the corner on. */
struct pair {
    int i, j;
};

template <bool BY_KEYS> STNI_DEVICE pair pair_of(int n, int half, int i)
{
    const int row = product_row(i), col = n * SQUARE + product_col(half, i);
    return BY_KEYS ? pair{col, row} : pair{row, col};
}

/* What a lane answers about each of its numbers, in the order of for_numbers: a bit each. TOGETHER at a time in a
 * loop that is kept, since a cipher or an address for each of 32 registers would be long code. */
template <bool BY_KEYS, int N, int TOGETHER, class F> STNI_DEVICE uint32_t bits_of(F ask)
{
    static_assert(N <= 4, "a word has 32 bits");
    uint32_t bits = 0;
    STNI_KEEP_LOOP
    for (int first = 0; first < 8 * N; first += TOGETHER)
        STNI_UNROLL
        for (int k = first; k < first + TOGETHER; k++) {
            const pair at = pair_of<BY_KEYS>(k / 4 % N, k / 2 % 2, k / 4 / N * 2 + k % 2);
            bits |= (ask(at.i, at.j) ? 1u : 0u) << k;
        }
    return bits;
}

template <int N> STNI_DEVICE bool is_set(uint32_t bits, int row, int n, int half, int i)
{
    return bits >> ((row * N + n) * 4 + half * 2 + i % 2) & 1;
}

/* Whether every row from `first` on may attend to every one of so many keys; whether no row may attend to a key. */
STNI_DEVICE bool is_whole(const arguments &p, const corner &first, int keys)
{
    const int64_t last = first.j + keys - 1;
    return p.mask_kind == STNI_ATTENTION_NO_MASK && last < p.s && (!p.is_causal || last <= p.row_offset + first.i);
}

STNI_DEVICE bool is_beyond(const arguments &p, int64_t first_key, int64_t last_row)
{
    return p.is_causal && first_key > p.row_offset + last_row;
}

/* Leaves the numbers of those pairs that the mask allows. */
template <bool BY_KEYS, int N>
STNI_DEVICE void allow(const arguments &p, const uint8_t *mask, int rows, int keys, product (&score)[N])
{
    const uint32_t allowed = bits_of<BY_KEYS, N, 4>([&](int i, int j) {
        return i < rows && j < keys && mask[i * p.mask.row + j * p.mask.col];
    });
    for_numbers<N>([&](int row, int n, int half, int i) {
        if (!is_set<N>(allowed, row, n, half, i))
            score[n].v[half][i] = -INFINITY;
    });
}

/* One address goes from number to number: 32 at once would take more registers than there are. */
template <class S, bool BY_KEYS, int N>
STNI_DEVICE void add_mask(const arguments &p, const S *mask, int rows, int keys, product (&score)[N])
{
    const int64_t down = BY_KEYS ? p.mask.col : p.mask.row, across = BY_KEYS ? p.mask.row : p.mask.col;
    const int own = BY_KEYS ? keys : rows, others = BY_KEYS ? rows : keys;
    STNI_UNROLL
    for (int row = 0; row < 2; row++) {
        const S *from = mask + product_row(2 * row) * down + product_col(0, 0) * across;
        STNI_UNROLL
        for (int n = 0; n < N; n++)
            STNI_UNROLL
            for (int half = 0; half < 2; half++) {
                STNI_UNROLL
                for (int i = 0; i < 2; i++)
                    if (product_row(2 * row) < own && n * SQUARE + product_col(half, i) < others)
                        score[n].v[half][2 * row + i] += load(from[i * across]);
                from += SQUARE / 2 * across;
            }
    }
}

/* -infinity where a row may not attend to a key, or where there is none. */
template <class S, bool BY_KEYS, int N>
STNI_DEVICE void limit_scores(const arguments &p, const place &at, const corner &first, product (&score)[N])
{
    enum { MOST = 256 }; /* more than the rows and keys of a corner */
    const int rows = p.l - first.i < MOST ? (int)(p.l - first.i) : MOST;
    const int keys = p.s - first.j < MOST ? (int)(p.s - first.j) : MOST;
    const int64_t below = p.row_offset + first.i - first.j;
    const int diagonal = !p.is_causal || below > MOST ? MOST : below < -MOST ? -MOST : (int)below;
    for_numbers<N>([&](int, int n, int half, int i) {
        const pair k = pair_of<BY_KEYS>(n, half, i);
        if (k.j >= keys || k.j > k.i + diagonal)
            score[n].v[half][i] = -INFINITY;
    });
    const int64_t mask = at.mask + first.i * p.mask.row + first.j * p.mask.col;
    if (p.mask_kind == STNI_ATTENTION_ALLOWS)
        allow<BY_KEYS>(p, (const uint8_t *)p.mask.data + mask, rows, keys, score);
    if (p.mask_kind == STNI_ATTENTION_ADDS)
        add_mask<S, BY_KEYS>(p, (const S *)p.mask.data + mask, rows, keys, score);
}

/* Products become scores, but for the scale where that is all they lack: a factor more in what is computed next costs
 * nothing. @return what a number times is a score: the scale, which is above 0, or 1. */
template <class S, bool BY_KEYS, int N>
STNI_DEVICE float make_scores(const arguments &p, const place &at, const corner &first, product (&score)[N])
{
    const float scale = (float)p.scale;
    if (is_whole(p, first, BY_KEYS ? SQUARE : N * SQUARE) && scale > 0)
        return scale;
    for_numbers<N>([&](int, int n, int half, int i) { score[n].v[half][i] *= scale; });
    limit_scores<S, BY_KEYS>(p, at, first, score);
    return 1;
}

/* Whether products with so many keys are scores but for the scale, and probabilities are what is multiplied: most of
 * all work. Code for it that has no branches lets the compiler mix exponentials with products of tensor cores. */
STNI_DEVICE bool is_plain(const arguments &p, const corner &first, int keys)
{
    return p.threshold == 0 && p.scale > 0 && is_whole(p, first, keys);
}

/* Dropout: what is left times `scale`. */
template <bool BY_KEYS, int N>
STNI_DEVICE void drop(const arguments &p, const place &at, const corner &first, float scale, product (&of)[N])
{
    const uint32_t left =
        bits_of<BY_KEYS, N, 1>([&](int i, int j) { return kept(p, at, first.i + i, first.j + j) != 0; });
    for_numbers<N>([&](int row, int n, int half, int i) {
        of[n].v[half][i] = is_set<N>(left, row, n, half, i) ? of[n].v[half][i] * scale : 0;
    });
}

/* Dropout's factor, where probabilities are rounded without it. */
STNI_DEVICE float scale_of_kept(const arguments &p)
{
    return p.threshold != 0 ? (float)p.kept_scale : 1;
}

}

#endif
