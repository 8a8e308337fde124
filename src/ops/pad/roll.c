/* roll and flip: every element goes elsewhere in its dim, around the end or mirrored. Remaps within the input's own
 * layout: one exchange moves what another rank's chunk gets, and nothing else. Each is the other direction's
 * adjoint. */
#include "core/tensor/scope.h"
#include "core/redistribute/redistribute.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"
#include "ops/exchange/remap.h"

#include <shardtensor/ops.h>

#include <inttypes.h>

struct roll_attrs {
    stn_ints shifts, dims; /* no dims: of the flat tensor */
};

struct flip_attrs {
    stn_ints dims;
};

stn_tensor *stn_roll(stn_tensor *input, int n, const int64_t *shifts, const int *dims)
{
    struct roll_attrs attrs = {.dims = {.n = -1}};
    if (!stni_list_read(input, &(struct stni_list){"roll", "n", "shifts", 1}, n, shifts, &attrs.shifts) ||
        (dims && !stni_list_read_dims(input, &(struct stni_list){"roll", "n", "dims", 1}, n, dims, &attrs.dims)))
        return stni_call_error(input);
    return stni_call(STNI_OP_roll, 1, &input, &attrs);
}

stn_tensor *stn_flip(stn_tensor *input, int n, const int *dims)
{
    struct flip_attrs attrs = {0};
    if (!stni_list_read_dims(input, &(struct stni_list){"flip", "n", "dims", 0}, n, dims, &attrs.dims))
        return stni_call_error(input);
    return stni_call(STNI_OP_flip, 1, &input, &attrs);
}

static int is_flat(const stn_op_call *call)
{
    return stn_op_descriptor(call->op) == &stni_op_roll && ((const struct roll_attrs *)call->attrs)->dims.n <= 0;
}

/* Element i goes to i + shift, around the end. */
static void roll_dim(struct stni_remap *map, int d, int64_t shift)
{
    int64_t n = map->segment[d][0].length;
    shift = n > 0 ? shift % n + (shift % n < 0 ? n : 0) : 0;
    if (shift == 0)
        return;
    map->segment[d][0] =
        (struct stni_segment){.dst = shift, .src = 0, .length = n - shift, .dst_step = 1, .src_step = 1};
    map->segment[d][1] =
        (struct stni_segment){.dst = 0, .src = n - shift, .length = shift, .dst_step = 1, .src_step = 1};
    map->n[d] = 2;
}

/* A dim that is named twice is shifted by both. */
static stn_status roll_map(const stn_op_call *call, struct stni_remap *map)
{
    const struct roll_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int64_t total[STN_MAX_NDIM] = {0};
    int dim;
    if (attrs->shifts.n < 1 || (!is_flat(call) && attrs->shifts.n != attrs->dims.n) ||
        (is_flat(call) && attrs->shifts.n != 1))
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'shifts' got %" PRId64 " numbers and 'dims' %" PRId64
                           ", wanted as many of both, or one shift without 'dims'",
                           attrs->shifts.n < 0 ? 0 : attrs->shifts.n, attrs->dims.n < 0 ? 0 : attrs->dims.n);
    stni_remap_init(map, in->ndim, in->shape);
    for (int64_t i = 0; i < attrs->dims.n; i++) {
        STNI_TRY(stni_dim_wrap(call, "dims", attrs->dims.v[i], in->ndim, &dim));
        int64_t n = in->ndim > 0 && in->shape[dim] > 0 ? in->shape[dim] : 1;
        total[dim] = (total[dim] + attrs->shifts.v[i] % n) % n;
    }
    for (int d = 0; d < in->ndim; d++)
        roll_dim(map, d, total[d]);
    return STN_OK;
}

static stn_status flip_map(const stn_op_call *call, struct stni_remap *map)
{
    const struct flip_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    uint32_t mask = 0;
    if (attrs->dims.n > 0)
        STNI_TRY(stni_dims_mask(call, "dims", &attrs->dims, in->ndim, &mask));
    stni_remap_init(map, in->ndim, in->shape);
    for (int d = 0; d < in->ndim; d++)
        if (mask >> d & 1)
            map->segment[d][0] = (struct stni_segment){
                .dst = 0, .src = in->shape[d] - 1, .length = in->shape[d], .dst_step = 1, .src_step = -1};
    return STN_OK;
}

static stn_status read_map(const stn_op_call *call, struct stni_remap *map)
{
    return stn_op_descriptor(call->op) == &stni_op_roll ? roll_map(call, map) : flip_map(call, map);
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    struct stni_remap map;
    call->out_meta[0] = stni_meta_of(in);
    return read_map(call, &map);
}

/* Whatever is pending stays. The note: mesh axes along which elements move. */
static stn_status place(stn_op_call *call)
{
    struct stni_remap map;
    STNI_TRY(read_map(call, &map));
    call->out_spec[0] = call->in_spec[0];
    call->note = stni_remap_moves(&map, call->in_spec[0], call->in_spec[0]);
    return STN_OK;
}

/* Of the flat tensor: a view, along its only dim, and back. */
static stn_status run_flat(stn_op_call *call)
{
    stn_context *context = call->context;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const int64_t flat[] = {-1};
    static const int dim[] = {0};
    stn_status status;
    stni_scope_enter(context);
    context->no_grad++;
    stn_tensor *line = call->in_spec[0]->numel > 0 ? stn_view(call->in[0], 1, flat) : call->in[0];
    if (call->in_spec[0]->numel > 0)
        line = stn_roll(line, 1, ((const struct roll_attrs *)call->attrs)->shifts.v, dim);
    stn_tensor *back = stn_view(line, in->ndim, in->shape);
    status = stn_context_status(context);
    if (status == STN_OK)
        status = stni_redistribute(back, call->out_spec[0], &call->out[0]);
    if (status == STN_OK) /* a view of nothing but what has been rolled */
        stni_tensor_show_nothing(call->out[0]);
    context->no_grad--;
    stni_scope_leave(context);
    return status;
}

static stn_status run(stn_op_call *call)
{
    struct stni_remap map;
    if (is_flat(call))
        return run_flat(call);
    STNI_TRY(read_map(call, &map));
    STNI_TRY(stni_tensor_create(call->context, call->out_spec[0], &call->out[0]));
    return stni_remap_run(call, 1, &map, call->in, call->out[0], (uint32_t)call->note, NULL);
}

/* Back by as much: a shift whose negative is no int64_t has one that is the same. */
static stn_status roll_backward(stn_backward_call *call)
{
    struct roll_attrs attrs = *(const struct roll_attrs *)call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    for (int64_t i = 0; i < attrs.shifts.n; i++) {
        int64_t n = call->in_spec[0]->numel;
        if (attrs.dims.n > 0 && in->ndim > 0)
            n = in->shape[attrs.dims.v[i] + (attrs.dims.v[i] < 0 ? in->ndim : 0)];
        attrs.shifts.v[i] = n > 0 ? -(attrs.shifts.v[i] % n) : 0;
    }
    call->grad_in[0] = stni_call(STNI_OP_roll, 1, &call->grad_out[0], &attrs);
    return stn_context_status(call->context);
}

static stn_status flip_backward(stn_backward_call *call)
{
    call->grad_in[0] = stni_call(STNI_OP_flip, 1, &call->grad_out[0], call->attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema roll_schema[] = {
    {"shifts", STN_ATTR_INTS, offsetof(struct roll_attrs, shifts), NULL},
    {"dims", STN_ATTR_INTS, offsetof(struct roll_attrs, dims), NULL},
};
static const stn_attr_schema flip_schema[] = {{"dims", STN_ATTR_INTS, offsetof(struct flip_attrs, dims), NULL}};
static const struct roll_attrs roll_init = {{.n = -1}, {.n = -1}};

static const stn_op_impl roll_impl = {
    .check = check, .place = place, .run = run, .backward = roll_backward, STN_SLOTS(stni_remap_slots),
    STN_KERNELS(stni_remap_kernels),
};
static const stn_op_impl flip_impl = {
    .check = check, .place = place, .run = run, .backward = flip_backward, STN_SLOTS(stni_remap_slots),
    STN_KERNELS(stni_remap_kernels),
};

/* Both make the result themselves. */
const stn_op_desc stni_op_roll = {
    .size = sizeof(stn_op_desc),
    .name = "roll",
    STN_INPUTS(inputs),
    STN_ATTRS(roll_schema, struct roll_attrs),
    .attrs_init = &roll_init,
    .n_outputs = 1,
    .flags = STN_OP_ALIAS,
    .impl = &roll_impl,
    .signature = "input, shifts, dims=",
};

const stn_op_desc stni_op_flip = {
    .size = sizeof(stn_op_desc),
    .name = "flip",
    STN_INPUTS(inputs),
    STN_ATTRS(flip_schema, struct flip_attrs),
    .n_outputs = 1,
    .flags = STN_OP_ALIAS,
    .impl = &flip_impl,
    .signature = "input, dims",
};
