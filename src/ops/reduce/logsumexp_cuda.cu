/* logsumexp on CUDA devices, over any dims and strides, in one pass: a thread keeps the largest of its elements and the
 * sum of exp(x - largest), threads of a result join what they found, and of few results each gets several blocks, as
 * sums do (reduce_launch.cuh). Dense runs are read in packs, of which each scales the sum at most once. */
#include "core/device/cuda/dispatch.cuh"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/kernel.cuh"
#include "core/device/cuda/pack_dims.cuh"
#include "core/device/cuda/packs.cuh"
#include "core/device/cuda/parts.cuh"
#include "core/device/cuda/rows.cuh"
#include "core/device/cuda/teams.cuh"
#include "ops/cpu/math.cuh"
#include "ops/reduce/logsumexp_kernel.h"
#include "ops/reduce/reduce_dims.cuh"

namespace {

/* Of some elements: the largest, and the sum of exp(x - largest). */
template <class A> struct pair {
    A largest;
    double sum;
};

/* Equal numbers need no exp, which would make NaN of infinities. */
template <class A> STNI_DEVICE A term(A x, A largest)
{
    return x == largest ? A(1) : exp_negative_of(x - largest);
}

template <class A> STNI_DEVICE pair<A> nothing()
{
    return {-(A)INFINITY, 0};
}

template <class A> STNI_DEVICE pair<A> with_element(pair<A> p, A x)
{
    if (x > p.largest)
        return {x, p.sum * (double)term(p.largest, x) + 1};
    return {p.largest, p.sum + (double)term(x, p.largest)};
}

/* The same of all elements of a pack. */
template <class S, class A> STNI_DEVICE pair<A> with_pack(pair<A> p, const pack<S> &in)
{
    A x[pack<S>::SIZE], largest = p.largest;
    load_pack(in, x);
    STNI_UNROLL
    for (int k = 0; k < pack<S>::SIZE; k++)
        largest = x[k] > largest ? x[k] : largest;
    if (largest > p.largest)
        p = {largest, p.sum * (double)term(p.largest, largest)};
    STNI_UNROLL
    for (int k = 0; k < pack<S>::SIZE; k++)
        p.sum += (double)term(x[k], largest);
    return p;
}

template <class A> STNI_DEVICE pair<A> joined(pair<A> p, pair<A> v)
{
    const A largest = v.largest > p.largest ? v.largest : p.largest;
    return {largest, p.sum * (double)term(p.largest, largest) + v.sum * (double)term(v.largest, largest)};
}

struct reduction {
    operands<SIDES> kept;
    operands<1> reduced; /* of packs, where these are read */
    row_offsets<1> at;   /* then */
    bool in_packs;
    teams team;
    parts part;
    const void *in;
    void *out, *found;     /* found: pairs of the parts, where there are several, those of one part after those of another */
    double *largest, *sum; /* where results become parts of those of all ranks; else NULL */
};

template <class A> STNI_DEVICE void give(const reduction &g, int64_t at, pair<A> p)
{
    if (g.largest) {
        g.largest[at] = (double)p.largest;
        g.sum[at] = p.sum;
    } else {
        static_cast<A *>(g.out)[at] = p.largest + log_of((A)p.sum);
    }
}

/* What a part of a result's elements gave. */
template <class A> STNI_DEVICE void give_part(const reduction &g, int64_t result, int64_t at, pair<A> p)
{
    if (g.part.count > 1)
        static_cast<pair<A> *>(g.found)[blockIdx.y * g.kept.count + result] = p;
    else
        give(g, at, p);
}

/* A team each part of a result's elements. */
template <class S> __global__ void __launch_bounds__(TEAMS_THREADS) take_pairs(const __grid_constant__ reduction g)
{
    typedef typename computed<S>::type A;
    STNI_SHARED(pair<A>, shared, TEAMS_THREADS);
    const seat me = seat_of(g.team);
    const int64_t result = (int64_t)blockIdx.x * teams_count(g.team) + me.team, first = blockIdx.y * g.part.each;
    const bool is_result = result < g.kept.count;
    int64_t at[SIDES] = {0, 0}, step[1];
    pair<A> p = nothing<A>();
    if (is_result) {
        any_offsets_of(g.kept, result, at);
        const int64_t end = part_end(g.part, g.reduced.count, blockIdx.y);
        for (int64_t i = first + me.row; i < end; i += g.team.rows) {
            any_offsets_of(g.reduced, i, step);
            p = with_element(p, (A)load(static_cast<const S *>(g.in)[at[IN] + step[0]]));
        }
    }
    p = reduce_team(shared, g.team, me, p, [](pair<A> a, pair<A> b) { return joined(a, b); });
    if (is_result && me.row == 0)
        give_part(g, result, at[RESULT], p);
}

enum { PACKS_AT_ONCE = 4 };

/* The same, of results whose elements lie in runs of packs. */
template <class S> __global__ void __launch_bounds__(TEAMS_THREADS) take_packs(const __grid_constant__ reduction g)
{
    typedef typename computed<S>::type A;
    STNI_SHARED(pair<A>, shared, TEAMS_THREADS);
    const seat me = seat_of(g.team);
    const int64_t result = (int64_t)blockIdx.x * teams_count(g.team) + me.team;
    const uint32_t first = (uint32_t)(blockIdx.y * g.part.each), step = (uint32_t)g.team.rows;
    const bool is_result = result < g.kept.count;
    const uint32_t end = is_result ? (uint32_t)part_end(g.part, g.reduced.count, blockIdx.y) : first;
    int64_t at[SIDES] = {0, 0};
    pair<A> p = nothing<A>();
    if (is_result)
        any_offsets_of(g.kept, result, at);
    const S *const from = static_cast<const S *>(g.in) + at[IN];
    for (uint32_t i = first + (uint32_t)me.row; i < end; i += PACKS_AT_ONCE * step) {
        pack<S> in[PACKS_AT_ONCE];
        STNI_UNROLL
        for (uint32_t u = 0; u < PACKS_AT_ONCE; u++)
            if (i + u * step < end)
                in[u] = *reinterpret_cast<const pack<S> *>(from + row_offset(g.at, 0, i + u * step));
        STNI_KEEP_LOOP
        for (uint32_t u = 0; u < PACKS_AT_ONCE && i + u * step < end; u++) {
            p = with_pack(p, in[0]);
            STNI_UNROLL
            for (int k = 1; k < PACKS_AT_ONCE; k++)
                in[k - 1] = in[k];
        }
    }
    p = reduce_team(shared, g.team, me, p, [](pair<A> a, pair<A> b) { return joined(a, b); });
    if (is_result && me.row == 0)
        give_part(g, result, at[RESULT], p);
}

/* A block each result. */
template <class A> __global__ void __launch_bounds__(TEAMS_THREADS) join_parts(const __grid_constant__ reduction g)
{
    STNI_SHARED(pair<A>, shared, TEAMS_THREADS);
    const teams all = {TEAMS_THREADS, false};
    const seat me = seat_of(all);
    const pair<A> *found = static_cast<const pair<A> *>(g.found) + blockIdx.x;
    int64_t at[SIDES];
    pair<A> p = nothing<A>();
    for (int64_t i = me.row; i < g.part.count; i += TEAMS_THREADS)
        p = joined(p, found[i * g.kept.count]);
    p = reduce_team(shared, all, me, p, [](pair<A> a, pair<A> b) { return joined(a, b); });
    if (me.row > 0)
        return;
    any_offsets_of(g.kept, (int64_t)blockIdx.x, at);
    give(g, at[RESULT], p);
}

__global__ void __launch_bounds__(TEAMS_THREADS) scale(const __grid_constant__ stni_logsumexp_args a)
{
    const int64_t i = (int64_t)blockIdx.x * TEAMS_THREADS + threadIdx.x;
    if (i < a.count)
        a.sum[i] = stni_logsumexp_about(a.sum[i], a.largest[i], a.max[i]);
}

template <class A>
__global__ void __launch_bounds__(TEAMS_THREADS) finish(const __grid_constant__ stni_logsumexp_args a)
{
    const int64_t i = (int64_t)blockIdx.x * TEAMS_THREADS + threadIdx.x;
    if (i < a.count)
        static_cast<A *>(a.of.out)[i] = (A)(a.max[i] + log_of(a.sum[i]));
}

/* Whether elements lie in runs of packs; then `reduced` counts these. Those of f64 are wide enough by themselves. */
bool find_packs(const stni_reduce_args &a, reduction &g)
{
    const uint32_t dense = 1 << IN;
    static_assert(IN == 0, "reduced dims have the strides of `in` alone");
    const int64_t size = a.in_dtype == STN_DTYPE_F32 ? 4 : 8;
    operands<1> packs = g.reduced;
    if (a.in_dtype == STN_DTYPE_F64 || !is_pack_aligned((uintptr_t)a.in) || !begins_in_packs(g.kept, dense, size) ||
        !divide_in_packs(packs, dense, size) || !find_row_offsets(packs, g.at))
        return false;
    g.reduced = packs;
    return true;
}

reduction reduction_of(const stni_logsumexp_args &args)
{
    const stni_reduce_args &a = args.of;
    const int kept = a.n_kept - 1, reduced = a.n_reduced - 1;
    reduction g = {};
    reduce_dims(a, g.kept, g.reduced);
    const bool across = kept >= 0 && (reduced < 0 || a.kept_in[kept] < a.reduced_in[reduced]);
    g.in_packs = !across && find_packs(a, g);
    g.team = teams_of(g.reduced.count, g.kept.count, across);
    g.part = parts_of(g.reduced.count, g.team.rows, blocks_for(g.kept.count, teams_count(g.team)));
    g.in = a.in;
    g.out = a.out;
    g.found = a.workspace;
    g.largest = args.largest;
    g.sum = args.sum;
    return g;
}

/* Room for pairs of f64. */
size_t pairs_workspace(stn_queue *, const void *args)
{
    const reduction g = reduction_of(*static_cast<const stni_logsumexp_args *>(args));
    return g.part.count > 1 ? (size_t)(g.part.count * g.kept.count) * sizeof(pair<double>) : 0;
}

void launch_pairs(const stni_logsumexp_args &args, cudaStream_t stream)
{
    const reduction g = reduction_of(args);
    const dim3 grid(blocks_for(g.kept.count, teams_count(g.team)), (unsigned)g.part.count);
    dispatch_floating(args.of.in_dtype, [&](auto element) {
        typedef decltype(element) S;
        if constexpr (sizeof(S) < 8) {
            if (g.in_packs)
                STNI_LAUNCH(take_packs<S>, grid, TEAMS_THREADS, stream, g);
        }
        if (!g.in_packs)
            STNI_LAUNCH(take_pairs<S>, grid, TEAMS_THREADS, stream, g);
        if (g.part.count > 1)
            STNI_LAUNCH(join_parts<typename computed<S>::type>, grid_of(g.kept.count), TEAMS_THREADS, stream, g);
    });
}

void launch_scale(const stni_logsumexp_args &args, cudaStream_t stream)
{
    STNI_LAUNCH(scale, blocks_for(args.count, TEAMS_THREADS), TEAMS_THREADS, stream, args);
}

void launch_finish(const stni_logsumexp_args &args, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(args.count, TEAMS_THREADS);
    if (args.of.out_dtype == STN_DTYPE_F64)
        STNI_LAUNCH(finish<double>, blocks, TEAMS_THREADS, stream, args);
    else
        STNI_LAUNCH(finish<float>, blocks, TEAMS_THREADS, stream, args);
}

}

#define PAIRS(slot) STNI_CUDA_KERNEL_WITH(slot, FLOATING_DTYPES, stni_logsumexp_args, launch_pairs, pairs_workspace)
STNI_CUDA_KERNELS(logsumexp) = {
    PAIRS("logsumexp_wide.forward"),
    PAIRS("logsumexp_wide.parts"),
    STNI_CUDA_KERNEL("logsumexp_wide.scale", FLOATING_DTYPES, stni_logsumexp_args, launch_scale),
    STNI_CUDA_KERNEL("logsumexp_wide.finish", FLOATING_DTYPES, stni_logsumexp_args, launch_finish),
    STNI_CUDA_KERNELS_END
};
