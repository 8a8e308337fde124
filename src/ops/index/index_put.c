/* index_put: elements, or slices, named by several indices, one for each of the first dims. These dims are merged
 * into one, and the indices into one index, so that index_write does the rest. */
#include "ops/index/arguments.h"
#include "ops/index/put_keys.h"

#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/placement/pointwise.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

enum { INPUT, VALUES, FIRST };

struct put_attrs {
    int64_t accumulate;
};

stn_tensor *stn_index_put(stn_tensor *input, int n, stn_tensor *const *indices, stn_tensor *values, int accumulate)
{
    const struct put_attrs attrs = {accumulate};
    stn_tensor *in[STN_MAX_INPUTS] = {input, values};
    if (n < 1 || n > STN_MAX_NDIM)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "index_put: 'n' got %d, wanted 1 to %d", n, STN_MAX_NDIM);
    if (!indices)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "index_put: 'indices' got NULL, wanted 'n' = %d entries", n);
    memcpy(in + FIRST, indices, (size_t)n * sizeof *in);
    return stni_call(STNI_OP_index_put, FIRST + n, in, &attrs);
}

static int n_indices(const stn_op_call *call)
{
    return call->n_in - FIRST;
}

static stn_status unknown_shape(const stn_op_call *call, int i)
{
    return stn_op_fail(call, STN_ERR_UNSUPPORTED,
                       "'indices%d' got bool, wanted i64 or i32: how many elements a mask names depends on data",
                       i - FIRST);
}

static stn_status check_broadcast(const stn_op_call *call)
{
    stn_meta common;
    char got[STNI_SHAPE_TEXT], before[STNI_SHAPE_TEXT];
    int i = stni_pointwise_misfit(n_indices(call), call->in_spec + FIRST, &common);
    if (i < 0)
        return STN_OK;
    const struct stni_layout *index = &call->in_spec[FIRST + i]->layout;
    return stn_op_fail(call, STN_ERR_SHAPE, "'indices%d' got shape %s, wanted one that broadcasts with %s", i,
                       stni_shape_text(index->ndim, index->shape, got),
                       stni_shape_text(common.ndim, common.shape, before));
}

static stn_status check(const stn_op_call *call)
{
    const struct stni_layout *input = &call->in_spec[INPUT]->layout, *values = &call->in_spec[VALUES]->layout;
    if (n_indices(call) < 1 || n_indices(call) > input->ndim)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'indices' got %d tensors, wanted 1 to the %d dims of 'input'",
                           n_indices(call), input->ndim);
    if (values->dtype != input->dtype)
        return stn_op_fail(call, STN_ERR_DTYPE, "'values' got %s, wanted the dtype of 'input', %s",
                           stn_dtype_name(values->dtype), stn_dtype_name(input->dtype));
    for (int i = FIRST; i < call->n_in; i++) {
        stn_dtype dtype = call->in_spec[i]->layout.dtype;
        if (dtype == STN_DTYPE_BOOL && n_indices(call) > 1)
            return unknown_shape(call, i);
        if (dtype != STN_DTYPE_BOOL && !(STNI_INDEX_DTYPES >> dtype & 1))
            return stn_op_fail(call, STN_ERR_DTYPE, "'indices%d' got %s, wanted i64 or i32", i - FIRST,
                               stn_dtype_name(dtype));
    }
    return check_broadcast(call);
}

/* How many elements a mask names depends on data, but where all of them get the same value that number is not
 * needed. */
static stn_status put_masked(stn_op_call *call)
{
    const struct stni_layout *input = &call->in_spec[INPUT]->layout, *mask = &call->in_spec[FIRST]->layout,
                             *values = &call->in_spec[VALUES]->layout;
    const struct put_attrs *attrs = call->attrs;
    stn_tensor *where = call->in[FIRST], *from = call->in[VALUES];
    int one = values->ndim == input->ndim - mask->ndim + 1 && values->shape[0] == 1;
    if (mask->ndim <= input->ndim && values->ndim > input->ndim - mask->ndim + one)
        return unknown_shape(call, FIRST);
    if (mask->ndim > input->ndim || memcmp(mask->shape, input->shape, (size_t)mask->ndim * sizeof *mask->shape) != 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'indices0' got a mask of %d dims, wanted the first dims of 'input'",
                           mask->ndim);
    if (one)
        from = stn_select(from, 0, 0);
    for (int d = mask->ndim; d < input->ndim; d++)
        where = stn_unsqueeze(where, -1);
    from = stn_expand(from, input->ndim - mask->ndim, input->shape + mask->ndim);
    if (attrs->accumulate)
        from = stn_add(call->in[INPUT], from);
    call->out[0] = stn_where(where, from, call->in[INPUT]);
    return STN_OK;
}

/* The values, expanded to one slice per index. `n`: how many indices; `shape`: that of the table, whose first dim
 * they stand for. */
static stn_status take_values(const stn_op_call *call, stn_tensor *keys, const int64_t *shape, int ndim,
                              stn_tensor **out)
{
    const struct stni_layout *values = &call->in_spec[VALUES]->layout;
    int64_t full[2 * STN_MAX_NDIM], flat[STN_MAX_NDIM], n = stn_spec_numel(stn_tensor_spec(keys));
    int n_keys = stn_tensor_ndim(keys), n_full = n_keys + ndim - 1, fits = values->ndim <= n_full;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    memcpy(full, stn_tensor_shape(keys), (size_t)n_keys * sizeof *full);
    memcpy(full + n_keys, shape + 1, (size_t)(ndim - 1) * sizeof *full);
    for (int d = 0; d < values->ndim && fits; d++)
        fits = values->shape[d] == 1 || values->shape[d] == full[n_full - values->ndim + d];
    if (!fits || n_full > STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'values' got shape %s, wanted one that can be repeated to %s, of at most %d dims",
                           stni_shape_text(values->ndim, values->shape, got),
                           stni_shape_text(n_full < STN_MAX_NDIM ? n_full : STN_MAX_NDIM, full, wanted), STN_MAX_NDIM);
    memcpy(flat, shape, (size_t)ndim * sizeof *flat);
    flat[0] = n;
    *out = stn_reshape(stn_expand(call->in[VALUES], n_full, full), ndim, flat);
    return STN_OK;
}

static stn_status put(stn_op_call *call)
{
    const struct stni_layout *input = &call->in_spec[INPUT]->layout;
    struct stni_access_attrs attrs = {.slices = 1, .what = STNI_OP_index_put};
    int n = n_indices(call), ndim = input->ndim - n + 1;
    int64_t shape[STN_MAX_NDIM] = {1}, flat;
    stn_tensor *keys = call->in[FIRST], *values = NULL, *table = call->in[INPUT];
    for (int d = 0; d < n; d++)
        shape[0] *= input->shape[d];
    memcpy(shape + 1, input->shape + n, (size_t)(ndim - 1) * sizeof *shape);
    if (n > 1) {
        keys = stni_put_keys(n, call->in + FIRST, input->shape);
        table = stn_reshape(table, ndim, shape);
    }
    if (stn_tensor_is_error(keys))
        return stn_context_status(call->context);
    STNI_TRY(take_values(call, keys, shape, ndim, &values));
    flat = stn_spec_numel(stn_tensor_spec(keys));
    attrs.mode = ((const struct put_attrs *)call->attrs)->accumulate ? STNI_ACCESS_ADD : STNI_ACCESS_SET;
    attrs.wrap = n == 1;
    attrs.quiet = n > 1; /* the keys were checked */
    stn_tensor *out = stni_index_write(table, stn_reshape(keys, 1, &flat), values, &attrs);
    call->out[0] = n > 1 ? stn_reshape(out, input->ndim, input->shape) : out;
    return STN_OK;
}

static stn_status index_put(stn_op_call *call)
{
    STNI_TRY(check(call));
    return call->in_spec[FIRST]->layout.dtype == STN_DTYPE_BOOL ? put_masked(call) : put(call);
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "values"}, {.name = "indices", .variadic = 1}};
static const stn_attr_schema schema[] = {{"accumulate", STN_ATTR_BOOL, offsetof(struct put_attrs, accumulate), NULL}};

const stn_op_desc stni_op_index_put = {
    .size = sizeof(stn_op_desc),
    .name = "index_put",
    STN_INPUTS(inputs),
    STN_ATTRS(schema, struct put_attrs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = index_put},
    .signature = "input, indices[], values, accumulate=",
};
