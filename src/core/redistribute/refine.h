/* Intermediate layouts: finer splits of a layout, in which reductions are done before the result is gathered. */
#ifndef STNI_CORE_REDISTRIBUTE_REFINE_H
#define STNI_CORE_REDISTRIBUTE_REFINE_H

#include "core/redistribute/axis_roles.h"

/* The axis divides each piece of the dim among its ranks: it stands last, as the minor one. */
stn_status stni_layout_cut_further(stn_context *context, struct stni_layout *layout, int axis, int dim);

/* The destination's layout in which each axis along which the same sum would be received several times shards a dim
 * further: every piece lies inside its rank's chunk of the destination. *out is NULL where there is no dim to shard.
 * Not retained. */
stn_status stni_refine(const struct stni_axis_roles *route, const stn_spec **out);

#endif
