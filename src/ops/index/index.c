/* index: elements, or slices, that several indices or masks name in the first dims. */
#include "ops/index/arguments.h"
#include "ops/index/masks.h"
#include "ops/index/named.h"
#include "ops/index/put_keys.h"

#include "ops/common/call.h"

#include <shardtensor/ops.h>

#include <string.h>

enum { INPUT, FIRST };

stn_tensor *stn_index(stn_tensor *input, int n, stn_tensor *const *indices)
{
    stn_tensor *in[STN_MAX_INPUTS] = {input};
    if (n < 1 || n > STN_MAX_NDIM)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "index: 'n' got %d, wanted 1 to %d", n, STN_MAX_NDIM);
    if (!indices)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "index: 'indices' got NULL, wanted 'n' = %d entries", n);
    memcpy(in + FIRST, indices, (size_t)n * sizeof *in);
    return stni_call(STNI_OP_index, FIRST + n, in, NULL);
}

/* The dims that indices stand for as one, and the indices as one. */
static stn_tensor *read(stn_tensor *table, int n, stn_tensor *const *indices)
{
    const int ndim = stn_tensor_ndim(table) - n + 1;
    const int64_t *sizes = stn_tensor_shape(table);
    struct stni_access_attrs by = {.slices = 1, .what = STNI_OP_index, .wrap = n == 1, .quiet = n > 1};
    int64_t shape[STN_MAX_NDIM] = {1};
    stn_tensor *keys = n > 1 ? stni_put_keys(n, indices, sizes, STNI_OP_index) : indices[0];
    for (int d = 0; d < n; d++)
        shape[0] *= sizes[d];
    memcpy(shape + 1, sizes + n, (size_t)(ndim - 1) * sizeof *shape);
    if (n > 1)
        table = stn_reshape(table, ndim, shape);
    if (stn_tensor_is_error(keys) || stn_tensor_ndim(keys) > 0)
        return stni_index_read(table, keys, &by);
    return stn_select(stni_index_read(table, stni_index_with_dims(keys), &by), 0, 0);
}

static stn_status index_of(stn_op_call *call)
{
    struct stni_masks masks;
    struct stni_named named;
    STNI_TRY(stni_masks_check(call, INPUT, FIRST, &masks));
    if (masks.alone) {
        STNI_TRY(stni_named_find(call->in[INPUT], call->in[FIRST], &named));
        call->out[0] = stni_named_read(&named);
        return STN_OK;
    }
    STNI_TRY(stni_masks_find(call, FIRST, &masks));
    call->out[0] = read(call->in[INPUT], masks.n, masks.indices);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}, {.name = "indices", .variadic = 1}};

const stn_op_desc stni_op_index = {
    .size = sizeof(stn_op_desc),
    .name = "index",
    STN_INPUTS(inputs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = index_of},
    .signature = "input, indices[]",
};
