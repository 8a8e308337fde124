/* pad: margins along dims, of a constant or of the tensor's own elements; negative ones cut off. And its adjoint.
 *
 * Both are remaps (ops/exchange/remap.h): a dim's core and its two margins are a segment each, and what crosses
 * ranks is one exchange. */
#include "ops/pad/pad.h"

#include "core/context/context.h"
#include "core/base/dtype.h"
#include "ops/common/call.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"
#include "ops/common/promote.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <string.h>

static const char *const modes[] = {"constant", "reflect", "replicate", "circular", NULL};

stn_tensor *stn_pad(stn_tensor *input, int n, const int64_t *padding, stn_pad_mode mode, double value)
{
    struct stni_pad_attrs attrs = {.mode = mode, .value = {STN_NUMBER_FLOAT, 0, value}};
    if ((unsigned)mode > STN_PAD_CIRCULAR)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "pad: 'mode' got %d, wanted an stn_pad_mode", (int)mode);
    if (!stni_list_read(input, &(struct stni_list){"pad", "n", "padding", 0}, n, padding, &attrs.pad))
        return stni_call_error(input);
    return stni_call(STNI_OP_pad, 1, &input, &attrs);
}

/* Margins of the core's own elements: position -1 is element 1, 0 or n - 1, and so on outwards. */
static void add_margins(enum stni_pad_mode mode, int64_t low, int64_t high, struct stni_remap *map, int d)
{
    const struct stni_segment core = map->segment[d][0];
    int64_t n = core.length, end = core.src + n;
    struct stni_segment below = {.length = low, .dst_step = 1},
                        above = {.dst = core.dst + n, .length = high, .dst_step = 1};
    if (mode == STNI_PAD_REFLECT) {
        below.src = core.src + low, below.src_step = -1;
        above.src = end - 2, above.src_step = -1;
    } else if (mode == STNI_PAD_REPLICATE) {
        below.src = core.src;
        above.src = end - 1;
    } else {
        below.src = end - low, below.src_step = 1;
        above.src = core.src, above.src_step = 1;
    }
    if (low > 0)
        map->segment[d][map->n[d]++] = below;
    if (high > 0)
        map->segment[d][map->n[d]++] = above;
}

static stn_status size_fails(const stn_op_call *call, int d, int64_t low, int64_t high, int64_t n)
{
    return stn_op_fail(call, STN_ERR_SHAPE,
                       "'pad' got %" PRId64 " and %" PRId64 " for dim %d of %" PRId64
                       " elements, wanted a size of at least 0",
                       low, high, d, n);
}

static stn_status pad_dim(const stn_op_call *call, int d, int64_t low, int64_t high, struct stni_remap *map,
                          int64_t *padded)
{
    const struct stni_pad_attrs *attrs = call->attrs;
    enum stni_pad_mode mode = (enum stni_pad_mode)attrs->mode;
    struct stni_segment *core = &map->segment[d][0];
    int64_t n = core->length;
    if (low < -n || high < -n || (low < 0 && high < 0 && low < -n - high))
        return size_fails(call, d, low, high, n);
    int64_t cut = (low < 0 ? -low : 0) + (high < 0 ? -high : 0);
    int64_t most[] = {INT64_MAX, n - cut - 1, n - cut > 0 ? INT64_MAX : 0, n - cut};
    int64_t widest = low > high ? low : high;
    if (__builtin_add_overflow(n, low, padded) || __builtin_add_overflow(*padded, high, padded))
        return size_fails(call, d, low, high, n);
    if (widest > 0 && widest > most[mode])
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'pad' got %" PRId64 " for dim %d of %" PRId64 " elements, wanted at most %" PRId64
                           " for mode '%s'",
                           widest, d, n - cut, most[mode] < 0 ? 0 : most[mode], modes[mode]);
    core->src = low < 0 ? -low : 0;
    core->dst = low > 0 ? low : 0;
    core->length = n - cut;
    if (mode != STNI_PAD_CONSTANT)
        add_margins(mode, low, high, map, d);
    return STN_OK;
}

stn_status stni_pad_map(const stn_op_call *call, int ndim, const int64_t *shape, struct stni_remap *map,
                        int64_t *padded)
{
    const stn_ints *pad = &((const struct stni_pad_attrs *)call->attrs)->pad;
    if (pad->n < 0 || pad->n % 2 != 0 || pad->n > 2 * ndim)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'pad' got %" PRId64 " numbers, wanted two for each of up to %d dims",
                           pad->n < 0 ? 0 : pad->n, ndim);
    stni_remap_init(map, ndim, shape);
    memcpy(padded, shape, (size_t)ndim * sizeof *padded);
    for (int i = 0; i < pad->n / 2; i++) {
        int d = ndim - 1 - i;
        STNI_TRY(pad_dim(call, d, pad->v[2 * i], pad->v[2 * i + 1], map, &padded[d]));
    }
    return STN_OK;
}

static int is_adjoint(const stn_op_call *call)
{
    return call->arg != NULL;
}

/* The shape that was padded to give this one. */
static void unpadded(const stn_op_call *call, const struct stni_layout *grad, int64_t *shape)
{
    const stn_ints *pad = &((const struct stni_pad_attrs *)call->attrs)->pad;
    memcpy(shape, grad->shape, sizeof grad->shape);
    for (int i = 0; i < pad->n / 2 && i < grad->ndim; i++) {
        int64_t *n = &shape[grad->ndim - 1 - i];
        if (__builtin_sub_overflow(*n, pad->v[2 * i], n) || __builtin_sub_overflow(*n, pad->v[2 * i + 1], n) || *n < 0)
            *n = 0;
    }
}

/* The call's map, from its input to its output, and the output's shape. */
static stn_status read_map(const stn_op_call *call, struct stni_remap *map, int64_t *shape)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int64_t padded[STN_MAX_NDIM];
    char got[STNI_SHAPE_TEXT], from[STNI_SHAPE_TEXT], to[STNI_SHAPE_TEXT];
    if (!is_adjoint(call))
        return stni_pad_map(call, in->ndim, in->shape, map, shape);
    unpadded(call, in, shape);
    STNI_TRY(stni_pad_map(call, in->ndim, shape, map, padded));
    if (memcmp(padded, in->shape, (size_t)in->ndim * sizeof *padded) != 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'grad' got shape %s, wanted one that 'pad' makes: of %s it makes %s",
                           stni_shape_text(in->ndim, in->shape, got), stni_shape_text(in->ndim, shape, from),
                           stni_shape_text(in->ndim, padded, to));
    stni_remap_transpose(map, 0);
    return STN_OK;
}

static stn_status check(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const struct stni_pad_attrs *attrs = call->attrs;
    struct stni_remap map;
    call->out_meta[0] = (stn_meta){.dtype = in->dtype, .ndim = in->ndim};
    if (attrs->mode == STNI_PAD_CONSTANT)
        STNI_TRY(stni_check_number(call, "value", &attrs->value, in->dtype));
    return read_map(call, &map, call->out_meta[0].shape);
}

/* Whether padding is linear: with zeros, or the tensor's own elements. */
static int is_linear(const stn_op_call *call)
{
    const struct stni_pad_attrs *attrs = call->attrs;
    return attrs->mode != STNI_PAD_CONSTANT || attrs->value.f == 0 || is_adjoint(call);
}

stn_status stni_pad_specs(stn_op_call *call, const int64_t *shape, uint32_t pending)
{
    struct stni_layout want = call->in_spec[0]->layout, out;
    stni_layout_reduce(&want, pending);
    out = want;
    for (int d = 0; d < out.ndim; d++) {
        out.shape[d] = shape[d];
        if (out.split[d] && shape[d] != want.shape[d])
            STNI_TRY(stni_split_scaled(call->context, want.split[d], shape[d], &out.split[d]));
    }
    STNI_TRY(stni_spec_intern(call->context, &want, &call->want[0]));
    return stni_spec_intern(call->context, &out, &call->out_spec[0]);
}

/* The note: mesh axes along which elements move. */
static stn_status place(stn_op_call *call)
{
    struct stni_remap map;
    int64_t shape[STN_MAX_NDIM];
    STNI_TRY(read_map(call, &map, shape));
    STNI_TRY(stni_pad_specs(call, shape, is_linear(call) ? 1u << STN_SUM : 0));
    call->note = stni_remap_moves(&map, call->want[0], call->out_spec[0]);
    return STN_OK;
}

/* The number as one element. */
static void write_value(const stn_number *number, stn_dtype dtype, void *out)
{
    const double f = number->f;
    const int64_t i = stni_number_whole(number);
    const union {
        float f32[2];
        double f64[2];
        uint16_t half;
        int64_t i64;
        int32_t i32;
        uint8_t u8;
        int8_t i8;
        int16_t i16;
    } values[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = {.f32 = {(float)f}},
        [STN_DTYPE_F64] = {.f64 = {f}},
        [STN_DTYPE_BF16] = {.half = stni_f32_to_bf16((float)f)},
        [STN_DTYPE_F16] = {.half = stni_f32_to_f16((float)f)},
        [STN_DTYPE_I64] = {.i64 = i},
        [STN_DTYPE_I32] = {.i32 = (int32_t)i},
        [STN_DTYPE_U8] = {.u8 = (uint8_t)i},
        [STN_DTYPE_BOOL] = {.u8 = f != 0},
        [STN_DTYPE_C64] = {.f32 = {(float)f}},
        [STN_DTYPE_C128] = {.f64 = {f}},
        [STN_DTYPE_I8] = {.i8 = (int8_t)i},
        [STN_DTYPE_I16] = {.i16 = (int16_t)i},
    };
    memcpy(out, &values[dtype], stn_dtype_size(dtype));
}

static stn_status run(stn_op_call *call)
{
    const struct stni_pad_attrs *attrs = call->attrs;
    static const stn_number zero;
    unsigned char value[16] = {0};
    struct stni_remap map;
    int64_t shape[STN_MAX_NDIM];
    STNI_TRY(read_map(call, &map, shape));
    write_value(is_adjoint(call) || attrs->mode != STNI_PAD_CONSTANT ? &zero : &attrs->value,
                call->out[0]->spec->layout.dtype, value);
    return stni_remap_run(call, 1, &map, call->in, call->out[0], (uint32_t)call->note, value);
}

stn_tensor *stni_pad_sums(enum stni_op_index adjoint, stn_tensor *grad, const void *attrs)
{
    const stn_dtype dtype = stn_tensor_is_error(grad) ? STN_DTYPE_F32 : stn_tensor_dtype(grad);
    const int widen = dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16;
    grad = widen ? stn_cast(grad, STN_DTYPE_F32) : grad;
    grad = stni_call(adjoint, 1, &grad, attrs);
    return widen ? stn_cast(grad, dtype) : grad;
}

/* Constant margins are added to nothing. */
static stn_tensor *adjoint(stn_tensor *grad, const struct stni_pad_attrs *attrs)
{
    return attrs->mode == STNI_PAD_CONSTANT ? stni_call(STNI_OP_pad_backward, 1, &grad, attrs)
                                            : stni_pad_sums(STNI_OP_pad_backward, grad, attrs);
}

static stn_status backward(stn_backward_call *call)
{
    struct stni_pad_attrs attrs = *(const struct stni_pad_attrs *)call->attrs;
    attrs.value = (stn_number){0};
    call->grad_in[0] =
        call->arg ? stni_call(STNI_OP_pad, 1, &call->grad_out[0], &attrs) : adjoint(call->grad_out[0], &attrs);
    return stn_context_status(call->context);
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_input_schema adjoint_inputs[] = {{.name = "grad"}};
static const stn_attr_schema attrs_schema[] = {
    {"pad", STN_ATTR_INTS, offsetof(struct stni_pad_attrs, pad), NULL},
    {"mode", STN_ATTR_CHOICE, offsetof(struct stni_pad_attrs, mode), modes},
    {"value", STN_ATTR_NUMBER, offsetof(struct stni_pad_attrs, value), NULL},
};
static const struct stni_pad_attrs attrs_init = {.pad = {.n = -1}};

static const stn_op_impl impl = {
    .check = check,
    .place = place,
    .run = run,
    .backward = backward,
    STN_SLOTS(stni_remap_slots),
    STN_KERNELS(stni_remap_kernels),
};

const stn_op_desc stni_op_pad = {
    .size = sizeof(stn_op_desc),
    .name = "pad",
    STN_INPUTS(inputs),
    STN_ATTRS(attrs_schema, struct stni_pad_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .impl = &impl,
    .signature = "input, pad, mode=, value=",
};

const stn_op_desc stni_op_pad_backward = {
    .size = sizeof(stn_op_desc),
    .name = "pad_backward",
    STN_INPUTS(adjoint_inputs),
    STN_ATTRS(attrs_schema, struct stni_pad_attrs),
    .attrs_init = &attrs_init,
    .n_outputs = 1,
    .impl = &impl,
    .arg = (void *)&attrs_init,
    .flags = STN_OP_INTERNAL,
};
