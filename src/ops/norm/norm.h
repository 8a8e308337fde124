/* What normalisations share. One is told by which dims have statistics of their own and along which its parameters run:
 *
 *     group_norm   statistics of (n, group), parameters of channels; a group is `per_group` channels
 *     layer_norm   statistics of the first dims, parameters of the last ones
 *     rms_norm     the same about 0: the mean counts as 0, the variance is the mean square
 *     channel_norm statistics and parameters of channels, of each sample or of all */
#ifndef STNI_OPS_NORM_NORM_H
#define STNI_OPS_NORM_NORM_H

#include "core/shard/spec.h"
#include "ops/norm/norm_kernel.h"
#include "ops/table.h"

#include <stddef.h>

struct stni_norm_attrs {
    int64_t num_groups;
    int64_t per_sample; /* of channel_norm: each sample has statistics of its own */
    stn_ints normalized_shape;
    double eps;
};

struct stni_norm {
    uint32_t stat_dims, param_dims; /* bit d: dim d */
    int group_dim;                  /* of the stat dims the one whose elements share statistics, per_group at a time; -1: none */
    int64_t per_group;              /* 1 where there is none */
    int64_t count;                  /* elements that one statistic is of */
    int about_zero;
    double eps;
};

struct stni_norm_rule {
    enum stni_op_index forward, backward;
    /* Checks x's shape against the attributes. */
    stn_status (*describe)(const stn_op_call *call, const struct stni_layout *x, struct stni_norm *out);
    /* For the double backward: the mean of t over the elements that share a statistic, repeated for each of them. */
    stn_tensor *(*group_mean)(stn_tensor *t, const struct stni_norm_attrs *attrs);
};

/* Inputs of the two ops; outputs are y, mean, rstd (and of channel_norm the variance of all elements but one) of the
 * first, the gradients of input, weight, bias of the second. */
enum { STNI_NORM_INPUT, STNI_NORM_WEIGHT, STNI_NORM_BIAS };
enum { STNI_NORM_GRAD, STNI_NORM_SAVED, STNI_NORM_MEAN, STNI_NORM_RSTD, STNI_NORM_SAVED_WEIGHT };

enum { STNI_NORM_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

/* Metadata (norm_layout.c) */

void stni_norm_stat_meta(const struct stni_norm *norm, const struct stni_layout *x, stn_meta *out);
void stni_norm_param_meta(const struct stni_norm *norm, const struct stni_layout *x, stn_meta *out);

/* The layout of the statistics of an input of this layout: sharded as its stat dims are, else Replicate; a cut
 * through groups counts as none. */
stn_status stni_norm_stat_spec(const stn_op_call *call, const struct stni_norm *norm, const struct stni_layout *x,
                               const stn_meta *meta, const stn_spec **out);

/* The layout of a parameter: sharded as the dims of x that it runs along; on the axes that cut other dims Replicate
 * or, where `partial` is set, Partial(sum). */
stn_status stni_norm_param_spec(const stn_op_call *call, const struct stni_norm *norm, const struct stni_layout *x,
                                const stn_meta *meta, int partial, const uint8_t *memory_order, const stn_spec **out);

/* Checks an input that must have this dtype and shape. */
stn_status stni_norm_check_like(const stn_op_call *call, int i, const stn_meta *want);

/* The ranks whose elements go into the same statistics as this one's; NULL: it has them all. */
stn_status stni_norm_comm(const stn_spec *x, const stn_spec *stat, stn_comm **out);

/* The kernels' arguments but for the data that is not x. `y`, `out`, `weight`, `param`: whose strides are meant,
 * NULL: none. */
void stni_norm_args_make(const struct stni_norm *norm, const stn_tensor *x, const stn_tensor *stat, const stn_tensor *y,
                         const stn_tensor *out, const stn_tensor *weight, const int64_t *param_strides,
                         struct stni_norm_args *args);

enum { STNI_NORM_SLOTS = 2 }; /* of each of the two ops */

/* Scratch for `coarse`, `planes` numbers per statistic, and for the kernels. */
stn_status stni_norm_scratch(const stn_op_call *call, int planes, struct stni_norm_args *args);

/* Calls the backward op: gradients of input, weight and bias. */
stn_status stni_norm_gradients(const struct stni_norm_rule *rule, const struct stni_norm_attrs *attrs, stn_tensor *grad,
                               stn_tensor *x, stn_tensor *mean, stn_tensor *rstd, stn_tensor *weight,
                               stn_tensor *out[3]);

/* What their descriptors are made of; `arg` is the rule. */
extern const stn_input_schema stni_norm_inputs[3], stni_norm_backward_inputs[5];
extern const stn_op_impl stni_norm_impl, stni_norm_backward_impl;

#endif
