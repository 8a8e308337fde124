/* Geometry of windowed ops by global indices (contract 18): which inputs a range of outputs reads, which outputs
 * read a range of inputs, and which elements stand behind positions outside the input. Pure functions: even kernels,
 * any stride, dilation and padding, halos wider than a chunk and wrap-around are all the same case. */
#ifndef STNI_OPS_EXCHANGE_WINDOW_H
#define STNI_OPS_EXCHANGE_WINDOW_H

#include "core/base/inline.h"

#include <stdint.h>

/* How a dim goes on beyond its ends; in the order of stn_padding_mode. */
enum stni_boundary { STNI_BOUNDARY_ZERO, STNI_BOUNDARY_REFLECT, STNI_BOUNDARY_REPLICATE, STNI_BOUNDARY_CIRCULAR };

/* begin <= i < end; empty unless begin < end. */
struct stni_range {
    int64_t begin, end;
};

/* One dim of a windowed op: output o, 0 <= o < n_out, reads positions o * stride - pad + t * dilation, 0 <= t <
 * kernel, of an endless line in which positions 0 … n_in - 1 are the input and the others follow from the boundary. */
struct stni_window {
    int64_t n_in, n_out, kernel, stride, dilation, pad;
    enum stni_boundary boundary;
};

STNI_INLINE struct stni_range stni_range_of(int64_t begin, int64_t end)
{
    struct stni_range range = {begin, end};
    return range;
}

STNI_INLINE int64_t stni_range_length(struct stni_range r)
{
    return r.end > r.begin ? r.end - r.begin : 0;
}

STNI_INLINE struct stni_range stni_range_intersect(struct stni_range a, struct stni_range b)
{
    return stni_range_of(a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end);
}

/* floor(a / b) and ceil(a / b) for b > 0. */
STNI_INLINE int64_t stni_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

STNI_INLINE int64_t stni_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

/* Positions from the first to the last that one output reads. */
STNI_INLINE int64_t stni_window_extent(const struct stni_window *w)
{
    return (w->kernel - 1) * w->dilation + 1;
}

/* From the first to the last position that the outputs read; empty for none. */
struct stni_range stni_window_reads(const struct stni_window *w, struct stni_range outputs);

/* From the first to the last output, of an endless line of them, whose reads span one of the positions; empty where
 * there is none. */
struct stni_range stni_window_readers(const struct stni_window *w, struct stni_range positions);

/* Positions at, at + 1, … are the elements first, first + step, …; step is 1, -1 or 0; `first` -1 stands for zeros. */
struct stni_run {
    int64_t at, length, first;
    int step;
};

/* The longest run that begins at position `at` and ends before `end`. Positions of the input are never in one with
 * others. */
struct stni_run stni_boundary_run(enum stni_boundary boundary, int64_t n, int64_t at, int64_t end);

/* The part of a run whose elements lie in `elements`; of a run of zeros nothing. Its length may be 0. */
struct stni_run stni_run_clip(struct stni_run run, struct stni_range elements);

/* The first element of a run's and the one after its last, in ascending order. */
struct stni_range stni_run_elements(struct stni_run run);

#endif
