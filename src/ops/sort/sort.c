/* sort, argsort, topk: order_sort and order_top under the names that users know. */
#include "ops/sort/sort_family.h"

#include "ops/reduce/reduction.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/placement/unshard.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>

struct sort_attrs {
    int64_t dim, descending, stable; /* every sort is stable */
};

struct topk_attrs {
    int64_t k, dim, largest, sorted; /* the result is in order anyway */
};

stn_tensor *stn_sort(stn_tensor *input, int dim, int descending, stn_tensor **indices)
{
    const struct sort_attrs attrs = {dim, descending != 0, 1};
    return stni_sort_call(STNI_OP_sort, input, &attrs, indices);
}

stn_tensor *stn_argsort(stn_tensor *input, int dim, int descending)
{
    const struct sort_attrs attrs = {dim, descending != 0, 1};
    return stni_sort_call(STNI_OP_argsort, input, &attrs, NULL);
}

stn_tensor *stn_topk(stn_tensor *input, int64_t k, int dim, int largest, stn_tensor **indices)
{
    const struct topk_attrs attrs = {k, dim, largest != 0, 1};
    return stni_sort_call(STNI_OP_topk, input, &attrs, indices);
}

struct result {
    stn_tensor *values, *indices;
};

/* Back to the input's layout. */
static stn_tensor *lay_like(stn_tensor *t, const stn_spec *like)
{
    struct stni_layout layout = like->layout;
    const stn_spec *spec;
    if (stn_tensor_is_error(t) || !layout.mesh)
        return t;
    stni_layout_reduce(&layout, 0);
    layout.dtype = stn_tensor_dtype(t);
    if (stni_spec_intern(t->context, &layout, &spec) != STN_OK)
        return t->context->error_tensor;
    return t->spec == spec ? t : stn_redistribute(t, spec);
}

static struct result sort_whole(stn_tensor *input, int dim, int64_t descending)
{
    const struct stni_sort_sort_attrs attrs = {dim, descending};
    struct result r = {0};
    r.values = stni_sort_call(STNI_OP_order_sort, input, &attrs, &r.indices);
    return r;
}

/* Sorts a few lines that ranks share, one after the other. */
static struct result sort_lines(stn_tensor *input, int dim, int64_t descending, int64_t n_lines)
{
    const int ndim = stn_tensor_ndim(input), last = ndim - 1;
    stn_tensor *values[STN_MAX_INPUTS], *indices[STN_MAX_INPUTS];
    stn_tensor *moved = stn_movedim(input, 1, &dim, &last);
    if (stn_tensor_is_error(moved))
        return (struct result){moved, moved};
    const int64_t shape[] = {n_lines, stn_tensor_shape(input)[dim]}, *back = stn_tensor_shape(moved);
    stn_tensor *lines = stn_view(moved, 2, shape);
    for (int64_t l = 0; l < n_lines; l++) {
        struct result r = sort_whole(stn_select(lines, 0, l), 0, descending);
        values[l] = r.values;
        indices[l] = r.indices;
    }
    return (struct result){stn_movedim(stn_view(stn_stack((int)n_lines, values, 0), ndim, back), 1, &last, &dim),
                           stn_movedim(stn_view(stn_stack((int)n_lines, indices, 0), ndim, back), 1, &last, &dim)};
}

static struct result sort_dim(stn_tensor *input, int dim, int64_t descending)
{
    struct stni_layout layout = input->spec->layout;
    const int64_t n_lines = stni_sort_lines_of(&layout, dim);
    int other;
    if (stni_sort_way(&layout, dim, &other) == STNI_SORT_SHARED && n_lines > 1 && n_lines <= STN_MAX_INPUTS)
        return sort_lines(input, dim, descending, n_lines);
    return sort_whole(input, dim, descending);
}

static stn_status check_dim(const stn_op_call *call, int64_t given, int *dim)
{
    const int unwrapped = (int)given;
    const stn_ints dims = stni_sort_dim(&unwrapped);
    uint32_t mask;
    STNI_TRY(stni_dim_wrap(call, "dim", given, call->in_spec[0]->layout.ndim, dim));
    return stni_sort_check(call, &dims, 0, &mask);
}

static stn_status sort(stn_op_call *call)
{
    const struct sort_attrs *attrs = call->attrs;
    int dim;
    STNI_TRY(check_dim(call, attrs->dim, &dim));
    struct result r = sort_dim(call->in[0], dim, attrs->descending);
    call->out[0] = lay_like(r.values, call->in_spec[0]);
    if (call->n_out > 1)
        call->out[1] = lay_like(r.indices, call->in_spec[0]);
    return STN_OK;
}

static stn_status argsort(stn_op_call *call)
{
    const struct sort_attrs *attrs = call->attrs;
    int dim;
    STNI_TRY(check_dim(call, attrs->dim, &dim));
    call->out[0] = lay_like(sort_dim(call->in[0], dim, attrs->descending).indices, call->in_spec[0]);
    return STN_OK;
}

/* Candidates are gathered where they are fewer than the elements of a line; else the line is sorted. */
static stn_status topk(stn_op_call *call)
{
    const struct topk_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const struct stni_sort_top_attrs top = {{1, {attrs->dim}}, attrs->k, attrs->largest, 0, 1};
    int dim;
    uint32_t axes;
    STNI_TRY(check_dim(call, attrs->dim, &dim));
    const int64_t n = in->ndim > 0 ? in->shape[dim] : 1, least = in->ndim > 0 ? 0 : 1; /* without dims, no result can be empty */
    if (attrs->k < least || attrs->k > n)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'k' got %" PRId64 ", wanted %" PRId64 " <= k <= %" PRId64, attrs->k,
                           least, n);
    const int ranks = in->ndim > 0 ? stni_dim_ranks(in, dim, &axes) : 1;
    if (ranks == 1 || attrs->k <= 1 || attrs->k * ranks <= n) {
        call->out[0] = stni_sort_call(STNI_OP_order_top, call->in[0], &top, &call->out[1]);
        return STN_OK;
    }
    struct result r = sort_dim(call->in[0], dim, attrs->largest);
    call->out[0] = stn_slice(r.values, dim, 0, attrs->k, 1);
    call->out[1] = stn_slice(r.indices, dim, 0, attrs->k, 1);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema sort_schema[] = {
    {"dim", STN_ATTR_INT, offsetof(struct sort_attrs, dim), NULL},
    {"descending", STN_ATTR_BOOL, offsetof(struct sort_attrs, descending), NULL},
    {"stable", STN_ATTR_BOOL, offsetof(struct sort_attrs, stable), NULL},
};
static const stn_attr_schema topk_schema[] = {
    {"k", STN_ATTR_INT, offsetof(struct topk_attrs, k), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct topk_attrs, dim), NULL},
    {"largest", STN_ATTR_BOOL, offsetof(struct topk_attrs, largest), NULL},
    {"sorted", STN_ATTR_BOOL, offsetof(struct topk_attrs, sorted), NULL},
};
static const struct sort_attrs sort_init = {.dim = -1};
static const struct topk_attrs topk_init = {.k = 1, .dim = -1, .largest = 1, .sorted = 1};

const stn_op_desc stni_op_sort = {
    .size = sizeof(stn_op_desc), .name = "sort", STN_INPUTS(inputs), STN_ATTRS(sort_schema, struct sort_attrs),
    .attrs_init = &sort_init, .n_outputs = 2, .impl = &(const stn_op_impl){.compose = sort},
    .signature = "input, dim=, descending=, *, stable=",
};

const stn_op_desc stni_op_argsort = {
    .size = sizeof(stn_op_desc), .name = "argsort", STN_INPUTS(inputs), STN_ATTRS(sort_schema, struct sort_attrs),
    .attrs_init = &sort_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = argsort},
    .signature = "input, dim=, descending=, *, stable=",
};

const stn_op_desc stni_op_topk = {
    .size = sizeof(stn_op_desc), .name = "topk", STN_INPUTS(inputs), STN_ATTRS(topk_schema, struct topk_attrs),
    .attrs_init = &topk_init, .n_outputs = 2, .impl = &(const stn_op_impl){.compose = topk},
    .signature = "input, k, dim=, largest=, sorted=",
};
