/* What is added to products and multiplied with them: pointwise, over results where they lie. And the adjoint of a
 * matrix. */
#include "core/tensor/tensor.h"
#include "ops/elementwise/pointwise.h"
#include "ops/matmul/matmul.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/strided.h"

#include <shardtensor/ops.h>

static struct stni_pointwise_args over(const stn_tensor *y, enum stni_pointwise_op op)
{
    const stn_dtype dtype = y->spec->layout.dtype;
    struct stni_pointwise_args args = {
        .op = op, .compute = stni_compute_dtype(dtype), .ndim = y->spec->layout.ndim, .n_in = 2};
    args.out = (struct stni_pointwise_operand){.data = y->data, .dtype = dtype};
    args.in[1].dtype = dtype;
    for (int d = 0; d < args.ndim; d++) {
        args.shape[d] = y->spec->local_shape[d];
        args.out.strides[d] = y->strides[d];
    }
    return args;
}

static stn_status launch(stn_op_call *call, int slot, struct stni_pointwise_args *args)
{
    args->ndim = stni_merge_dims(args->ndim, args->shape, 2, (int64_t *[]){args->out.strides, args->in[1].strides});
    args->in[0] = args->out;
    return stn_op_launch(call, slot, args->out.dtype, args, sizeof *args);
}

stn_status stni_matmul_add(stn_op_call *call, int slot, const stn_tensor *y, const stn_tensor *t,
                           struct stni_pointwise_number number)
{
    if (y->spec->local_numel == 0)
        return STN_OK;
    struct stni_pointwise_args args = over(y, STNI_POINTWISE_add);
    const int ndim = t->spec->layout.ndim;
    args.a = number;
    args.in[1].data = t->data;
    for (int d = 0; d < ndim; d++)
        if (t->spec->layout.shape[d] != 1)
            args.in[1].strides[args.ndim - ndim + d] = t->strides[d];
    return launch(call, slot, &args);
}

stn_status stni_matmul_scale(stn_op_call *call, int slot, const stn_tensor *y, struct stni_pointwise_number number)
{
    if (y->spec->local_numel == 0)
        return STN_OK;
    struct stni_pointwise_args args = over(y, STNI_POINTWISE_mul);
    args.number[1] = number;
    return launch(call, slot, &args);
}

stn_tensor *stni_matmul_adjoint(stn_tensor *t)
{
    return stn_transpose(stni_conjugate(t), -2, -1);
}
