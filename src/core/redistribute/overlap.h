/* Finding the ranks of a side whose chunks overlap a box. */
#ifndef STNI_CORE_REDISTRIBUTE_OVERLAP_H
#define STNI_CORE_REDISTRIBUTE_OVERLAP_H

#include "core/redistribute/plan.h"

struct stni_overlap {
    const struct stni_axis_roles_side *side;
    int64_t offset[STN_MAX_NDIM], shape[STN_MAX_NDIM]; /* the box, not empty */
    int pin[STN_MAX_MESH_NDIM]; /* coordinate along wide axis k; -1: whichever the box meets */
    uint32_t each;              /* wide axes along which every coordinate is met */
};

/* Writes a message for each peer (sum of coordinate * side->step) with the part of the box that it holds, as it lies
 * in `frame`. *ordered tells whether peers came in order. `plan` lends memory for entries. */
stn_status stni_overlap_peers(stn_context *context, const struct stni_overlap *walk, const struct stni_frame *frame,
                              struct stni_plan *plan, struct stni_plan_messages *out, int *ordered);

#endif
