/* From whole tensors to what each rank holds. */
#ifndef CONFORM_PARTS_H
#define CONFORM_PARTS_H

#include "case.h"
#include "layouts.h"

/** The spec of a layout. Local. @return as stn_spec_create; the caller owns one reference to `*out`. */
stn_status parts_spec(stn_context *context, const stn_mesh *mesh, const struct layout *layout, stn_dtype dtype,
                      int ndim, const int64_t *shape, const stn_spec **out);

/** The same layout with Replicate where it is Partial: that of a gradient. */
struct layout parts_gradient_layout(const struct layout *layout);

/** The layout that a spec on a mesh describes, its cuts written out. */
void parts_layout(const stn_spec *spec, struct layout *out);

/** The dual of a spec: Shard and its cuts stay, Partial becomes Replicate, Replicate becomes Partial(sum). */
stn_status parts_dual_spec(stn_context *context, const stn_spec *spec, const stn_spec **out);

/** This rank's chunk of `value` under `spec`, row-major, into `chunk` (local_numel elements). Where the spec is
 * Partial, each element is dealt whole to one rank of the Partial axes and is 0 on the others; then a whole number
 * is added on one and subtracted on another, wherever every sum of some of the parts is exact. */
void parts_fill(const struct value *value, const stn_spec *spec, uint64_t seed, void *chunk);

/** `value` in the layout of `spec`: parts_fill and stn_from_host. */
stn_tensor *parts_tensor(stn_context *context, const struct value *value, const stn_spec *spec, uint64_t seed);

#endif
