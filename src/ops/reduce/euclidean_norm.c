/* euclidean_norm: y = (sum x^2)^(1/2), the norm of order 2.
 *
 * Squares are added in f64 whatever the dtype, so that those of f32 and of 16-bit floats neither overflow nor
 * vanish. Ranks that share results add up their sums in one all-reduce, and the root is taken behind it. */
#include "ops/reduce/vector_norm.h"

#include "core/comm/comm.h"
#include "core/context/context.h"
#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "ops/reduce/exact_sum.h"
#include "ops/reduce/reduction.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/cpu/widen.h"

#include <shardtensor/ops.h>

enum { SQUARES, ROOTS };

struct euclidean_attrs {
    struct stni_reduction_attrs of;
    int64_t wide; /* 1: the result of 16-bit floats is f32 */
};

static const struct euclidean_attrs defaults = {.of = {.dim = {.n = -1}}};

stn_tensor *stni_euclidean_norm(stn_tensor *input, int n_dims, const int *dims, int keepdim, int wide)
{
    struct euclidean_attrs attrs = {.of = {.dim = {.n = n_dims > 0 ? n_dims : -1}, .keepdim = keepdim != 0},
                                    .wide = wide != 0};
    for (int i = 0; i < n_dims; i++)
        attrs.of.dim.v[i] = dims[i];
    return stni_call(STNI_OP_euclidean_norm, 1, &input, &attrs);
}

static stn_status check(stn_op_call *call)
{
    const stn_dtype dtype = call->in_spec[0]->layout.dtype;
    STNI_TRY(stni_check_floating(call, 0));
    STNI_TRY(stni_reduction_check(call));
    call->out_meta[0].dtype = ((const struct euclidean_attrs *)call->attrs)->wide ? stni_wide_dtype(dtype) : dtype;
    return STN_OK;
}

/* The note: the axes along which sums are added up. */
static stn_status place(stn_op_call *call)
{
    const struct euclidean_attrs *attrs = call->attrs;
    struct stni_layout in = call->in_spec[0]->layout, out;
    const uint32_t reduced = stni_dims_mask_of(&attrs->of.dim, in.ndim);
    int to[STN_MAX_NDIM];
    stni_reduction_dims(in.ndim, reduced, attrs->of.keepdim, to);
    stni_reduction_layout(&in, reduced, to, STN_SUM, 0, &call->out_meta[0], &out);
    call->note = stni_layout_reduce(&out, 0);
    STNI_TRY(stni_spec_intern(call->context, &in, &call->want[0]));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

/* Sums lie as the results do. */
static stn_status run_shared(stn_op_call *call, struct stni_reduce_args *squares)
{
    const int64_t count = call->out[0]->spec->local_numel;
    struct stni_reduce_args roots = {.op = STNI_REDUCTION_sum,
                                     .in_dtype = STN_DTYPE_F64,
                                     .out = squares->out,
                                     .out_dtype = squares->out_dtype,
                                     .n_kept = squares->n_kept,
                                     .roots = 1};
    stn_comm *comm;
    void *sums;
    STNI_TRY(stni_mesh_comm(call->out_spec[0]->layout.mesh, (uint32_t)call->note, &comm));
    STNI_TRY(stn_op_scratch(call, (size_t)count * sizeof(double), &sums));
    squares->out = sums;
    squares->out_dtype = STN_DTYPE_F64;
    roots.in = sums;
    for (int d = 0; d < roots.n_kept; d++) {
        roots.kept[d] = squares->kept[d];
        roots.kept_in[d] = roots.kept_out[d] = squares->kept_out[d];
    }
    STNI_TRY(stni_reduction_launch(call, SQUARES, squares));
    STNI_TRY(stni_comm_all_reduce(comm, call->context->queue, sums, sums, count, STN_DTYPE_F64, STN_SUM));
    return stn_op_launch(call, ROOTS, squares->in_dtype, &roots, sizeof roots);
}

/* Each square is rounded to f64, if at all, and their sum once: the same on every layout. */
static stn_status run_exact(stn_op_call *call, const struct stni_reduce_args *squares)
{
    struct stni_exact_sum_args args = {.of = *squares, .dtype = STN_DTYPE_F64, .squares = 1, .step = 1,
                                       .count = call->out[0]->spec->local_numel};
    args.of.roots = 1;
    return stni_exact_sum_run(call, &args);
}

static stn_status run(stn_op_call *call)
{
    const struct euclidean_attrs *attrs = call->attrs;
    struct stni_reduce_args args;
    if (call->out[0]->spec->local_numel == 0)
        return STN_OK;
    stni_reduction_args_make(call, &attrs->of, STNI_REDUCTION_squares, &args);
    if (call->context->reproducible_sums)
        return run_exact(call, &args);
    if (call->note)
        return run_shared(call, &args);
    args.roots = 1;
    return stni_reduction_launch(call, SQUARES, &args);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? UINT64_C(1) << 32 | 1 : 0;
}

/* dy / dx = x / y, 0 where y is 0; y from x, so that it is differentiated again. */
static stn_status backward(stn_backward_call *call)
{
    const struct euclidean_attrs *attrs = call->attrs;
    const stn_spec *in = call->in_spec[0];
    const uint32_t reduced = stni_dims_mask_of(&attrs->of.dim, in->layout.ndim);
    stn_tensor *x = call->in[0], *grad = call->grad_out[0], *y = call->out[0];
    int dims[STN_MAX_NDIM], n = 0;
    if (!grad)
        return STN_OK;
    for (int d = 0; d < in->layout.ndim; d++)
        if (reduced >> d & 1)
            dims[n++] = d;
    if (stn_grad_enabled(call->context))
        y = stni_euclidean_norm(x, n, dims, (int)attrs->of.keepdim, (int)attrs->wide);
    stn_tensor *none = stn_eq_number(y, 0);
    grad = stn_div(stn_cast(grad, stni_wide_dtype(in->layout.dtype)), stn_masked_fill(y, none, 1));
    grad = stni_reduction_expand(stn_masked_fill(grad, none, 0), in, reduced, attrs->of.keepdim);
    call->grad_in[0] = stn_cast(stn_mul(x, grad), in->layout.dtype);
    return stn_context_status(call->context);
}

static const stn_attr_schema attrs_schema[] = {
    {"dim", STN_ATTR_INTS, offsetof(struct euclidean_attrs, of.dim), NULL},
    {"keepdim", STN_ATTR_BOOL, offsetof(struct euclidean_attrs, of.keepdim), NULL},
    {"wide", STN_ATTR_BOOL, offsetof(struct euclidean_attrs, wide), NULL},
};

static const struct stni_reduction_rule rule = {.op = STNI_REDUCTION_squares};

static const stn_kernel_slot slots[] = {[SQUARES] = {"squares", sizeof(struct stni_reduce_args)},
                                        [ROOTS] = {"roots", sizeof(struct stni_reduce_args)}};

enum { DTYPES = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16 };

static const stn_kernel kernels[] = {
    STNI_CPU_ROW("squares", DTYPES, struct stni_reduce_args, stni_reduce_cpu, NULL),
    STNI_CPU_ROW("roots", DTYPES, struct stni_reduce_args, stni_reduce_cpu, NULL),
};

static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .saves = saves, .backward = backward, STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_euclidean_norm = {
    .size = sizeof(stn_op_desc),
    .name = "euclidean_norm",
    STN_INPUTS(stni_reduction_inputs),
    STN_ATTRS(attrs_schema, struct euclidean_attrs),
    .attrs_init = &defaults,
    .n_outputs = 1,
    .flags = STN_OP_INTERNAL,
    .impl = &impl,
    .arg = (void *)&rule,
};
