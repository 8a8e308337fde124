/* What nll_loss and its backward both check, where their operands lie, and the kernels' view of chunks. */
#include "ops/loss/nll.h"

#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"

#include <string.h>

/* The input's dim that dim d of the targets is. */
static int from_target(int ndim, int d)
{
    return d < stni_nll_class_dim(ndim) ? d : d + 1;
}

static int to_target(int ndim, int d)
{
    return d < stni_nll_class_dim(ndim) ? d : d - 1;
}

static stn_status check_weight(const stn_op_call *call, const struct stni_layout *x, int weight)
{
    const int64_t classes = x->shape[stni_nll_class_dim(x->ndim)];
    STNI_TRY(stni_check_shape(call, weight, 1, &classes, NULL));
    return stni_check_dtype(call, weight, x->dtype, "input's");
}

stn_status stni_nll_check(const stn_op_call *call, const struct stni_layout *x, int target, int weight, stn_meta *out)
{
    const struct stni_layout *t = &call->in_spec[target]->layout;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    if (!stni_dtype_is_floating(x->dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted a floating dtype", stn_dtype_name(x->dtype));
    if (x->ndim == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got shape (), wanted (n, classes, …) or (classes)");
    if (t->dtype != STN_DTYPE_I64 && t->dtype != STN_DTYPE_I32 && t->dtype != STN_DTYPE_U8)
        return stn_op_fail(call, STN_ERR_DTYPE, "'target' got %s, wanted i64, i32 or u8", stn_dtype_name(t->dtype));
    *out = (stn_meta){.dtype = x->dtype, .ndim = x->ndim - 1};
    for (int d = 0; d < out->ndim; d++)
        out->shape[d] = x->shape[from_target(x->ndim, d)];
    if (t->ndim != out->ndim || memcmp(t->shape, out->shape, (size_t)t->ndim * sizeof *t->shape) != 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'target' got shape %s, wanted %s, input's without the classes",
                           stni_shape_text(t->ndim, t->shape, got), stni_shape_text(out->ndim, out->shape, wanted));
    return weight < call->n_in && call->in_spec[weight] ? check_weight(call, x, weight) : STN_OK;
}

void stni_nll_layout(const struct stni_layout *x, const stn_spec *target, int kept, struct stni_layout *out)
{
    int whole = 1;
    *out = *x;
    for (int a = 0; x->mesh && a < x->mesh->ndim; a++)
        whole = whole && x->placement[a].kind == STN_PLACE_REPLICATE;
    stni_layout_reduce(out, kept ? 1u << STN_SUM : 0);
    if (!whole)
        return;
    const struct stni_layout *t = &target->layout;
    for (int a = 0; x->mesh && a < x->mesh->ndim; a++) {
        out->axis_order[a] = t->axis_order[a];
        if (t->placement[a].kind == STN_PLACE_SHARD)
            out->placement[a] = stn_shard(from_target(x->ndim, t->placement[a].dim));
    }
    for (int d = 0; d < t->ndim; d++)
        out->split[from_target(x->ndim, d)] = t->split[d];
}

void stni_nll_place_targets(const struct stni_layout *x, int partial, struct stni_layout *target)
{
    const int class_dim = stni_nll_class_dim(x->ndim);
    for (int a = 0; x->mesh && a < x->mesh->ndim; a++) {
        const stn_placement p = x->placement[a];
        const int pending = p.kind == STN_PLACE_PARTIAL || (p.kind == STN_PLACE_SHARD && p.dim == class_dim);
        target->axis_order[a] = x->axis_order[a];
        target->placement[a] = pending && partial ? stn_partial(STN_SUM) : stn_replicate();
        if (p.kind == STN_PLACE_SHARD && p.dim != class_dim)
            target->placement[a] = stn_shard(to_target(x->ndim, p.dim));
    }
    for (int d = 0; d < target->ndim; d++)
        target->split[d] = x->split[from_target(x->ndim, d)];
}

void stni_nll_place_classes(const struct stni_layout *x, struct stni_layout *weight)
{
    const int class_dim = stni_nll_class_dim(x->ndim);
    for (int a = 0; x->mesh && a < x->mesh->ndim; a++) {
        const stn_placement p = x->placement[a];
        weight->axis_order[a] = x->axis_order[a];
        weight->placement[a] = p.kind == STN_PLACE_SHARD && p.dim == class_dim ? stn_shard(0) : stn_replicate();
    }
    weight->split[0] = x->split[class_dim];
}

void stni_nll_args_make(const stn_op_call *call, const stn_tensor *x, const stn_tensor *target,
                        const stn_tensor *weight, const stn_tensor *each, struct stni_nll_args *args)
{
    const struct stni_nll_attrs *attrs = call->attrs;
    const stn_spec *spec = x->spec, *t = target->spec;
    const int ndim = spec->layout.ndim, class_dim = stni_nll_class_dim(ndim);
    *args = (struct stni_nll_args){.dtype = spec->layout.dtype,
                                   .target_dtype = t->layout.dtype,
                                   .n = t->local_numel,
                                   .ndim = t->layout.ndim,
                                   .classes = spec->local_shape[class_dim],
                                   .first = spec->local_offset[class_dim],
                                   .all_classes = spec->layout.shape[class_dim],
                                   .class_step = x->strides[class_dim],
                                   .weight_step = weight ? weight->strides[0] : 0,
                                   .ignore_index = attrs->ignore_index,
                                   .smoothing = attrs->label_smoothing,
                                   .x = x->data,
                                   .target = target->data,
                                   .weight = weight ? weight->data : NULL,
                                   .each = each ? each->data : NULL};
    for (int d = 0; d < args->ndim; d++) {
        args->shape[d] = t->local_shape[d];
        args->offset[d] = t->local_offset[d];
        args->strides[NLL_X][d] = x->strides[from_target(ndim, d)];
        args->strides[NLL_TARGET][d] = target->strides[d];
        args->strides[NLL_EACH][d] = each && each->spec->layout.ndim > 0 ? each->strides[d] : 0;
    }
}
