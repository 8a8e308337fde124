/* Where statistics and parameters of a normalisation lie, and the kernels' view of chunks. */
#include "ops/norm/norm.h"

#include "core/tensor/tensor.h"
#include "ops/common/check.h"
#include "ops/cpu/strided.h"

#include <string.h>

/* Position of dim d among those of a mask. */
static int position(uint32_t dims, int d)
{
    int n = 0;
    for (int e = 0; e < d; e++)
        n += (int)(dims >> e & 1);
    return n;
}

static void keep_dims(uint32_t dims, const struct stni_layout *x, stn_meta *out)
{
    out->ndim = 0;
    for (int d = 0; d < x->ndim; d++)
        if (dims >> d & 1)
            out->shape[out->ndim++] = x->shape[d];
}

void stni_norm_stat_meta(const struct stni_norm *norm, const struct stni_layout *x, stn_meta *out)
{
    keep_dims(norm->stat_dims, x, out);
    out->dtype = x->dtype == STN_DTYPE_F64 ? STN_DTYPE_F64 : STN_DTYPE_F32;
    if (norm->group_dim >= 0)
        out->shape[position(norm->stat_dims, norm->group_dim)] /= norm->per_group;
}

void stni_norm_param_meta(const struct stni_norm *norm, const struct stni_layout *x, stn_meta *out)
{
    keep_dims(norm->param_dims, x, out);
    out->dtype = x->dtype;
}

static int cuts_whole_groups(const struct stni_split *split, int64_t per_group)
{
    for (int i = 0; i < split->n_parts; i++)
        if (stni_split_offset(split, i) % per_group != 0)
            return 0;
    return 1;
}

stn_status stni_norm_stat_spec(const stn_op_call *call, const struct stni_norm *norm, const struct stni_layout *x,
                               const stn_meta *meta, const stn_spec **out)
{
    struct stni_layout stat;
    stni_layout_init(&stat, x->mesh, meta->dtype, meta->ndim, meta->shape);
    for (int a = 0; x->mesh && a < x->mesh->ndim; a++) {
        int d = x->placement[a].kind == STN_PLACE_SHARD ? x->placement[a].dim : -1;
        stat.axis_order[a] = x->axis_order[a];
        if (d < 0 || !(norm->stat_dims >> d & 1) ||
            (d == norm->group_dim && !cuts_whole_groups(x->split[d], norm->per_group)))
            continue;
        int to = position(norm->stat_dims, d);
        stat.placement[a] = stn_shard(to);
        stat.split[to] = x->split[d];
        if (d == norm->group_dim)
            STNI_TRY(stni_split_divided(call->context, x->split[d], norm->per_group, &stat.split[to]));
    }
    return stni_spec_intern(call->context, &stat, out);
}

stn_status stni_norm_param_spec(const stn_op_call *call, const struct stni_norm *norm, const struct stni_layout *x,
                                const stn_meta *meta, int partial, const uint8_t *memory_order, const stn_spec **out)
{
    struct stni_layout param;
    stni_layout_init(&param, x->mesh, meta->dtype, meta->ndim, meta->shape);
    for (int a = 0; x->mesh && a < x->mesh->ndim; a++) {
        int d = x->placement[a].kind == STN_PLACE_SHARD ? x->placement[a].dim : -1;
        param.axis_order[a] = x->axis_order[a];
        if (d >= 0 && norm->param_dims >> d & 1) {
            int to = position(norm->param_dims, d);
            param.placement[a] = stn_shard(to);
            param.split[to] = x->split[d];
        } else if (d >= 0 && partial) {
            param.placement[a] = stn_partial(STN_SUM);
        }
    }
    if (memory_order)
        memcpy(param.memory_order, memory_order, sizeof param.memory_order);
    return stni_spec_intern(call->context, &param, out);
}

stn_status stni_norm_check_like(const stn_op_call *call, int i, const stn_meta *want)
{
    if (!call->in_spec[i])
        return STN_OK;
    STNI_TRY(stni_check_shape(call, i, want->ndim, want->shape, NULL));
    return stni_check_dtype(call, i, want->dtype, NULL);
}

stn_status stni_norm_comm(const stn_spec *x, const stn_spec *stat, stn_comm **out)
{
    uint32_t shared = x->shard_axes & ~stat->shard_axes;
    *out = NULL;
    if (!shared || !x->layout.mesh->member)
        return STN_OK;
    return stni_mesh_comm(x->layout.mesh, shared, out);
}

/* Fine indices run through the chunk's stat dims, row-major. */
static void number_stats(const struct stni_norm *norm, const stn_tensor *x, struct stni_norm_args *args)
{
    const int64_t *shape = x->spec->local_shape;
    int64_t step = 1;
    for (int d = x->spec->layout.ndim - 1; d >= 0; d--)
        if (norm->stat_dims >> d & 1) {
            args->strides[NORM_STAT][d] = step;
            step *= shape[d];
        }
    args->channels = norm->group_dim < 0 ? 1 : shape[norm->group_dim];
    args->rows = 1;
    for (int d = 0; d < x->spec->layout.ndim; d++) {
        if (!(norm->stat_dims >> d & 1))
            continue;
        if (d != norm->group_dim)
            args->rows *= shape[d];
    }
}

static void group_channels(const struct stni_norm *norm, const stn_spec *x, const stn_spec *stat,
                           struct stni_norm_args *args)
{
    args->groups = args->per_group = 1;
    if (norm->group_dim < 0)
        return;
    int at = position(norm->stat_dims, norm->group_dim);
    args->per_group = norm->per_group;
    args->groups = stat->local_shape[at];
    args->offset = x->local_offset[norm->group_dim] - stat->local_offset[at] * norm->per_group;
}

void stni_norm_args_make(const struct stni_norm *norm, const stn_tensor *x, const stn_tensor *stat, const stn_tensor *y,
                         const stn_tensor *out, const stn_tensor *weight, const int64_t *param_strides,
                         struct stni_norm_args *args)
{
    const stn_spec *spec = x->spec;
    const int ndim = spec->layout.ndim;
    int64_t *strides[NORM_OPERANDS];
    *args = (struct stni_norm_args){.dtype = spec->layout.dtype,
                                    .x = x->data,
                                    .y = y->data,
                                    .out = out ? out->data : NULL,
                                    .weight = weight ? weight->data : NULL,
                                    .empty = spec->local_numel == 0,
                                    .count = norm->count,
                                    .about_zero = norm->about_zero,
                                    .eps = norm->eps,
                                    .along = !(norm->param_dims & norm->stat_dims),
                                    .params = 1};
    for (int d = 0; d < ndim; d++) {
        int at = norm->param_dims >> d & 1 ? position(norm->param_dims, d) : -1;
        args->shape[d] = spec->local_shape[d];
        args->strides[NORM_X][d] = x->strides[d];
        args->strides[NORM_Y][d] = y->strides[d];
        args->strides[NORM_OUT][d] = out ? out->strides[d] : 0;
        args->strides[NORM_WEIGHT][d] = weight && at >= 0 ? weight->strides[at] : 0;
        args->strides[NORM_PARAM][d] = param_strides && at >= 0 ? param_strides[at] : 0;
        if (at >= 0)
            args->params *= spec->local_shape[d];
    }
    if (!args->along) {
        args->params = 0;
        args->weight_step = args->strides[NORM_WEIGHT][norm->group_dim];
    }
    number_stats(norm, x, args);
    group_channels(norm, spec, stat->spec, args);
    for (int k = 0; k < NORM_OPERANDS; k++)
        strides[k] = args->strides[k];
    args->ndim = args->empty ? 1 : stni_merge_dims(ndim, args->shape, NORM_OPERANDS, strides);
    if (args->ndim == 0)
        args->shape[args->ndim++] = 1;
}

stn_status stni_norm_scratch(const stn_op_call *call, int planes, struct stni_norm_args *args)
{
    size_t bytes = 0;
    void *coarse;
    for (int slot = 0; slot < STNI_NORM_SLOTS; slot++) {
        const size_t wanted = stn_op_workspace(call, slot, args->dtype, args);
        bytes = wanted > bytes ? wanted : bytes;
    }
    STNI_TRY(stn_op_scratch(call, (size_t)(planes * args->rows * args->groups) * sizeof(double), &coarse));
    args->coarse = coarse;
    return stn_op_scratch(call, bytes, &args->workspace);
}
