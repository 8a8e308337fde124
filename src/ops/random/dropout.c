/* dropout: each element, or each channel, is zeroed with probability p, and what stays is scaled by 1 / (1 - p).
 *
 * The numbers belong to global elements (core/box/rng.h), so that any layout drops the same ones. A call uses the
 * next stream of its mesh and saves the stream's number and the seed in a second output, in device memory: backward
 * draws the same numbers again, and no mask is stored. */
#include "core/context/context.h"
#include "core/tensor/tensor.h"
#include "ops/random/dropout_kernel.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/rng_stream.h"
#include "ops/cpu/strided.h"

#include <shardtensor/ops.h>

#include <string.h>

struct dropout_attrs {
    double p;
    int64_t training;
    int64_t channels; /* one number for each of the first two dims' elements */
};

enum { KEEP_STREAM, DROP };

static stn_tensor *call_dropout(enum stni_op_index op, stn_tensor *input, double p, int training)
{
    struct dropout_attrs attrs = {p, training != 0, op == STNI_OP_dropout_channels};
    if (!stn_tensor_is_error(input) && (p == 0 || (!training && p >= 0 && p <= 1)))
        return stni_tensor_publish(stn_tensor_retain(input));
    return stni_call(op, 1, &input, &attrs);
}

stn_tensor *stn_dropout(stn_tensor *input, double p, int training)
{
    return call_dropout(STNI_OP_dropout, input, p, training);
}

stn_tensor *stn_dropout_channels(stn_tensor *input, double p, int training)
{
    return call_dropout(STNI_OP_dropout_channels, input, p, training);
}

static int draws(const struct dropout_attrs *attrs)
{
    return attrs->training && attrs->p > 0;
}

/* The attributes by name do not tell the two ops apart. */
static int by_channel(const stn_op_call *call)
{
    return call->arg != NULL || ((const struct dropout_attrs *)call->attrs)->channels;
}

static stn_status check(stn_op_call *call)
{
    const struct dropout_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const char *name = stn_op_descriptor(call->op)->inputs[0].name;
    if (!(attrs->p >= 0 && attrs->p <= 1))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'p' got %g, wanted 0 <= p <= 1", attrs->p);
    STNI_TRY(stni_check_floating(call, 0));
    if (by_channel(call) && in->ndim < 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got %d dims, wanted a batch, channels and any others", name,
                           in->ndim);
    call->out_meta[0] = stni_meta_of(in);
    if (call->n_in > 1)
        return STN_OK;
    call->out_meta[1] = stni_rng_stream_meta();
    return STN_OK;
}

/* Linear in its input: pending sums stay, other reductions are done first. */
static stn_status place(stn_op_call *call)
{
    struct stni_layout layout = call->in_spec[0]->layout;
    stni_layout_reduce(&layout, 1u << STN_SUM);
    STNI_TRY(stni_spec_intern(call->context, &layout, &call->want[0]));
    call->out_spec[0] = call->want[0];
    if (call->n_in > 1)
        return stni_rng_stream_spec(call, layout.mesh, &call->want[1]);
    return call->n_out > 1 ? stni_rng_stream_spec(call, layout.mesh, &call->out_spec[1]) : STN_OK;
}

static void fill_args(const stn_op_call *call, const stn_tensor *x, const stn_tensor *out, const stn_tensor *stream,
                      struct stni_dropout_args *a)
{
    const struct dropout_attrs *attrs = call->attrs;
    const stn_spec *spec = out->spec;
    int64_t count[STN_MAX_NDIM], below = 1;
    memset(a, 0, sizeof *a);
    for (int d = spec->layout.ndim - 1; d >= 0; d--) {
        int counts = !by_channel(call) || d < 2;
        count[d] = counts ? below : 0;
        below *= counts ? spec->layout.shape[d] : 1;
        a->base += (uint64_t)(spec->local_offset[d] * count[d]);
    }
    for (int k = 0; k < spec->layout.ndim; k++) {
        int d = spec->layout.memory_order[k];
        a->shape[k] = spec->local_shape[d];
        a->x_strides[k] = x->strides[d];
        a->out_strides[k] = out->strides[d];
        a->count[k] = count[d];
    }
    a->ndim = stni_join_dims(spec->layout.ndim, a->shape, 3, (int64_t *[]){a->x_strides, a->out_strides, a->count});
    if (a->ndim == 0)
        a->shape[a->ndim++] = 1;
    a->dtype = spec->layout.dtype;
    a->stream = stream->data;
    a->threshold = (uint64_t)(attrs->p * 4294967296.0 + 0.5);
    a->scale = attrs->p < 1 ? 1 / (1 - attrs->p) : 0;
    a->x = x->data;
    a->out = out->data;
}

static stn_status drop(stn_op_call *call, const stn_tensor *x, const stn_tensor *out, const stn_tensor *stream)
{
    struct stni_dropout_args a;
    if (out->spec->local_numel == 0)
        return STN_OK;
    fill_args(call, x, out, stream, &a);
    return stn_op_launch(call, DROP, a.dtype, &a, sizeof a);
}

static stn_status run(stn_op_call *call)
{
    STNI_TRY(stni_tensor_create(call->context, call->out_spec[1], &call->out[1]));
    if (!draws(call->attrs))
        return stn_op_alias(call, 0, call->in[0], 0, call->in[0]->strides);
    STNI_TRY(stni_tensor_create(call->context, call->out_spec[0], &call->out[0]));
    STNI_TRY(stni_rng_stream_take(call, 1, KEEP_STREAM));
    return drop(call, call->in[0], call->out[0], call->out[1]);
}

static stn_status run_backward(stn_op_call *call)
{
    return drop(call, call->in[0], call->out[0], call->in[1]);
}

static uint64_t saves(const stn_op_call *call, uint32_t needs)
{
    return needs && draws(call->attrs) ? UINT64_C(1) << 33 : 0;
}

static stn_status backward(stn_backward_call *call)
{
    struct dropout_attrs attrs = *(const struct dropout_attrs *)call->attrs;
    stn_tensor *in[] = {call->grad_out[0], call->out[1]};
    attrs.channels = call->arg != NULL;
    call->grad_in[0] = draws(&attrs) ? stni_call(STNI_OP_dropout_backward, 2, in, &attrs) : call->grad_out[0];
    return stn_context_status(call->context);
}

static uint64_t saves_backward(const stn_op_call *call, uint32_t needs)
{
    (void)call;
    return needs & 1 ? 2 : 0;
}

/* Linear and diagonal: its own adjoint. */
static stn_status backward_backward(stn_backward_call *call)
{
    stn_tensor *in[] = {call->grad_out[0], call->in[1]};
    if (call->needs & 1)
        call->grad_in[0] = stni_call(STNI_OP_dropout_backward, 2, in, call->attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_input_schema backward_inputs[] = {{.name = "grad"}, {.name = "stream"}};
static const stn_attr_schema attrs_schema[] = {
    {"p", STN_ATTR_FLOAT, offsetof(struct dropout_attrs, p), NULL},
    {"training", STN_ATTR_BOOL, offsetof(struct dropout_attrs, training), NULL},
};
static const stn_attr_schema backward_schema[] = {
    {"p", STN_ATTR_FLOAT, offsetof(struct dropout_attrs, p), NULL},
    {"training", STN_ATTR_BOOL, offsetof(struct dropout_attrs, training), NULL},
    {"channels", STN_ATTR_BOOL, offsetof(struct dropout_attrs, channels), NULL},
};
static const struct dropout_attrs defaults = {.p = 0.5, .training = 1};

static const stn_kernel_slot slots[] = {
    [KEEP_STREAM] = STNI_KEPT_STREAM_SLOT,
    [DROP] = {"drop", sizeof(struct stni_dropout_args)},
};
static const stn_kernel kernels[] = {
    STNI_KEPT_STREAM_KERNEL,
    STNI_ISA_ROWS("drop", STNI_DROPOUT_DTYPES, struct stni_dropout_args, stni_dropout, NULL),
};
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
    .check = check, .place = place, .run = run_backward, .saves = saves_backward, .backward = backward_backward,
    STN_SLOTS(slots), STN_KERNELS(kernels),
};

const stn_op_desc stni_op_dropout = {
    .size = sizeof(stn_op_desc), .name = "dropout", STN_INPUTS(inputs), STN_ATTRS(attrs_schema, struct dropout_attrs),
    .attrs_init = &defaults, .n_outputs = 2, .n_private = 1, .flags = STN_OP_ALIAS, .impl = &impl,
};

const stn_op_desc stni_op_dropout_channels = {
    .size = sizeof(stn_op_desc), .name = "dropout_channels", STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct dropout_attrs), .attrs_init = &defaults, .n_outputs = 2, .n_private = 1,
    .flags = STN_OP_ALIAS, .impl = &impl, .arg = (void *)&defaults,
};

const stn_op_desc stni_op_dropout_backward = {
    .size = sizeof(stn_op_desc), .name = "dropout_backward", STN_INPUTS(backward_inputs),
    STN_ATTRS(backward_schema, struct dropout_attrs), .attrs_init = &defaults, .n_outputs = 1, .impl = &backward_impl,
    .flags = STN_OP_INTERNAL,
};
