/* index_put: elements, or slices, named by several indices, one for each of the first dims, or by masks. These dims are
 * merged into one, and the indices into one index, so that index_write does the rest. */
#include "ops/index/access.h"
#include "ops/index/masks.h"
#include "ops/index/named.h"
#include "ops/index/put_keys.h"

#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"

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

static stn_status check(const stn_op_call *call, struct stni_masks *masks)
{
    const struct stni_layout *input = &call->in_spec[INPUT]->layout, *values = &call->in_spec[VALUES]->layout;
    if (values->dtype != input->dtype)
        return stn_op_fail(call, STN_ERR_DTYPE, "'values' got %s, wanted the dtype of 'input', %s",
                           stn_dtype_name(values->dtype), stn_dtype_name(input->dtype));
    return stni_masks_check(call, INPUT, FIRST, masks);
}

/* Whether all that a mask names gets the same values: how many there are need not be known then. */
static int are_for_all(const stn_op_call *call)
{
    const struct stni_layout *mask = &call->in_spec[FIRST]->layout, *values = &call->in_spec[VALUES]->layout;
    const int rest = call->in_spec[INPUT]->layout.ndim - mask->ndim;
    return values->ndim <= rest || (values->ndim == rest + 1 && values->shape[0] == 1);
}

static stn_status put_for_all(stn_op_call *call)
{
    const struct stni_layout *input = &call->in_spec[INPUT]->layout, *mask = &call->in_spec[FIRST]->layout;
    const struct put_attrs *attrs = call->attrs;
    stn_tensor *where = call->in[FIRST], *from = call->in[VALUES];
    int64_t slice[STN_MAX_NDIM + 1] = {1};
    memcpy(slice + 1, input->shape + mask->ndim, (size_t)(input->ndim - mask->ndim) * sizeof *slice);
    STNI_TRY(stni_check_broadcasts(call, VALUES, 1 + input->ndim - mask->ndim, slice, NULL));
    if (call->in_spec[VALUES]->layout.ndim > input->ndim - mask->ndim)
        from = stn_select(from, 0, 0);
    for (int d = mask->ndim; d < input->ndim; d++)
        where = stn_unsqueeze(where, -1);
    from = stn_expand(from, input->ndim - mask->ndim, input->shape + mask->ndim);
    if (attrs->accumulate)
        from = stn_add(call->in[INPUT], from);
    call->out[0] = stn_where(where, from, call->in[INPUT]);
    return STN_OK;
}

/* The values, expanded to one slice per index. `keys`: the shape of the indices; `shape`: that of the table, whose
 * first dim they stand for. */
static stn_status take_values(const stn_op_call *call, int n_keys, const int64_t *keys, const int64_t *shape, int ndim,
                              stn_tensor **out)
{
    const struct stni_layout *values = &call->in_spec[VALUES]->layout;
    int64_t full[2 * STN_MAX_NDIM], flat[STN_MAX_NDIM], n = 1;
    int n_full = n_keys + ndim - 1, fits = values->ndim <= n_full;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    for (int d = 0; d < n_keys; d++)
        n *= keys[d];
    memcpy(full, keys, (size_t)n_keys * sizeof *full);
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

/* A value for each element, or slice, that a mask names. */
static stn_status put_named(stn_op_call *call)
{
    const struct stni_layout *input = &call->in_spec[INPUT]->layout;
    const int accumulate = ((const struct put_attrs *)call->attrs)->accumulate != 0;
    struct stni_named named;
    stn_tensor *values = NULL;
    STNI_TRY(stni_named_find(call->in[INPUT], call->in[FIRST], &named));
    if (named.outside) {
        call->out[0] = call->in[INPUT];
        return STN_OK;
    }
    const struct stni_layout *rows = &named.rows->spec->layout;
    const int64_t n = stni_named_count(&named);
    STNI_TRY(take_values(call, 1, &n, rows->shape, rows->ndim, &values));
    call->out[0] = stn_reshape(stni_named_write(&named, values, accumulate), input->ndim, input->shape);
    return STN_OK;
}

static stn_status put(stn_op_call *call, int n, stn_tensor *const *indices)
{
    const struct stni_layout *input = &call->in_spec[INPUT]->layout;
    struct stni_access_attrs attrs = {.slices = 1, .what = STNI_OP_index_put};
    struct stni_put_keys at;
    stn_tensor *values = NULL;
    STNI_TRY(stni_put_keys(call->in[INPUT], n, indices, STNI_OP_index_put, &at));
    STNI_TRY(take_values(call, stn_tensor_ndim(at.keys), stn_tensor_shape(at.keys), at.shape, at.ndim, &values));
    const int64_t flat = stn_spec_numel(stn_tensor_spec(at.keys));
    attrs.mode = ((const struct put_attrs *)call->attrs)->accumulate ? STNI_ACCESS_ADD : STNI_ACCESS_SET;
    attrs.wrap = n == 1;
    attrs.quiet = n > 1; /* the keys were checked */
    stn_tensor *out = stni_index_write(at.table, stn_reshape(at.keys, 1, &flat), values, &attrs);
    call->out[0] = n > 1 ? stn_reshape(out, input->ndim, input->shape) : out;
    return STN_OK;
}

static stn_status index_put(stn_op_call *call)
{
    struct stni_masks masks;
    STNI_TRY(check(call, &masks));
    if (masks.alone)
        return are_for_all(call) ? put_for_all(call) : put_named(call);
    STNI_TRY(stni_masks_find(call, FIRST, &masks));
    if (masks.outside) {
        call->out[0] = call->in[INPUT];
        return STN_OK;
    }
    return put(call, masks.n, masks.indices);
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
