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

static stn_status read(const stn_op_call *call, const struct stni_masks *masks, stn_tensor **out)
{
    const int several = masks->n > 1;
    const struct stni_access_attrs by = {.slices = 1, .what = STNI_OP_index, .wrap = !several, .quiet = several};
    struct stni_put_keys at;
    STNI_TRY(stni_put_keys(call->in[INPUT], masks->n, masks->indices, STNI_OP_index, &at));
    *out = stni_index_read(at.table, stni_index_with_dims(at.keys), &by);
    if (stn_tensor_ndim(at.keys) == 0)
        *out = stn_select(*out, 0, 0);
    return STN_OK;
}

/* The dims of the indices' common shape, in which a mask has one, stand in place of those that they index. */
static stn_status check_dims(const stn_op_call *call, int indexed)
{
    const int ndim = call->in_spec[INPUT]->layout.ndim;
    int common = 0;
    for (int i = FIRST; i < call->n_in; i++) {
        const struct stni_layout *index = &call->in_spec[i]->layout;
        const int dims = index->dtype == STN_DTYPE_BOOL ? 1 : index->ndim;
        common = dims > common ? dims : common;
    }
    if (common + ndim - indexed > STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'indices' got %d dims in place of %d of the %d of 'input', wanted at most %d in all",
                           common, indexed, ndim, STN_MAX_NDIM);
    return STN_OK;
}

static stn_status index_of(stn_op_call *call)
{
    struct stni_masks masks;
    struct stni_named named;
    STNI_TRY(stni_masks_check(call, INPUT, FIRST, &masks));
    STNI_TRY(check_dims(call, masks.n));
    if (masks.alone) {
        STNI_TRY(stni_named_find(call->in[INPUT], call->in[FIRST], &named));
        call->out[0] = stni_named_read(&named);
        return STN_OK;
    }
    STNI_TRY(stni_masks_find(call, FIRST, &masks));
    return read(call, &masks, &call->out[0]);
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
