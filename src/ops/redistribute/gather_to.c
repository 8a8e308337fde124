/* gather_to: the whole tensor on one rank. The inverse of scatter: a redistribution to a mesh of that rank alone. */
#include "core/redistribute/redistribute.h"
#include "core/tensor/copy_on_write.h"
#include "ops/redistribute/action.h"

/* The tensor's layout on a mesh of the root. */
static stn_status spec_on_root(const stn_tensor *tensor, int root, const stn_spec **out)
{
    static const int one = 1;
    const stn_mesh *mesh = NULL;
    struct stni_layout layout;
    const struct stni_layout *from = &tensor->spec->layout;
    STNI_TRY(stn_mesh_create(tensor->context, 1, &one, NULL, &root, &mesh));
    stni_layout_init(&layout, mesh, from->dtype, from->ndim, from->shape);
    return stni_spec_intern(tensor->context, &layout, out);
}

/* What every other rank gets: no elements, whatever the number of dims. */
static stn_status make_empty(const stn_tensor *tensor, stn_tensor **out)
{
    static const int64_t zeros[STN_MAX_NDIM];
    const struct stni_layout *from = &tensor->spec->layout;
    const stn_spec *spec;
    STNI_TRY(stni_spec_local(tensor->context, from->dtype, from->ndim > 0 ? from->ndim : 1, zeros, &spec));
    return stni_tensor_create(tensor->context, spec, out);
}

static stn_status gather(stn_tensor *tensor, int root, stn_tensor **out)
{
    stn_context *context = tensor->context;
    const stn_spec *spec, *whole;
    stn_tensor *moved;
    if (!tensor->spec->layout.mesh)
        return stni_fail(context, STN_ERR_ARGUMENT, "gather_to: tensor is a local one, wanted one on a mesh");
    if (root < 0 || root >= context->size)
        return stni_fail(context, STN_ERR_ARGUMENT, "gather_to: root got %d, wanted a rank of the world, 0 to %d", root,
                         context->size - 1);
    STNI_TRY(spec_on_root(tensor, root, &spec));
    STNI_TRY(stni_redistribute(tensor, spec, &moved));
    stn_status status = STN_OK;
    if (context->rank != root)
        status = make_empty(tensor, out);
    else if ((status = stni_spec_local(context, spec->layout.dtype, spec->layout.ndim, spec->layout.shape, &whole)) ==
             STN_OK)
        status = stni_tensor_on(context, whole, moved->storage, moved->data, moved->strides, 0, out);
    if (status == STN_OK && moved->storage == tensor->storage) /* it was there, for every rank */
        stni_tensor_show_as_value(*out, tensor);
    stni_tensor_drop(&moved);
    return status;
}

stn_tensor *stn_gather_to(stn_tensor *tensor, int root)
{
    stn_tensor *out = NULL;
    if (!tensor)
        return NULL;
    stn_context *context = tensor->context;
    if (stni_action_begin_on(tensor, "gather_to: tensor") != STN_OK)
        return context->error_tensor;
    const stn_status status = gather(tensor, root, &out);
    return stni_action_give(context, status, out);
}
