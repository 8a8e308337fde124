/* neighborhood_attention_backward: the gradients of query, key and value. With the probabilities P recomputed from the
 * queries' log-sum-exp, and the mean D of each query, the product of its row of the result with its cotangent,
 *
 *     dV = P^T dO,   dS = P (dO V^T - D),   dQ = scale dS K,   dK = scale dS^T Q.
 *
 * Queries gather theirs from keys and values as in forward. Keys gather theirs from the queries that attend to them,
 * of which those of other ranks come by a halo: windows the other way round. So every gradient is added up by one rank
 * in one order, whatever cuts space. Over query heads that share a head of keys elsewhere it is pending.
 * Source: Dao et al. 2022, section 3.1. */
#include "core/tensor/tensor.h"
#include "ops/common/check.h"
#include "ops/neighborhood/neighborhood.h"

#include <shardtensor/ops.h>

enum { QUERY = STNI_NEIGHBORHOOD_QUERY, KEY = STNI_NEIGHBORHOOD_KEY, VALUE = STNI_NEIGHBORHOOD_VALUE };
enum { GRAD = VALUE + 1, OUT, LSE };
enum { OF_QUERIES, OF_KEYS };

static stn_status check_like(const stn_op_call *call, int k, const stn_meta *want)
{
    STNI_TRY(stni_check_dtype(call, k, want->dtype, NULL));
    return stni_check_shape(call, k, want->ndim, want->shape, NULL);
}

static stn_status check(stn_op_call *call)
{
    struct stni_neighborhood n;
    STNI_TRY(stni_neighborhood_read(call, &n));
    const stn_meta out = stni_neighborhood_result(call), lse = stni_neighborhood_lse(call);
    STNI_TRY(check_like(call, GRAD, &out));
    STNI_TRY(check_like(call, OUT, &out));
    STNI_TRY(check_like(call, LSE, &lse));
    for (int k = QUERY; k <= VALUE; k++)
        call->out_meta[k] = stni_meta_of(&call->in_spec[k]->layout);
    return STN_OK;
}

/* The result's layout, whole along its elements. */
static stn_status place_result(stn_op_call *call)
{
    struct stni_layout layout = call->in_spec[OUT]->layout;
    for (int a = 0; layout.mesh && a < layout.mesh->ndim; a++)
        if (layout.placement[a].kind == STN_PLACE_PARTIAL ||
            (layout.placement[a].kind == STN_PLACE_SHARD && layout.placement[a].dim == layout.ndim - 1))
            layout.placement[a] = stn_replicate();
    STNI_TRY(stni_spec_intern(call->context, &layout, &call->want[OUT]));
    call->want[GRAD] = call->want[OUT];
    return STN_OK;
}

/* The note: bit 0 of queries and bit 1 of keys, whether ranks exchange. */
static stn_status place(stn_op_call *call)
{
    struct stni_neighborhood n;
    STNI_TRY(stni_neighborhood_read(call, &n));
    STNI_TRY(place_result(call));
    const struct stni_layout *leader = &call->want[OUT]->layout;
    for (int k = QUERY; k <= VALUE; k++) {
        STNI_TRY(stni_neighborhood_follow(call, &n, leader, k, 0, &call->want[k]));
        STNI_TRY(stni_neighborhood_follow(call, &n, leader, k, 1, &call->out_spec[k]));
    }
    STNI_TRY(stni_neighborhood_lse_spec(call, leader, &call->want[LSE]));
    const struct stni_stencil of_queries = stni_neighborhood_stencil(&n, 0, call->want[KEY], call->want[OUT]),
                              of_keys = stni_neighborhood_stencil(&n, 1, call->want[OUT], call->want[KEY]);
    call->note = (uint64_t)stni_stencil_exchanges(&of_queries) | (uint64_t)stni_stencil_exchanges(&of_keys) << 1;
    return STN_OK;
}

struct solver {
    const stn_op_call *call;
    const struct stni_neighborhood *n;
    stn_tensor *mean;
};

static stn_status launch(const stn_op_call *call, int slot, struct stni_neighborhood_args *p)
{
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, slot, p->dtype, p), &p->workspace));
    return stn_op_launch(call, slot, p->dtype, p, sizeof *p);
}

static stn_status of_queries(void *arg, const struct stni_stencil_part *part, const stn_box *from)
{
    const struct solver *s = arg;
    const stn_op_call *call = s->call;
    struct stni_neighborhood_args p = stni_neighborhood_describe(call, s->n, part);
    p.query = stni_neighborhood_target(s->n, call->in[QUERY], part);
    p.key = stni_neighborhood_source(s->n, &from[0]);
    p.value = stni_neighborhood_source(s->n, &from[1]);
    p.grad = stni_neighborhood_target(s->n, call->in[GRAD], part);
    p.out = stni_neighborhood_target(s->n, call->in[OUT], part);
    p.lse = stni_neighborhood_target(s->n, call->in[LSE], part);
    p.mean = stni_neighborhood_target(s->n, s->mean, part);
    p.grad_query = stni_neighborhood_target(s->n, call->out[QUERY], part);
    return launch(call, OF_QUERIES, &p);
}

static stn_status of_keys(void *arg, const struct stni_stencil_part *part, const stn_box *from)
{
    const struct solver *s = arg;
    const stn_op_call *call = s->call;
    struct stni_neighborhood_args p = stni_neighborhood_describe(call, s->n, part);
    p.of_keys = 1;
    p.key = stni_neighborhood_target(s->n, call->in[KEY], part);
    p.value = stni_neighborhood_target(s->n, call->in[VALUE], part);
    p.query = stni_neighborhood_source(s->n, &from[0]);
    p.grad = stni_neighborhood_source(s->n, &from[1]);
    p.lse = stni_neighborhood_source(s->n, &from[2]);
    p.mean = stni_neighborhood_source(s->n, &from[3]);
    p.grad_key = stni_neighborhood_target(s->n, call->out[KEY], part);
    p.grad_value = stni_neighborhood_target(s->n, call->out[VALUE], part);
    return launch(call, OF_KEYS, &p);
}

/* Targets are counted by a tensor of theirs that has elements where one of them has. */
static stn_status solve(struct solver *s)
{
    const stn_op_call *call = s->call;
    stn_tensor *const keys[] = {call->in[KEY], call->in[VALUE]},
                      *const queries[] = {call->in[QUERY], call->in[GRAD], call->in[LSE], s->mean};
    const stn_spec *key = call->in[KEY]->spec, *value = call->in[VALUE]->spec;
    const struct stni_stencil to_queries = stni_neighborhood_stencil(s->n, 0, key, call->in[LSE]->spec),
                              to_keys = stni_neighborhood_stencil(s->n, 1, call->in[QUERY]->spec,
                                                                  key->local_numel > 0 ? key : value);
    STNI_TRY(stni_stencil_solve(call, &to_queries, 2, keys, (int)(call->note & 1), of_queries, s));
    return stni_stencil_solve(call, &to_keys, 4, queries, (int)(call->note >> 1 & 1), of_keys, s);
}

static stn_status run(stn_op_call *call)
{
    struct stni_neighborhood n;
    struct solver s = {.call = call, .n = &n};
    STNI_TRY(stni_neighborhood_read(call, &n));
    STNI_TRY(stni_tensor_create(call->context, call->in[LSE]->spec, &s.mean));
    const stn_status status = solve(&s);
    stni_tensor_drop(&s.mean);
    return status;
}

static const stn_input_schema inputs[] = {
    [QUERY] = {.name = "query"}, [KEY] = {.name = "key"},    [VALUE] = {.name = "value"},
    [GRAD] = {.name = "grad"},   [OUT] = {.name = "output"}, [LSE] = {.name = "logsumexp"}};

static const stn_kernel_slot slots[] = {
    [OF_QUERIES] = {"queries", sizeof(struct stni_neighborhood_args)},
    [OF_KEYS] = {"keys", sizeof(struct stni_neighborhood_args)},
};

static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("queries", STNI_NEIGHBORHOOD_DTYPES, struct stni_neighborhood_args, stni_neighborhood_queries,
                  stni_neighborhood_workspace),
    STNI_ISA_ROWS("keys", STNI_NEIGHBORHOOD_DTYPES, struct stni_neighborhood_args, stni_neighborhood_keys,
                  stni_neighborhood_workspace),
};

static const stn_op_impl impl = {.check = check, .place = place, .run = run, STN_SLOTS(slots), STN_KERNELS(kernels)};

const stn_op_desc stni_op_neighborhood_attention_backward = {
    .size = sizeof(stn_op_desc),
    .name = "neighborhood_attention_backward",
    STN_INPUTS(inputs),
    STN_ATTRS(stni_neighborhood_schema, struct stni_neighborhood_attrs),
    .attrs_init = &stni_neighborhood_attrs_init,
    .n_outputs = 3,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
};
