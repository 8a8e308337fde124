/* cdist: distances between the rows of two tensors, and cdist_backward, both gradients from the distances. The
 * layout of the distances leads (ops/placement/follow.h): x1 and x2 are whole along their rows' elements, and a
 * gradient is pending over what its tensor lacks. */
#include "core/base/dtype.h"
#include "core/tensor/tensor.h"
#include "dispatch/dispatch.h"
#include "dispatch/registry.h"
#include "ops/distance/cdist_kernel.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/placement/follow.h"

#include <shardtensor/ops.h>

#include <float.h>
#include <math.h>
#include <string.h>

enum { X1, X2 };
enum { GRAD = 2, DISTANCE };

struct cdist_attrs {
    double p;
    int64_t compute_mode; /* taken, and nothing hangs on it: differences are taken first in every mode */
    int64_t infinite;     /* which of `infinities`; -1: p says it */
};

static const struct cdist_attrs defaults = {.p = 2, .infinite = -1};

stn_tensor *stn_cdist(stn_tensor *x1, stn_tensor *x2, double p)
{
    struct cdist_attrs attrs = {.p = p, .infinite = -1};
    return stni_call(STNI_OP_cdist, 2, (stn_tensor *[]){x1, x2}, &attrs);
}

static double power(const void *attrs)
{
    const struct cdist_attrs *a = attrs;
    return a->infinite == 0 ? (double)INFINITY : a->p;
}

static int joins(stn_meta *meta, const struct stni_layout *in)
{
    for (int i = 3; i <= in->ndim; i++) {
        int64_t *n = &meta->shape[meta->ndim - i], own = in->shape[in->ndim - i];
        if (*n != own && *n != 1 && own != 1)
            return 0;
        *n = *n == 1 ? own : *n;
    }
    return 1;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *a = &call->in_spec[X1]->layout, *b = &call->in_spec[X2]->layout;
    stn_meta meta = {.dtype = a->dtype, .ndim = a->ndim > b->ndim ? a->ndim : b->ndim};
    char text[2][STNI_SHAPE_TEXT];
    for (int d = 0; d < meta.ndim; d++)
        meta.shape[d] = 1;
    if (a->ndim < 2 || b->ndim < 2 || a->shape[a->ndim - 1] != b->shape[b->ndim - 1] || !joins(&meta, a) ||
        !joins(&meta, b))
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "got shapes %s and %s, wanted (…, rows, m) and (…, rows, m) whose batches broadcast",
                           stni_shape_text(a->ndim, a->shape, text[0]), stni_shape_text(b->ndim, b->shape, text[1]));
    if (!stni_dtype_is_floating(a->dtype) || a->dtype != b->dtype)
        return stn_op_fail(call, STN_ERR_DTYPE, "got dtypes %s and %s, wanted one floating dtype",
                           stn_dtype_name(a->dtype), stn_dtype_name(b->dtype));
    if (!(power(call->attrs) >= 0))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'p' got %g, wanted at least 0", power(call->attrs));
    meta.shape[meta.ndim - 2] = a->shape[a->ndim - 2];
    meta.shape[meta.ndim - 1] = b->shape[b->ndim - 2];
    call->out_meta[0] = meta;
    return STN_OK;
}

/* Which dims of the distances the dims of x1 (x2) are. */
static struct stni_follower follower(int input, int ndim, int out_ndim)
{
    struct stni_follower f = {.input = input};
    for (int d = 0; d < STN_MAX_NDIM; d++)
        f.of[d] = (int8_t)(d < ndim ? d + out_ndim - ndim : -1);
    f.of[ndim - 2] = (int8_t)(out_ndim - (input == X1 ? 2 : 1));
    f.of[ndim - 1] = -1;
    return f;
}

static struct stni_follower follower_of(const stn_op_call *call, int input, int out_ndim)
{
    return follower(input, call->in_spec[input]->layout.ndim, out_ndim);
}

static stn_status place(stn_op_call *call)
{
    const stn_meta *meta = &call->out_meta[0];
    const int larger = call->in_spec[X2]->numel > call->in_spec[X1]->numel;
    const struct stni_follower followers[] = {follower_of(call, larger, meta->ndim),
                                              follower_of(call, 1 - larger, meta->ndim)};
    struct stni_layout leader;
    stni_layout_init(&leader, call->in_spec[X1]->layout.mesh, meta->dtype, meta->ndim, meta->shape);
    STNI_TRY(stni_follow_lead(call, 2, followers, meta->ndim, &leader));
    for (int i = 0; i < 2; i++) {
        struct stni_layout layout = call->in_spec[followers[i].input]->layout;
        STNI_TRY(stni_follow(call, &leader, followers[i].of, 0, &layout, &call->want[followers[i].input]));
    }
    return stni_spec_intern(call->context, &leader, &call->out_spec[0]);
}

static struct stni_cdist_operand operand(const stn_tensor *t, int out_ndim)
{
    const struct stni_layout *layout = &t->spec->layout;
    struct stni_cdist_operand o = {
        .data = t->data, .row = t->strides[layout->ndim - 2], .col = t->strides[layout->ndim - 1]};
    for (int d = 0; d < layout->ndim - 2; d++)
        if (layout->shape[d] != 1)
            o.batch[d + out_ndim - layout->ndim] = t->strides[d];
    return o;
}

/* Distances that are worked out in f32 take the nearest order that f32 has, but 0 and infinity from these alone: roots
 * and powers of an order beyond them would be those of another distance. */
static double order_in(stn_dtype dtype, double p)
{
    if (dtype == STN_DTYPE_F64 || p == 0 || isinf(p))
        return p;
    return p < FLT_TRUE_MIN ? FLT_TRUE_MIN : p > FLT_MAX ? FLT_MAX : p;
}

static struct stni_cdist_args describe(const stn_op_call *call, const stn_tensor *distance)
{
    const stn_spec *spec = distance->spec;
    const int n = spec->layout.ndim;
    struct stni_cdist_args p = {.dtype = spec->layout.dtype, .n_batch = n - 2};
    p.p = order_in(p.dtype, power(call->attrs));
    memcpy(p.batch, spec->local_shape, sizeof p.batch);
    p.rows1 = spec->local_shape[n - 2];
    p.rows2 = spec->local_shape[n - 1];
    p.m = call->in[X1]->spec->layout.shape[call->in[X1]->spec->layout.ndim - 1];
    p.x1 = operand(call->in[X1], n);
    p.x2 = operand(call->in[X2], n);
    p.distance = operand(distance, n);
    return p;
}

static stn_status run(stn_op_call *call)
{
    if (call->out[0]->spec->local_numel == 0)
        return STN_OK;
    struct stni_cdist_args p = describe(call, call->out[0]);
    return stn_op_launch(call, 0, p.dtype, &p, sizeof p);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs ? 1u << X1 | 1u << X2 | UINT64_C(1) << 32 : 0;
}

static stn_status backward(stn_backward_call *call)
{
    stn_tensor *in[] =
        {[X1] = call->in[X1], [X2] = call->in[X2], [GRAD] = call->grad_out[0], [DISTANCE] = call->out[0]},
               *out[2];
    STNI_TRY(stni_dispatch(call->context->registry->ops[STNI_OP_cdist_backward], 4, in, call->attrs, 2, out));
    for (int i = 0; i < 2; i++)
        if (call->needs >> i & 1)
            call->grad_in[i] = out[i];
    return stn_context_status(call->context);
}

static stn_status check_backward(stn_op_call *call)
{
    STNI_TRY(check(call));
    stn_meta want = call->out_meta[0];
    for (int i = GRAD; i <= DISTANCE; i++) {
        STNI_TRY(stni_check_dtype(call, i, want.dtype, NULL));
        STNI_TRY(stni_check_shape(call, i, want.ndim, want.shape, NULL));
    }
    for (int i = 0; i < 2; i++) {
        const struct stni_layout *x = &call->in_spec[i]->layout;
        call->out_meta[i] = stni_meta_of(x);
    }
    return STN_OK;
}

/* The layout of the distances, or of the cotangent where only that is sharded: taking a chunk of a replica moves
 * nothing. */
static stn_status place_backward(stn_op_call *call)
{
    const stn_spec *grad = call->in_spec[GRAD], *distance = call->in_spec[DISTANCE];
    const int follow_grad = !distance->shard_axes && !distance->partial_axes && !grad->partial_axes;
    struct stni_follower same = {.input = follow_grad ? GRAD : DISTANCE};
    struct stni_layout leader, layout;
    const int ndim = distance->layout.ndim;
    for (int d = 0; d < ndim; d++)
        same.of[d] = (int8_t)d;
    stni_layout_init(&leader, distance->layout.mesh, distance->layout.dtype, ndim, distance->layout.shape);
    STNI_TRY(stni_follow_lead(call, 1, &same, ndim, &leader));
    for (int i = GRAD; i <= DISTANCE; i++) {
        layout = call->in_spec[i]->layout;
        STNI_TRY(stni_follow(call, &leader, same.of, 0, &layout, &call->want[i]));
    }
    for (int i = 0; i < 2; i++) {
        const struct stni_follower f = follower_of(call, i, ndim);
        layout = call->in_spec[i]->layout;
        STNI_TRY(stni_follow(call, &leader, f.of, 0, &layout, &call->want[i]));
        STNI_TRY(stni_follow(call, &leader, f.of, 1, &layout, &call->out_spec[i]));
    }
    return STN_OK;
}

static stn_status run_backward(stn_op_call *call)
{
    struct stni_cdist_args p = describe(call, call->in[DISTANCE]);
    p.grad = operand(call->in[GRAD], p.n_batch + 2);
    p.grad1 = operand(call->out[X1], p.n_batch + 2);
    p.grad2 = operand(call->out[X2], p.n_batch + 2);
    return stn_op_launch(call, 0, p.dtype, &p, sizeof p);
}

static const char *const modes[] = {"use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
                                    "donot_use_mm_for_euclid_dist", NULL};
static const char *const infinities[] = {"inf", NULL};

static const stn_input_schema inputs[] = {[X1] = {.name = "x1"}, [X2] = {.name = "x2"}};
static const stn_input_schema backward_inputs[] = {
    [X1] = {.name = "x1"}, [X2] = {.name = "x2"}, [GRAD] = {.name = "grad"}, [DISTANCE] = {.name = "distance"}};
static const stn_attr_schema attrs_schema[] = {
    {"p", STN_ATTR_FLOAT, offsetof(struct cdist_attrs, p), NULL},
    {"p", STN_ATTR_CHOICE, offsetof(struct cdist_attrs, infinite), infinities},
    {"compute_mode", STN_ATTR_CHOICE, offsetof(struct cdist_attrs, compute_mode), modes},
};

static const stn_kernel_slot slots[] = {{"forward", sizeof(struct stni_cdist_args)}};
static const stn_kernel kernels[] = {
    STNI_ISA_ROWS("forward", STNI_CDIST_DTYPES, struct stni_cdist_args, stni_cdist, NULL)};
static const stn_kernel backward_kernels[] = {
    STNI_ISA_ROWS("forward", STNI_CDIST_DTYPES, struct stni_cdist_args, stni_cdist_backward, NULL)};
static const stn_op_impl impl = {
    .check = check,
    .place = place,
    .run = run,
    .saves = saves,
    .backward = backward,
    STN_SLOTS(slots),
    STN_KERNELS(kernels),
};
static const stn_op_impl backward_impl = {
    .check = check_backward,
    .place = place_backward,
    .run = run_backward,
    STN_SLOTS(slots),
    STN_KERNELS(backward_kernels),
};

const stn_op_desc stni_op_cdist = {
    .size = sizeof(stn_op_desc), .name = "cdist", STN_INPUTS(inputs), STN_ATTRS(attrs_schema, struct cdist_attrs),
    .attrs_init = &defaults, .n_outputs = 1, .impl = &impl, .flags = STN_OP_FIRST_ORDER,
};

const stn_op_desc stni_op_cdist_backward = {
    .size = sizeof(stn_op_desc), .name = "cdist_backward", STN_INPUTS(backward_inputs),
    STN_ATTRS(attrs_schema, struct cdist_attrs), .attrs_init = &defaults, .n_outputs = 2, .impl = &backward_impl,
    .flags = STN_OP_INTERNAL,
};
