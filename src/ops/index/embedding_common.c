/* What embedding and its backward share: judging arguments, joining cuts. */
#include "ops/index/embedding.h"

#include "ops/util/dims.h"

#include <inttypes.h>
#include <string.h>

int64_t stni_padding_row(const stn_number *padding_idx, int64_t n_rows)
{
    if (padding_idx->kind == STN_NUMBER_NONE)
        return -1;
    return padding_idx->i < 0 ? padding_idx->i + n_rows : padding_idx->i;
}

stn_status stni_embedding_check(const stn_op_call *call, const stn_number *padding_idx, int64_t n_rows, const stn_spec *index)
{
    stn_dtype dtype = index->layout.dtype;
    if (!(STNI_INDEX_DTYPES >> dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted i64 or i32", stn_dtype_name(dtype));
    if (padding_idx->kind == STN_NUMBER_NONE)
        return STN_OK;
    if (padding_idx->kind == STN_NUMBER_FLOAT)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'padding_idx' got %g, wanted a whole number", padding_idx->f);
    if (padding_idx->i < -n_rows || padding_idx->i >= n_rows)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'padding_idx' got %" PRId64 ", wanted %" PRId64 " <= padding_idx < %" PRId64,
                           padding_idx->i, -n_rows, n_rows);
    return STN_OK;
}

static uint32_t mask_of(int n, const int *axes)
{
    uint32_t mask = 0;
    for (int i = 0; i < n; i++)
        mask |= 1u << axes[i];
    return mask;
}

/* Puts `axes` into the places that they have together in the order of axes. */
static void order_axes(struct stni_layout *layout, int n, const int *axes)
{
    uint32_t mask = mask_of(n, axes);
    for (int k = 0, i = 0; k < layout->mesh->ndim; k++)
        if (mask >> layout->axis_order[k] & 1)
            layout->axis_order[k] = (uint8_t)axes[i++];
}

void stni_embedding_take_cuts(struct stni_layout *to, int to_dim, const struct stni_layout *from, int from_dim, int dims)
{
    for (int d = 0; d < dims; d++) {
        int theirs[STN_MAX_MESH_NDIM], own[STN_MAX_MESH_NDIM];
        int n = stni_layout_dim_axes(from, from_dim + d, theirs);
        int n_own = stni_layout_dim_axes(to, to_dim + d, own);
        if (n == 0 || to->split[to_dim + d] || mask_of(n, theirs) != mask_of(n_own, own))
            continue;
        order_axes(to, n, theirs);
        to->split[to_dim + d] = from->split[from_dim + d];
    }
}

uint32_t stni_dim_axes_mask(const stn_spec *spec, int dim)
{
    int axes[STN_MAX_MESH_NDIM];
    return mask_of(stni_layout_dim_axes(&spec->layout, dim, axes), axes);
}

void stni_embedding_report(const stn_tensor *input, const char *what, struct stni_rows_report *out)
{
    out->context = input->context;
    out->what = what;
    memcpy(out->offset, input->spec->local_offset, sizeof out->offset);
}
