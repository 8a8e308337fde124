/* What nll_loss, its backward and cross_entropy share. The second output of nll_loss, for backward alone, is the
 * number that a mean divides by. */
#ifndef STNI_OPS_LOSS_NLL_H
#define STNI_OPS_LOSS_NLL_H

#include "core/shard/spec.h"
#include "ops/loss/loss.h"
#include "ops/loss/nll_kernel.h"

struct stni_nll_attrs {
    int64_t ignore_index, reduction;
    double label_smoothing;
};

enum { STNI_NLL_INPUT, STNI_NLL_TARGET, STNI_NLL_WEIGHT };
enum { STNI_NLL_GRAD, STNI_NLL_SAVED_TARGET, STNI_NLL_SAVED_WEIGHT, STNI_NLL_TOTAL, STNI_NLL_LIKE };

enum { STNI_NLL_ATTRS = 3 };
extern const stn_attr_schema stni_nll_attrs_schema[STNI_NLL_ATTRS];
extern const struct stni_nll_attrs stni_nll_defaults;

/* Which dim of an input of `ndim` dims has the classes. */
static inline int stni_nll_class_dim(int ndim)
{
    return ndim > 1;
}

/* Checks target (which input it is) and weight against the input's dtype and shape; gives the targets' shape. */
stn_status stni_nll_check(const stn_op_call *call, const struct stni_layout *x, int target, int weight, stn_meta *out);

/* The layout in which the work is done: x's, with what is pending there reduced unless it is a sum that is `kept`;
 * where x is whole on every rank, the targets' with the classes whole. */
void stni_nll_layout(const struct stni_layout *x, const stn_spec *target, int kept, struct stni_layout *out);

/* The layouts of a tensor of the targets' shape, and of one of the classes, sharded as x is; on axes that do not cut
 * them Replicate or, `partial`, Partial(sum) where x is Partial or its classes are sharded. */
void stni_nll_place_targets(const struct stni_layout *x, int partial, struct stni_layout *target);
void stni_nll_place_classes(const struct stni_layout *x, struct stni_layout *weight);

/* The kernels' view of a chunk, of x's spec or the result's; `each` NULL or a number: strides 0. */
void stni_nll_args_make(const stn_op_call *call, const stn_tensor *x, const stn_tensor *target,
                        const stn_tensor *weight, const stn_tensor *each, struct stni_nll_args *args);

stn_tensor *stni_nll_call(stn_tensor *input, stn_tensor *target, stn_tensor *weight,
                          const struct stni_nll_attrs *attrs);

/* The gradient of an input of spec `like`. */
stn_tensor *stni_nll_gradient(stn_tensor *grad, stn_tensor *target, stn_tensor *weight, stn_tensor *total,
                              const stn_spec *like, const struct stni_nll_attrs *attrs);

#endif
