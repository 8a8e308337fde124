/* nll_loss: of each target's class the number of the input, with the other sign, weighted.
 *
 * Linear in the input, so that a pending sum of it is kept. The input stays where it is: where its classes are
 * sharded, each rank takes the targets that it has, and the sum of what they take is pending. A mean divides by
 * weights that all ranks have a part of: they and the sum are all-reduced together. */
#include "ops/loss/nll.h"

#include "core/comm/comm.h"
#include "core/tensor/tensor.h"
#include "ops/common/call.h"
#include "ops/table.h"

#include <shardtensor/ops.h>

enum { INPUT = STNI_NLL_INPUT, TARGET = STNI_NLL_TARGET, WEIGHT = STNI_NLL_WEIGHT };
enum { PICK, FINISH };

const struct stni_nll_attrs stni_nll_defaults = {-100, STN_REDUCE_MEAN, 0};

stn_tensor *stni_nll_call(stn_tensor *input, stn_tensor *target, stn_tensor *weight, const struct stni_nll_attrs *attrs)
{
    return stni_call(STNI_OP_nll_loss, 3, (stn_tensor *[]){input, target, weight}, attrs);
}

stn_tensor *stn_nll_loss(stn_tensor *input, stn_tensor *target, stn_tensor *weight, int64_t ignore_index,
                         stn_loss_reduction reduction)
{
    const struct stni_nll_attrs attrs = {ignore_index, (int64_t)reduction, 0};
    if ((unsigned)reduction > STN_REDUCE_SUM)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "nll_loss: 'reduction' got %d, wanted mean, none or sum",
                              (int)reduction);
    return stni_nll_call(input, target, weight, &attrs);
}

static int64_t reduction_of(const stn_op_call *call)
{
    return ((const struct stni_nll_attrs *)call->attrs)->reduction;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_nll_attrs *attrs = call->attrs;
    STNI_TRY(stni_nll_check(call, &call->in_spec[INPUT]->layout, TARGET, WEIGHT, &call->out_meta[0]));
    if (!(attrs->label_smoothing >= 0 && attrs->label_smoothing <= 1))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'label_smoothing' got %g, wanted 0 to 1", attrs->label_smoothing);
    if (attrs->reduction != STN_REDUCE_NONE)
        call->out_meta[0].ndim = 0;
    call->out_meta[1] = (stn_meta){.dtype = STN_DTYPE_F64};
    call->reports = 1;
    return STN_OK;
}

static stn_status place_output(stn_op_call *call, const struct stni_layout *x)
{
    struct stni_layout out;
    stni_layout_init(&out, x->mesh, x->dtype, call->out_meta[0].ndim, call->out_meta[0].shape);
    if (reduction_of(call) == STN_REDUCE_NONE)
        stni_nll_place_targets(x, 1, &out);
    for (int a = 0; out.ndim == 0 && x->mesh && a < x->mesh->ndim; a++)
        if (x->placement[a].kind == STN_PLACE_PARTIAL ||
            (x->placement[a].kind == STN_PLACE_SHARD && reduction_of(call) != STN_REDUCE_MEAN))
            out.placement[a] = stn_partial(STN_SUM);
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

/* The note: the axes that a mean is all-reduced along. */
static stn_status place(stn_op_call *call)
{
    struct stni_layout x, target = call->in_spec[TARGET]->layout, total;
    stni_nll_layout(&call->in_spec[INPUT]->layout, call->in_spec[TARGET], 1, &x);
    STNI_TRY(stni_spec_intern(call->context, &x, &call->want[INPUT]));
    stni_nll_place_targets(&x, 0, &target);
    STNI_TRY(stni_spec_intern(call->context, &target, &call->want[TARGET]));
    if (call->in_spec[WEIGHT]) {
        struct stni_layout weight = call->in_spec[WEIGHT]->layout;
        stni_nll_place_classes(&x, &weight);
        STNI_TRY(stni_spec_intern(call->context, &weight, &call->want[WEIGHT]));
    }
    call->note = reduction_of(call) == STN_REDUCE_MEAN ? call->want[INPUT]->shard_axes : 0;
    stni_layout_init(&total, x.mesh, STN_DTYPE_F64, 0, NULL);
    STNI_TRY(stni_spec_intern(call->context, &total, &call->out_spec[1]));
    return place_output(call, &call->want[INPUT]->layout);
}

static stn_status run(stn_op_call *call)
{
    const int64_t reduction = reduction_of(call);
    stn_tensor *out = call->out[0], *total = call->out[1];
    struct stni_nll_args args;
    void *sum;
    if (total->spec->local_numel == 0) /* outside the mesh */
        return STN_OK;
    stni_nll_args_make(call, call->in[INPUT], call->in[TARGET], call->in[WEIGHT],
                       reduction == STN_REDUCE_NONE ? out : NULL, &args);
    STNI_TRY(stn_op_scratch(call, 2 * sizeof(double), &sum));
    args.sum = sum;
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, PICK, args.dtype, &args), &args.workspace));
    args.reports = 1;
    args.op = STNI_OP_nll_loss;
    if (reduction != STN_REDUCE_NONE || args.n > 0)
        STNI_TRY(stn_op_launch(call, PICK, args.dtype, &args, sizeof args));
    if (call->note) {
        stn_comm *comm;
        STNI_TRY(stni_mesh_comm(total->spec->layout.mesh, (uint32_t)call->note, &comm));
        STNI_TRY(stni_comm_all_reduce(comm, call->context->queue, sum, sum, 2, STN_DTYPE_F64, STN_SUM));
    }
    const struct stni_loss_finish_args finish = {.dtype = args.dtype,
                                                 .by_weights = reduction == STN_REDUCE_MEAN,
                                                 .count = 1,
                                                 .sum = sum,
                                                 .total = total->data,
                                                 .out = reduction == STN_REDUCE_NONE ? NULL : out->data};
    return stn_op_launch(call, FINISH, args.dtype, &finish, sizeof finish);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs >> INPUT & 1 ? UINT64_C(2) << 32 | 1u << TARGET | 1u << WEIGHT : 0;
}

static stn_status backward(stn_backward_call *call)
{
    if (call->grad_out[0] && (call->needs >> INPUT & 1))
        call->grad_in[INPUT] = stni_nll_gradient(call->grad_out[0], call->in[TARGET], call->in[WEIGHT], call->out[1],
                                                 call->in_spec[INPUT], call->attrs);
    return stn_context_status(call->context);
}

const stn_attr_schema stni_nll_attrs_schema[STNI_NLL_ATTRS] = {
    {"ignore_index", STN_ATTR_INT, offsetof(struct stni_nll_attrs, ignore_index), NULL},
    {"reduction", STN_ATTR_CHOICE, offsetof(struct stni_nll_attrs, reduction), stni_loss_reductions},
    {"label_smoothing", STN_ATTR_FLOAT, offsetof(struct stni_nll_attrs, label_smoothing), NULL},
};

static const stn_input_schema inputs[] = {
    [INPUT] = {.name = "input"}, [TARGET] = {.name = "target"}, [WEIGHT] = {.name = "weight", .optional = 1}};

static const stn_kernel_slot slots[] = {
    [PICK] = {"pick", sizeof(struct stni_nll_args)},
    [FINISH] = {"finish", sizeof(struct stni_loss_finish_args)},
};

static const stn_kernel kernels[] = {
    STNI_CPU_ROW("pick", STNI_LOSS_DTYPES, struct stni_nll_args, stni_nll_cpu, NULL),
    STNI_CPU_ROW("finish", STNI_LOSS_DTYPES, struct stni_loss_finish_args, stni_loss_finish_cpu, NULL),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_nll_loss = {
    .size = sizeof(stn_op_desc),
    .name = "nll_loss",
    STN_INPUTS(inputs),
    STN_ATTRS(stni_nll_attrs_schema, struct stni_nll_attrs),
    .attrs_init = &stni_nll_defaults,
    .n_outputs = 2,
    .n_private = 1,
    .impl = &impl,
    .signature = "input, target, weight=, *, ignore_index=, reduction=, label_smoothing=",
};
