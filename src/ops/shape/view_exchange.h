/* The data of a view that cannot be had by strides alone: a local copy, or one exchange that moves the rows that
 * straddle. */
#ifndef STNI_OPS_SHAPE_VIEW_EXCHANGE_H
#define STNI_OPS_SHAPE_VIEW_EXCHANGE_H

#include "core/tensor/tensor.h"
#include "ops/shape/view_layout.h"

/* A box of a group's old dims: `n` entries. */
struct stni_view_box {
    int64_t offset[STN_MAX_NDIM], shape[STN_MAX_NDIM];
};

/* A range of a group's flat index, in boxes of its old dims, as far as they lie in one box of them. */
enum { STNI_VIEW_MAX_BOXES = 2 * STN_MAX_NDIM };
struct stni_view_boxes {
    int n;
    struct stni_view_box box[STNI_VIEW_MAX_BOXES];
};

/* Cuts [begin, end) of the flat index of dims `size` into boxes, in order, and keeps what lies in `within`. Pure. */
void stni_view_boxes_make(int n_dims, const int64_t *size, int64_t begin, int64_t end,
                          const struct stni_view_box *within, struct stni_view_boxes *out);

/* out = in, as a view. No data moves between ranks. Queued. */
stn_status stni_view_copy(const stn_tensor *in, stn_tensor *out, const struct stni_view_groups *groups);

/* out = in, as a view, by one exchange among the ranks that differ along `axes` (stni_view_moves). Collective over
 * them. Queued. */
stn_status stni_view_exchange(const stn_tensor *in, stn_tensor *out, const struct stni_view_groups *groups,
                              uint32_t axes);

#endif
