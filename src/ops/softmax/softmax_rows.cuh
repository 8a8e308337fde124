/* Softmax, log softmax and their gradients along dense lines on a CUDA device. A team reads its line once and keeps it
 * in registers; a line that is too long for that is read in such shares, once for each step. */
#ifndef STNI_OPS_SOFTMAX_SOFTMAX_ROWS_CUH
#define STNI_OPS_SOFTMAX_SOFTMAX_ROWS_CUH

#include "core/device/cuda/index.cuh"
#include "core/device/cuda/rows.cuh"
#include "ops/cpu/math.cuh"
#include "ops/softmax/softmax_kernel.h"
#include "ops/softmax/softmax_terms.cuh"

namespace {

struct row_arguments {
    row_offsets<SOFTMAX_TENSORS> at;
    int64_t lines;
    row_teams team;
    const void *x, *y;
    void *out;
    int logarithm;
};

template <class S> struct row_pointers {
    const S *x, *y;
    S *out;
};

template <class S> STNI_DEVICE row_pointers<S> row_pointers_of(const row_arguments &a, uint32_t line)
{
    return {static_cast<const S *>(a.x) + row_offset(a.at, SOFTMAX_X, line),
            static_cast<const S *>(a.y) + row_offset(a.at, SOFTMAX_Y, line),
            static_cast<S *>(a.out) + row_offset(a.at, SOFTMAX_OUT, line)};
}

/* NaN never wins: what it is subtracted from becomes NaN without that. */
STNI_DEVICE float larger_of(float p, float v)
{
    return fmaxf(p, v);
}

STNI_DEVICE double larger_of(double p, double v)
{
    return v > p ? v : p;
}

template <class A> struct larger {
    STNI_ANY_DEVICE A operator()(A p, A v) const { return larger_of(p, v); }
};

template <class A> struct plus {
    STNI_ANY_DEVICE A operator()(A p, A v) const { return p + v; }
};

template <class S, class P, class A> STNI_DEVICE A row_largest(const kept_row<S, P> &x, const row_share &share, A max)
{
    STNI_UNROLL
    for (int j = 0; j < x.PIECES; j++)
        if (has_piece(share, j))
            STNI_UNROLL
            for (int k = 0; k < P::SIZE; k++)
                max = larger_of(max, x.v[j][k]);
    return max;
}

template <class S, class P, class A> STNI_DEVICE void add_to_row(kept_row<S, P> &x, A term)
{
    STNI_UNROLL
    for (int j = 0; j < x.PIECES; j++)
        STNI_UNROLL
        for (int k = 0; k < P::SIZE; k++)
            x.v[j][k] += term;
}

template <class S, class P, class A> STNI_DEVICE void multiply_row(kept_row<S, P> &x, A factor)
{
    STNI_UNROLL
    for (int j = 0; j < x.PIECES; j++)
        STNI_UNROLL
        for (int k = 0; k < P::SIZE; k++)
            x.v[j][k] *= factor;
}

/* Leaves in x what is to be scaled: the term of x - max, of the logarithm x - max. */
template <class S, class P, class A>
STNI_DEVICE A row_terms(kept_row<S, P> &x, const row_share &share, int logarithm, A max)
{
    A sum = 0;
    STNI_UNROLL
    for (int j = 0; j < x.PIECES; j++)
        if (has_piece(share, j))
            STNI_UNROLL
            for (int k = 0; k < P::SIZE; k++) {
                const A z = x.v[j][k] - max, e = term_of(S{}, z);
                sum += e;
                x.v[j][k] = logarithm ? z : e;
            }
    return sum;
}

template <class S, class P, class A> STNI_DEVICE void row_scale(kept_row<S, P> &x, int logarithm, A total)
{
    if (logarithm)
        add_to_row(x, -log_of(total * (1 / TERM_UNIT<S>)));
    else
        multiply_row(x, 1 / total);
}

/* Going back: x is the cotangent. */
template <class S, class P>
STNI_DEVICE typename computed<S>::type row_dot(const kept_row<S, P> &x, const kept_row<S, P> &y,
                                               const row_share &share, int logarithm)
{
    typename computed<S>::type sum = 0;
    STNI_UNROLL
    for (int j = 0; j < x.PIECES; j++)
        if (has_piece(share, j))
            STNI_UNROLL
            for (int k = 0; k < P::SIZE; k++)
                sum += logarithm ? x.v[j][k] : x.v[j][k] * y.v[j][k];
    return sum;
}

template <class S, class P, class A>
STNI_DEVICE void row_apply(kept_row<S, P> &x, const kept_row<S, P> &y, const row_share &share, int logarithm, A sum)
{
    STNI_UNROLL
    for (int j = 0; j < x.PIECES; j++)
        if (has_piece(share, j))
            STNI_UNROLL
            for (int k = 0; k < P::SIZE; k++)
                x.v[j][k] = logarithm ? x.v[j][k] - exp_of(y.v[j][k]) * sum : y.v[j][k] * (x.v[j][k] - sum);
}

template <bool BACK, class S, class P>
__global__ void __launch_bounds__(ROW_MOST_THREADS<P>, P::SIZE == 1 ? 1 : BACK ? 2 : 3)
    softmax_kept(const __grid_constant__ row_arguments a)
{
    typedef typename computed<S>::type A;
    STNI_SHARED(A, shared, ROW_MOST_WARPS);
    const int64_t line = row_of_thread(a.team);
    const bool is_line = line < a.lines;
    const row_share share = row_share_of(a.team, 0, is_line ? a.team.pieces : 0);
    const row_pointers<S> row = row_pointers_of<S>(a, is_line ? (uint32_t)line : 0);
    kept_row<S, P> x;
    read_row(x, row.x, share);
    if (BACK) {
        kept_row<S, P> y;
        read_row(y, row.y, share);
        const A sum = reduce_row(shared, a.team, row_dot(x, y, share, a.logarithm), plus<A>());
        row_apply(x, y, share, a.logarithm, sum);
    } else {
        const A max = reduce_row(shared, a.team, row_largest(x, share, -(A)INFINITY), larger<A>());
        row_scale(x, a.logarithm,
                  reduce_row(shared, a.team, row_terms(x, share, a.logarithm, max), plus<A>()));
    }
    write_row(x, row.out, share);
}

/* A block a line, and the line in shares of as much as is kept. */
template <class P> constexpr int LONG_SHARE = ROW_MOST / P::SIZE; /* pieces */

/* The passes over a line; the last one computes the terms again. */
enum { FIND_MAX, ADD_TERMS, WRITE };

template <class S, class P>
__global__ void __launch_bounds__(ROW_MOST_THREADS<P>, 3) softmax_long(const __grid_constant__ row_arguments a)
{
    typedef typename computed<S>::type A;
    STNI_SHARED(A, shared, ROW_MOST_WARPS);
    const row_pointers<S> row = row_pointers_of<S>(a, blockIdx.x);
    const int pieces = a.team.pieces;
    kept_row<S, P> x;
    A max = -(A)INFINITY, total = 0;
    double sum = 0;
    for (int pass = FIND_MAX; pass <= WRITE; pass++) {
        for (int piece = 0; piece < pieces; piece += LONG_SHARE<P>) {
            const row_share share = row_share_of(a.team, piece, pieces);
            read_row(x, row.x, share);
            if (pass == FIND_MAX)
                max = row_largest(x, share, max);
            else
                sum += row_terms(x, share, a.logarithm, max);
            if (pass == WRITE) {
                row_scale(x, a.logarithm, total);
                write_row(x, row.out, share);
            }
        }
        if (pass == FIND_MAX)
            max = reduce_row(shared, a.team, max, larger<A>());
        if (pass == ADD_TERMS)
            total = reduce_row(shared, a.team, (A)sum, plus<A>());
    }
}

template <class S, class P>
__global__ void __launch_bounds__(ROW_MOST_THREADS<P>, 2) softmax_long_backward(const __grid_constant__ row_arguments a)
{
    typedef typename computed<S>::type A;
    STNI_SHARED(A, shared, ROW_MOST_WARPS);
    const row_pointers<S> row = row_pointers_of<S>(a, blockIdx.x);
    const int pieces = a.team.pieces;
    kept_row<S, P> x, y;
    double runs = 0;
    for (int piece = 0; piece < pieces; piece += LONG_SHARE<P>) {
        read_row(x, row.x, row_share_of(a.team, piece, pieces));
        read_row(y, row.y, row_share_of(a.team, piece, pieces));
        runs += row_dot(x, y, row_share_of(a.team, piece, pieces), a.logarithm);
    }
    const A sum = reduce_row(shared, a.team, (A)runs, plus<A>());
    for (int piece = 0; piece < pieces; piece += LONG_SHARE<P>) {
        read_row(x, row.x, row_share_of(a.team, piece, pieces));
        read_row(y, row.y, row_share_of(a.team, piece, pieces));
        row_apply(x, y, row_share_of(a.team, piece, pieces), a.logarithm, sum);
        write_row(x, row.out, row_share_of(a.team, piece, pieces));
    }
}

/* Whether every line of every tensor begins and ends where a pack does. Going forward there is no y, whose strides are
 * then 0. */
template <class S> bool has_packs(const stni_softmax_args &from, const operands<SOFTMAX_TENSORS> &lines)
{
    bool packs = from.lines.n % pack<S>::SIZE == 0 &&
                 is_pack_aligned((uintptr_t)from.x | (uintptr_t)from.y | (uintptr_t)from.out);
    for (int t = 0; t < SOFTMAX_TENSORS; t++)
        for (int d = 0; d < lines.ndim; d++)
            packs = packs && lines.stride[t][d] % pack<S>::SIZE == 0;
    return packs;
}

template <bool BACK, class S, class P>
void launch_kept(row_arguments &a, int64_t n, cudaStream_t stream)
{
    a.team = row_teams_of<P>(n);
    const unsigned blocks = blocks_for(a.lines, rows_of_block(a.team)), threads = (unsigned)a.team.block;
    STNI_LAUNCH((softmax_kept<BACK, S, P>), blocks, threads, stream, a);
}

template <bool BACK, class S> void launch_long(row_arguments &a, int64_t n, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(a.lines, 1);
    a.team = row_teams_of<pack<S>>(n);
    if constexpr (BACK)
        STNI_LAUNCH((softmax_long_backward<S, pack<S>>), blocks, (unsigned)a.team.block, stream, a);
    else
        STNI_LAUNCH((softmax_long<S, pack<S>>), blocks, (unsigned)a.team.block, stream, a);
}

/* False where it does nothing: lines are not dense, or too long to be kept and not in packs, or of many dims. */
template <bool BACK, class S>
bool launch_rows(const stni_softmax_args &from, const operands<SOFTMAX_TENSORS> &lines, cudaStream_t stream)
{
    const int64_t n = from.lines.n, *const step = from.lines.step, most = STNI_SMALL_COUNT - 1 - ROW_MOST;
    row_arguments a = {{}, lines.count, {}, from.x, from.y, from.out, from.logarithm};
    if (step[SOFTMAX_X] != 1 || step[SOFTMAX_OUT] != 1 || (BACK && step[SOFTMAX_Y] != 1) || n > most ||
        !find_row_offsets(lines, a.at))
        return false;
    /* Of f64, single elements are wide enough. */
    if constexpr (sizeof(S) < 8) {
        if (has_packs<S>(from, lines)) {
            n > ROW_MOST ? launch_long<BACK, S>(a, n, stream) : launch_kept<BACK, S, pack<S>>(a, n, stream);
            return true;
        }
    }
    if (n > ROW_MOST)
        return false;
    launch_kept<BACK, S, single<S>>(a, n, stream);
    return true;
}

}

#endif
