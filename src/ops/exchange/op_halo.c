/* Halos for ops of one's own. */
#include "ops/exchange/widths.h"

#include <string.h>

static stn_status read_widths(const stn_op_call *call, const stn_halo *halo, const stn_tensor *t, const stn_box *box,
                              struct stni_widths *w)
{
    struct stni_error error = {.status = STN_OK};
    if (call == NULL || box == NULL)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "halo: the box got NULL");
    if (t == NULL || t->spec == NULL)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "halo: the tensor got %s, wanted an input or output of the op",
                           t ? "an error tensor" : "NULL");
    for (int a = 0; t->spec->layout.mesh != NULL && a < t->spec->layout.mesh->ndim; a++)
        if (stn_spec_placement(t->spec, a).kind == STN_PLACE_PARTIAL)
            return stn_op_fail(call, STN_ERR_PARTIAL,
                               "halo: the tensor is Partial along axis %d, wanted Shard or Replicate", a);
    if (stni_widths_read(halo, t->spec, w, &error) != STN_OK)
        return stn_op_fail(call, error.status, "%s", error.text);
    return STN_OK;
}

/* Of an empty chunk, and outside of the mesh, a box without elements. */
static stn_status make_box(const stn_op_call *call, const struct stni_widths *w, stn_box *box)
{
    int64_t n = 1;
    memset(box, 0, sizeof *box);
    box->ndim = w->spec->layout.ndim;
    if (w->spec->local_numel > 0)
        stni_widths_shape(w, box->shape);
    for (int d = box->ndim - 1; d >= 0; d--) {
        box->strides[d] = n;
        n *= box->shape[d];
    }
    return w->spec->local_numel > 0
               ? stn_op_scratch(call, (size_t)n * stn_dtype_size(w->spec->layout.dtype), &box->data)
               : STN_OK;
}

stn_status stn_op_halo_box(const stn_op_call *call, stn_tensor *like, const stn_halo *halo, stn_box *extended)
{
    struct stni_widths w;
    STNI_TRY(read_widths(call, halo, like, extended, &w));
    return make_box(call, &w, extended);
}

stn_status stn_op_halo(const stn_op_call *call, stn_tensor *in, const stn_halo *halo, stn_box *extended)
{
    struct stni_widths w;
    STNI_TRY(read_widths(call, halo, in, extended, &w));
    STNI_TRY(make_box(call, &w, extended));
    return stni_widths_fetch(call, &w, in, extended);
}

stn_status stn_op_halo_add(const stn_op_call *call, const stn_box *extended, const stn_halo *halo, stn_tensor *out)
{
    struct stni_widths w;
    STNI_TRY(read_widths(call, halo, out, extended, &w));
    return stni_widths_add(call, &w, extended, out);
}
