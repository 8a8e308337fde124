/* What pad, pad_sphere and their adjoints share. */
#ifndef STNI_OPS_PAD_PAD_H
#define STNI_OPS_PAD_PAD_H

#include "ops/common/call.h"
#include "ops/exchange/remap.h"

enum stni_pad_mode { STNI_PAD_CONSTANT, STNI_PAD_REFLECT, STNI_PAD_REPLICATE, STNI_PAD_CIRCULAR };

struct stni_pad_attrs {
    stn_ints pad; /* below and above the last dim, the one before, … */
    int64_t mode;
    stn_number value;
};

/* The map from an input of this shape to the padded tensor, whose shape is written. Dims have their core as segment
 * 0. Fails through the call. */
stn_status stni_pad_map(const stn_op_call *call, int ndim, const int64_t *shape, struct stni_remap *map,
                        int64_t *padded);

/* The specs of a call whose output has this shape: the input's layout, in which reductions stay pending whose bit is in
 * `pending`, and cuts of padded dims in proportion. */
stn_status stni_pad_specs(stn_op_call *call, const int64_t *shape, uint32_t pending);

/* Calls an op that adds up what margins repeat: many 16-bit elements in f32. */
stn_tensor *stni_pad_sums(enum stni_op_index adjoint, stn_tensor *grad, const void *attrs);

#endif
