/* Cuts of one tensor that follow another's: what ops need whose operands must lie alike in some of their dims. */
#ifndef STNI_OPS_PLACEMENT_SPLITS_H
#define STNI_OPS_PLACEMENT_SPLITS_H

#include "core/tensor/tensor.h"

/* Whether the same axes, at least one, cut a dim of each, in whatever order. */
int stni_splits_match(const struct stni_layout *a, int a_dim, const struct stni_layout *b, int b_dim);

/* For a layout whose placements are set: its dims from `to_dim` on get the cuts of as many dims of `from`, from
 * `from_dim` on, where the same axes cut both and no cut is set yet. */
void stni_splits_take(struct stni_layout *to, int to_dim, const struct stni_layout *from, int from_dim, int dims);

/* The same for one dim that is the elements `start`, `start` + 1, … of another: each rank gets those that lie in its
 * piece of `from`, whose cut is set. */
stn_status stni_splits_take_part(stn_context *context, struct stni_layout *to, int to_dim,
                                 const struct stni_layout *from, int from_dim, int64_t start);

/* The adjoint: for a dim of which `from` is the elements `start`, `start` + 1, …. Balanced, if `from` is sharded as
 * a part of that would be; else each piece begins where its first element belongs. */
stn_status stni_splits_take_whole(stn_context *context, struct stni_layout *to, int to_dim,
                                  const struct stni_layout *from, int from_dim, int64_t start);

#endif
