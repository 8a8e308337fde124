/* scaled_dot_product_attention: softmax(query key^T scale + mask) value, by blocks of rows.
 *
 * The layout of the result leads (ops/placement/follow.h): batch, heads and query rows stay sharded, keys and values
 * are whole along their rows. Every rank works on its own chunk; only what has to follow the leader's layout is sent.
 * Saved for backward: the log-sum-exp of each query row, and dropout's random stream. */
#include "ops/attention/attention.h"
#include "ops/attention/attention_merge_kernel.h"

#include "core/context/context.h"
#include "core/tensor/tensor.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "ops/common/call.h"
#include "ops/common/rng_stream.h"

#include <shardtensor/ops.h>

#include <math.h>
#include <string.h>

enum {
    QUERY = STNI_ATTENTION_QUERY,
    KEY = STNI_ATTENTION_KEY,
    VALUE = STNI_ATTENTION_VALUE,
    MASK = STNI_ATTENTION_MASK
};
enum { OUT, LSE, STREAM };
enum { KEEP_STREAM = STNI_ATTENTION_KEEP_STREAM, FORWARD = STNI_ATTENTION_FORWARD };

static const struct stni_attention_attrs defaults = {.scale = NAN};

stn_tensor *stn_scaled_dot_product_attention(stn_tensor *query, stn_tensor *key, stn_tensor *value,
                                             stn_tensor *attn_mask, const stn_attention_attrs *attrs)
{
    struct stni_attention_attrs own = defaults;
    if (attrs && attrs->size != sizeof *attrs)
        return stni_call_fail(query, STN_ERR_VERSION, "scaled_dot_product_attention: 'attrs' got size %zu, wanted %zu",
                              attrs->size, sizeof *attrs);
    if (attrs) {
        own.dropout_p = attrs->dropout_p;
        own.is_causal = attrs->is_causal != 0;
        own.scale = attrs->has_scale ? attrs->scale : (double)NAN;
        own.enable_gqa = attrs->enable_gqa != 0;
    }
    return stni_call(STNI_OP_scaled_dot_product_attention, 4, (stn_tensor *[]){query, key, value, attn_mask}, &own);
}

static stn_status check(stn_op_call *call)
{
    STNI_TRY(stni_attention_check(call, &call->out_meta[OUT]));
    const stn_meta *out = &call->out_meta[OUT];
    call->out_meta[LSE] =
        (stn_meta){.dtype = out->dtype == STN_DTYPE_F64 ? STN_DTYPE_F64 : STN_DTYPE_F32, .ndim = out->ndim - 1};
    memcpy(call->out_meta[LSE].shape, out->shape, (size_t)(out->ndim - 1) * sizeof *out->shape);
    call->out_meta[STREAM] = stni_rng_stream_meta();
    return STN_OK;
}

static stn_status place(stn_op_call *call)
{
    struct stni_layout leader;
    STNI_TRY(stni_attention_lead(call, &call->out_meta[OUT], &leader));
    for (int k = QUERY; k <= MASK; k++)
        if (call->in_spec[k])
            STNI_TRY(stni_attention_follow(call, &leader, k, 0, &call->want[k]));
    STNI_TRY(stni_attention_lse_spec(call, &leader, &call->out_spec[LSE]));
    STNI_TRY(stni_rng_stream_spec(call, leader.mesh, &call->out_spec[STREAM]));
    return stni_spec_intern(call->context, &leader, &call->out_spec[OUT]);
}

static stn_status run(stn_op_call *call)
{
    struct stni_attention_args p;
    if (((const struct stni_attention_attrs *)call->attrs)->dropout_p > 0)
        STNI_TRY(stni_rng_stream_take(call, STREAM, KEEP_STREAM));
    stni_attention_describe(call, call->out[OUT], call->out[LSE], call->out[STREAM], &p);
    if (stni_attention_placed_ring(call) != 0)
        return stni_attention_ring_forward(call, &p);
    if (call->out[LSE]->spec->local_numel == 0)
        return STN_OK;
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, FORWARD, p.dtype, &p), &p.workspace));
    return stn_op_launch(call, FORWARD, p.dtype, &p, sizeof p);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    const uint64_t inputs = 1u << QUERY | 1u << KEY | 1u << VALUE | (call->in_spec[MASK] ? 1u << MASK : 0);
    return needs ? inputs | UINT64_C(7) << 32 : 0;
}

static stn_status backward(stn_backward_call *call)
{
    stn_tensor *in[] = {call->in[QUERY],     call->in[KEY],  call->in[VALUE], call->in[MASK],
                        call->grad_out[OUT], call->out[OUT], call->out[LSE],  call->out[STREAM]};
    stn_tensor *out[4] = {NULL};
    struct stni_attention_attrs attrs = *(const struct stni_attention_attrs *)call->attrs;
    attrs.wants_mask = call->needs >> MASK & 1;
    STNI_TRY(stni_dispatch(call->context->registry->ops[STNI_OP_scaled_dot_product_attention_backward], 8, in, &attrs,
                           4, out));
    for (int k = QUERY; k <= MASK; k++)
        if (call->needs >> k & 1)
            call->grad_in[k] = out[k];
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {[QUERY] = {.name = "query"},
                                          [KEY] = {.name = "key"},
                                          [VALUE] = {.name = "value"},
                                          [MASK] = {.name = "attn_mask", .optional = 1}};

static const stn_attr_schema attrs_schema[] = {
    {"dropout_p", STN_ATTR_FLOAT, offsetof(struct stni_attention_attrs, dropout_p), NULL},
    {"is_causal", STN_ATTR_BOOL, offsetof(struct stni_attention_attrs, is_causal), NULL},
    {"scale", STN_ATTR_FLOAT, offsetof(struct stni_attention_attrs, scale), NULL},
    {"enable_gqa", STN_ATTR_BOOL, offsetof(struct stni_attention_attrs, enable_gqa), NULL},
};

static const stn_kernel_slot slots[] = {
    [KEEP_STREAM] = STNI_KEPT_STREAM_SLOT,
    [FORWARD] = {"forward", sizeof(struct stni_attention_args)},
    [STNI_ATTENTION_MERGE] = {"merge", sizeof(struct stni_attention_merge_args)},
    [STNI_ATTENTION_ROUND] = {"round", sizeof(struct stni_attention_round_args)},
};

static const stn_kernel kernels[] = {
    STNI_KEPT_STREAM_KERNEL,
    STNI_ISA_ROWS("forward", STNI_ATTENTION_DTYPES, struct stni_attention_args, stni_attention,
                  stni_attention_workspace),
    STNI_ISA_ROWS("merge", STNI_ATTENTION_WIDE, struct stni_attention_merge_args, stni_attention_merge, NULL),
    STNI_CPU_ROW("round", STNI_ATTENTION_NARROW, struct stni_attention_round_args, stni_attention_round, NULL),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_scaled_dot_product_attention = {
    .size = sizeof(stn_op_desc),
    .name = "scaled_dot_product_attention",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_attention_attrs),
    .attrs_init = &defaults,
    .n_outputs = 3,
    .n_private = 2,
    .flags = STN_OP_FIRST_ORDER,
    .impl = &impl,
};
