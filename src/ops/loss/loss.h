/* What losses share. Their second output, for backward alone, is the number that a mean divides by. */
#ifndef STNI_OPS_LOSS_LOSS_H
#define STNI_OPS_LOSS_LOSS_H

#include "ops/loss/loss_kernel.h"
#include "ops/table.h"

#include <stddef.h>

struct stni_loss_attrs {
    int64_t reduction; /* stn_loss_reduction */
    double p; /* delta of huber_loss, beta of smooth_l1_loss, eps of gaussian_nll and poisson_nll, margin of hinge_embedding_loss */
    int64_t in_log; /* log_target of kl_div, log_input of poisson_nll */
    int64_t full;   /* of gaussian_nll and poisson_nll */
};

struct stni_loss_rule {
    enum stni_loss loss;
    int by_weights; /* a weighted mean divides by the sum of the weights; else by the number of elements */
    int same_shape; /* target must have input's shape */
    int has_log; /* attrs.in_log chooses the row after `loss`'s */
    double constant; /* the row's q where attrs.full is set */
    int extra_gradient; /* the operand z has one */
};

/* For the two ops: inputs as they stand in both, and what comes after them in the backward one. */
enum {
    STNI_LOSS_INPUT,
    STNI_LOSS_TARGET,
    STNI_LOSS_WEIGHT,
    STNI_LOSS_EXTRA,
    STNI_LOSS_GRAD,
    STNI_LOSS_TOTAL,
    STNI_LOSS_INPUTS
};

struct stni_loss_backward_attrs {
    int64_t loss, term; /* of a derivative */
    double p, q;
};

/* Cotangents of input, target and extra, those of them in `wanted` (bit i: input i), which are of specs `spec`, for
 * a first derivative of the term that `attrs` names: a loss's value or a derivative. `in`: the first four inputs,
 * then the cotangent and the total. */
stn_status stni_loss_gradients(struct stni_loss_backward_attrs attrs, stn_tensor *const in[STNI_LOSS_INPUTS],
                               uint32_t wanted, const stn_spec *const *spec, stn_tensor **out);

/* The row that the attributes choose. */
static inline enum stni_loss stni_loss_row(const struct stni_loss_rule *rule, const struct stni_loss_attrs *attrs)
{
    return (enum stni_loss)((int)rule->loss + (rule->has_log && attrs->in_log));
}

/* Checks dtypes; gives the shape that the first `n` inputs broadcast to and the dtype of input and target. */
stn_status stni_loss_check_operands(const stn_op_call *call, int n, stn_meta *out);

/* Places the first `n` inputs and a tensor of the shape that they broadcast to, `meta`, as a pointwise op's. */
stn_status stni_loss_place_operands(stn_op_call *call, int n, const stn_meta *meta, const stn_spec **out);

/* The kernel's operands 0 … n-1, and its space, this rank's part of `whole`, which they broadcast to. `out` NULL:
 * sums are wanted. */
void stni_loss_args_make(const stn_op_call *call, int n, const stn_meta *whole, const stn_tensor *out,
                         struct stni_loss_args *args);

enum { STNI_LOSS_DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

extern const char *const stni_loss_reductions[]; /* mean, none and sum; NULL-terminated */

extern const stn_op_impl stni_loss_impl;

/* What descriptors of losses share: the outputs are the loss and, private, what it was divided by. */
#define STNI_LOSS(...) .n_outputs = 2, .n_private = 1, .impl = &stni_loss_impl, .arg = (void *)(__VA_ARGS__) /* a rule's address */

#endif
