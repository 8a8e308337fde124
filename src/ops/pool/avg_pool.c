/* Average pools, over windows and adaptive ones, of 1 to 3 dims, and their adjoint: one op for all of them. Each is the
 * other's derivative. Adaptive ones are `adaptive_avg_pool`, but for that which has one part along every dim: the mean.
 *
 * They are resamplings: a window's average is a product of averages along its dims. Any dim may be sharded: a rank
 * that pools other ranks' elements gets these as a halo. */
#include "core/context/context.h"
#include "ops/pool/pool.h"
#include "ops/common/call.h"
#include "ops/common/check.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <string.h>

static const enum stni_op_index forward[STNI_POOL_DIMS] = {STNI_OP_avg_pool1d, STNI_OP_avg_pool2d, STNI_OP_avg_pool3d},
                                adaptive[STNI_POOL_DIMS] = {STNI_OP_adaptive_avg_pool1d, STNI_OP_adaptive_avg_pool2d,
                                                            STNI_OP_adaptive_avg_pool3d};

/* What other pools, or those of more dims, have. @return NULL, or the error tensor. */
static stn_tensor *refuse_others(const char *name, stn_tensor *input, int dims, const stn_pool_attrs *given)
{
    for (int d = 0; d < dims; d++)
        if (given->dilation[d] != 0 && given->dilation[d] != 1)
            return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: 'dilation' got %" PRId64 ", wanted 0 or 1", name,
                                  given->dilation[d]);
    if (dims == 1 && given->divisor_override != 0)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: 'divisor_override' got %" PRId64 ", wanted 0", name,
                              given->divisor_override);
    return NULL;
}

static stn_tensor *over_windows(const char *name, stn_tensor *input, int dims, const stn_pool_attrs *given)
{
    struct stni_pool_attrs attrs;
    if (!input) /* and no context to say so in */
        return NULL;
    stn_tensor *error = stni_pool_given(name, input, dims, given, &attrs);
    if (!error)
        error = refuse_others(name, input, dims, given);
    return error ? error : stni_call(forward[dims - 1], 1, &input, &attrs);
}

stn_tensor *stn_avg_pool1d(stn_tensor *input, const stn_pool_attrs *attrs)
{
    return over_windows("avg_pool1d", input, 1, attrs);
}

stn_tensor *stn_avg_pool2d(stn_tensor *input, const stn_pool_attrs *attrs)
{
    return over_windows("avg_pool2d", input, 2, attrs);
}

stn_tensor *stn_avg_pool3d(stn_tensor *input, const stn_pool_attrs *attrs)
{
    return over_windows("avg_pool3d", input, 3, attrs);
}

static stn_tensor *to_size(stn_tensor *input, int dims, const int64_t *output_size)
{
    struct stni_pool_attrs attrs = stni_pool_given_size(dims, output_size);
    return stni_call(adaptive[dims - 1], 1, &input, &attrs);
}

stn_tensor *stn_adaptive_avg_pool1d(stn_tensor *input, int64_t output_size)
{
    return to_size(input, 1, &output_size);
}

stn_tensor *stn_adaptive_avg_pool2d(stn_tensor *input, const int64_t *output_size)
{
    return to_size(input, 2, output_size);
}

stn_tensor *stn_adaptive_avg_pool3d(stn_tensor *input, const int64_t *output_size)
{
    return to_size(input, 3, output_size);
}

static stn_status check_pooling(const stn_op_call *call, struct stni_pooling *pool)
{
    STNI_TRY(stni_check_floating(call, 0));
    return stni_pool_read(call, pool);
}

/* The adaptive ops. One part along every dim is the mean, of which each rank has its addend where it is; as a pool it
 * would lie on one rank, which all elements would have to come to. */
static stn_status into_parts(stn_op_call *call)
{
    struct stni_pooling pool;
    int dims[STNI_POOL_DIMS], is_mean = 1;
    STNI_TRY(check_pooling(call, &pool));
    for (int d = 0; d < pool.geometry.dims; d++) {
        dims[d] = pool.geometry.first + d;
        is_mean &= pool.geometry.dim[d].n_out == 1;
    }
    struct stni_pool_attrs attrs = stni_pool_attrs_of(call->attrs, call->arg, &call->in_spec[0]->layout);
    call->out[0] = is_mean ? stn_mean(call->in[0], pool.geometry.dims, dims, 1)
                           : stni_call(STNI_OP_adaptive_avg_pool, 1, call->in, &attrs);
    return STN_OK;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    struct stni_pooling pool;
    STNI_TRY(check_pooling(call, &pool));
    call->out_meta[0] = (stn_meta){.dtype = in->dtype, .ndim = in->ndim};
    memcpy(call->out_meta[0].shape, stni_pool_is_adjoint(call) ? pool.in : pool.out, sizeof pool.in);
    return STN_OK;
}

/* The note: whether ranks exchange. */
static stn_status place(stn_op_call *call)
{
    struct stni_pooling pool;
    int exchanges;
    STNI_TRY(stni_pool_read(call, &pool));
    STNI_TRY(stni_resample_place(call, &pool.geometry, stni_pool_is_adjoint(call), &exchanges));
    call->note = (uint64_t)exchanges;
    return STN_OK;
}

static stn_status run(stn_op_call *call)
{
    struct stni_pooling pool;
    STNI_TRY(stni_pool_read(call, &pool));
    return stni_resample_solve(call, &pool.geometry, stni_pool_is_adjoint(call), call->in[0], call->out[0],
                               (int)call->note);
}

static stn_status backward(stn_backward_call *call)
{
    struct stni_pool_attrs attrs = stni_pool_attrs_of(call->attrs, call->arg, &call->in_spec[0]->layout);
    int adjoint = ((const struct stni_pool_kind *)call->arg)->adjoint;
    enum stni_op_index pool = attrs.adaptive ? STNI_OP_adaptive_avg_pool : forward[attrs.dims - 1],
                       op = adjoint ? pool : STNI_OP_avg_pool_backward;
    call->grad_in[0] = stni_call(op, 1, &call->grad_out[0], &attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_input_schema adjoint_inputs[] = {{.name = "grad"}};

static const stn_attr_schema line_schema[] = {
    STNI_POOL_ATTR(kernel_size, INTS), STNI_POOL_ATTR(stride, INTS), STNI_POOL_ATTR(padding, INTS),
    STNI_POOL_ATTR(ceil_mode, BOOL), STNI_POOL_ATTR(count_include_pad, BOOL),
};
static const stn_attr_schema window_schema[] = {
    STNI_POOL_ATTR(kernel_size, INTS), STNI_POOL_ATTR(stride, INTS), STNI_POOL_ATTR(padding, INTS),
    STNI_POOL_ATTR(ceil_mode, BOOL), STNI_POOL_ATTR(count_include_pad, BOOL), STNI_POOL_ATTR(divisor_override, INT),
};
static const stn_attr_schema adaptive_schema[] = {STNI_POOL_ATTR(output_size, INTS)};
static const stn_attr_schema parts_schema[] = {
    STNI_POOL_ATTR(output_size, INTS), STNI_POOL_ATTR(dims, INT), STNI_POOL_ATTR(adaptive, BOOL),
};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_resample_args)}};
static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("forward", STNI_RESAMPLE_DTYPES, struct stni_resample_args, stni_resample,
                  stni_resample_workspace)};
static const stn_op_impl impl = {
    .check = check, .place = place, .run = run, .backward = backward, STN_SLOTS(slots), STN_KERNELS(kernels),
};
static const stn_op_impl adaptive_impl = {.compose = into_parts};

const stn_op_desc stni_op_avg_pool1d = {
    .size = sizeof(stn_op_desc), .name = "avg_pool1d", STN_INPUTS(inputs),
    STN_ATTRS(line_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 1, .impl = &impl,
    .arg = (void *)&stni_pool_windows[0],
    .signature = "input, kernel_size, stride=, padding=0, ceil_mode=, count_include_pad=",
};

const stn_op_desc stni_op_avg_pool2d = {
    .size = sizeof(stn_op_desc), .name = "avg_pool2d", STN_INPUTS(inputs),
    STN_ATTRS(window_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&stni_pool_windows[1],
    .signature = "input, kernel_size, stride=, padding=0, ceil_mode=, count_include_pad=, divisor_override=",
};

const stn_op_desc stni_op_avg_pool3d = {
    .size = sizeof(stn_op_desc), .name = "avg_pool3d", STN_INPUTS(inputs),
    STN_ATTRS(window_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&stni_pool_windows[2],
    .signature = "input, kernel_size, stride=, padding=0, ceil_mode=, count_include_pad=, divisor_override=",
};

const stn_op_desc stni_op_adaptive_avg_pool1d = {
    .size = sizeof(stn_op_desc), .name = "adaptive_avg_pool1d", STN_INPUTS(inputs),
    STN_ATTRS(adaptive_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 1,
    .impl = &adaptive_impl, .arg = (void *)&stni_pool_adaptive[0],
    .signature = "input, output_size",
};

const stn_op_desc stni_op_adaptive_avg_pool2d = {
    .size = sizeof(stn_op_desc), .name = "adaptive_avg_pool2d", STN_INPUTS(inputs),
    STN_ATTRS(adaptive_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 1,
    .impl = &adaptive_impl, .arg = (void *)&stni_pool_adaptive[1],
    .signature = "input, output_size",
};

const stn_op_desc stni_op_adaptive_avg_pool3d = {
    .size = sizeof(stn_op_desc), .name = "adaptive_avg_pool3d", STN_INPUTS(inputs),
    STN_ATTRS(adaptive_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 1,
    .impl = &adaptive_impl, .arg = (void *)&stni_pool_adaptive[2],
    .signature = "input, output_size",
};

const stn_op_desc stni_op_adaptive_avg_pool = {
    .size = sizeof(stn_op_desc), .name = "adaptive_avg_pool", STN_INPUTS(inputs),
    STN_ATTRS(parts_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&stni_pool_any, .flags = STN_OP_INTERNAL,
};

const stn_op_desc stni_op_avg_pool_backward = {
    .size = sizeof(stn_op_desc), .name = "avg_pool_backward", STN_INPUTS(adjoint_inputs),
    STN_ATTRS(stni_pool_adjoint_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 1,
    .impl = &impl, .arg = (void *)&stni_pool_adjoint, .flags = STN_OP_INTERNAL,
};
