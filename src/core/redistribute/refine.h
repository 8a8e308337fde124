/* Layouts between: finer cuts of a layout in which reductions meet before they are gathered. */
#ifndef STNI_CORE_REDISTRIBUTE_REFINE_H
#define STNI_CORE_REDISTRIBUTE_REFINE_H

#include "core/redistribute/axis_roles.h"

/* The axis cuts each piece of the dim among its ranks: it stands last, as the minor one. */
stn_status stni_layout_cut_further(stn_context *context, struct stni_layout *layout, int axis, int dim);

/* The destination's layout with each axis along which the same sum would be received several times cutting a dim further: every piece
 * lies inside its rank's chunk of the destination. *out is NULL where there is no dim to cut. Not retained. */
stn_status stni_refine(const struct stni_axis_roles *route, const stn_spec **out);

#endif
