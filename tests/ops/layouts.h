/* Tensors in drawn layouts with given elements, and back: for tests that run an op on every layout and compare with
 * a plain loop. */
#ifndef SHARDTENSOR_TESTS_OPS_LAYOUTS_H
#define SHARDTENSOR_TESTS_OPS_LAYOUTS_H

#include "ops/elements.h"

#include <shardtensor/shardtensor.h>

enum { LAYOUT_MAX_ELEMENTS = 4096 };

/** Elements of a whole tensor, row-major. */
struct elements {
    stn_dtype dtype;
    int ndim;
    int64_t shape[STN_MAX_NDIM], n;
    double _Complex v[LAYOUT_MAX_ELEMENTS];
};

/** Small whole numbers, the same on every rank that has drawn as often. */
void elements_draw(struct elements *e, stn_dtype dtype, int ndim, const int64_t *shape, uint64_t *seed);

/** The same ones each time; with `below` the numbers from 0 on up to that, in steps of 7: indices. */
struct elements elements_drawn(stn_dtype dtype, int ndim, const int64_t *shape, int64_t below);

/** A spec on `mesh` with drawn placements (Partial(sum) only where the dtype is differentiable), half of them with
 * drawn sizes, empty ones among them; axes in a drawn order, and now and then dims in memory too. The caller owns
 * it. */
const stn_spec *layout_draw(stn_context *context, const stn_mesh *mesh, const struct elements *e, uint64_t *seed);

/** The tensor of these elements in a layout. Where it is Partial(sum), every rank along the axis holds a part other
 * than zero. */
stn_tensor *layout_tensor(stn_context *context, const stn_spec *spec, const struct elements *e);

/** Draws a layout and makes the tensor. */
stn_tensor *layout_tensor_drawn(stn_context *context, const stn_mesh *mesh, const struct elements *e, uint64_t *seed);

/** The tensor of these elements, placed so (balanced cuts). */
stn_tensor *layout_tensor_placed(stn_context *context, const stn_mesh *mesh, const struct elements *e,
                                 const stn_placement *placements);

/** The whole tensor, reduced, on every rank. Checks that it has `shape` and `dtype` of what is in `e` before and that
 * the elements are equal. */
void layout_check(stn_tensor *tensor, const struct elements *e, const char *what);

#endif
