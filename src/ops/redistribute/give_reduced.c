/* from_local of operands of a pending product or extreme, where gradients are wanted: what each rank holds counts in
 * the gradients of the others', so that handing over chunks is not enough. The ranks' tensors become slices of one that
 * has a dim more for each such axis, sharded by it, and a reduction of those dims, left pending, is what the caller
 * asked for. */
#include "core/tensor/scope.h"
#include "ops/redistribute/action.h"
#include "ops/redistribute/local.h"

#include <shardtensor/ops.h>

/* The axes, and their number; -1 where another reduction is pending beside them, which would not commute. */
static int find_axes(const stn_spec *spec, int axes[STN_MAX_MESH_NDIM], stn_reduce_op *op)
{
    const struct stni_layout *layout = &spec->layout;
    int n = 0;
    for (int a = 0; a < layout->mesh->ndim; a++) {
        if (layout->placement[a].kind != STN_PLACE_PARTIAL)
            continue;
        if (n > 0 && layout->placement[a].op != *op)
            return -1;
        *op = (stn_reduce_op)layout->placement[a].op;
        axes[n++] = a;
    }
    return n;
}

/* `spec` with n dims before its own, each sharded by one of the axes. */
static stn_status stacked_spec(const stn_spec *spec, int n, const int *axes, const stn_spec **out)
{
    const struct stni_layout *from = &spec->layout;
    struct stni_layout layout = *from;
    layout.ndim = from->ndim + n;
    for (int d = layout.ndim - 1; d >= 0; d--) {
        layout.shape[d] = d < n ? from->mesh->sizes[axes[d]] : from->shape[d - n];
        layout.split[d] = d < n ? NULL : from->split[d - n];
        layout.memory_order[d] = (uint8_t)(d < n ? d : from->memory_order[d - n] + n);
    }
    for (int a = 0; a < from->mesh->ndim; a++)
        if (from->placement[a].kind == STN_PLACE_SHARD)
            layout.placement[a] = stn_shard(from->placement[a].dim + n);
    for (int i = 0; i < n; i++)
        layout.placement[axes[i]] = stn_shard(i);
    STNI_TRY(stni_layout_balance(spec->context, &layout));
    return stni_spec_intern(spec->context, &layout, out);
}

static stn_tensor *reduce(stn_tensor *stacked, stn_reduce_op op, int n)
{
    static const int dims[STN_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (op == STN_PROD)
        return stn_prod(stacked, n, dims, 0);
    return op == STN_MAX ? stn_amax(stacked, n, dims, 0) : stn_amin(stacked, n, dims, 0);
}

static stn_status give(stn_tensor *local, const stn_spec *spec, const struct stni_local_axes *axes, stn_reduce_op op,
                       int n, const int *over, stn_tensor **out)
{
    const stn_spec *stacked;
    stn_tensor *given;
    STNI_TRY(stacked_spec(spec, n, over, &stacked));
    for (int i = 0; i < n; i++)
        local = stn_unsqueeze(local, 0);
    STNI_TRY(spec->context->error.status);
    STNI_TRY(stni_give(local, stacked, axes, &given));
    stn_tensor *reduced = reduce(stni_tensor_publish(given), op, n);
    STNI_TRY(spec->context->error.status);
    return stni_move(reduced, spec, out);
}

stn_status stni_give_reduced(stn_tensor *local, const stn_spec *spec, const struct stni_local_axes *axes,
                             const char *what, stn_tensor **out)
{
    stn_context *context = local->context;
    stn_reduce_op op = STN_SUM;
    int over[STN_MAX_MESH_NDIM];
    const int n = find_axes(spec, over, &op);
    if (n < 0)
        return stni_fail(context, STN_ERR_UNSUPPORTED,
                         "%s: local requires grad, and different reductions are pending, wanted one kind of "
                         "them",
                         what);
    if (spec->layout.ndim + n > STN_MAX_NDIM)
        return stni_fail(context, STN_ERR_UNSUPPORTED,
                         "%s: local requires grad and has %d dims, wanted at most %d beside %d axes of a pending "
                         "product or extreme",
                         what, spec->layout.ndim, STN_MAX_NDIM - n, n);
    stni_scope_enter(context);
    stn_status status = give(local, spec, axes, op, n, over, out);
    stni_scope_leave(context);
    return status;
}
