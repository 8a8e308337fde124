/* Max pools, over windows and adaptive ones, of 1 to 3 dims: all are `max_pool`, which gives maxima and their places.
 *
 * Any dim may be sharded: a rank that pools other ranks' elements gets these as a halo, and indices are those in the
 * whole input. Indices are computed only where the caller or backward reads them. */
#include "core/context/context.h"
#include "core/base/dtype.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "ops/pool/max.h"
#include "ops/pool/max_kernel.h"
#include "ops/common/call.h"
#include "ops/exchange/stencil.h"

#include <shardtensor/autograd.h>
#include <shardtensor/ops.h>

#include <string.h>

enum { VALUES, INDICES };

static stn_tensor *call_public(enum stni_op_index op, stn_tensor *input, struct stni_pool_attrs *attrs,
                               stn_tensor **indices)
{
    stn_tensor *out[2] = {NULL, NULL};
    if (indices)
        *indices = NULL;
    if (!input || !stn_tensor_context(input))
        return NULL;
    attrs->return_indices = indices != NULL;
    stni_dispatch(stn_tensor_context(input)->registry->ops[op], 1, &input, attrs, indices ? 2 : 1, out);
    if (indices)
        *indices = out[INDICES];
    return out[VALUES];
}

static stn_tensor *over_windows(const char *name, enum stni_op_index op, stn_tensor *input, int dims,
                                const stn_pool_attrs *given, stn_tensor **indices)
{
    struct stni_pool_attrs attrs;
    stn_tensor *error = stni_pool_given(name, input, dims, given, &attrs);
    if (error && indices)
        *indices = error;
    return error ? error : call_public(op, input, &attrs, indices);
}

stn_tensor *stn_max_pool1d(stn_tensor *input, const stn_pool_attrs *attrs, stn_tensor **indices)
{
    return over_windows("max_pool1d", STNI_OP_max_pool1d, input, 1, attrs, indices);
}

stn_tensor *stn_max_pool2d(stn_tensor *input, const stn_pool_attrs *attrs, stn_tensor **indices)
{
    return over_windows("max_pool2d", STNI_OP_max_pool2d, input, 2, attrs, indices);
}

stn_tensor *stn_max_pool3d(stn_tensor *input, const stn_pool_attrs *attrs, stn_tensor **indices)
{
    return over_windows("max_pool3d", STNI_OP_max_pool3d, input, 3, attrs, indices);
}

stn_tensor *stn_adaptive_max_pool1d(stn_tensor *input, int64_t output_size, stn_tensor **indices)
{
    struct stni_pool_attrs attrs = stni_pool_given_size(1, &output_size);
    return call_public(STNI_OP_adaptive_max_pool1d, input, &attrs, indices);
}

stn_tensor *stn_adaptive_max_pool2d(stn_tensor *input, const int64_t *output_size, stn_tensor **indices)
{
    struct stni_pool_attrs attrs = stni_pool_given_size(2, output_size);
    return call_public(STNI_OP_adaptive_max_pool2d, input, &attrs, indices);
}

stn_tensor *stn_adaptive_max_pool3d(stn_tensor *input, const int64_t *output_size, stn_tensor **indices)
{
    struct stni_pool_attrs attrs = stni_pool_given_size(3, output_size);
    return call_public(STNI_OP_adaptive_max_pool3d, input, &attrs, indices);
}

static stn_status check_pooling(const stn_op_call *call, struct stni_pooling *pool)
{
    stn_dtype dtype = call->in_spec[0]->layout.dtype;
    if (!(STNI_MAX_DTYPES >> dtype & 1))
        return stn_op_fail(call, STN_ERR_DTYPE, "'input' got %s, wanted a floating dtype, i64, i32 or u8",
                           stn_dtype_name(dtype));
    return stni_pool_read(call, pool);
}

/* Whether there is one window, which ranks share. */
static int is_shared(const stn_op_call *call, const struct stni_pooling *pool)
{
    int cut = 0;
    for (int d = 0; d < pool->geometry.dims; d++) {
        if (pool->geometry.dim[d].mode != STNI_RESAMPLE_AREA || pool->geometry.dim[d].n_out != 1)
            return 0;
        cut |= call->in_spec[0]->layout.split[pool->geometry.first + d] != NULL;
    }
    return cut;
}

/* The public ops: max_pool or global_max_pool, with places where the caller or backward wants them. */
static stn_status pool(stn_op_call *call)
{
    const struct stni_pool_attrs *given = call->attrs;
    stn_context *context = call->context;
    struct stni_pooling read;
    STNI_TRY(check_pooling(call, &read));
    struct stni_pool_attrs attrs = stni_pool_attrs_of(given, call->arg, &call->in_spec[0]->layout);
    attrs.return_indices = given->return_indices || (stn_requires_grad(call->in[0]) && stn_grad_enabled(context));
    call->n_out = given->return_indices ? 2 : 1;
    const enum stni_op_index op = is_shared(call, &read) ? STNI_OP_global_max_pool : STNI_OP_max_pool;
    return stni_dispatch(context->registry->ops[op], 1, call->in, &attrs, call->n_out, call->out);
}

/* max_pool */

stn_status stni_max_pool_check(stn_op_call *call)
{
    const struct stni_pool_attrs *attrs = call->attrs;
    struct stni_pooling pool;
    STNI_TRY(check_pooling(call, &pool));
    call->n_out = attrs->return_indices ? 2 : 1;
    for (int k = 0; k < call->n_out; k++) {
        call->out_meta[k] =
            (stn_meta){.dtype = k == INDICES ? STN_DTYPE_I64 : call->in_spec[0]->layout.dtype, .ndim = pool.ndim};
        memcpy(call->out_meta[k].shape, pool.out, sizeof pool.out);
    }
    return STN_OK;
}

static struct stni_range sources_of(const void *arg, int d, int64_t t)
{
    const struct stni_pooling *pool = arg;
    return stni_resample_reads(&pool->geometry.dim[d], t);
}

static struct stni_stencil stencil_of(const struct stni_pooling *pool, const stn_spec *source, const stn_spec *target)
{
    return (struct stni_stencil){pool->geometry.dims, pool->geometry.first, pool, sources_of, source, target};
}

/* The note: whether ranks exchange. */
static stn_status place(stn_op_call *call)
{
    struct stni_layout want = call->in_spec[0]->layout, out;
    struct stni_pooling pool;
    STNI_TRY(stni_pool_read(call, &pool));
    stni_layout_reduce(&want, 0);
    STNI_TRY(stni_resample_layout(call->context, &want, &pool.geometry, pool.out, &out));
    STNI_TRY(stni_spec_intern(call->context, &want, &call->want[0]));
    for (int k = 0; k < call->n_out; k++) {
        out.dtype = call->out_meta[k].dtype;
        STNI_TRY(stni_spec_intern(call->context, &out, &call->out_spec[k]));
    }
    struct stni_stencil stencil = stencil_of(&pool, call->want[0], call->out_spec[VALUES]);
    call->note = (uint64_t)stni_stencil_exchanges(&stencil);
    return STN_OK;
}

struct solver {
    const stn_op_call *call;
    const struct stni_pooling *pool;
};

static stn_status launch(void *arg, const struct stni_stencil_part *part, const stn_box *from)
{
    const struct solver *s = arg;
    const stn_op_call *call = s->call;
    struct stni_max_args a;
    memset(&a, 0, sizeof a);
    int64_t at = stni_resample_fill(&s->pool->geometry, call->out[VALUES], part, from, &a.at);
    if (call->n_out > INDICES)
        a.index = (int64_t *)call->out[INDICES]->data + at; /* both outputs are new, and lie alike */
    STNI_TRY(stn_op_scratch(call, stn_op_workspace(call, 0, a.at.dtype, &a), &a.at.work));
    return stn_op_launch(call, 0, a.at.dtype, &a, sizeof a);
}

static stn_status run(stn_op_call *call)
{
    struct stni_pooling pool;
    STNI_TRY(stni_pool_read(call, &pool));
    struct stni_stencil stencil = stencil_of(&pool, call->in[0]->spec, call->out[VALUES]->spec);
    struct solver s = {call, &pool};
    return stni_stencil_solve(call, &stencil, 1, call->in, (int)call->note, launch, &s);
}

uint64_t stni_max_pool_saves(const stn_op_call *call, uint32_t needs)
{
    return needs && call->n_out > INDICES ? UINT64_C(1) << (32 + INDICES) : 0;
}

stn_status stni_max_pool_check_places(const stn_backward_call *call)
{
    if (call->n_out > INDICES)
        return STN_OK;
    return stni_fail(call->context, STN_ERR_UNSUPPORTED,
                     "max_pool: 'return_indices' got 0, wanted 1 where a gradient is asked for");
}

static stn_status backward(stn_backward_call *call)
{
    struct stni_pool_attrs attrs = stni_pool_attrs_of(call->attrs, call->arg, &call->in_spec[0]->layout);
    if (!call->grad_out[VALUES])
        return STN_OK;
    STNI_TRY(stni_max_pool_check_places(call));
    call->grad_in[0] = stni_max_pool_backward(call->grad_out[VALUES], call->out[INDICES], &attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema window_schema[] = {
    STNI_POOL_ATTR(kernel_size, INTS), STNI_POOL_ATTR(stride, INTS), STNI_POOL_ATTR(padding, INTS),
    STNI_POOL_ATTR(dilation, INTS), STNI_POOL_ATTR(ceil_mode, BOOL), STNI_POOL_ATTR(return_indices, BOOL),
};
static const stn_attr_schema adaptive_schema[] = {STNI_POOL_ATTR(output_size, INTS),
                                                  STNI_POOL_ATTR(return_indices, BOOL)};
const stn_attr_schema stni_max_pool_schema[] = {
    STNI_POOL_ATTR(kernel_size, INTS),
    STNI_POOL_ATTR(stride, INTS),
    STNI_POOL_ATTR(padding, INTS),
    STNI_POOL_ATTR(dilation, INTS),
    STNI_POOL_ATTR(output_size, INTS),
    STNI_POOL_ATTR(input_size, INTS),
    STNI_POOL_ATTR(dims, INT),
    STNI_POOL_ATTR(adaptive, BOOL),
    STNI_POOL_ATTR(ceil_mode, BOOL),
    STNI_POOL_ATTR(count_include_pad, BOOL),
    STNI_POOL_ATTR(divisor_override, INT),
    STNI_POOL_ATTR(return_indices, BOOL),
};
static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_max_args)}};
static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("forward", STNI_MAX_DTYPES, struct stni_max_args, stni_max, stni_max_workspace)};
static const stn_op_impl public_impl = {.compose = pool};
static const stn_op_impl impl = {
    .check = stni_max_pool_check,
    .place = place,
    .run = run,
    .saves = stni_max_pool_saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};

const stn_op_desc stni_op_max_pool1d = {
    .size = sizeof(stn_op_desc),
    .name = "max_pool1d",
    STN_INPUTS(inputs),
    STN_ATTRS(window_schema, struct stni_pool_attrs),
    .attrs_init = &stni_pool_attrs_init,
    .n_outputs = 2,
    .impl = &public_impl,
    .arg = (void *)&stni_pool_windows[0],
    .signature =
        "input, kernel_size, stride=, padding=0, dilation=1, ceil_mode=, return_indices= -> Tensor | (Tensor, Tensor)",
};

const stn_op_desc stni_op_max_pool2d = {
    .size = sizeof(stn_op_desc),
    .name = "max_pool2d",
    STN_INPUTS(inputs),
    STN_ATTRS(window_schema, struct stni_pool_attrs),
    .attrs_init = &stni_pool_attrs_init,
    .n_outputs = 2,
    .impl = &public_impl,
    .arg = (void *)&stni_pool_windows[1],
    .signature =
        "input, kernel_size, stride=, padding=0, dilation=1, ceil_mode=, return_indices= -> Tensor | (Tensor, Tensor)",
};

const stn_op_desc stni_op_max_pool3d = {
    .size = sizeof(stn_op_desc),
    .name = "max_pool3d",
    STN_INPUTS(inputs),
    STN_ATTRS(window_schema, struct stni_pool_attrs),
    .attrs_init = &stni_pool_attrs_init,
    .n_outputs = 2,
    .impl = &public_impl,
    .arg = (void *)&stni_pool_windows[2],
    .signature =
        "input, kernel_size, stride=, padding=0, dilation=1, ceil_mode=, return_indices= -> Tensor | (Tensor, Tensor)",
};

const stn_op_desc stni_op_adaptive_max_pool1d = {
    .size = sizeof(stn_op_desc), .name = "adaptive_max_pool1d", STN_INPUTS(inputs),
    STN_ATTRS(adaptive_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 2,
    .impl = &public_impl, .arg = (void *)&stni_pool_adaptive[0],
    .signature = "input, output_size, return_indices= -> Tensor | (Tensor, Tensor)",
};

const stn_op_desc stni_op_adaptive_max_pool2d = {
    .size = sizeof(stn_op_desc), .name = "adaptive_max_pool2d", STN_INPUTS(inputs),
    STN_ATTRS(adaptive_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 2,
    .impl = &public_impl, .arg = (void *)&stni_pool_adaptive[1],
    .signature = "input, output_size, return_indices= -> Tensor | (Tensor, Tensor)",
};

const stn_op_desc stni_op_adaptive_max_pool3d = {
    .size = sizeof(stn_op_desc), .name = "adaptive_max_pool3d", STN_INPUTS(inputs),
    STN_ATTRS(adaptive_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 2,
    .impl = &public_impl, .arg = (void *)&stni_pool_adaptive[2],
    .signature = "input, output_size, return_indices= -> Tensor | (Tensor, Tensor)",
};

const stn_op_desc stni_op_max_pool = {
    .size = sizeof(stn_op_desc), .name = "max_pool", STN_INPUTS(inputs),
    STN_ATTRS(stni_max_pool_schema, struct stni_pool_attrs), .attrs_init = &stni_pool_attrs_init, .n_outputs = 2,
    .impl = &impl, .arg = (void *)&stni_pool_any,
    .flags = STN_OP_INTERNAL,
};
