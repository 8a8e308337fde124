/* Which layouts the inputs of a case take on a mesh: every combination of placements, or some drawn from a seed; and
 * uneven cuts. Pure functions of their arguments, so that a configuration can be repeated from its number. */
#ifndef CONFORM_LAYOUTS_H
#define CONFORM_LAYOUTS_H

#include "rng.h"

#include <shardtensor/spec.h>

#include <stddef.h>

enum { GRID_MAX_RANKS = 64 };

/** The shape of a mesh. */
struct grid {
    int ndim;
    int sizes[STN_MAX_MESH_NDIM];
    int ranks; /* their product, at most GRID_MAX_RANKS */
};

/** What matters of an input. */
struct subject {
    stn_dtype dtype;
    int ndim;
    const int64_t *shape;
};

struct layout {
    stn_placement placement[STN_MAX_MESH_NDIM];
    int axis_order[STN_MAX_MESH_NDIM]; /* major first */
    int memory_order[STN_MAX_NDIM];    /* slowest first */
    int n_pieces[STN_MAX_NDIM];        /* 0: balanced, or not sharded */
    int64_t sizes[STN_MAX_NDIM][GRID_MAX_RANKS];
};

/** How many combinations of Replicate, Shard(d) and, where differentiable, Partial(sum) there are for all inputs
 * together, a mesh axis of size 1 allowing Replicate alone; INT64_MAX where there are more than that. */
int64_t layouts_count(const struct grid *grid, int n, const struct subject *subjects);

/** Combination `index` of them, with balanced cuts; 0 <= index < layouts_count. */
void layouts_nth(const struct grid *grid, int n, const struct subject *subjects, int64_t index, struct layout *layouts);

/** Draws `most` < count distinct indices, in rising order. */
void layouts_draw(int64_t count, int64_t most, uint64_t seed, int64_t *indices);

/** Draws uneven cuts for every sharded dim, empty pieces among them; now and then equal sizes of several inputs share
 * a cut, axes that shard the same dim change places, and dims change places in memory. */
void layouts_cut(const struct grid *grid, int n, const struct subject *subjects, uint64_t seed, struct layout *layouts);

/** Writes such as "S(0)[3 0 2],R" as snprintf does. */
int layout_describe(const struct grid *grid, const struct layout *layout, int ndim, char *text, size_t size);

#endif
