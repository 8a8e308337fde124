/* from_local for ranks that do not know each other's sizes: shapes are gathered first. */
#include "autograd/node.h"
#include "core/base/host_alloc.h"
#include "ops/redistribute/action.h"
#include "ops/redistribute/local.h"

#include <string.h>

/* What each rank tells: what it finds wrong with its own tensor, and what that is. */
struct told {
    int64_t status, dtype, ndim, requires_grad, shape[STN_MAX_NDIM];
};

enum { TOLD_WORDS = sizeof(struct told) / sizeof(int64_t) };

static void tell(const stn_tensor *local, const stn_mesh *mesh, struct told *out)
{
    *out = (struct told){0};
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

/* Those of all ranks, by world rank: ranks outside the mesh have to know the spec, too. */
static stn_status gather_told(stn_context *context, const struct told *own, struct told *all, int64_t *counts)
{
    struct stni_storage *buffer = NULL;
    size_t bytes = (size_t)context->size * sizeof *all;
    STNI_TRY(stni_context_not_captured(context, "from_local with sizes that ranks ask each other for",
                                       "whose sizes have to be known: give them"));
    STNI_TRY(stni_storage_create(context, bytes + sizeof *own, &buffer));
    char *sent = (char *)buffer->data + bytes;
    stn_queue *queue = context->queue;
    for (int r = 0; r < context->size; r++)
        counts[r] = TOLD_WORDS;
    stn_status status = stni_queue_copy(queue, sent, own, sizeof *own, STNI_COPY_TO_DEVICE);
    if (status == STN_OK)
        status = stni_comm_all_gather(context->comm, queue, sent, buffer->data, counts, STN_DTYPE_I64);
    if (status == STN_OK)
        status = stni_queue_copy(queue, all, buffer->data, bytes, STNI_COPY_TO_HOST);
    stn_status waited = stni_queue_sync_for(queue, STN_SYNC_COUNTS); /* also after a failure: copies read and write the host's arrays */
    stni_storage_release(buffer);
    return status != STN_OK ? status : waited;
}

/* The axis that shards each dim, -1 where none does. */
static stn_status find_axes(const stn_mesh *mesh, const stn_placement *placements, int axis_of[STN_MAX_NDIM])
{
    for (int d = 0; d < STN_MAX_NDIM; d++)
        axis_of[d] = -1;
    for (int a = 0; a < mesh->ndim; a++) {
        int d = placements[a].dim;
        if (placements[a].kind != STN_PLACE_SHARD || mesh->sizes[a] == 1)
            continue;
        if (d < 0 || d >= STN_MAX_NDIM || axis_of[d] >= 0)
            return stni_fail(mesh->context, STN_ERR_ARGUMENT,
                             "from_local_gather_shapes: placements[%d] shards dim %d, wanted at most one "
                             "axis to shard each dim",
                             a, d);
        axis_of[d] = a;
    }
    return STN_OK;
}

/* All members have the same dtype and number of dims, and those with the same coordinate along a dim's axis the same
 * size. `sizes[d]` has space for the pieces of dim d. Every rank comes to the same result. */
static stn_status join(const stn_mesh *mesh, const struct told *all, const int *axis_of, int64_t *const *sizes,
                       int64_t *shape)
{
    const struct told *first = &all[stni_mesh_rank(mesh, 0)];
    for (int i = 0; i < mesh->size; i++) {
        int rank = stni_mesh_rank(mesh, i), coordinate[STN_MAX_MESH_NDIM];
        const struct told *told = &all[rank];
        stni_mesh_find(mesh, rank, coordinate);
        if (told->status != STN_OK)
            return stni_fail(mesh->context, (stn_status)told->status,
                             "from_local_gather_shapes: local of rank %d is missing or on a mesh, "
                             "wanted a local tensor",
                             rank);
        if (told->dtype != first->dtype)
            return stni_fail(mesh->context, STN_ERR_DTYPE,
                             "from_local_gather_shapes: local of rank %d is %s, wanted %s as the others", rank,
                             stn_dtype_name((stn_dtype)told->dtype), stn_dtype_name((stn_dtype)first->dtype));
        if (told->ndim != first->ndim)
            return stni_fail(mesh->context, STN_ERR_SHAPE,
                             "from_local_gather_shapes: local of rank %d has %lld dims, wanted %lld as the others",
                             rank, (long long)told->ndim, (long long)first->ndim);
        for (int d = 0; d < (int)told->ndim; d++) {
            int64_t *size = axis_of[d] < 0 ? &shape[d] : &sizes[d][coordinate[axis_of[d]]];
            if (*size >= 0 && *size != told->shape[d])
                return stni_fail(mesh->context, STN_ERR_SHAPE,
                                 "from_local_gather_shapes: local of rank %d has %lld elements along dim %d, "
                                 "wanted %lld as the others",
                                 rank, (long long)told->shape[d], d, (long long)*size);
            *size = told->shape[d];
        }
    }
    return STN_OK;
}

/* `memory` has space for all pieces of all sharded dims. */
static stn_status make_spec(const stn_mesh *mesh, const stn_placement *placements, const struct told *all,
                            const int *axis_of, int64_t *memory, const stn_spec **out)
{
    const struct told *first = &all[stni_mesh_rank(mesh, 0)];
    int64_t shape[STN_MAX_NDIM], *sizes[STN_MAX_NDIM] = {0};
    for (int d = 0; d < STN_MAX_NDIM; d++) {
        int n = axis_of[d] < 0 ? 0 : mesh->sizes[axis_of[d]];
        shape[d] = -1;
        sizes[d] = n ? memory : NULL;
        for (int i = 0; i < n; i++)
            *memory++ = -1;
    }
    STNI_TRY(join(mesh, all, axis_of, sizes, shape));
    for (int d = 0; d < (int)first->ndim; d++)
        if (axis_of[d] >= 0) {
            shape[d] = 0;
            for (int i = 0; i < mesh->sizes[axis_of[d]]; i++)
                shape[d] += sizes[d][i];
        }
    stn_spec_options options = {.size = sizeof options, .sizes = (const int64_t *const *)sizes};
    return stn_spec_create(mesh->context, mesh, placements, (stn_dtype)first->dtype, (int)first->ndim, shape, &options,
                           out);
}

static stn_status find_spec(stn_tensor *local, const stn_mesh *mesh, const stn_placement *placements,
                            int *requires_grad, const stn_spec **out)
{
    stn_context *context = mesh->context;
    int axis_of[STN_MAX_NDIM];
    struct told own;
    size_t pieces = 0;
    if (!placements)
        return stni_fail(context, STN_ERR_ARGUMENT, "from_local_gather_shapes: placements got NULL");
    STNI_TRY(find_axes(mesh, placements, axis_of));
    for (int a = 0; a < mesh->ndim; a++)
        pieces += (size_t)mesh->sizes[a];
    size_t bytes = (size_t)context->size * (sizeof(struct told) + sizeof(int64_t)) + pieces * sizeof(int64_t);
    struct told *all = stni_malloc(bytes);
    if (!all)
        return stni_fail_memory(context, "shapes of all ranks", bytes);
    int64_t *counts = (int64_t *)(all + context->size);
    tell(local, mesh, &own);
    stn_status status = gather_told(context, &own, all, counts);
    if (status == STN_OK)
        status = make_spec(mesh, placements, all, axis_of, counts + context->size, out);
    if (status == STN_OK)
        *requires_grad = all[stni_mesh_rank(mesh, 0)].requires_grad != 0;
    stni_free(all);
    return status;
}

static const char own_name[] = "from_local_gather_shapes";

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
