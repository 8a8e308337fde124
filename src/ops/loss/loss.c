/* The forward half of every loss: the terms of all elements, or their sum or mean.
 *
 * One pass over what a rank has. Sums stay pending on the axes that cut the elements, a mean's too, each rank
 * dividing by the whole count; only a mean that divides by the sum of its weights needs that of all ranks, so that
 * both sums are all-reduced together. */
#include "ops/loss/loss.h"

#include "core/comm/comm.h"
#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/cpu/convert.h"
#include "ops/placement/pointwise.h"
#include "ops/common/promote.h"
#include "ops/cpu/strided.h"
#include "ops/common/sum_to.h"

#include <shardtensor/ops.h>

enum { TERMS, FINISH };

static const struct stni_loss_rule *rule_of(const stn_op_call *call)
{
    return call->arg;
}

stn_status stni_loss_check_operands(const stn_op_call *call, int n, stn_meta *out)
{
    out->dtype = stni_promote(2, call->in_spec, NULL);
    for (int i = 0; i < n; i++)
        if (call->in_spec[i] && stni_dtype_is_complex(call->in_spec[i]->layout.dtype))
            return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got %s, wanted a floating dtype",
                               stn_op_descriptor(call->op)->inputs[i].name,
                               stn_dtype_name(call->in_spec[i]->layout.dtype));
    if (!stni_dtype_is_floating(out->dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' and 'target' got %s and %s, wanted a floating dtype",
                           stn_dtype_name(call->in_spec[0]->layout.dtype),
                           stn_dtype_name(call->in_spec[1]->layout.dtype));
    return stni_pointwise_broadcast(call, n, out);
}

stn_status stni_loss_place_operands(stn_op_call *call, int n, const stn_meta *meta, const stn_spec **out)
{
    static const uint8_t linear[STNI_POINTWISE_MASKS] = {0};
    stn_op_call like = *call;
    stn_meta whole = *meta;
    like.out_meta = &whole;
    like.out_spec = out;
    return stni_pointwise_place(&like, n, linear);
}

/* Of dims that the operand is broadcast along, strides are 0; the others have the chunk's size. */
static void set_operand(const stn_tensor *t, const stn_meta *whole, int64_t *shape, struct stni_loss_operand *out)
{
    if (!t)
        return;
    const struct stni_layout *layout = &t->spec->layout;
    const int shift = whole->ndim - layout->ndim;
    out->data = t->data;
    out->dtype = layout->dtype;
    for (int d = shift; d < whole->ndim; d++)
        if (layout->shape[d - shift] == whole->shape[d]) {
            out->strides[d] = t->strides[d - shift];
            shape[d] = t->spec->local_shape[d - shift];
        }
}

void stni_loss_args_make(const stn_op_call *call, int n, const stn_meta *whole, const stn_tensor *out,
                         struct stni_loss_args *args)
{
    int64_t *strides[LOSS_OPERANDS];
    for (int d = 0; d < whole->ndim; d++)
        args->shape[d] = 1;
    for (int i = 0; i < n; i++)
        set_operand(call->in[i], whole, args->shape, &args->operand[i]);
    set_operand(out, whole, args->shape, &args->operand[LOSS_OUT]);
    for (int d = 0; d < whole->ndim; d++)
        args->empty = args->empty || args->shape[d] == 0;
    for (int k = 0; k < LOSS_OPERANDS; k++)
        strides[k] = args->operand[k].strides;
    if (!args->empty)
        args->ndim = stni_merge_dims(whole->ndim, args->shape, LOSS_OPERANDS, strides);
}

/* NaN is neither. */
static stn_status check_number(const stn_op_call *call)
{
    const double p = ((const struct stni_loss_attrs *)call->attrs)->p;
    if (rule_of(call)->loss == STNI_LOSS_huber_loss && !(p > 0))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'delta' got %g, wanted more than 0", p);
    if (rule_of(call)->loss == STNI_LOSS_smooth_l1_loss && !(p >= 0))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'beta' got %g, wanted at least 0", p);
    return STN_OK;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_loss_attrs *attrs = call->attrs;
    const struct stni_layout *x = &call->in_spec[STNI_LOSS_INPUT]->layout;
    stn_meta *out = &call->out_meta[0];
    STNI_TRY(stni_loss_check_operands(call, call->n_in, out));
    STNI_TRY(check_number(call));
    if (rule_of(call)->same_shape)
        STNI_TRY(stni_check_shape(call, STNI_LOSS_TARGET, x->ndim, x->shape, "input's"));
    if (attrs->reduction != STN_REDUCE_NONE)
        out->ndim = 0;
    call->out_meta[1] = (stn_meta){.dtype = STN_DTYPE_F64};
    return STN_OK;
}

/* Whether sums of weights are wanted. */
static int by_weights(const stn_op_call *call)
{
    const struct stni_loss_attrs *attrs = call->attrs;
    return attrs->reduction == STN_REDUCE_MEAN && rule_of(call)->by_weights && call->n_in > STNI_LOSS_WEIGHT &&
           call->in_spec[STNI_LOSS_WEIGHT];
}

/* The note: the axes that cut the elements. */
static stn_status place(stn_op_call *call)
{
    const struct stni_loss_attrs *attrs = call->attrs;
    struct stni_layout scalar;
    stn_meta meta;
    const stn_spec *whole;
    STNI_TRY(stni_loss_check_operands(call, call->n_in, &meta));
    STNI_TRY(stni_loss_place_operands(call, call->n_in, &meta, &whole));
    call->note = whole->shard_axes;
    stni_layout_init(&scalar, whole->layout.mesh, STN_DTYPE_F64, 0, NULL);
    STNI_TRY(stni_spec_intern(call->context, &scalar, &call->out_spec[1]));
    if (attrs->reduction == STN_REDUCE_NONE) {
        call->out_spec[0] = whole;
        return STN_OK;
    }
    scalar.dtype = meta.dtype;
    for (int a = 0; scalar.mesh && a < scalar.mesh->ndim; a++)
        if ((whole->shard_axes >> a & 1) && !by_weights(call))
            scalar.placement[a] = stn_partial(STN_SUM);
    return stni_spec_intern(call->context, &scalar, &call->out_spec[0]);
}

static stn_status finish(stn_op_call *call, double count, const double *sum)
{
    const struct stni_loss_attrs *attrs = call->attrs;
    const struct stni_layout *x = &call->in_spec[STNI_LOSS_INPUT]->layout;
    if (attrs->reduction == STN_REDUCE_BATCHMEAN)
        count = x->ndim > 0 ? (double)x->shape[0] : 1;
    else if (attrs->reduction != STN_REDUCE_MEAN)
        count = 1;
    const struct stni_loss_finish_args args = {.dtype = call->out_spec[0]->layout.dtype,
                                               .by_weights = by_weights(call),
                                               .count = count,
                                               .sum = sum,
                                               .total = call->out[1]->data,
                                               .out = attrs->reduction == STN_REDUCE_NONE ? NULL : call->out[0]->data};
    return stn_op_launch(call, FINISH, args.dtype, &args, sizeof args);
}

static stn_status run(stn_op_call *call)
{
    const struct stni_loss_attrs *attrs = call->attrs;
    const struct stni_loss_rule *rule = rule_of(call);
    const stn_mesh *mesh = call->out_spec[1]->layout.mesh;
    struct stni_loss_args args = {.loss = stni_loss_row(rule, attrs),
                                  .term = STNI_LOSS_VALUE,
                                  .p = attrs->p,
                                  .q = attrs->full ? rule->constant : 0};
    stn_meta meta;
    void *sum;
    double count = 1;
    if (call->out_spec[1]->local_numel == 0)
        return STN_OK;
    STNI_TRY(stni_loss_check_operands(call, call->n_in, &meta));
    for (int d = 0; d < meta.ndim; d++)
        count *= (double)meta.shape[d];
    args.compute = stni_compute_dtype(meta.dtype);
    stni_loss_args_make(call, call->n_in, &meta, attrs->reduction == STN_REDUCE_NONE ? call->out[0] : NULL, &args);
    STNI_TRY(stn_op_scratch(call, 2 * sizeof(double), &sum));
    args.sum = sum;
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, TERMS, meta.dtype, &args), &args.workspace));
    if (attrs->reduction != STN_REDUCE_NONE || !args.empty)
        STNI_TRY(stn_op_launch(call, TERMS, meta.dtype, &args, sizeof args));
    if (call->note && by_weights(call)) {
        stn_comm *comm;
        STNI_TRY(stni_mesh_comm(mesh, (uint32_t)call->note, &comm));
        STNI_TRY(stni_comm_all_reduce(comm, call->context->queue, sum, sum, 2, STN_DTYPE_F64, STN_SUM));
    }
    return finish(call, count, sum);
}

/* The inputs that have a gradient. */
static uint32_t differentiable(const struct stni_loss_rule *rule)
{
    return 1u << STNI_LOSS_INPUT | 1u << STNI_LOSS_TARGET | (rule->extra_gradient ? 1u << STNI_LOSS_EXTRA : 0);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    return needs & differentiable(rule_of(call)) ? UINT64_C(2) << 32 | 15 : 0;
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_loss_attrs *attrs = call->attrs;
    const struct stni_loss_rule *rule = call->arg;
    const struct stni_loss_backward_attrs value = {stni_loss_row(rule, attrs), STNI_LOSS_VALUE, attrs->p,
                                                   attrs->full ? rule->constant : 0};
    stn_tensor *in[STNI_LOSS_INPUTS] = {[STNI_LOSS_GRAD] = call->grad_out[0], [STNI_LOSS_TOTAL] = call->out[1]};
    if (!call->grad_out[0])
        return STN_OK;
    for (int i = 0; i < call->n_in; i++)
        in[i] = call->in[i];
    return stni_loss_gradients(value, in, call->needs & differentiable(rule), call->in_spec, call->grad_in);
}

static const stn_kernel_slot slots[] = {
    [TERMS] = {"terms", sizeof(struct stni_loss_args)},
    [FINISH] = {"finish", sizeof(struct stni_loss_finish_args)},
};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("terms", STNI_LOSS_DTYPES, struct stni_loss_args, stni_loss_cpu, NULL),
    STNI_CPU_ROW("finish", STNI_LOSS_DTYPES, struct stni_loss_finish_args, stni_loss_finish_cpu, NULL),
};

const stn_op_impl stni_loss_impl = {
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};
