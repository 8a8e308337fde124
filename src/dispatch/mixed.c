#include "dispatch/mixed.h"

#include "core/base/thread_state.h"
#include "core/tensor/tensor.h"
#include "dispatch/schema.h"

static const stn_mesh *mesh_of(const stn_op *op, const stn_tensor *t)
{
    return t && !stni_is_error(t) && t->context == op->context ? t->spec->layout.mesh : NULL;
}

static int is_local(const stn_op *op, const stn_tensor *t)
{
    return t && !stni_is_error(t) && t->context == op->context && !t->spec->layout.mesh;
}

/* The mesh of the first input on one. */
static const stn_mesh *find_mesh(const stn_op *op, int n_in, stn_tensor *const *in)
{
    const stn_mesh *mesh = NULL;
    for (int i = 0; i < n_in && !mesh; i++)
        mesh = mesh_of(op, in[i]);
    return mesh;
}

/* Collectives of per-rank programs mean local tensors; what is changed in place is the caller's own; inside a
 * conversion all are chunks. */
int stni_mixed_found(const stn_op *op, int n_in, stn_tensor *const *in)
{
    int n_local = 0;
    if (n_in > STN_MAX_INPUTS || (op->desc->flags & STN_OP_PER_RANK) || stni_thread_state_here()->conversion_depth > 0)
        return 0;
    for (int i = 0; i < n_in; i++)
        n_local += is_local(op, in[i]);
    return n_local > 0 && find_mesh(op, n_in, in) && !((op->desc->flags & STN_OP_IN_PLACE) && is_local(op, in[0]));
}

static void tell(const stn_op *op, int i)
{
    stn_context *context = op->context;
    stn_op *told = context->registry->ops[op->index];
    if (context->promotion != STN_PROMOTE_WARN || told->told_promotion)
        return;
    told->told_promotion = 1;
    stni_log(context, STN_LOG_WARNING,
             "%s: input '%s' is local and others are on a mesh: it is taken for a replicated tensor", op->desc->name,
             stni_input_name(op->desc, i).text);
}

/* A rank outside of the mesh has nothing of it, but a history where the others have one. */
static stn_status make_chunk(const stn_tensor *local, const stn_spec *spec, stn_tensor **out)
{
    const stn_spec *chunk;
    STNI_TRY(stni_spec_of_chunk(spec, &chunk));
    STNI_TRY(stni_tensor_create(spec->context, chunk, out));
    stn_status status = local->flags & STNI_TENSOR_REQUIRES_GRAD ? stn_set_requires_grad(*out, 1) : STN_OK;
    if (status != STN_OK)
        stni_tensor_drop(out);
    return status;
}

/* One reference to a tensor on the mesh whose chunk on each of its ranks is `local`. */
static stn_status replicate(const stn_mesh *mesh, stn_tensor *local, stn_tensor **out)
{
    struct stni_layout layout;
    const struct stni_layout *from = &local->spec->layout;
    const stn_spec *spec;
    stn_tensor *chunk = NULL;
    stni_layout_init(&layout, mesh, from->dtype, from->ndim, from->shape);
    STNI_TRY(stni_spec_intern(mesh->context, &layout, &spec));
    if (!mesh->member && from->ndim > 0)
        STNI_TRY(make_chunk(local, spec, &chunk));
    *out = stn_from_local(chunk ? chunk : local, spec, STN_GRAD_REPLICATED);
    stni_tensor_drop(&chunk);
    STNI_TRY(mesh->context->error.status);
    if (mesh->context->scopes.depth > 0) /* which has taken the reference that a caller would get */
        stn_tensor_retain(*out);
    return STN_OK;
}

stn_status stni_mixed_promote(const stn_op *op, int n_in, stn_tensor *const *in, stn_tensor **out)
{
    const stn_mesh *mesh = find_mesh(op, n_in, in);
    for (int i = 0; i < n_in; i++)
        out[i] = NULL;
    for (int i = 0; i < n_in; i++) {
        if (!is_local(op, in[i])) {
            out[i] = stn_tensor_retain(in[i]);
            continue;
        }
        tell(op, i);
        stn_status status = replicate(mesh, in[i], &out[i]);
        if (status != STN_OK) {
            stni_mixed_fini(i, out);
            return status;
        }
    }
    return STN_OK;
}

void stni_mixed_fini(int n_in, stn_tensor **promoted)
{
    for (int i = 0; i < n_in; i++)
        stni_tensor_drop(&promoted[i]);
}
