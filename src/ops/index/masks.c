#include "ops/index/masks.h"

#include "ops/common/dims.h"
#include "ops/index/access.h"
#include "ops/placement/pointwise.h"

#include <shardtensor/ops.h>

#include <string.h>

static int is_mask(const stn_op_call *call, int i)
{
    return call->in_spec[i]->layout.dtype == STN_DTYPE_BOOL;
}

/* A mask has the sizes of the dims from `dim` on for which it stands. */
static stn_status check_mask(const stn_op_call *call, int table, int first, int i, int dim)
{
    const struct stni_layout *mask = &call->in_spec[i]->layout, *of = &call->in_spec[table]->layout;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    const int room = of->ndim - dim, n = mask->ndim < room ? mask->ndim : room > 0 ? room : 0;
    if (mask->ndim == 0 && call->n_in - first > 1)
        return stn_op_fail(call, STN_ERR_UNSUPPORTED,
                           "'indices%d' got a mask without dims, wanted none beside other indices", i - first);
    if (mask->ndim == n && memcmp(mask->shape, of->shape + dim, (size_t)n * sizeof *mask->shape) == 0)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE, "'indices%d' got a mask of shape %s, wanted that of dims of '%s', %s",
                       i - first, stni_shape_text(mask->ndim, mask->shape, got),
                       stn_op_descriptor(call->op)->inputs[table].name, stni_shape_text(n, of->shape + dim, wanted));
}

/* `n` indices, those that are absent left out. */
static stn_status check_broadcast(const stn_op_call *call, int n, const stn_spec *const *indices)
{
    char got[STNI_SHAPE_TEXT], before[STNI_SHAPE_TEXT];
    stn_meta common;
    const int i = stni_pointwise_misfit(n, indices, &common);
    if (i < 0)
        return STN_OK;
    const struct stni_layout *index = &indices[i]->layout;
    return stn_op_fail(call, STN_ERR_SHAPE, "'indices%d' got shape %s, wanted one that broadcasts with %s", i,
                       stni_shape_text(index->ndim, index->shape, got),
                       stni_shape_text(common.ndim, common.shape, before));
}

stn_status stni_masks_check(const stn_op_call *call, int table, int first, struct stni_masks *out)
{
    const int n_indices = call->n_in - first, ndim = call->in_spec[table]->layout.ndim;
    const stn_spec *integers[STN_MAX_INPUTS];
    int dims = 0;
    for (int i = first; i < call->n_in; i++) {
        const stn_dtype dtype = call->in_spec[i]->layout.dtype;
        if (is_mask(call, i))
            STNI_TRY(check_mask(call, table, first, i, dims));
        else if (!(STNI_INDEX_DTYPES >> dtype & 1))
            return stn_op_fail(call, STN_ERR_DTYPE, "'indices%d' got %s, wanted i64, i32 or bool", i - first,
                               stn_dtype_name(dtype));
        integers[i - first] = is_mask(call, i) ? NULL : call->in_spec[i];
        dims += is_mask(call, i) ? call->in_spec[i]->layout.ndim : 1;
    }
    if (n_indices < 1 || dims > ndim)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'indices' got %d tensors for %d dims, wanted 1 to the %d dims of '%s'", n_indices, dims,
                           ndim, stn_op_descriptor(call->op)->inputs[table].name);
    out->alone = n_indices == 1 && is_mask(call, first);
    out->n = dims;
    return check_broadcast(call, n_indices, integers);
}

stn_status stni_masks_find(const stn_op_call *call, int first, struct stni_masks *masks)
{
    const stn_spec *specs[STN_MAX_NDIM];
    int n = 0;
    masks->outside = 0;
    for (int i = first; i < call->n_in; i++) {
        if (!is_mask(call, i)) {
            masks->indices[n++] = call->in[i];
            continue;
        }
        const stn_mesh *mesh = call->in_spec[i]->layout.mesh;
        stn_tensor *found = stn_nonzero(call->in[i]);
        masks->outside |= mesh && !mesh->member;
        for (int d = 0; d < call->in_spec[i]->layout.ndim; d++)
            masks->indices[n++] = stn_select(found, 1, d);
    }
    STNI_TRY(stn_context_status(call->context));
    for (int d = 0; d < n; d++)
        specs[d] = masks->indices[d]->spec;
    return check_broadcast(call, n, specs);
}
