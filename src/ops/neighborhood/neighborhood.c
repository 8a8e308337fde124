/* neighborhood_attention: each query attends to a window of keys around its own position in 1 to 3 dims of space.
 *
 * The layout of the result leads: batch, heads and space stay sharded. What windows need of other ranks' keys and
 * values comes by a halo (ops/exchange/stencil.h), whatever the cuts. Saved for backward: the log-sum-exp of each
 * query. */
#include "ops/neighborhood/neighborhood.h"

#include "core/context/context.h"
#include "core/tensor/tensor.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

#include <math.h>

enum { QUERY = STNI_NEIGHBORHOOD_QUERY, KEY = STNI_NEIGHBORHOOD_KEY, VALUE = STNI_NEIGHBORHOOD_VALUE };
enum { OUT, LSE };

/* As many numbers as query has dims of space; a query of another shape is refused by check. */
stn_tensor *stn_neighborhood_attention(stn_tensor *query, stn_tensor *key, stn_tensor *value,
                                       const stn_neighborhood_attrs *given)
{
    struct stni_neighborhood_attrs attrs = stni_neighborhood_attrs_init;
    if (!given || given->size != sizeof *given)
        return stni_call_fail(query, STN_ERR_ARGUMENT, "neighborhood_attention: attrs.size got %zu, wanted %zu",
                              given ? given->size : 0, sizeof *given);
    const int dims = (query ? stn_tensor_ndim(query) : 0) - STNI_NEIGHBORHOOD_FIRST - 2;
    attrs.kernel_size.n = attrs.dilation.n = attrs.is_causal.n = dims < 1 || dims > STNI_NEIGHBORHOOD_DIMS ? 1 : dims;
    for (int64_t d = 0; d < attrs.kernel_size.n; d++) {
        attrs.kernel_size.v[d] = given->kernel_size[d];
        attrs.dilation.v[d] = given->dilation[d] == 0 ? 1 : given->dilation[d];
        attrs.is_causal.v[d] = given->is_causal[d] != 0;
    }
    attrs.scale = given->has_scale ? given->scale : (double)NAN;
    return stni_call(STNI_OP_neighborhood_attention, 3, (stn_tensor *[]){query, key, value}, &attrs);
}

static stn_status check(stn_op_call *call)
{
    struct stni_neighborhood n;
    STNI_TRY(stni_neighborhood_read(call, &n));
    call->out_meta[OUT] = stni_neighborhood_result(call);
    call->out_meta[LSE] = stni_neighborhood_lse(call);
    return STN_OK;
}

/* The note: whether ranks exchange. */
static stn_status place(stn_op_call *call)
{
    struct stni_neighborhood n;
    struct stni_layout leader;
    STNI_TRY(stni_neighborhood_read(call, &n));
    STNI_TRY(stni_neighborhood_lead(call, &n, &leader));
    for (int k = QUERY; k <= VALUE; k++)
        STNI_TRY(stni_neighborhood_follow(call, &n, &leader, k, 0, &call->want[k]));
    STNI_TRY(stni_neighborhood_lse_spec(call, &leader, &call->out_spec[LSE]));
    STNI_TRY(stni_spec_intern(call->context, &leader, &call->out_spec[OUT]));
    struct stni_stencil stencil = stni_neighborhood_stencil(&n, 0, call->want[KEY], call->out_spec[OUT]);
    call->note = (uint64_t)stni_stencil_exchanges(&stencil);
    return STN_OK;
}

struct solver {
    const stn_op_call *call;
    const struct stni_neighborhood *n;
};

static stn_status launch(void *arg, const struct stni_stencil_part *part, const stn_box *from)
{
    const struct solver *s = arg;
    const stn_op_call *call = s->call;
    struct stni_neighborhood_args p = stni_neighborhood_describe(call, s->n, part);
    p.query = stni_neighborhood_target(s->n, call->in[QUERY], part);
    p.key = stni_neighborhood_source(s->n, &from[0]);
    p.value = stni_neighborhood_source(s->n, &from[1]);
    p.out = stni_neighborhood_target(s->n, call->out[OUT], part);
    p.lse = stni_neighborhood_target(s->n, call->out[LSE], part);
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, 0, p.dtype, &p), &p.workspace));
    return stn_op_launch(call, 0, p.dtype, &p, sizeof p);
}

static stn_status run(stn_op_call *call)
{
    struct stni_neighborhood n;
    stn_tensor *const sources[] = {call->in[KEY], call->in[VALUE]};
    STNI_TRY(stni_neighborhood_read(call, &n));
    const struct stni_stencil stencil = stni_neighborhood_stencil(&n, 0, sources[0]->spec, call->out[LSE]->spec);
    struct solver s = {call, &n};
    return stni_stencil_solve(call, &stencil, 2, sources, (int)call->note, launch, &s);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? 1u << QUERY | 1u << KEY | 1u << VALUE | UINT64_C(3) << 32 : 0;
}

static stn_status backward(stn_backward_call *call)
{
    stn_tensor *in[] = {call->in[QUERY],     call->in[KEY],  call->in[VALUE],
                        call->grad_out[OUT], call->out[OUT], call->out[LSE]};
    stn_tensor *out[3] = {NULL};
    STNI_TRY(stni_dispatch(call->context->registry->ops[STNI_OP_neighborhood_attention_backward], 6, in, call->attrs, 3,
                           out));
    for (int k = QUERY; k <= VALUE; k++)
        if (call->needs >> k & 1)
            call->grad_in[k] = out[k];
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {
    [QUERY] = {.name = "query"}, [KEY] = {.name = "key"}, [VALUE] = {.name = "value"}};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_neighborhood_args)}};
static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("forward", STNI_NEIGHBORHOOD_DTYPES, struct stni_neighborhood_args, stni_neighborhood_forward,
                  stni_neighborhood_workspace),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_neighborhood_attention = {
    .size = sizeof(stn_op_desc),
    .name = "neighborhood_attention",
    STN_INPUTS(inputs),
    STN_ATTRS(stni_neighborhood_schema, struct stni_neighborhood_attrs),
    .attrs_init = &stni_neighborhood_attrs_init,
    .n_outputs = 2,
    .n_private = 1,
    .flags = STN_OP_FIRST_ORDER,
    .impl = &impl,
    .signature = "query, key, value, kernel_size, dilation=, is_causal=, scale=",
};
