/* energy_score: mean ||x_i - y|| minus half the mean ||x_i - x_j||, norms of whole fields. Pairs are formed k = 1, 2, …
 * members apart, slices of the ensemble against each other, so that no more than an ensemble's worth of differences is
 * new at a time. The squares of all norms are completed together. */
#include "core/context/context.h"
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/placement/unshard.h"
#include "ops/reduce/vector_norm.h"
#include "ops/scores/score.h"

#include <shardtensor/ops.h>

enum { INPUT, TARGET, WEIGHT, INPUTS };

struct energy_attrs {
    stn_ints field_dim; /* absent or empty: all but the members' */
    int64_t dim, fair;
};

static const struct energy_attrs defaults = {.field_dim = {.n = -1}};

stn_tensor *stn_energy_score(stn_tensor *input, stn_tensor *target, stn_tensor *weight, int dim, int n_field_dims,
                             const int *field_dims, int fair)
{
    struct energy_attrs attrs = {.dim = dim, .fair = fair != 0};
    stn_tensor *in[] = {input, target, weight};
    return stni_score_call(STNI_OP_energy_score, INPUTS, in, n_field_dims, field_dims, &attrs);
}

/* An ensemble, and how the norm of a difference is taken. */
struct ensemble {
    stn_tensor *members, *weight;
    int dim, at; /* where the members are: among all dims, and among those that are left when fields become norms */
    int64_t size;
    struct stni_dims_list field;
};

static stn_status check_weight(const stn_op_call *call)
{
    const struct stni_layout *target = &call->in_spec[TARGET]->layout;
    if (!call->in[WEIGHT])
        return STN_OK;
    STNI_TRY(stni_check_dtype(call, WEIGHT, target->dtype, "that of 'input',"));
    return stni_check_broadcasts(call, WEIGHT, target->ndim, target->shape, "that of 'target',");
}

static stn_status read_dims(const stn_op_call *call, struct ensemble *e)
{
    const struct energy_attrs *attrs = call->attrs;
    const int ndim = call->in_spec[INPUT]->layout.ndim;
    struct stni_dims_list given;
    STNI_TRY(stni_dims_list(call, "field_dim", &attrs->field_dim, ndim, &given));
    e->field.n = 0;
    e->at = e->dim;
    for (int i = 0; i < given.n; i++) {
        if (given.dims[i] == e->dim && attrs->field_dim.n > 0)
            return stn_op_fail(call, STN_ERR_ARGUMENT, "'field_dim' got %d, wanted dims other than that of the members",
                               e->dim);
        if (given.dims[i] == e->dim)
            continue;
        e->at -= given.dims[i] < e->dim;
        e->field.dims[e->field.n++] = given.dims[i];
    }
    if (e->field.n == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted one for the members and one of a field",
                           ndim);
    return STN_OK;
}

/* Members are compared with each other: all of them where a point is. */
static stn_tensor *whole_members(const stn_op_call *call, stn_tensor *x, int dim)
{
    const stn_spec *spec;
    if (stn_tensor_is_error(x))
        return x;
    struct stni_layout layout = x->spec->layout;
    stni_layout_reduce(&layout, 0);
    if (stni_layout_unshard(call->context, &layout, 1u << dim) != STN_OK ||
        stni_spec_intern(call->context, &layout, &spec) != STN_OK)
        return call->context->error_tensor;
    return spec == x->spec ? x : stn_redistribute(x, spec);
}

/* A tensor that lacks the dim of the members, and may lack dims before it, as one that meets them. */
static stn_tensor *beside_members(stn_tensor *x, int dim, int ndim)
{
    const int behind = ndim - 1 - dim;
    return x && stn_tensor_ndim(x) > behind ? stn_unsqueeze(x, stn_tensor_ndim(x) - behind) : x;
}

static stn_tensor *squares(const struct ensemble *e, stn_tensor *difference)
{
    return stni_score_sum(stn_square(difference), e->weight, &e->field, 0);
}

/* Those of x_{i + k} - x_i. The differences are released here, unless backward will read them. */
static stn_tensor *squares_apart(const struct ensemble *e, int64_t k)
{
    stn_context *context = stn_tensor_context(e->members);
    stn_tensor *row = NULL;
    stn_scope_begin(context);
    stn_tensor *later = stn_slice(e->members, e->dim, k, e->size, 1);
    stn_tensor *earlier = stn_slice(e->members, e->dim, 0, e->size - k, 1);
    row = squares(e, stn_sub(later, earlier));
    return stn_scope_end_keep(context, row, &row) == STN_OK ? row : context->error_tensor;
}

/* The squared norms of x_i - y, and behind them of x_i - x_j for each pair, along dim e->at. */
static stn_tensor *all_squares(const struct ensemble *e, stn_tensor *target)
{
    stn_tensor *rows[STN_MAX_INPUTS] = {squares(e, stn_sub(e->members, target))};
    int n = 1;
    for (int64_t k = 1; k < e->size && !stn_tensor_is_error(rows[0]); k++) {
        rows[n++] = squares_apart(e, k);
        if (n == STN_MAX_INPUTS) {
            rows[0] = stn_cat(n, rows, e->at);
            n = 1;
        }
    }
    return n > 1 ? stn_cat(n, rows, e->at) : rows[0];
}

static stn_status energy_score(stn_op_call *call)
{
    const struct energy_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[INPUT]->layout;
    struct ensemble e = {0};
    STNI_TRY(stni_score_check_members(call, attrs->dim, (int)attrs->fair, &e.dim));
    STNI_TRY(check_weight(call));
    STNI_TRY(read_dims(call, &e));
    e.size = in->shape[e.dim];
    e.members = whole_members(call, stni_score_wide(call, INPUT), e.dim);
    e.weight = beside_members(stni_call_complete(stni_score_wide(call, WEIGHT)), e.dim, in->ndim);
    stn_tensor *norms = all_squares(&e, beside_members(stni_score_wide(call, TARGET), e.dim, in->ndim));
    norms = stni_vector_norm_root(norms, 2);
    stn_tensor *score = stn_mean(stn_slice(norms, e.at, 0, e.size, 1), 1, &e.at, 0);
    stn_tensor *pairs = stn_sum(stn_slice(norms, e.at, e.size, INT64_MAX, 1), 1, &e.at, 0);
    call->out[0] = stn_cast(stn_add_scaled(score, pairs, -stni_score_pair_weight(e.size, attrs->fair)), in->dtype);
    return STN_OK;
}

static const stn_input_schema inputs[] = {
    [INPUT] = {.name = "input"}, [TARGET] = {.name = "target"}, [WEIGHT] = {.name = "weight", .optional = 1}};

static const stn_attr_schema attrs_schema[] = {
    {"field_dim", STN_ATTR_INTS, offsetof(struct energy_attrs, field_dim), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct energy_attrs, dim), NULL},
    {"fair", STN_ATTR_BOOL, offsetof(struct energy_attrs, fair), NULL},
};

const stn_op_desc stni_op_energy_score = {
    .size = sizeof(stn_op_desc),
    .name = "energy_score",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct energy_attrs),
    .attrs_init = &defaults,
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = energy_score},
    .signature = "input, target, weight=, dim=, field_dim=, fair=",
};
