/* The functions of a descriptor that every statistic shares. */
#include "ops/reduce/statistic.h"

#include "core/comm/comm.h"
#include "core/tensor/tensor.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/common/moments.h"
#include "ops/cpu/strided.h"

#include <shardtensor/ops.h>

enum { MOMENTS, FINISH };
enum { INPUT, WEIGHT };

static const struct stni_statistic_rule *rule_of(const void *arg)
{
    return arg;
}

double stni_statistic_correction(const struct stni_statistic_attrs *attrs)
{
    return attrs->unbiased < 0 ? attrs->correction : (double)attrs->unbiased;
}

static stn_status check_weight(const stn_op_call *call, const struct stni_layout *x)
{
    STNI_TRY(stni_check_broadcasts(call, WEIGHT, x->ndim, x->shape, "input's"));
    return stni_check_dtype(call, WEIGHT, x->dtype, "input's");
}

static stn_status check(stn_op_call *call)
{
    const struct stni_statistic_attrs *attrs = call->attrs;
    const struct stni_layout *x = &call->in_spec[INPUT]->layout;
    stn_meta *out = &call->out_meta[0];
    uint32_t reduced;
    int to[STN_MAX_NDIM];
    STNI_TRY(stni_check_floating(call, INPUT));
    if (call->n_in > WEIGHT)
        STNI_TRY(check_weight(call, x));
    STNI_TRY(stni_dims_mask(call, "dim", &attrs->dim, x->ndim, &reduced));
    out->dtype = x->dtype;
    out->ndim = stni_reduction_dims(x->ndim, reduced, attrs->keepdim, to);
    for (int d = 0; d < x->ndim; d++)
        if (to[d] >= 0)
            out->shape[to[d]] = reduced >> d & 1 ? 1 : x->shape[d];
    return STN_OK;
}

/* Weights lie as the elements that they belong to. */
static stn_status place_weight(stn_op_call *call, const struct stni_layout *x)
{
    struct stni_layout w = call->in_spec[WEIGHT]->layout;
    const int shift = x->ndim - w.ndim;
    for (int a = 0; w.mesh && a < w.mesh->ndim; a++) {
        int d = x->placement[a].kind == STN_PLACE_SHARD ? x->placement[a].dim - shift : -1;
        w.axis_order[a] = x->axis_order[a];
        w.placement[a] = d >= 0 && w.shape[d] == x->shape[d + shift] ? stn_shard(d) : stn_replicate();
    }
    for (int d = 0; d < w.ndim; d++)
        w.split[d] = w.shape[d] == x->shape[d + shift] ? x->split[d + shift] : NULL;
    return stni_spec_intern(call->context, &w, &call->want[WEIGHT]);
}

/* The note: the axes along which moments are gathered. */
static stn_status place(stn_op_call *call)
{
    const struct stni_statistic_attrs *attrs = call->attrs;
    struct stni_layout x = call->in_spec[INPUT]->layout, out;
    const uint32_t reduced = stni_dims_mask_of(&attrs->dim, x.ndim);
    int to[STN_MAX_NDIM];
    stni_reduction_dims(x.ndim, reduced, attrs->keepdim, to);
    stni_reduction_layout(&x, reduced, to, STN_SUM, 0, &call->out_meta[0], &out);
    call->note = stni_layout_reduce(&out, 0);
    STNI_TRY(stni_spec_intern(call->context, &x, &call->want[INPUT]));
    if (call->n_in > WEIGHT)
        STNI_TRY(place_weight(call, &x));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

/* Results are numbered as they lie in memory. */
static void make_args(const stn_op_call *call, struct stni_norm_args *args)
{
    const struct stni_statistic_attrs *attrs = call->attrs;
    const stn_tensor *x = call->in[INPUT], *w = call->n_in > WEIGHT ? call->in[WEIGHT] : NULL, *out = call->out[0];
    const struct stni_layout *layout = &x->spec->layout;
    const uint32_t reduced = stni_dims_mask_of(&attrs->dim, layout->ndim);
    const int shift = w ? layout->ndim - w->spec->layout.ndim : 0;
    int to[STN_MAX_NDIM];
    int64_t *strides[NORM_OPERANDS];
    *args = (struct stni_norm_args){.dtype = layout->dtype, .x = x->data, .weight = w ? w->data : NULL, .empty = x->spec->local_numel == 0,
                                    .rows = out->spec->local_numel, .channels = 1, .groups = 1, .per_group = 1};
    stni_reduction_dims(layout->ndim, reduced, attrs->keepdim, to);
    for (int d = 0; d < layout->ndim; d++) {
        args->shape[d] = x->spec->local_shape[d];
        args->strides[NORM_X][d] = x->strides[d];
        if (!(reduced >> d & 1))
            args->strides[NORM_STAT][d] = out->strides[to[d]];
        if (w && d >= shift && w->spec->layout.shape[d - shift] == layout->shape[d])
            args->strides[NORM_WEIGHT][d] = w->strides[d - shift];
    }
    for (int k = 0; k < NORM_OPERANDS; k++)
        strides[k] = args->strides[k];
    args->ndim = args->empty ? 1 : stni_merge_dims(layout->ndim, args->shape, NORM_OPERANDS, strides);
    if (args->ndim == 0)
        args->shape[args->ndim++] = 1;
}

static stn_status run(stn_op_call *call)
{
    const int weighted = call->n_in > WEIGHT, planes = weighted ? STNI_WEIGHTED_PLANES : 3;
    struct stni_norm_args args;
    void *coarse;
    if (call->out[0]->spec->local_numel == 0)
        return STN_OK;
    make_args(call, &args);
    STNI_TRY(stn_op_scratch(call, (size_t)(planes * args.rows) * sizeof(double), &coarse));
    args.coarse = coarse;
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, MOMENTS, args.dtype, &args), &args.workspace));
    STNI_TRY(stn_op_launch(call, MOMENTS, args.dtype, &args, sizeof args));
    struct stni_statistic_finish_args finish = {.dtype = args.dtype,
                                                .what = rule_of(call->arg)->what,
                                                .weighted = weighted,
                                                .n_parts = 1,
                                                .parts = coarse,
                                                .count = args.rows,
                                                .correction = stni_statistic_correction(call->attrs),
                                                .out = call->out[0]->data};
    if (call->note) {
        stn_comm *comm;
        STNI_TRY(stni_mesh_comm(call->out_spec[0]->layout.mesh, (uint32_t)call->note, &comm));
        finish.n_parts = comm->size;
        STNI_TRY(stni_moments_gather(call, comm, planes, coarse, args.rows, &finish.parts));
    }
    return stn_op_launch(call, FINISH, args.dtype, &finish, sizeof finish);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    const int reads_out = call->n_in > WEIGHT || rule_of(call->arg)->what == STNI_STATISTIC_DEVIATION;
    return needs ? (reads_out ? UINT64_C(1) << 32 : 0) | ((1u << call->n_in) - 1) : 0;
}

/* A tensor of the result's shape with the reduced dims put back at size 1. */
static stn_tensor *with_ones(stn_tensor *t, const stn_spec *input, uint32_t reduced, int64_t keepdim)
{
    int64_t shape[STN_MAX_NDIM];
    const int ndim = stn_spec_ndim(input);
    for (int d = 0; d < ndim; d++)
        shape[d] = reduced >> d & 1 ? 1 : stn_spec_shape(input)[d];
    return !t || keepdim ? t : stn_view(t, ndim, shape);
}

static stn_status backward(stn_backward_call *call)
{
    const struct stni_statistic_attrs *attrs = call->attrs;
    const stn_spec *in = call->in_spec[INPUT];
    const uint32_t reduced = stni_dims_mask_of(&attrs->dim, in->layout.ndim);
    if (!call->grad_out[0])
        return STN_OK;
    rule_of(call->arg)->backward(call, with_ones(call->grad_out[0], in, reduced, attrs->keepdim),
                                 with_ones(call->out[0], in, reduced, attrs->keepdim), reduced);
    return stn_context_status(call->context);
}

static const stn_kernel_slot slots[] = {
    {"moments", sizeof(struct stni_norm_args)},
    {"finish", sizeof(struct stni_statistic_finish_args)},
};
static const stn_kernel kernels[] = {
    STNI_CPU_ROW("moments", STNI_STATISTIC_DTYPES, struct stni_norm_args, stni_norm_moments_cpu, stni_norm_workspace),
    STNI_CPU_ROW("finish", STNI_STATISTIC_DTYPES, struct stni_statistic_finish_args, stni_statistic_finish_cpu, NULL),
};
static const stn_kernel weighted_kernels[] = {
    STNI_CPU_ROW("moments", STNI_STATISTIC_DTYPES, struct stni_norm_args, stni_norm_weighted_cpu, stni_norm_workspace),
    STNI_CPU_ROW("finish", STNI_STATISTIC_DTYPES, struct stni_statistic_finish_args, stni_statistic_finish_cpu, NULL),
};

const stn_op_impl stni_statistic_impl = {
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};
const stn_op_impl stni_statistic_weighted_impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(weighted_kernels),
};
