#include "ops/index/arguments.h"

#include "ops/common/dims.h"
#include "ops/common/promote.h"

#include <shardtensor/ops.h>

#include <string.h>

static const char *name_of(const stn_op_call *call, int input)
{
    return stn_op_descriptor(call->op)->inputs[input].name;
}

/* A tensor without dims counts as one element along dim 0. */
static int dims_of(const stn_op_call *call, int input)
{
    int ndim = call->in_spec[input]->layout.ndim;
    return ndim > 0 ? ndim : 1;
}

static int64_t length_of(const stn_op_call *call, int input, int dim)
{
    const struct stni_layout *layout = &call->in_spec[input]->layout;
    return layout->ndim > 0 ? layout->shape[dim] : 1;
}

stn_status stni_index_begin(const stn_op_call *call, int64_t dim, struct stni_access_attrs *out)
{
    int wrapped = 0;
    memset(out, 0, sizeof *out);
    STNI_TRY(stni_dim_wrap(call, "dim", dim, call->in_spec[STNI_INDEXED]->layout.ndim, &wrapped));
    out->dim = wrapped;
    const stn_op_desc *desc = stn_op_descriptor(call->op);
    for (int i = 0; i < STNI_OP_COUNT; i++)
        if (stni_op_table[i] == desc)
            out->what = i;
    return STN_OK;
}

stn_status stni_index_whole(const stn_op_call *call, const char *name, const stn_number *number, int64_t *out)
{
    const stn_number whole = number->kind == STN_NUMBER_FLOAT ? stni_number(number->f) : *number;
    if (whole.kind == STN_NUMBER_FLOAT)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %g, wanted a whole number", name, number->f);
    *out = whole.i;
    return STN_OK;
}

stn_status stni_index_dtype(const stn_op_call *call, int input)
{
    stn_dtype dtype = call->in_spec[input]->layout.dtype;
    if (STNI_INDEX_DTYPES >> dtype & 1)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got %s, wanted i64 or i32", name_of(call, input),
                       stn_dtype_name(dtype));
}

stn_status stni_index_same_dtype(const stn_op_call *call)
{
    stn_dtype got = call->in_spec[STNI_SOURCE]->layout.dtype, wanted = call->in_spec[STNI_INDEXED]->layout.dtype;
    if (got == wanted)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got %s, wanted the dtype of 'input', %s", name_of(call, STNI_SOURCE),
                       stn_dtype_name(got), stn_dtype_name(wanted));
}

/* The index is no longer than `input` in any dim but `but`. */
static stn_status within(const stn_op_call *call, int input, int but)
{
    const struct stni_layout *index = &call->in_spec[STNI_INDEX]->layout, *other = &call->in_spec[input]->layout;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    int fits = dims_of(call, STNI_INDEX) == dims_of(call, input);
    for (int d = 0; fits && d < dims_of(call, input) && call->in_spec[STNI_INDEX]->numel > 0; d++)
        fits = d == but || length_of(call, STNI_INDEX, d) <= length_of(call, input, d);
    if (fits)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE, "'index' got shape %s, wanted the dims of '%s', %s, none of them longer%s",
                       stni_shape_text(index->ndim, index->shape, got), name_of(call, input),
                       stni_shape_text(other->ndim, other->shape, wanted), but >= 0 ? " but 'dim'" : "");
}

stn_status stni_index_fits(const stn_op_call *call, int dim)
{
    STNI_TRY(stni_index_dtype(call, STNI_INDEX));
    STNI_TRY(within(call, STNI_INDEXED, dim));
    return call->n_in > STNI_SOURCE && call->in[STNI_SOURCE] ? within(call, STNI_SOURCE, -1) : STN_OK;
}

stn_status stni_index_is_line(const stn_op_call *call)
{
    const struct stni_layout *index = &call->in_spec[STNI_INDEX]->layout;
    STNI_TRY(stni_index_dtype(call, STNI_INDEX));
    if (index->ndim <= 1)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE, "'index' got %d dims, wanted 1", index->ndim);
}

stn_status stni_index_read_number(stn_tensor *tensor, int64_t *out)
{
    stn_tensor *whole = stn_cast(stn_full_tensor(tensor), STN_DTYPE_I64);
    const stn_mesh *mesh = stn_spec_mesh(stn_tensor_spec(tensor));
    return mesh && !stn_mesh_contains_me(mesh) ? STN_OK : stn_to_host(whole, out, sizeof *out);
}

stn_tensor *stni_index_with_dims(stn_tensor *tensor)
{
    int64_t one = 1;
    return stn_tensor_is_error(tensor) || stn_tensor_ndim(tensor) > 0 ? tensor : stn_view(tensor, 1, &one);
}

stn_tensor *stni_index_as(stn_tensor *tensor, stn_tensor *like)
{
    if (stn_tensor_is_error(tensor) || stn_tensor_ndim(tensor) == stn_tensor_ndim(like))
        return tensor;
    return stn_view(tensor, stn_tensor_ndim(like), stn_tensor_shape(like));
}
