/* Sums in f64 of what the elements of a few operands give, over some dims, for each index of the others: a target.
 *
 * Teams add up parts of the elements of their targets, then the parts are added. How many parts there are depends on
 * the shape alone, and so does the order of all additions: results are the same in every run and on every device. */
#ifndef STNI_CORE_DEVICE_CUDA_SUMS_CUH
#define STNI_CORE_DEVICE_CUDA_SUMS_CUH

#include "core/base/inline.h"
#include "core/device/cuda/index.cuh"
#include "core/device/cuda/parts.cuh"
#include "core/device/cuda/teams.cuh"

namespace {

template <int SIDES> struct summation {
    operands<SIDES> kept, summed; /* targets; elements of each */
    teams team;
    parts part;
};

/* After the dims: `across` says whether targets lie closer in memory than the elements of one. */
template <int SIDES> inline void end_sums(summation<SIDES> &s, bool across)
{
    end_dims(s.kept);
    end_dims(s.summed);
    s.team = teams_of(s.summed.count, s.kept.count, across);
    s.part = parts_of(s.summed.count, s.team.rows, blocks_for(s.kept.count, teams_count(s.team)));
}

/* Bytes of workspace for sums of `planes` numbers. */
template <int SIDES> inline size_t sums_bytes(const summation<SIDES> &s, int planes)
{
    return s.part.count > 1 ? (size_t)(s.part.count * planes * s.kept.count) * sizeof(double) : 0;
}

template <int PLANES> struct sums {
    double v[PLANES];
};

/* Part y of the grid's targets: to[(y PLANES + plane) targets + target]. TERMS is a struct with a type `target` and
 *   target begin(const int64_t *at) const                           what the elements of the target at these offsets
 * need
 *   void add(const target &, const int64_t *at, double *sum) const  adds what an element gives; its offsets are
 * relative to the target's */
template <int PLANES, int SIDES, class TERMS>
__global__ void __launch_bounds__(TEAMS_THREADS)
    add_elements(const __grid_constant__ summation<SIDES> s, const __grid_constant__ TERMS terms, double *to)
{
    STNI_SHARED(sums<PLANES>, shared, TEAMS_THREADS);
    const seat me = seat_of(s.team);
    const int64_t target = (int64_t)blockIdx.x * teams_count(s.team) + me.team, part = blockIdx.y;
    const int64_t first = part * s.part.each;
    const int64_t n = target < s.kept.count ? part_end(s.part, s.summed.count, part) - first : 0;
    sums<PLANES> sum = {};
    int64_t at[SIDES];
    if (n > 0) {
        any_offsets_of(s.kept, target, at);
        const typename TERMS::target of = terms.begin(at);
        for (int64_t i = me.row; i < n; i += s.team.rows) {
            any_offsets_of(s.summed, first + i, at);
            terms.add(of, at, sum.v);
        }
    }
    sum = reduce_team(shared, s.team, me, sum, [](sums<PLANES> a, const sums<PLANES> &b) {
        for (int p = 0; p < PLANES; p++)
            a.v[p] += b.v[p];
        return a;
    });
    for (int p = 0; p < PLANES && me.row == 0 && target < s.kept.count; p++)
        to[(part * PLANES + p) * s.kept.count + target] = sum.v[p];
}

/* What parts gave. */
struct partial_sums {
    typedef const double *target;
    const double *from;

    STNI_ANY_DEVICE target begin(const int64_t *at) const { return from + at[0]; }
    STNI_ANY_DEVICE void add(target of, const int64_t *at, double *sum) const { sum[0] += of[at[0]]; }
};

template <int PLANES, int SIDES, class TERMS>
inline void launch_parts(const summation<SIDES> &s, const TERMS &terms, double *to, cudaStream_t stream)
{
    const dim3 grid(blocks_for(s.kept.count, teams_count(s.team)), (unsigned)s.part.count);
    STNI_LAUNCH((add_elements<PLANES, SIDES, TERMS>), grid, TEAMS_THREADS, stream, s, terms, to);
}

/* to[i] = the sum of from[part n + i] over the parts. */
inline void join_parts(const double *from, int64_t count, int64_t n, double *to, cudaStream_t stream)
{
    summation<1> again = {no_dims<1>(), no_dims<1>(), {}, {}};
    add_dim(again.kept, n, {1});
    add_dim(again.summed, count, {n});
    end_sums(again, true);
    again.part = {1, count};
    launch_parts<1>(again, partial_sums{from}, to, stream);
}

/* to[plane targets + target] = the sums. `workspace` has as many bytes as sums_bytes says. */
template <int PLANES, int SIDES, class TERMS>
inline void launch_sums(const summation<SIDES> &s, const TERMS &terms, double *to, void *workspace, cudaStream_t stream)
{
    double *const parts = static_cast<double *>(workspace);
    if (s.kept.count == 0)
        return;
    if (s.part.count == 1)
        return launch_parts<PLANES>(s, terms, to, stream);
    launch_parts<PLANES>(s, terms, parts, stream);
    join_parts(parts, s.part.count, PLANES * s.kept.count, to, stream);
}

}

#endif
