/* What scores of sharded fields share. All are made of other ops, which bring layouts and gradients with them. */
#ifndef STNI_OPS_SCORES_SCORE_H
#define STNI_OPS_SCORES_SCORE_H

#include "core/shard/spec.h"
#include "ops/common/dims.h"
#include "ops/table.h"

/* Calls an op whose attributes begin with the list of its dims, which is filled in: with 0 dims it is absent. */
stn_tensor *stni_score_call(enum stni_op_index op, int n_in, stn_tensor *const *in, int n_dims, const int *dims,
                            void *attrs);

/* That `n` inputs, absent ones apart, are floating, of the dtype of input 0, and broadcast to its shape. */
stn_status stni_score_check(const stn_op_call *call, int n);

/* An input in the dtype in which is computed: 16-bit floats in f32. NULL where it is absent. */
stn_tensor *stni_score_wide(const stn_op_call *call, int input);

/* sum weight x over dims; weight (NULL: 1) is broadcast. */
stn_tensor *stni_score_sum(stn_tensor *x, stn_tensor *weight, const struct stni_dims_list *over, int keepdim);

/* Completes `n` tensors of one shape that may be pending sums: all of them by one all-reduce. */
stn_status stni_score_complete(const stn_op_call *call, int n, stn_tensor **sums);

/* start, start + step, … as a tensor that lies along dim `dim` of `like` and is broadcast over the others. */
stn_status stni_score_line(const stn_op_call *call, const stn_tensor *like, int dim, double start, double step,
                           stn_tensor **out);

/* For scores of ensembles: that the dim has enough members for an estimate, which of a fair one are 2, and that the
 * target, input 1, has the shape of one member. Where the members are is in `*dim`. */
stn_status stni_score_check_members(const stn_op_call *call, int64_t dim, int fair, int *out);

/* By what the sum of |x_i - x_j| over the pairs i < j of n members is multiplied to be half of its mean over all pairs,
 * and over those of different members where it is fair. */
double stni_score_pair_weight(int64_t members, int64_t fair);

#endif
