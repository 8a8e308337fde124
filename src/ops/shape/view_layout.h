/* How a view lies over a mesh: pure functions on metadata.
 *
 * The dims of both shapes fall into groups of equal products, so that an index of the old group and one of the new
 * group are the same number, the flat index of the group. A rank's chunk of the new shape is a range of the flat
 * index of each group. */
#ifndef STNI_OPS_SHAPE_VIEW_LAYOUT_H
#define STNI_OPS_SHAPE_VIEW_LAYOUT_H

#include "core/shard/spec.h"

struct stni_view_group {
    int old_first, old_n, new_first, new_n;
    int cut;       /* new dim that gets the group's Shard: the first that is not 1, else the first; -1 where there is none */
    int64_t after; /* product of the group's new dims after it */
};

struct stni_view_groups {
    int n;
    struct stni_view_group group[STN_MAX_NDIM];
};

/* The smallest groups of two shapes with equal, positive numbers of elements. Dims of size 1 belong to what follows
 * them. */
void stni_view_groups_make(int old_ndim, const int64_t *old_shape, int new_ndim, const int64_t *new_shape,
                           struct stni_view_groups *out);

/* Where a view of a tensor lies. */
struct stni_view_place {
    const stn_spec *want; /* what the input has to be: itself unless the new shape has no dim to hold a Shard */
    const stn_spec *out;
    uint32_t moves;       /* mesh axes along which data has to move */
    int keeps_order;      /* a dense chunk of `want` is, as it lies, a dense chunk of `out`, unless data moves */
};

stn_status stni_view_place(const stn_spec *in, int ndim, const int64_t *shape, struct stni_view_place *out);

/* Strides of the view of a chunk where they exist: returns 1 and writes them, else 0. Shapes are local, `groups`
 * those of the whole; no data moves between ranks. */
int stni_view_strides(const struct stni_view_groups *groups, const int64_t *old_shape, const int64_t *old_strides,
                      const int64_t *new_shape, int64_t *new_strides);

/* Product of the dims after `dim`, up to `end`. */
int64_t stni_view_after(const int64_t *shape, int dim, int end);

#endif
