/* from_local, and a spec, for ranks that do not know each other's sizes: shapes are gathered first. */
#include "autograd/node.h"
#include "ops/redistribute/action.h"
#include "ops/redistribute/chunk_shapes.h"
#include "ops/redistribute/local.h"

#include <string.h>

static const char own_name[] = "from_local_gather_shapes";

static void tell(const stn_tensor *local, const stn_mesh *mesh, struct stni_chunk_told *out)
{
    *out = (struct stni_chunk_told){0};
    if (!mesh->member)
        return;
    if (!local || stni_is_error(local) || local->context != mesh->context || local->spec->layout.mesh) {
        out->status = STN_ERR_ARGUMENT;
        return;
    }
    out->dtype = local->spec->layout.dtype;
    out->ndim = local->spec->layout.ndim;
    out->requires_grad = stni_needs_grad(mesh->context, 1, (stn_tensor *const *)&local) != 0;
    memcpy(out->shape, local->spec->layout.shape, sizeof out->shape);
}

/* All ranks tell, for those outside the mesh have to know the spec, too. */
static stn_status find_spec(stn_tensor *local, const stn_mesh *mesh, const stn_placement *placements,
                            int *requires_grad, const stn_spec **out)
{
    const struct stni_chunk_question question = {
        mesh, placements, mesh->context->comm, own_name, "local", "is missing or on a mesh, wanted a local tensor"};
    struct stni_chunk_told own, first;
    if (!placements)
        return stni_fail(mesh->context, STN_ERR_ARGUMENT, "%s: placements got NULL", own_name);
    tell(local, mesh, &own);
    STNI_TRY(stni_chunk_shapes_join(&question, &own, &first, out));
    *requires_grad = first.requires_grad != 0;
    return STN_OK;
}

/* A rank outside the mesh has nothing to give; what comes of it is a view with a history there too, if the members'
 * is. */
static stn_status give_nothing(const stn_spec *spec, int requires_grad, stn_grad_convention convention,
                               stn_tensor **out)
{
    const stn_spec *chunk;
    stn_tensor *local;
    STNI_TRY(stni_spec_of_chunk(spec, &chunk));
    STNI_TRY(stni_tensor_create(spec->context, chunk, &local));
    stn_status status = requires_grad ? stn_set_requires_grad(local, 1) : STN_OK;
    if (status == STN_OK)
        status = stni_from_local(local, spec, convention, own_name, out);
    stni_tensor_drop(&local);
    return status;
}

stn_tensor *stn_from_local_gather_shapes(stn_tensor *local, const stn_mesh *mesh, const stn_placement *placements,
                                         stn_grad_convention convention)
{
    stn_tensor *out = NULL;
    const stn_spec *spec;
    int requires_grad = 0;
    if (!mesh)
        return NULL;
    stn_context *context = mesh->context;
    if (stni_action_begin(context) != STN_OK)
        return context->error_tensor;
    stn_status status = find_spec(local, mesh, placements, &requires_grad, &spec);
    if (status == STN_OK) {
        status = mesh->member ? stni_from_local(local, spec, convention, own_name, &out)
                              : give_nothing(spec, requires_grad, convention, &out);
        stn_spec_release(&spec);
    }
    return stni_action_give(context, status, out);
}

static int is_shape(int ndim, const int64_t *shape)
{
    if (ndim < 0 || ndim > STN_MAX_NDIM || (ndim > 0 && !shape))
        return 0;
    for (int d = 0; d < ndim; d++)
        if (shape[d] < 0)
            return 0;
    return 1;
}

static stn_status spec_of_chunks(const stn_mesh *mesh, const stn_placement *placements, stn_dtype dtype, int ndim,
                                 const int64_t *local_shape, const stn_spec **out)
{
    struct stni_chunk_question question = {.mesh = mesh,
                                           .placements = placements,
                                           .function = "spec_of_chunks",
                                           .chunk = "chunk",
                                           .wrong = "has no shape, wanted up to 8 sizes from 0 on"};
    struct stni_chunk_told own = {.dtype = dtype, .ndim = ndim}, first;
    _Static_assert(STN_MAX_NDIM == 8, "as the text says");
    if (!mesh->member)
        return stni_fail(mesh->context, STN_ERR_ARGUMENT, "spec_of_chunks: this rank is not one of the mesh");
    if (!is_shape(ndim, local_shape))
        own.status = STN_ERR_ARGUMENT;
    else if (ndim > 0)
        memcpy(own.shape, local_shape, (size_t)ndim * sizeof *local_shape);
    STNI_TRY(stni_mesh_comm(mesh, (1u << mesh->ndim) - 1, &question.comm));
    return stni_chunk_shapes_join(&question, &own, &first, out);
}

stn_status stn_spec_of_chunks(const stn_mesh *mesh, const stn_placement *placements, stn_dtype dtype, int ndim,
                              const int64_t *local_shape, const stn_spec **out)
{
    if (out)
        *out = NULL;
    if (!mesh)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(mesh->context));
    if (!placements || !out)
        return stni_action_end(mesh->context, stni_fail(mesh->context, STN_ERR_ARGUMENT, "spec_of_chunks: %s got NULL",
                                                        placements ? "out" : "placements"));
    return stni_action_end(mesh->context, spec_of_chunks(mesh, placements, dtype, ndim, local_shape, out));
}
