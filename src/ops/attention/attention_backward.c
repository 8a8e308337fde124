/* scaled_dot_product_attention_backward: the gradients of query, key, value and a floating mask. With the probabilities P recomputed from the rows'
 * log-sum-exp, dropout's factors M, and D the product of each row of the result with its cotangent,
 *
 *     dV = (P M)^T dO,   dS = P (M (dO V^T) - D),   dQ = scale dS K,   dK = scale dS^T Q,   dmask = dS.
 *
 * The layout of the result leads, as in forward; a gradient is pending over what its tensor lacks. Source: Dao et al. 2022, section 3.1. */
#include "ops/attention/attention.h"
#include "ops/attention/attention_merge_kernel.h"

#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/common/check.h"
#include "ops/common/rng_stream.h"
#include "ops/cpu/widen.h"

#include <shardtensor/ops.h>

#include <math.h>

enum {
    QUERY = STNI_ATTENTION_QUERY,
    KEY = STNI_ATTENTION_KEY,
    VALUE = STNI_ATTENTION_VALUE,
    MASK = STNI_ATTENTION_MASK
};
enum { GRAD = MASK + 1, OUT, LSE, STREAM };

static const struct stni_attention_attrs defaults = {.scale = NAN};

static stn_status check_like(const stn_op_call *call, int k, stn_dtype dtype, int ndim, const int64_t *shape)
{
    STNI_TRY(stni_check_dtype(call, k, dtype, NULL));
    return stni_check_shape(call, k, ndim, shape, NULL);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_attention_attrs *attrs = call->attrs;
    const stn_meta stream = stni_rng_stream_meta();
    stn_meta out;
    STNI_TRY(stni_attention_check(call, &out));
    STNI_TRY(check_like(call, GRAD, out.dtype, out.ndim, out.shape));
    STNI_TRY(check_like(call, OUT, out.dtype, out.ndim, out.shape));
    STNI_TRY(check_like(call, LSE, stni_wide_dtype(out.dtype), out.ndim - 1, out.shape));
    STNI_TRY(check_like(call, STREAM, stream.dtype, stream.ndim, stream.shape));
    call->n_out =
        attrs->wants_mask && call->in_spec[MASK] && stni_dtype_is_floating(call->in_spec[MASK]->layout.dtype) ? 4 : 3;
    for (int k = QUERY; k < call->n_out; k++) {
        const struct stni_layout *in = &call->in_spec[k]->layout;
        call->out_meta[k] = stni_meta_of(in);
    }
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    const struct stni_layout *leader = &call->in_spec[OUT]->layout;
    struct stni_layout reduced = *leader;
    for (int a = 0; reduced.mesh && a < reduced.mesh->ndim; a++)
        if (reduced.placement[a].kind == STN_PLACE_PARTIAL || (reduced.placement[a].kind == STN_PLACE_SHARD &&
                                                              reduced.placement[a].dim == reduced.ndim - 1)) /* of a caller's own */
            reduced.placement[a] = stn_replicate();
    STNI_TRY(stni_spec_intern(call->context, &reduced, &call->want[OUT]));
    call->want[GRAD] = call->want[OUT];
    leader = &call->want[OUT]->layout;
    for (int k = QUERY; k <= MASK; k++)
        if (call->in_spec[k])
            STNI_TRY(stni_attention_follow(call, leader, k, 0, &call->want[k]));
    for (int k = QUERY; k < call->n_out; k++)
        STNI_TRY(stni_attention_follow(call, leader, k, 1, &call->out_spec[k]));
    STNI_TRY(stni_attention_lse_spec(call, leader, &call->want[LSE]));
    return stni_rng_stream_spec(call, leader->mesh, &call->want[STREAM]);
}

/* Where a gradient is summed; 16-bit floats in f32. */
static stn_status open_sum(const stn_op_call *call, int k, int out_ndim, struct stni_attention_sum *sum)
{
    const stn_tensor *t = call->out[k];
    const stn_dtype dtype = t->spec->layout.dtype, wide = stni_wide_dtype(dtype);
    const int ndim = t->spec->layout.ndim;
    sum->at = stni_attention_operand_of(t, ndim > 1, ndim > 0, out_ndim);
    sum->n = t->spec->local_numel;
    if (wide == dtype || sum->n == 0)
        return STN_OK;
    return stn_op_scratch(call, (size_t)sum->n * stn_dtype_size(wide), &sum->wide);
}

static stn_status run(stn_op_call *call)
{
    struct stni_attention_args p;
    const int ndim = call->in[OUT]->spec->layout.ndim;
    stni_attention_describe(call, call->in[OUT], call->in[LSE], call->in[STREAM], &p);
    struct stni_attention_sum *const sums[] = {&p.grad_query, &p.grad_key, &p.grad_value, &p.grad_mask};
    p.grad = stni_attention_operand_of(call->in[GRAD], 1, 1, ndim);
    if (stni_attention_placed_ring(call) != 0)
        return stni_attention_ring_backward(call, call->in[OUT]->spec, &p);
    for (int k = QUERY; k < call->n_out; k++)
        STNI_TRY(open_sum(call, k, ndim, sums[k]));
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, STNI_ATTENTION_BACKWARD, p.dtype, &p), &p.workspace));
    return stn_op_launch(call, STNI_ATTENTION_BACKWARD, p.dtype, &p, sizeof p);
}

static const stn_input_schema inputs[] = {[QUERY] = {.name = "query"},   [KEY] = {.name = "key"},
                                          [VALUE] = {.name = "value"},   [MASK] = {.name = "attn_mask", .optional = 1},
                                          [GRAD] = {.name = "grad"},     [OUT] = {.name = "output"},
                                          [LSE] = {.name = "logsumexp"}, [STREAM] = {.name = "stream"}};

static const stn_attr_schema attrs_schema[] = {
    {"dropout_p", STN_ATTR_FLOAT, offsetof(struct stni_attention_attrs, dropout_p), NULL},
    {"is_causal", STN_ATTR_BOOL, offsetof(struct stni_attention_attrs, is_causal), NULL},
    {"scale", STN_ATTR_FLOAT, offsetof(struct stni_attention_attrs, scale), NULL},
    {"enable_gqa", STN_ATTR_BOOL, offsetof(struct stni_attention_attrs, enable_gqa), NULL},
    {"wants_mask", STN_ATTR_BOOL, offsetof(struct stni_attention_attrs, wants_mask), NULL},
};

static const stn_kernel_slot slots[] = {
    [STNI_ATTENTION_BACKWARD] = {"backward", sizeof(struct stni_attention_args)},
    [STNI_ATTENTION_ROUND_GRADIENTS] = {"round", sizeof(struct stni_attention_round_args)},
};

static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("backward", STNI_ATTENTION_DTYPES, struct stni_attention_args, stni_attention_backward,
                  stni_attention_workspace),
    STNI_CPU_ROW("round", STNI_ATTENTION_NARROW, struct stni_attention_round_args, stni_attention_round, NULL),
};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, STN_SLOTS(slots), STN_KERNELS(kernels)};

const stn_op_desc stni_op_scaled_dot_product_attention_backward = {
    .size = sizeof(stn_op_desc),
    .name = "scaled_dot_product_attention_backward",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_attention_attrs),
    .attrs_init = &defaults,
    .n_outputs = 4,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
