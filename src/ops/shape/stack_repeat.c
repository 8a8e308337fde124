/* stack, repeat, diff and pixel_shuffle with its inverse: views, slices and joins put together. */
#include "core/base/dtype.h"
#include "core/shard/spec.h"
#include "ops/common/call.h"
#include "ops/common/dims.h"
#include "ops/common/list.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <string.h>

struct dim_attrs {
    int64_t dim;
};

struct repeat_attrs {
    stn_ints repeats;
};

struct diff_attrs {
    int64_t n, dim;
};

struct pixel_attrs {
    int64_t factor;
};

stn_tensor *stn_stack(int n, stn_tensor *const *tensors, int dim)
{
    struct dim_attrs attrs = {dim};
    if (n < 1 || n > STN_MAX_INPUTS || !tensors)
        return stni_call_fail(n > 0 && tensors ? tensors[0] : NULL, STN_ERR_ARGUMENT,
                              "stack: 'n' got %d, wanted 1 to %d", n, STN_MAX_INPUTS);
    return stni_call(STNI_OP_stack, n, tensors, &attrs);
}

stn_tensor *stn_repeat(stn_tensor *input, int n, const int64_t *repeats)
{
    struct repeat_attrs attrs = {0};
    if (!stni_list_read(input, &(struct stni_list){"repeat", "n", "repeats", 0}, n, repeats, &attrs.repeats))
        return stni_call_error(input);
    return stni_call(STNI_OP_repeat, 1, &input, &attrs);
}

stn_tensor *stn_diff(stn_tensor *input, int64_t n, int dim, stn_tensor *prepend, stn_tensor *append)
{
    struct diff_attrs attrs = {n, dim};
    stn_tensor *in[] = {input, prepend, append};
    return stni_call(STNI_OP_diff, 3, in, &attrs);
}

stn_tensor *stn_pixel_shuffle(stn_tensor *input, int64_t upscale_factor)
{
    struct pixel_attrs attrs = {upscale_factor};
    return stni_call(STNI_OP_pixel_shuffle, 1, &input, &attrs);
}

stn_tensor *stn_pixel_unshuffle(stn_tensor *input, int64_t downscale_factor)
{
    struct pixel_attrs attrs = {downscale_factor};
    return stni_call(STNI_OP_pixel_unshuffle, 1, &input, &attrs);
}

static stn_status stack(stn_op_call *call)
{
    const struct stni_layout *first = &call->in_spec[0]->layout;
    stn_tensor *rows[STN_MAX_INPUTS];
    int dim;
    STNI_TRY(stni_dim_wrap(call, "dim", ((const struct dim_attrs *)call->attrs)->dim, first->ndim + 1, &dim));
    if (first->ndim == STN_MAX_NDIM)
        return stn_op_fail(call, STN_ERR_SHAPE, "'tensor0' got %d dims, wanted fewer than %d", first->ndim,
                           STN_MAX_NDIM);
    for (int i = 0; i < call->n_in; i++) {
        const struct stni_layout *in = &call->in_spec[i]->layout;
        if (in->ndim != first->ndim || memcmp(in->shape, first->shape, sizeof in->shape) != 0) {
            char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
            return stn_op_fail(call, STN_ERR_SHAPE, "'tensor%d' got shape %s, wanted that of the first, %s", i,
                               stni_shape_text(in->ndim, in->shape, got),
                               stni_shape_text(first->ndim, first->shape, wanted));
        }
        rows[i] = stn_unsqueeze(call->in[i], dim);
    }
    call->out[0] = stn_cat(call->n_in, rows, dim);
    return STN_OK;
}

/* Repeats one dim: a dim of size `times` is put before it, and both are merged. */
static stn_tensor *repeat_dim(stn_tensor *x, int ndim, int64_t *shape, int d, int64_t times)
{
    int64_t with[STN_MAX_NDIM + 1];
    memcpy(with, shape, (size_t)d * sizeof *with);
    with[d] = 1;
    memcpy(with + d + 1, shape + d, (size_t)(ndim - d) * sizeof *with);
    if (shape[d] != 1)
        x = stn_view(x, ndim + 1, with);
    with[d] = times;
    shape[d] *= times; /* check_repeats saw that it can be */
    return with[d + 1] == 1 ? stn_expand(x, ndim, shape) : stn_view(stn_expand(x, ndim + 1, with), ndim, shape);
}

/* Each result dim is an int64_t. */
static stn_status check_repeats(const stn_op_call *call, int ndim, const int64_t *shape)
{
    const stn_ints *repeats = &((const struct repeat_attrs *)call->attrs)->repeats;
    for (int d = 0; d < ndim; d++) {
        int64_t size;
        if (repeats->v[d] < 0)
            return stn_op_fail(call, STN_ERR_ARGUMENT, "'repeats' got %" PRId64 ", wanted at least 0", repeats->v[d]);
        if (__builtin_mul_overflow(shape[d], repeats->v[d], &size))
            return stn_op_fail(call, STN_ERR_SHAPE,
                               "'repeats' got %" PRId64 " for a dim of %" PRId64 " elements, wanted a size below 2^63",
                               repeats->v[d], shape[d]);
    }
    return STN_OK;
}

/* Which dims come first: what is repeated no times leaves nothing, here and in the gradient, that could be large; what
 * has to move does so while it is small; one element that no axis cuts is not moved, and copied once, at last. */
enum turn { TURN_NONE_LEFT, TURN_MOVES, TURN_IN_PLACE, TURNS };

static enum turn turn_of(const struct stni_layout *in, int d, int64_t times)
{
    int cut = 0;
    for (int a = 0; in->mesh && a < in->mesh->ndim; a++)
        cut |= in->placement[a].kind == STN_PLACE_SHARD && in->placement[a].dim == d;
    if (times == 0)
        return TURN_NONE_LEFT;
    return d < 0 || (in->shape[d] == 1 && !cut) ? TURN_IN_PLACE : TURN_MOVES;
}

static stn_tensor *repeat_dims(const stn_op_call *call, stn_tensor *x, enum turn turn, int64_t *shape)
{
    const stn_ints *repeats = &((const struct repeat_attrs *)call->attrs)->repeats;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const int ndim = (int)repeats->n;
    for (int d = 0; d < ndim; d++)
        if (repeats->v[d] != 1 && turn_of(in, d - (ndim - in->ndim), repeats->v[d]) == turn)
            x = repeat_dim(x, ndim, shape, d, repeats->v[d]);
    return x;
}

static stn_status repeat(stn_op_call *call)
{
    const stn_ints *repeats = &((const struct repeat_attrs *)call->attrs)->repeats;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    int64_t shape[STN_MAX_NDIM] = {0};
    stn_tensor *x = call->in[0];
    int ndim = (int)repeats->n;
    if (repeats->n < in->ndim)
        return stn_op_fail(call, STN_ERR_ARGUMENT,
                           "'repeats' got %" PRId64 " numbers, wanted at least the %d dims of 'input'",
                           repeats->n < 0 ? 0 : repeats->n, in->ndim);
    for (int d = 0; d < ndim; d++) {
        shape[d] = d < ndim - in->ndim ? 1 : in->shape[d - (ndim - in->ndim)];
    }
    STNI_TRY(check_repeats(call, ndim, shape));
    x = ndim > in->ndim ? stn_view(x, ndim, shape) : x;
    for (int turn = 0; turn < TURNS; turn++)
        x = repeat_dims(call, x, (enum turn)turn, shape);
    call->out[0] = x;
    return STN_OK;
}

static stn_tensor *difference(stn_tensor *later, stn_tensor *earlier)
{
    return stn_tensor_dtype(later) == STN_DTYPE_BOOL ? stn_ne(later, earlier) : stn_add_scaled(later, earlier, -1);
}

/* `prepend` and `append`: input's shape but along `dim`. */
static stn_status check_joined(const stn_op_call *call, int i, int dim)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    const struct stni_layout *joined = call->in_spec[i] ? &call->in_spec[i]->layout : in;
    char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
    int fits = joined->ndim == in->ndim;
    for (int d = 0; fits && d < in->ndim; d++)
        fits = d == dim || joined->shape[d] == in->shape[d];
    if (fits)
        return STN_OK;
    return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got shape %s, wanted that of 'input', %s, but for dim %d",
                       stn_op_descriptor(call->op)->inputs[i].name, stni_shape_text(joined->ndim, joined->shape, got),
                       stni_shape_text(in->ndim, in->shape, wanted), dim);
}

static stn_status diff(stn_op_call *call)
{
    const struct diff_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    stn_tensor *all[3];
    int dim, n = 0;
    if (in->ndim == 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got no dims, wanted at least 1");
    if (attrs->n < 0)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'n' got %" PRId64 ", wanted at least 0", attrs->n);
    STNI_TRY(stni_dim_wrap(call, "dim", attrs->dim, in->ndim, &dim));
    STNI_TRY(check_joined(call, 1, dim));
    STNI_TRY(check_joined(call, 2, dim));
    if (call->in[1])
        all[n++] = call->in[1];
    all[n++] = call->in[0];
    if (call->in[2])
        all[n++] = call->in[2];
    stn_tensor *x = n > 1 && attrs->n > 0 ? stn_cat(n, all, dim) : call->in[0];
    for (int64_t i = 0; i < attrs->n && !stn_tensor_is_error(x) && stn_tensor_shape(x)[dim] > 0; i++)
        x = difference(stn_slice(x, dim, 1, INT64_MAX, 1), stn_slice(x, dim, 0, -1, 1));
    call->out[0] = x;
    return STN_OK;
}

/* Dims before the last three stay; `shape` begins with them. */
static stn_status read_pixels(const stn_op_call *call, const char *name, int64_t *factor, int64_t *shape)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    *factor = ((const struct pixel_attrs *)call->attrs)->factor;
    if (in->ndim < 3 || in->ndim > STN_MAX_NDIM - 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted 3 to %d", in->ndim, STN_MAX_NDIM - 2);
    if (*factor < 1 || *factor > INT32_MAX)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %" PRId64 ", wanted at least 1", name, *factor);
    memcpy(shape, in->shape, (size_t)in->ndim * sizeof *shape);
    return STN_OK;
}

/* View, dims in another order, view: `order` is that of the last five dims. */
static stn_tensor *rearrange(stn_tensor *x, int ndim, const int64_t *apart, const int *order, const int64_t *joined)
{
    int dims[STN_MAX_NDIM];
    for (int d = 0; d < ndim + 2; d++)
        dims[d] = d < ndim - 3 ? d : ndim - 3 + order[d - (ndim - 3)];
    return stn_view(stn_permute(stn_view(x, ndim + 2, apart), ndim + 2, dims), ndim, joined);
}

/* (…, c r r, h, w) -> (…, c, h r, w r) */
static stn_status pixel_shuffle(stn_op_call *call)
{
    static const int order[] = {0, 3, 1, 4, 2};
    int64_t r, shape[STN_MAX_NDIM], apart[STN_MAX_NDIM];
    int ndim = call->in_spec[0]->layout.ndim, c = ndim - 3;
    STNI_TRY(read_pixels(call, "upscale_factor", &r, shape));
    if (shape[c] % (r * r) != 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %" PRId64 " channels, wanted a multiple of %" PRId64,
                           shape[c], r * r);
    memcpy(apart, shape, (size_t)c * sizeof *apart);
    memcpy(apart + c, (int64_t[]){shape[c] / (r * r), r, r, shape[c + 1], shape[c + 2]}, 5 * sizeof *apart);
    shape[c] /= r * r;
    shape[c + 1] *= r;
    shape[c + 2] *= r;
    call->out[0] = rearrange(call->in[0], ndim, apart, order, shape);
    return STN_OK;
}

/* (…, c, h r, w r) -> (…, c r r, h, w) */
static stn_status pixel_unshuffle(stn_op_call *call)
{
    static const int order[] = {0, 2, 4, 1, 3};
    int64_t r, shape[STN_MAX_NDIM], apart[STN_MAX_NDIM];
    int ndim = call->in_spec[0]->layout.ndim, c = ndim - 3;
    STNI_TRY(read_pixels(call, "downscale_factor", &r, shape));
    if (shape[c + 1] % r != 0 || shape[c + 2] % r != 0)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'input' got %" PRId64 " x %" PRId64 " elements, wanted multiples of %" PRId64, shape[c + 1],
                           shape[c + 2], r);
    memcpy(apart, shape, (size_t)c * sizeof *apart);
    memcpy(apart + c, (int64_t[]){shape[c], shape[c + 1] / r, r, shape[c + 2] / r, r}, 5 * sizeof *apart);
    shape[c] *= r * r;
    shape[c + 1] /= r;
    shape[c + 2] /= r;
    call->out[0] = rearrange(call->in[0], ndim, apart, order, shape);
    return STN_OK;
}

static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_input_schema stack_inputs[] = {{.name = "tensor", .variadic = 1}};
static const stn_input_schema diff_inputs[] = {
    {.name = "input"}, {.name = "prepend", .optional = 1}, {.name = "append", .optional = 1}};
static const stn_attr_schema dim_schema[] = {{"dim", STN_ATTR_INT, offsetof(struct dim_attrs, dim), NULL}};
static const stn_attr_schema repeat_schema[] = {
    {"repeats", STN_ATTR_INTS, offsetof(struct repeat_attrs, repeats), NULL}};
static const stn_attr_schema diff_schema[] = {
    {"n", STN_ATTR_INT, offsetof(struct diff_attrs, n), NULL},
    {"dim", STN_ATTR_INT, offsetof(struct diff_attrs, dim), NULL},
};
static const stn_attr_schema shuffle_schema[] = {
    {"upscale_factor", STN_ATTR_INT, offsetof(struct pixel_attrs, factor), NULL}};
static const stn_attr_schema unshuffle_schema[] = {
    {"downscale_factor", STN_ATTR_INT, offsetof(struct pixel_attrs, factor), NULL}};
static const struct repeat_attrs repeat_init = {{.n = -1}};
static const struct diff_attrs diff_init = {.n = 1, .dim = -1};

const stn_op_desc stni_op_stack = {
    .size = sizeof(stn_op_desc), .name = "stack", STN_INPUTS(stack_inputs), STN_ATTRS(dim_schema, struct dim_attrs),
    .n_outputs = 1, .impl = &(const stn_op_impl){.compose = stack},
};

const stn_op_desc stni_op_repeat = {
    .size = sizeof(stn_op_desc), .name = "repeat", STN_INPUTS(inputs), STN_ATTRS(repeat_schema, struct repeat_attrs),
    .attrs_init = &repeat_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = repeat},
    .signature = "input, repeats",
};

const stn_op_desc stni_op_diff = {
    .size = sizeof(stn_op_desc), .name = "diff", STN_INPUTS(diff_inputs), STN_ATTRS(diff_schema, struct diff_attrs),
    .attrs_init = &diff_init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = diff},
    .signature = "input, n=, dim=, prepend=, append=",
};

const stn_op_desc stni_op_pixel_shuffle = {
    .size = sizeof(stn_op_desc), .name = "pixel_shuffle", STN_INPUTS(inputs),
    STN_ATTRS(shuffle_schema, struct pixel_attrs), .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = pixel_shuffle},
    .signature = "input, upscale_factor",
};

const stn_op_desc stni_op_pixel_unshuffle = {
    .size = sizeof(stn_op_desc), .name = "pixel_unshuffle", STN_INPUTS(inputs),
    STN_ATTRS(unshuffle_schema, struct pixel_attrs), .n_outputs = 1,
    .impl = &(const stn_op_impl){.compose = pixel_unshuffle},
    .signature = "input, downscale_factor",
};
