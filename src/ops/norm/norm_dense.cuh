/* Normalisations of dense rows on a CUDA device: each statistic is of one row, whose elements lie beside each other,
 * and parameters run along it. A team of threads reads its row, or a part of a long one, in pieces (rows.cuh). */
#ifndef STNI_OPS_NORM_NORM_DENSE_CUH
#define STNI_OPS_NORM_NORM_DENSE_CUH

#include "core/device/cuda/rows.cuh"
#include "ops/norm/norm_sums.cuh"

namespace {

enum { ROW_OPERANDS = NORM_STAT + 1 }; /* those that rows have strides of; parameters have none */

struct dense_rows {
    row_offsets<ROW_OPERANDS> at;
    int64_t rows, n; /* n: elements of a row */
    int64_t parts;   /* of all rows */
    divider of_row;  /* by the parts of a row: one where it can be kept */
    row_teams team;  /* for a part of a row; its pieces are those of a row */
};

/* Whether an operand, where there is one, lies along the elements of a statistic. */
inline bool is_along_rows(const summation<NORM_OPERANDS> &s, int operand, const void *data)
{
    return !data || s.summed.stride[operand][0] == 1;
}

/* False where rows are not dense, of more than two dims, or too long or too many for 32-bit indices. */
inline bool find_dense_rows(const stni_norm_args &a, dense_rows &to)
{
    if (a.empty || !a.along || a.per_group != 1)
        return false;
    const summation<NORM_OPERANDS> s = summation_by(a, NORM_STAT);
    to.rows = s.kept.count;
    to.n = s.summed.count;
    return s.summed.ndim == 1 && find_row_offsets(s.kept, to.at) && is_small_count(to.n + ROW_MOST) &&
           is_small_count(to.rows * (to.n / ROW_MOST + 1)) && is_along_rows(s, NORM_X, a.x) &&
           is_along_rows(s, NORM_Y, a.y) && is_along_rows(s, NORM_OUT, a.out) &&
           is_along_rows(s, NORM_WEIGHT, a.weight) && is_along_rows(s, NORM_PARAM, a.bias);
}

/* Elements of f64 are wide enough by themselves. */
template <class S> struct widest {
    typedef pack<S> type;
};
template <> struct widest<double> {
    typedef single<double> type;
};
template <class S> using widest_piece = typename widest<S>::type;

/* Whether every row and every parameter begins and ends where a pack does. */
template <class S> bool has_packs(const stni_norm_args &a, const dense_rows &d)
{
    bool packs = d.n % pack<S>::SIZE == 0 && is_pack_aligned((uintptr_t)a.x | (uintptr_t)a.y | (uintptr_t)a.out |
                                                             (uintptr_t)a.weight | (uintptr_t)a.bias);
    for (int k = NORM_X; k <= NORM_OUT; k++)
        packs = packs && d.at.stride[k][0] % pack<S>::SIZE == 0 && d.at.stride[k][1] % pack<S>::SIZE == 0;
    return packs;
}

template <class P> void divide_rows(dense_rows &d)
{
    const int64_t of_row = (d.n + ROW_MOST - 1) / ROW_MOST;
    d.team = row_teams_of<P>(d.n);
    d.of_row = divider_of(of_row);
    d.parts = d.rows * of_row;
}

inline unsigned blocks_of_rows(const dense_rows &d)
{
    return blocks_for(d.parts, rows_of_block(d.team));
}

/* A thread's row and its share of it. */
struct row_place {
    uint32_t row;
    row_share share;
    bool is_row; /* else the thread has none */
};

template <class P> STNI_DEVICE row_place row_place_of(const dense_rows &d)
{
    const int64_t part = row_of_thread(d.team);
    row_place place;
    place.is_row = part < d.parts;
    const uint32_t i = place.is_row ? (uint32_t)part : 0, row = divide(i, d.of_row);
    const int begin = (int)(i - row * d.of_row.divisor) * (ROW_MOST / P::SIZE), end = begin + ROW_MOST / P::SIZE;
    place.row = row;
    place.share = row_share_of(d.team, begin, !place.is_row ? 0 : end < d.team.pieces ? end : d.team.pieces);
    return place;
}

struct row_sums {
    double first, second;
};

struct plus_sums {
    STNI_ANY_DEVICE row_sums operator()(row_sums p, row_sums v) const
    {
        return {p.first + v.first, p.second + v.second};
    }
};

/* Of the row's first element, or of its statistic. */
STNI_DEVICE int64_t row_at(const dense_rows &d, const row_place &place, int operand)
{
    return row_offset(d.at, operand, place.row);
}

/* The elements of piece i of a parameter, or what stands for each where there is none. */
template <class P, class S, class A>
STNI_DEVICE void read_parameter(const S *parameter, int i, A none, A (&to)[P::SIZE])
{
    if (parameter) {
        const P piece = reinterpret_cast<const P *>(parameter)[i]; /* by one instruction */
        load_pack(piece, to);
    } else {
        STNI_UNROLL
        for (int k = 0; k < P::SIZE; k++)
            to[k] = none;
    }
}

}

#endif
