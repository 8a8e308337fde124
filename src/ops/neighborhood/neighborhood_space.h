/* Counts of what the CPU's kernels of neighborhood attention hold: for the kernels, and for how many bytes they ask.
 *
 * A vector has a lane for each of LANES targets that lie next to each other in the last dim, whose neighbors then lie
 * next to each other too. So sources are copied into planes: rows along the last dim, one for each element c of each
 * position of the other dims, with LANES more places at both ends, where lanes beyond an end read zeros.
 *
 *     plane[row][c][LANES + x]        tile[c][lane]        score[tap][lane]
 *
 * A tap is a source relative to the first lane: its row, and how far it lies along that. Where lanes have different
 * windows the taps are those of all of them, and `valid` says which a lane has. */
#ifndef STNI_OPS_NEIGHBORHOOD_NEIGHBORHOOD_SPACE_H
#define STNI_OPS_NEIGHBORHOOD_NEIGHBORHOOD_SPACE_H

#include "ops/neighborhood/neighborhood_kernel.h"

enum { STNI_NEIGHBORHOOD_LANE_BYTES = 64, STNI_NEIGHBORHOOD_TOGETHER = 6 };

struct stni_neighborhood_counts {
    int64_t lanes;
    int64_t rows, width; /* of a plane */
    int64_t along, taps; /* at most: multiples of the dilation along the last dim, sources of a tile */
    int64_t planes;      /* heads that are held together */
};

/* Sources of one target along a dim: a window, or the queries of a key, which are more where windows are moved. */
static inline int64_t stni_neighborhood_most_taps(const struct stni_neighborhood_dim *dim)
{
    const int64_t line = (dim->n + dim->dilation - 1) / dim->dilation;
    return stni_neighborhood_least(2 * dim->kernel - 1, line);
}

/* `size`: bytes of an element that is computed in. */
static inline struct stni_neighborhood_counts stni_neighborhood_counts(const struct stni_neighborhood_args *p,
                                                                       size_t size)
{
    struct stni_neighborhood_counts c = {.lanes = STNI_NEIGHBORHOOD_LANE_BYTES / (int64_t)size, .rows = 1};
    c.along = 2 * p->dim[2].kernel - 1; /* from kernel - 1 before to as many behind, whatever the lane */
    c.taps = c.along;
    for (int d = 0; d < 2; d++) {
        c.rows *= stni_range_length(p->source[d]);
        c.taps *= stni_neighborhood_most_taps(&p->dim[d]);
    }
    c.width = stni_range_length(p->source[2]) + 2 * c.lanes;
    c.planes = p->of_keys ? stni_neighborhood_least(p->group, p->heads) : 1;
    return c;
}

/* Scores are written for whole groups of taps. */
static inline int64_t stni_neighborhood_scores(const struct stni_neighborhood_counts *c)
{
    return (c->taps + STNI_NEIGHBORHOOD_TOGETHER - 1) * c->lanes;
}

struct stni_neighborhood_tap {
    int64_t row, along;
    int64_t valid; /* which of the multiples along the last dim */
};

#endif
