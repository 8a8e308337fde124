/* Sums as those of sums.cuh whose elements lie in dense runs: a thread reads packs of them, several at once, and finds
 * the offsets once a pack. What serves is decided by shape and strides, and by addresses; so is the order of all
 * additions. */
#ifndef STNI_CORE_DEVICE_CUDA_PIECE_SUMS_CUH
#define STNI_CORE_DEVICE_CUDA_PIECE_SUMS_CUH

#include "core/device/cuda/pack_dims.cuh"
#include "core/device/cuda/rows.cuh"
#include "core/device/cuda/sums.cuh"

namespace {

template <int SIDES> struct piece_summation {
    summation<SIDES> s;     /* its summed dims count packs */
    row_offsets<SIDES> at;  /* of packs, from the target's */
    row_teams team;
};

/* More parts than elements by themselves get, so that the last of them to run are a small share of all. */
enum { PIECES_BLOCKS = 4 * PARTS_BLOCKS };

/* False where the elements of `s` are not such runs; addresses are not looked at. Strides of operands that are of no
 * interest are to be 0. */
template <int SIDES>
inline bool find_piece_sums(const summation<SIDES> &s, uint32_t dense, int64_t size, piece_summation<SIDES> &to)
{
    to.s = s;
    if (s.team.across || s.kept.count == 0 || !begins_in_packs(s.kept, dense, size) ||
        !divide_in_packs(to.s.summed, dense, size) || !find_row_offsets(to.s.summed, to.at))
        return false;
    to.s.team = teams_of(to.s.summed.count, s.kept.count, false);
    to.team = {to.s.team.rows, 0, TEAMS_THREADS, 0};
    const int64_t blocks = blocks_for(s.kept.count, teams_count(to.s.team)), share = PIECES_BLOCKS / PARTS_BLOCKS;
    to.s.part = parts_of(to.s.summed.count, to.s.team.rows, (blocks + share - 1) / share);
    return true;
}

struct plus_each {
    template <int PLANES> STNI_ANY_DEVICE sums<PLANES> operator()(sums<PLANES> a, const sums<PLANES> &b) const
    {
        for (int p = 0; p < PLANES; p++)
            a.v[p] += b.v[p];
        return a;
    }
};

/* As add_elements. TERMS has, besides `target` and `begin`, a type `piece`, the number of pieces to read AT_ONCE, and
 *   piece read(const target &, const int64_t *at) const
 *   void add(const target &, const piece &, double *sum) const  */
template <int PLANES, int SIDES, class TERMS>
__global__ void __launch_bounds__(TEAMS_THREADS)
    add_pieces(const __grid_constant__ piece_summation<SIDES> p, const __grid_constant__ TERMS terms, double *to)
{
    STNI_SHARED(sums<PLANES>, shared, ROW_MOST_WARPS);
    const summation<SIDES> &s = p.s;
    const seat me = seat_of(s.team);
    const int64_t target = (int64_t)blockIdx.x * teams_count(s.team) + me.team, part = blockIdx.y;
    const uint32_t first = (uint32_t)(part * s.part.each), step = (uint32_t)s.team.rows;
    const uint32_t end = target < s.kept.count ? (uint32_t)part_end(s.part, s.summed.count, part) : first;
    sums<PLANES> sum = {};
    int64_t at[SIDES];
    if (first < end) {
        any_offsets_of(s.kept, target, at);
        const typename TERMS::target of = terms.begin(at);
        for (uint32_t i = first + (uint32_t)me.row; i < end; i += TERMS::AT_ONCE * step) {
            typename TERMS::piece read[TERMS::AT_ONCE];
            STNI_UNROLL
            for (uint32_t u = 0; u < TERMS::AT_ONCE; u++)
                if (i + u * step < end) {
                    for (int k = 0; k < SIDES; k++)
                        at[k] = row_offset(p.at, k, i + u * step);
                    read[u] = terms.read(of, at);
                }
            STNI_UNROLL
            for (uint32_t u = 0; u < TERMS::AT_ONCE; u++)
                if (i + u * step < end)
                    terms.add(of, read[u], sum.v);
        }
    }
    sum = reduce_row(shared, p.team, sum, plus_each());
    for (int k = 0; k < PLANES && me.row == 0 && target < s.kept.count; k++)
        to[(part * PLANES + k) * s.kept.count + target] = sum.v[k];
}

/* As launch_sums. */
template <int PLANES, int SIDES, class TERMS>
inline void launch_piece_sums(const piece_summation<SIDES> &p, const TERMS &terms, double *to, void *workspace,
                              cudaStream_t stream)
{
    const int64_t targets = p.s.kept.count, parts = p.s.part.count;
    double *const found = parts > 1 ? static_cast<double *>(workspace) : to;
    const dim3 grid(blocks_for(targets, teams_count(p.s.team)), (unsigned)parts);
    STNI_LAUNCH((add_pieces<PLANES, SIDES, TERMS>), grid, TEAMS_THREADS, stream, p, terms, found);
    if (parts > 1)
        join_parts(found, parts, PLANES * targets, to, stream);
}

}

#endif
