/* The reference is one rank in f64: the same op, which the cases themselves have checked in f32. */
#include "cast.h"

#include "compare.h"
#include "number.h"

#include <shardtensor/shardtensor.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct casting {
    struct conform_case *c;
    stn_dtype dtype;
    stn_context *context;
    const stn_op *op;
    stn_tensor *leaf[STN_MAX_INPUTS], *place[STN_MAX_INPUTS], *output[STN_MAX_OUTPUTS];
    int n_places;
    char *error;
    size_t error_size;
};

static int fail(struct casting *k, const char *what, const char *why)
{
    snprintf(k->error, k->error_size, "%s in f64 on one rank: %s", what, why);
    return 0;
}

static stn_dtype wide(stn_dtype dtype)
{
    return dtype == STN_DTYPE_F32 ? STN_DTYPE_F64 : dtype == STN_DTYPE_C64 ? STN_DTYPE_C128 : dtype;
}

/* What a tensor of the file becomes. */
static stn_dtype target(const struct casting *k, stn_dtype dtype)
{
    return wide(dtype) == STN_DTYPE_F64 ? k->dtype : wide(dtype);
}

/* The value in another dtype; rounded to `through` on the way. */
static int convert(struct value *value, stn_dtype through, stn_dtype dtype)
{
    const int parts = number_parts(value->dtype);
    if (value->data == NULL || parts == 0)
        return 1;
    void *data = malloc((size_t)value->numel * stn_dtype_size(dtype) + 1);
    if (data == NULL)
        return 0;
    for (int64_t i = 0; i < value->numel * parts; i++)
        number_put(dtype, data, i, number_round(through, number_at(value->dtype, value->data, i)));
    free(value->data);
    value->data = data;
    value->dtype = dtype;
    return 1;
}

static stn_tensor *make(struct casting *k, const struct value *value)
{
    const stn_spec *spec;
    if (stn_spec_create(k->context, NULL, NULL, value->dtype, value->ndim, value->shape, NULL, &spec) != STN_OK)
        return NULL;
    stn_tensor *tensor = stn_from_host(k->context, spec, value->data);
    stn_spec_release(&spec);
    return tensor;
}

/* What one rank gave takes the place of what was expected. */
static int take(struct casting *k, const char *what, stn_tensor *tensor, struct value *expected)
{
    struct value got = *expected;
    got.dtype = stn_tensor_dtype(tensor);
    if (got.dtype != wide(expected->dtype) || stn_tensor_ndim(tensor) != expected->ndim ||
        memcmp(stn_tensor_shape(tensor), expected->shape, sizeof *expected->shape * (size_t)expected->ndim) != 0)
        return fail(k, what, "has another shape or dtype");
    const size_t bytes = value_bytes(&got);
    got.data = malloc(bytes + 1);
    if (got.data == NULL || stn_to_host(tensor, got.data, bytes) != STN_OK) {
        free(got.data);
        return fail(k, what, "cannot be read");
    }
    if (k->dtype == STN_DTYPE_F64) {
        char reason[160];
        struct value as_written = got;
        as_written.data = malloc(bytes + 1);
        if (as_written.data != NULL)
            memcpy(as_written.data, got.data, bytes);
        const int same = as_written.data != NULL && convert(&as_written, got.dtype, expected->dtype);
        const struct comparison c =
            same ? compare(expected->dtype, expected->numel, expected->data, as_written.data) : (struct comparison){0};
        free(as_written.data);
        if (!comparison_holds(&c, reason, sizeof reason)) {
            free(got.data);
            return fail(k, what, reason);
        }
    }
    const stn_dtype dtype = target(k, expected->dtype);
    free(expected->data);
    *expected = got;
    return convert(expected, got.dtype, dtype) || fail(k, what, "out of memory");
}

static int forward(struct casting *k)
{
    struct conform_case *c = k->c;
    for (int i = 0; i < c->n_inputs; i++) {
        const int place = case_input_place(c, i, stn_op_descriptor(k->op));
        if (place < 0)
            return fail(k, c->input_name[i], "the op has no such input");
        k->leaf[i] = k->place[place] = make(k, &c->input[i]);
        k->n_places = place >= k->n_places ? place + 1 : k->n_places;
        if (k->leaf[i] != NULL && c->grad[i].data != NULL)
            stn_set_requires_grad(k->leaf[i], 1);
    }
    stn_attr attrs[ATTRS_MAX];
    attrs_fit(&c->attrs, stn_op_descriptor(k->op), attrs);
    if (stn_op_invoke(k->op, k->n_places, k->place, c->attrs.n, attrs, stn_op_descriptor(k->op)->n_outputs,
                      k->output) != STN_OK)
        return fail(k, "forward", stn_context_error_text(k->context));
    for (int o = 0; o < c->n_outputs; o++)
        if (k->output[o] == NULL)
            return fail(k, "forward", "fewer outputs came than are expected");
    return 1;
}

static int backward(struct casting *k)
{
    struct conform_case *c = k->c;
    stn_tensor *losses[STN_MAX_OUTPUTS], *cotangents[STN_MAX_OUTPUTS];
    int n = 0;
    for (int o = 0; o < c->n_outputs; o++)
        if (c->cotangent[o].data != NULL) {
            losses[n] = k->output[o];
            cotangents[n++] = make(k, &c->cotangent[o]);
        }
    if (n > 0 && stn_backward_many(k->context, n, losses, cotangents, 0) != STN_OK)
        return fail(k, "backward", stn_context_error_text(k->context));
    return 1;
}

static int refer(struct casting *k)
{
    struct conform_case *c = k->c;
    int differentiable = 0;
    k->op = stn_op_find(k->context, c->op);
    if (k->op == NULL)
        return fail(k, c->op, "no op has this name");
    for (int i = 0; i < c->n_inputs; i++)
        differentiable += c->grad[i].data != NULL;
    if (!forward(k) || (differentiable > 0 && !backward(k)))
        return 0;
    for (int o = 0; o < c->n_outputs; o++)
        if (!take(k, "an output", k->output[o], &c->output[o]))
            return 0;
    for (int i = 0; i < c->n_inputs; i++) {
        stn_tensor *grad = NULL;
        if (c->grad[i].data == NULL)
            continue;
        if (stn_grad_of(k->leaf[i], &grad) != STN_OK || grad == NULL)
            return fail(k, c->input_name[i], "has no gradient");
        if (!take(k, "a gradient", grad, &c->grad[i]))
            return 0;
    }
    return 1;
}

/* All that op and backward read. */
static int convert_given(struct casting *k, int widen)
{
    int good = 1;
    for (int i = 0; i < k->c->n_inputs; i++) {
        struct value *v = &k->c->input[i];
        good = good && convert(v, widen ? target(k, v->dtype) : v->dtype,
                               widen                       ? wide(v->dtype)
                               : v->dtype == STN_DTYPE_F64 ? k->dtype
                                                           : v->dtype);
    }
    for (int o = 0; o < k->c->n_outputs; o++) {
        struct value *v = &k->c->cotangent[o];
        good = good && convert(v, widen ? target(k, v->dtype) : v->dtype,
                               widen                       ? wide(v->dtype)
                               : v->dtype == STN_DTYPE_F64 ? k->dtype
                                                           : v->dtype);
    }
    return good;
}

static int applies(const struct conform_case *c, stn_dtype dtype)
{
    int floating = 0, complex = 0;
    for (int i = 0; i < c->n_inputs; i++) {
        floating += number_parts(c->input[i].dtype) > 0;
        complex += number_parts(c->input[i].dtype) > 1;
    }
    for (int o = 0; o < c->n_outputs; o++)
        complex += number_parts(c->output[o].dtype) > 1;
    return floating > 0 && (complex == 0 || dtype == STN_DTYPE_F64);
}

enum cast_result case_cast(struct conform_case *c, stn_dtype dtype, char *error, size_t error_size)
{
    struct casting k = {.c = c, .dtype = dtype, .error = error, .error_size = error_size};
    if (!applies(c, dtype))
        return CAST_NOTHING;
    if (!convert_given(&k, 1) || stn_context_create(NULL, &k.context) != STN_OK) {
        fail(&k, "the case", "out of memory");
        return CAST_FAILED;
    }
    stn_scope_begin(k.context);
    const int good = refer(&k) && (convert_given(&k, 0) || fail(&k, "the case", "out of memory"));
    stn_scope_end(k.context);
    stn_context_destroy(&k.context);
    return good ? CAST_DONE : CAST_FAILED;
}
