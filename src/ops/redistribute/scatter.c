/* scatter: one rank's local tensor, over a mesh. Each chunk is one message from the root, straight from its place in
 * the tensor. */
#include "core/base/host_alloc.h"
#include "ops/redistribute/action.h"
#include "ops/redistribute/local.h"
#include "ops/common/dims.h"

#include <shardtensor/autograd.h>

#include <stdio.h>
#include <string.h>

/* Checks that every rank can do. */
static stn_status check_spec(stn_context *context, int root, const stn_spec *spec)
{
    STNI_TRY(stni_check_mesh_spec(context, spec, "scatter"));
    if (root < 0 || root >= context->size)
        return stni_fail(context, STN_ERR_ARGUMENT, "scatter: root got %d, wanted a rank of the world, 0 to %d", root,
                         context->size - 1);
    for (int a = 0; a < spec->layout.mesh->ndim; a++)
        if (spec->layout.placement[a].kind == STN_PLACE_PARTIAL && spec->layout.placement[a].op == STN_PROD)
            return stni_fail(context, STN_ERR_ARGUMENT,
                             "scatter: spec's axis %d is a pending product, wanted another placement", a);
    return STN_OK;
}

/* Checks that only the root can do; writes the reason of a failure to `text`. */
static stn_status check_chunk(const stn_tensor *local, const stn_spec *spec, char *text, size_t size)
{
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    const struct stni_layout *to = &spec->layout;
    if (!local || stni_is_error(local) || local->context != spec->context || local->spec->layout.mesh) {
        snprintf(text, size, "scatter: local is missing or on a mesh, wanted a local tensor on the root");
        return STN_ERR_ARGUMENT;
    }
    const struct stni_layout *from = &local->spec->layout;
    if (from->ndim != to->ndim || memcmp(from->shape, to->shape, sizeof from->shape) != 0) {
        snprintf(text, size, "scatter: local got shape %s, wanted %s", stni_shape_text(from->ndim, from->shape, got),
                 stni_shape_text(to->ndim, to->shape, wanted));
        return STN_ERR_SHAPE;
    }
    if (from->dtype != to->dtype) {
        snprintf(text, size, "scatter: local got %s, wanted %s", stn_dtype_name(from->dtype),
                 stn_dtype_name(to->dtype));
        return STN_ERR_DTYPE;
    }
    return STN_OK;
}

/* A rank that holds nothing of the tensor's values: outside the mesh, or where axis rank 0 holds the addend of a
 * sum. */
static int holds_values(const stn_spec *spec, int rank)
{
    int coordinate[STN_MAX_MESH_NDIM];
    if (!stni_mesh_find(spec->layout.mesh, rank, coordinate))
        return 0;
    for (int a = 0; a < spec->layout.mesh->ndim; a++)
        if (spec->layout.placement[a].kind == STN_PLACE_PARTIAL && spec->layout.placement[a].op == STN_SUM &&
            coordinate[a] != 0)
            return 0;
    return 1;
}

static int64_t numel_of(int ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= shape[d];
    return n;
}

static int list_chunks(const stn_tensor *local, const stn_spec *spec, stn_message *messages)
{
    int64_t size = (int64_t)stn_dtype_size(spec->layout.dtype);
    int n = 0;
    for (int r = 0; r < local->context->size; r++) {
        int64_t offset[STN_MAX_NDIM], at = 0;
        stn_message *m = &messages[n];
        m->peer = r;
        m->box.ndim = spec->layout.ndim;
        stn_spec_chunk(spec, r, m->box.shape, offset);
        if (!holds_values(spec, r) || numel_of(spec->layout.ndim, m->box.shape) == 0)
            continue;
        for (int d = 0; d < spec->layout.ndim; d++) {
            m->box.strides[d] = local->strides[d];
            at += offset[d] * local->strides[d];
        }
        m->box.data = (char *)local->data + at * size;
        n++;
    }
    return n;
}

static stn_status exchange(const stn_tensor *local, int root, stn_tensor *out)
{
    stn_context *context = out->context;
    stn_message own = {.peer = root};
    stn_exchange e = {.dtype = out->spec->layout.dtype, .recv = &own};
    stn_message *messages = NULL;
    if (context->rank == root) {
        messages = stni_malloc((size_t)context->size * sizeof *messages);
        if (!messages)
            return stni_fail_memory(context, "messages of a scatter", (size_t)context->size * sizeof *messages);
        e.send = messages;
        e.n_send = list_chunks(local, out->spec, messages);
    }
    if (holds_values(out->spec, context->rank) && out->spec->local_numel > 0) {
        stni_tensor_box(out, &own.box);
        e.n_recv = 1;
    }
    stn_status status = stni_comm_exchange(context->comm, context->queue, &e);
    stni_free(messages);
    return status;
}

static stn_status scatter(stn_context *context, stn_tensor *local, int root, const stn_spec *spec, stn_tensor **out)
{
    char text[STNI_ERROR_TEXT] = "";
    stn_status status = STN_OK;
    STNI_TRY(check_spec(context, root, spec));
    if (context->rank == root)
        status = check_chunk(local, spec, text, sizeof text);
    STNI_TRY(stn_agree(context, status, text));
    STNI_TRY(holds_values(spec, context->rank) ? stni_tensor_create(context, spec, out)
                                               : stni_zeros(context, spec, out));
    status = exchange(local, root, *out);
    if (status != STN_OK)
        stni_tensor_drop(out);
    return status;
}

stn_tensor *stn_scatter(stn_context *context, stn_tensor *local, int root, const stn_spec *spec, int requires_grad)
{
    stn_tensor *out = NULL;
    if (!context)
        return NULL;
    if (stni_action_begin(context) != STN_OK)
        return context->error_tensor;
    stn_status status = scatter(context, local, root, spec, &out);
    if (status == STN_OK && requires_grad) {
        status = stn_set_requires_grad(out, 1);
        if (status != STN_OK)
            stni_tensor_drop(&out);
    }
    return stni_action_give(context, status, out);
}
