/* Tiles of targets, and the sources that they have. A part of neighborhood_cpu.c. */
#ifndef STNI_OPS_NEIGHBORHOOD_NEIGHBORHOOD_TILE_H
#define STNI_OPS_NEIGHBORHOOD_NEIGHBORHOOD_TILE_H

#include "core/base/dtype.h"
#include "ops/cpu/math.h"
#include "ops/cpu/tile.h"
#include "ops/cpu/widen.h"
#include "ops/neighborhood/neighborhood_space.h"

#include <string.h>
#include <tgmath.h>

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif
enum { TOGETHER = STNI_NEIGHBORHOOD_TOGETHER, MOST_LANES = STNI_NEIGHBORHOOD_LANE_BYTES / sizeof(float) };
enum { VECTORS = STNI_NEIGHBORHOOD_LANE_BYTES / VECTOR_BYTES }; /* of a number of each lane */

/* Up to LANES targets next to each other in the last dim. Lanes behind the last target go as that one does. */
struct tile {
    int64_t at[3]; /* of the first lane */
    int64_t n;     /* targets */
    int64_t first, along; /* multiples of the dilation, along the last dim, that some lane has: the first, how many */
    int64_t from[MOST_LANES], to[MOST_LANES]; /* those of each lane, inclusive */
    int is_whole;                             /* all lanes have all taps */
    int64_t n_taps;
    struct stni_neighborhood_tap *taps;
};

/* An array of the workspace. */
static void *take(char **space, int64_t elements, size_t size)
{
    char *at = *space;
    *space += ((size_t)elements * size + STNI_NEIGHBORHOOD_LANE_BYTES - 1) / STNI_NEIGHBORHOOD_LANE_BYTES *
              STNI_NEIGHBORHOOD_LANE_BYTES;
    return at;
}

static struct stni_neighbors neighbors(const struct stni_neighborhood_args *p, int d, int64_t at)
{
    return p->of_keys ? stni_neighborhood_queries(&p->dim[d], at) : stni_neighborhood_keys(&p->dim[d], at);
}

/* What each lane has along the last dim, relative to itself. */
static void open_lanes(const struct stni_neighborhood_args *p, int64_t lanes, struct tile *t)
{
    const int64_t step = p->dim[2].dilation;
    int64_t last = 0;
    t->is_whole = 1;
    for (int64_t l = 0; l < lanes; l++) {
        const int64_t x = t->at[2] + l;
        if (l < t->n) {
            const struct stni_neighbors own = neighbors(p, 2, x);
            t->from[l] = (own.first - x) / step; /* exact */
            t->to[l] = t->from[l] + own.count - 1;
        } else {
            t->from[l] = t->from[l - 1], t->to[l] = t->to[l - 1];
        }
        t->first = l == 0 ? t->from[l] : stni_neighborhood_least(t->first, t->from[l]);
        last = l == 0 ? t->to[l] : stni_neighborhood_most(last, t->to[l]);
        t->is_whole &= t->from[l] == t->from[0] && t->to[l] == t->to[0];
    }
    t->along = last - t->first + 1;
}

static void open_tile(const struct stni_neighborhood_args *p, int64_t lanes, struct tile *t)
{
    const struct stni_neighbors z = neighbors(p, 0, t->at[0]), y = neighbors(p, 1, t->at[1]);
    const int64_t rows = stni_range_length(p->source[1]);
    struct stni_neighborhood_tap *tap = t->taps;
    open_lanes(p, lanes, t);
    for (int64_t a = 0; a < z.count; a++)
        for (int64_t b = 0; b < y.count; b++) {
            const int64_t row = (z.first + a * p->dim[0].dilation - p->source[0].begin) * rows + y.first +
                                b * p->dim[1].dilation - p->source[1].begin;
            for (int64_t k = 0; k < t->along; k++)
                *tap++ = (struct stni_neighborhood_tap){
                    row, t->at[2] - p->source[2].begin + (t->first + k) * p->dim[2].dilation, k};
        }
    t->n_taps = tap - t->taps;
}

/* To the next tile of targets; 0 after the last one. A tile before the first one has n = 0. */
static int next_tile(const struct stni_neighborhood_args *p, int64_t lanes, struct tile *t)
{
    int d = 2;
    t->at[2] += t->n;
    if (t->n == 0) {
        for (d = 0; d < 3; d++) {
            t->at[d] = p->target[d].begin;
            if (stni_range_length(p->target[d]) == 0)
                return 0;
        }
    } else if (t->at[2] == p->target[2].end) {
        for (d = 2; d > 0 && t->at[d] == p->target[d].end; d--) {
            t->at[d] = p->target[d].begin;
            t->at[d - 1]++;
        }
        if (t->at[0] == p->target[0].end)
            return 0;
    }
    t->n = stni_neighborhood_least(lanes, p->target[2].end - t->at[2]);
    open_tile(p, lanes, t);
    return 1;
}

/* Where the elements of a tile's first target lie, of a head of an operand that begins at the first target. */
static int64_t offset_of(const struct stni_neighborhood_args *p, const struct stni_neighborhood_operand *o, int64_t b,
                         int64_t h, const struct tile *t)
{
    int64_t at = b * o->batch + h * o->head;
    for (int d = 0; d < 3; d++)
        at += (t->at[d] - p->target[d].begin) * o->space[d];
    return at;
}

#endif
