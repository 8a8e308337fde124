/* What softmax, log_softmax and their backwards share: metadata, lines, the ranks that share them. */
#include "ops/softmax/softmax.h"

#include "ops/common/check.h"
#include "ops/placement/splits.h"
#include "ops/common/dims.h"

int stni_softmax_dim(const stn_op_call *call)
{
    const struct stni_softmax_attrs *attrs = call->attrs;
    int dim = 0;
    stni_dim_wrap(call, "dim", attrs->dim, call->in_spec[0]->layout.ndim, &dim);
    return dim;
}

stn_status stni_softmax_check(stn_op_call *call, int k)
{
    const struct stni_softmax_attrs *attrs = call->attrs;
    const struct stni_layout *layout = &call->in_spec[k]->layout;
    int dim;
    STNI_TRY(stni_check_floating(call, k));
    STNI_TRY(stni_dim_wrap(call, "dim", attrs->dim, layout->ndim, &dim));
    call->out_meta[0] = stni_meta_of(layout);
    return STN_OK;
}

void stni_softmax_args_make(const stn_op_call *call, const stn_tensor *x, const stn_tensor *y, const stn_tensor *out,
                            struct stni_softmax_args *args)
{
    const stn_spec *spec = out->spec;
    const int64_t *strides[] = {x->strides, y ? y->strides : NULL, out->strides};
    *args = (struct stni_softmax_args){
        .dtype = spec->layout.dtype,
        .logarithm = ((const struct stni_softmax_rule *)call->arg)->logarithm,
        .x = x->data,
        .y = y ? y->data : NULL,
        .out = out->data,
    };
    stni_lines_make(&args->lines, stni_softmax_dim(call), spec->layout.ndim, spec->local_shape,
                            spec->layout.memory_order, strides);
}

stn_status stni_softmax_comm(const stn_op_call *call, const stn_spec *spec, stn_comm **out)
{
    const struct stni_layout *layout = &spec->layout;
    const uint32_t axes = layout->ndim > 0 ? stni_layout_axes_mask(layout, stni_softmax_dim(call)) : 0;
    *out = NULL;
    return axes && layout->mesh->member ? stni_mesh_comm(layout->mesh, axes, out) : STN_OK;
}

static stn_dtype stat_dtype(const struct stni_softmax_args *args)
{
    return args->dtype == STN_DTYPE_F64 ? STN_DTYPE_F64 : STN_DTYPE_F32;
}

stn_status stni_softmax_reduce_lines(const stn_op_call *call, stn_comm *comm, void *stat,
                                     const struct stni_softmax_args *args, stn_reduce_op op)
{
    return stni_comm_all_reduce(comm, call->context->queue, stat, stat, stni_lines_count(&args->lines),
                                stat_dtype(args), op);
}

stn_status stni_softmax_stat(const stn_op_call *call, const struct stni_softmax_args *args, void **out)
{
    return stn_op_scratch(call, (size_t)stni_lines_count(&args->lines) * stn_dtype_size(stat_dtype(args)), out);
}
