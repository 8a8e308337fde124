#include "ops/common/check.h"

#include "core/base/dtype.h"
#include "ops/common/dims.h"
#include "ops/common/promote.h"

#include <stdio.h>
#include <string.h>

static const char *name_of(const stn_op_call *call, int input)
{
    return stn_op_descriptor(call->op)->inputs[input].name;
}

/* What stands between an owner and what is his. */
static const char *space_after(const char *whose)
{
    return whose ? " " : "";
}

stn_status stni_check_floating(const stn_op_call *call, int input)
{
    const stn_dtype dtype = call->in_spec[input]->layout.dtype;
    if (stni_dtype_is_floating(dtype))
        return STN_OK;
    return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got %s, wanted a floating dtype", name_of(call, input),
                       stn_dtype_name(dtype));
}

/* "f32 f64 bf16 or f16" */
static void list_dtypes(uint32_t dtypes, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    dtypes &= (1u << STN_DTYPE_COUNT) - 1;
    for (int d = 0; dtypes >> d; d++) {
        if (!(dtypes >> d & 1))
            continue;
        const char *before = at == 0 ? "" : dtypes >> d == 1 ? " or " : " ";
        at += (size_t)snprintf(text + at, size - at, "%s%s", before, stn_dtype_name((stn_dtype)d));
    }
}

stn_status stni_check_dtypes(const stn_op_call *call, stn_dtype dtype, uint32_t dtypes)
{
    const stn_op_desc *desc = stn_op_descriptor(call->op);
    char wanted[10 * STN_DTYPE_COUNT];
    if (dtypes >> dtype & 1)
        return STN_OK;
    list_dtypes(dtypes, wanted, sizeof wanted);
    if (desc->n_inputs == 1)
        return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got %s, wanted %s", desc->inputs[0].name, stn_dtype_name(dtype),
                           wanted);
    return stn_op_fail(call, STN_ERR_DTYPE, "got dtype %s, wanted %s", stn_dtype_name(dtype), wanted);
}

stn_status stni_check_dtype(const stn_op_call *call, int input, stn_dtype dtype, const char *whose)
{
    const stn_dtype own = call->in_spec[input]->layout.dtype;
    if (own == dtype)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got %s, wanted %s%s%s", name_of(call, input), stn_dtype_name(own),
                       whose ? whose : "", space_after(whose), stn_dtype_name(dtype));
}

stn_status stni_check_number(const stn_op_call *call, const char *name, const stn_number *number, stn_dtype dtype)
{
    if (stni_number_fits(number, dtype))
        return STN_OK;
    return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got %g, wanted a number that %s has", name, number->f,
                       stn_dtype_name(dtype));
}

static stn_status fail_shape(const stn_op_call *call, int input, int ndim, const int64_t *shape, const char *what,
                             const char *whose)
{
    const struct stni_layout *own = &call->in_spec[input]->layout;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got shape %s, wanted %s%s%s%s", name_of(call, input),
                       stni_shape_text(own->ndim, own->shape, got), what, whose ? whose : "", space_after(whose),
                       stni_shape_text(ndim, shape, wanted));
}

stn_status stni_check_shape(const stn_op_call *call, int input, int ndim, const int64_t *shape, const char *whose)
{
    const struct stni_layout *own = &call->in_spec[input]->layout;
    const int same = own->ndim == ndim && (ndim == 0 || memcmp(own->shape, shape, (size_t)ndim * sizeof *shape) == 0);
    return same ? STN_OK : fail_shape(call, input, ndim, shape, "", whose);
}

stn_status stni_check_broadcasts(const stn_op_call *call, int input, int ndim, const int64_t *shape, const char *whose)
{
    const struct stni_layout *own = &call->in_spec[input]->layout;
    int fits = own->ndim <= ndim;
    for (int d = 1; fits && d <= own->ndim; d++)
        fits = own->shape[own->ndim - d] == 1 || own->shape[own->ndim - d] == shape[ndim - d];
    return fits ? STN_OK : fail_shape(call, input, ndim, shape, "one that broadcasts to ", whose);
}

stn_meta stni_meta_of(const struct stni_layout *layout)
{
    stn_meta meta = {.dtype = layout->dtype, .ndim = layout->ndim};
    memcpy(meta.shape, layout->shape, sizeof meta.shape);
    return meta;
}

stn_status stni_check_same(stn_op_call *call)
{
    call->out_meta[0] = stni_meta_of(&call->in_spec[0]->layout);
    return STN_OK;
}

stn_status stni_place_same(stn_op_call *call)
{
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}
