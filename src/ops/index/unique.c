/* unique and unique_consecutive: the first of each run of equal elements of a tensor taken flat, which unique sorts
 * before. */
#include "core/shard/spec.h"
#include "core/tensor/tensor.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "ops/common/call.h"
#include "ops/index/named.h"
#include "ops/sort/sort_family.h"
#include "ops/table.h"

#include <shardtensor/ops.h>

#include <stddef.h>
#include <string.h>

enum { VALUES, MOST_RESULTS = 3 };

struct unique_attrs {
    int64_t sorted, return_inverse, return_counts; /* those of unique are sorted anyway */
};

struct consecutive_attrs {
    int64_t return_inverse, return_counts;
};

static stn_tensor *call(enum stni_op_index op, stn_tensor *input, const void *attrs, stn_tensor **inverse,
                        stn_tensor **counts)
{
    const int n = 1 + (inverse != NULL) + (counts != NULL);
    stn_tensor *out[MOST_RESULTS] = {NULL};
    if (input)
        stni_dispatch(input->context->registry->ops[op], 1, &input, attrs, n, out);
    if (inverse)
        *inverse = out[1];
    if (counts)
        *counts = out[n - 1];
    return out[VALUES];
}

stn_tensor *stn_unique(stn_tensor *input, stn_tensor **inverse, stn_tensor **counts)
{
    const struct unique_attrs attrs = {1, inverse != NULL, counts != NULL};
    return call(STNI_OP_unique, input, &attrs, inverse, counts);
}

stn_tensor *stn_unique_consecutive(stn_tensor *input, stn_tensor **inverse, stn_tensor **counts)
{
    const struct consecutive_attrs attrs = {inverse != NULL, counts != NULL};
    return call(STNI_OP_unique_consecutive, input, &attrs, inverse, counts);
}

/* 0, 1, … laid as a line is. */
static stn_tensor *places_along(stn_tensor *line)
{
    struct stni_layout layout = line->spec->layout;
    const stn_spec *spec;
    layout.dtype = STN_DTYPE_I64;
    if (stni_spec_intern(line->context, &layout, &spec) != STN_OK)
        return line->context->error_tensor;
    return stn_arange(line->context, spec, 0, 1);
}

/* What differs from the element before it; the first element has none. */
static stn_tensor *begins_run(stn_tensor *line, stn_tensor *places)
{
    static const int64_t one = 1;
    static const int dim = 0;
    return stn_logical_or(stn_ne(line, stn_roll(line, 1, &one, &dim)), stn_eq_number(places, 0));
}

/* How long runs are that begin at `firsts` of n elements. What follows the last one, around the end, is the first. */
static stn_tensor *lengths(stn_tensor *firsts, int64_t n)
{
    static const int64_t back = -1;
    static const int dim = 0;
    stn_tensor *length = stn_sub(stn_roll(firsts, 1, &back, &dim), firsts);
    return stn_where(stn_le_number(length, 0), stn_add_number(length, (double)n), length);
}

/* The number of its run for each element, at `order` of the input, or where it stands. */
static stn_tensor *runs(stn_tensor *begins, stn_tensor *order, const struct stni_layout *input)
{
    stn_tensor *run = stn_add_number(stn_cumsum(stn_cast(begins, STN_DTYPE_I64), 0), -1);
    if (order)
        run = stn_scatter_from(run, 0, order, run);
    return stn_reshape(run, input->ndim, input->shape);
}

/* Runs of a line without pending reductions. */
static stn_status find_runs(stn_op_call *call, stn_tensor *line, stn_tensor *order, int inverse, int counts)
{
    struct stni_named named;
    STNI_TRY(stn_context_status(call->context));
    stn_tensor *begins = begins_run(line, places_along(line));
    STNI_TRY(stn_context_status(call->context));
    STNI_TRY(stni_named_find(line, begins, &named));
    call->n_out = 1;
    call->out[VALUES] = stni_named_read(&named);
    if (inverse)
        call->out[call->n_out++] = runs(begins, order, &call->in_spec[0]->layout);
    if (counts)
        call->out[call->n_out++] = lengths(named.numbers, call->in_spec[0]->numel);
    return STN_OK;
}

static stn_status unique(stn_op_call *call)
{
    const struct unique_attrs *attrs = call->attrs;
    const stn_ints all = {.n = -1};
    uint32_t dims;
    STNI_TRY(stni_sort_check(call, &all, 0, &dims));
    stn_tensor *order = NULL, *line = stn_flatten(call->in[0], 0, -1);
    line = stn_sort(line, 0, 0, attrs->return_inverse ? &order : NULL);
    return find_runs(call, line, order, attrs->return_inverse != 0, attrs->return_counts != 0);
}

static stn_status unique_consecutive(stn_op_call *call)
{
    const struct consecutive_attrs *attrs = call->attrs;
    stn_tensor *line = stn_flatten(stni_call_complete(call->in[0]), 0, -1);
    return find_runs(call, line, NULL, attrs->return_inverse != 0, attrs->return_counts != 0);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema unique_schema[] = {
    {"sorted", STN_ATTR_BOOL, offsetof(struct unique_attrs, sorted), NULL},
    {"return_inverse", STN_ATTR_BOOL, offsetof(struct unique_attrs, return_inverse), NULL},
    {"return_counts", STN_ATTR_BOOL, offsetof(struct unique_attrs, return_counts), NULL},
};
static const stn_attr_schema consecutive_schema[] = {
    {"return_inverse", STN_ATTR_BOOL, offsetof(struct consecutive_attrs, return_inverse), NULL},
    {"return_counts", STN_ATTR_BOOL, offsetof(struct consecutive_attrs, return_counts), NULL},
};
static const struct unique_attrs attrs_init = {.sorted = 1};

const stn_op_desc stni_op_unique = {
    .size = sizeof(stn_op_desc), .name = "unique", STN_INPUTS(inputs), STN_ATTRS(unique_schema, struct unique_attrs),
    .attrs_init = &attrs_init, .n_outputs = MOST_RESULTS, .impl = &(const stn_op_impl){.compose = unique},
    .signature = "input, sorted=, return_inverse=, return_counts= -> Tensor | (Tensor, Tensor) | (Tensor, Tensor, "
                 "Tensor)",
};

const stn_op_desc stni_op_unique_consecutive = {
    .size = sizeof(stn_op_desc), .name = "unique_consecutive", STN_INPUTS(inputs),
    STN_ATTRS(consecutive_schema, struct consecutive_attrs), .n_outputs = MOST_RESULTS,
    .impl = &(const stn_op_impl){.compose = unique_consecutive},
    .signature = "input, return_inverse=, return_counts= -> Tensor | (Tensor, Tensor) | (Tensor, Tensor, Tensor)",
};
