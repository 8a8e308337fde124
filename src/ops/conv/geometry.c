#include "ops/conv/geometry.h"

#include "core/dtype.h"
#include "ops/util/dims.h"

#include <string.h>

const struct stni_conv_attrs stni_conv_attrs_init = {
    .stride = {.n = -1}, .padding = {.n = -1}, .dilation = {.n = -1}, .size = {.n = -1}, .groups = 1, .last_mode = -1};

static const char *const paddings[] = {"given", "valid", "same", NULL};
static const char *const modes[] = {"zeros", "reflect", "replicate", "circular", NULL};

#define COMMON_ATTRS                                                                           \
    {"stride", STN_ATTR_INTS, offsetof(struct stni_conv_attrs, stride), NULL},                 \
        {"padding", STN_ATTR_INTS, offsetof(struct stni_conv_attrs, padding), NULL},           \
        {"padding", STN_ATTR_CHOICE, offsetof(struct stni_conv_attrs, auto_padding), paddings}, \
        {"dilation", STN_ATTR_INTS, offsetof(struct stni_conv_attrs, dilation), NULL},         \
        {"groups", STN_ATTR_INT, offsetof(struct stni_conv_attrs, groups), NULL},              \
        {"padding_mode", STN_ATTR_CHOICE, offsetof(struct stni_conv_attrs, mode), modes},      \
        {"last_padding_mode", STN_ATTR_CHOICE, offsetof(struct stni_conv_attrs, last_mode), modes}

const stn_attr_schema stni_conv_grad_input_attrs[] = {
    COMMON_ATTRS, {"input_size", STN_ATTR_INTS, offsetof(struct stni_conv_attrs, size), NULL}};
const stn_attr_schema stni_conv_grad_weight_attrs[] = {
    COMMON_ATTRS, {"kernel_size", STN_ATTR_INTS, offsetof(struct stni_conv_attrs, size), NULL}};

/* A list with an entry for each windowed dim, or one for all. */
static stn_status read_list(const stn_op_call *call, const char *name, const stn_ints *list, int dims, int64_t least, int64_t absent,
                            int64_t *out)
{
    if (list->n != -1 && list->n != 1 && list->n != dims)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "attribute '%s' got %lld numbers, wanted 1 or %d", name, (long long)list->n, dims);
    for (int d = 0; d < dims; d++) {
        out[d] = list->n == -1 ? absent : list->v[list->n == 1 ? 0 : d];
        if (out[d] < least)
            return stn_op_fail(call, STN_ERR_ARGUMENT, "attribute '%s' got %lld, wanted at least %lld", name, (long long)out[d],
                               (long long)least);
    }
    return STN_OK;
}

static stn_status read_padding(const stn_op_call *call, int dims, struct stni_conv *conv)
{
    const struct stni_conv_attrs *attrs = call->attrs;
    int64_t padding[STNI_CONV_MAX_DIMS];
    STNI_TRY(read_list(call, "padding", &attrs->padding, dims, 0, 0, padding));
    for (int d = 0; d < dims; d++) {
        struct stni_window *w = &conv->window[d];
        int64_t total = stni_window_extent(w) - 1;
        if (attrs->auto_padding == STNI_CONV_PADDING_SAME && w->stride != 1)
            return stn_op_fail(call, STN_ERR_ARGUMENT, "padding 'same' got stride %lld, wanted 1", (long long)w->stride);
        w->pad = conv->pad_high[d] = attrs->auto_padding == STNI_CONV_PADDING_GIVEN ? padding[d] : 0;
        if (attrs->auto_padding == STNI_CONV_PADDING_SAME) {
            w->pad = total / 2;
            conv->pad_high[d] = total - w->pad;
        }
    }
    return STN_OK;
}

/* A boundary has only so many elements to pad with. */
static stn_status check_boundary(const stn_op_call *call, const struct stni_window *w, int64_t pad_high)
{
    int64_t pad = w->pad > pad_high ? w->pad : pad_high;
    int64_t most[] = {INT64_MAX, w->n_in > 0 ? w->n_in - 1 : 0, w->n_in > 0 ? INT64_MAX : 0, w->n_in};
    if (pad > most[w->boundary])
        return stn_op_fail(call, STN_ERR_SHAPE, "padding mode '%s' got padding %lld for a dim of %lld, wanted at most %lld",
                           modes[w->boundary], (long long)pad, (long long)w->n_in, (long long)most[w->boundary]);
    return STN_OK;
}

stn_status stni_conv_windows(const stn_op_call *call, int dims, const int64_t *in, const int64_t *kernel, struct stni_conv *conv)
{
    const struct stni_conv_attrs *attrs = call->attrs;
    int64_t stride[STNI_CONV_MAX_DIMS], dilation[STNI_CONV_MAX_DIMS];
    STNI_TRY(read_list(call, "stride", &attrs->stride, dims, 1, 1, stride));
    STNI_TRY(read_list(call, "dilation", &attrs->dilation, dims, 1, 1, dilation));
    if (attrs->groups < 1)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "attribute 'groups' got %lld, wanted at least 1", (long long)attrs->groups);
    conv->dims = dims;
    conv->groups = attrs->groups;
    for (int d = 0; d < dims; d++) {
        int64_t mode = d == dims - 1 && attrs->last_mode >= 0 ? attrs->last_mode : attrs->mode;
        if (kernel[d] < 1)
            return stn_op_fail(call, STN_ERR_SHAPE, "got a kernel of size %lld, wanted at least 1", (long long)kernel[d]);
        conv->window[d] = (struct stni_window){.n_in = in[d], .kernel = kernel[d], .stride = stride[d], .dilation = dilation[d],
                                               .boundary = (enum stni_boundary)mode};
    }
    STNI_TRY(read_padding(call, dims, conv));
    for (int d = 0; d < dims; d++) {
        struct stni_window *w = &conv->window[d];
        int64_t padded = w->n_in + w->pad + conv->pad_high[d];
        STNI_TRY(check_boundary(call, w, conv->pad_high[d]));
        if (padded < stni_window_extent(w))
            return stn_op_fail(call, STN_ERR_SHAPE, "got %lld elements, padding included, along windowed dim %d, wanted at least the kernel's %lld",
                               (long long)padded, d, (long long)stni_window_extent(w));
        w->n_out = (padded - stni_window_extent(w)) / w->stride + 1;
    }
    return STN_OK;
}

/* A tensor of a channel dim and windowed dims, with a batch dim before or without. */
static stn_status read_image(const stn_op_call *call, int i, int dims, struct stni_conv *conv, int64_t *channels)
{
    const struct stni_layout *layout = &call->in_spec[i]->layout;
    if (layout->ndim != dims + 1 && layout->ndim != dims + 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'%s' got %d dims, wanted %d or, without a batch, %d",
                           stn_op_descriptor(call->op)->inputs[i].name, layout->ndim, dims + 2, dims + 1);
    conv->batched = layout->ndim == dims + 2;
    conv->n = conv->batched ? layout->shape[0] : 1;
    *channels = layout->shape[conv->batched];
    return STN_OK;
}

static stn_status read_weight(const stn_op_call *call, int i, int dims, struct stni_conv *conv, int64_t *channels)
{
    const struct stni_layout *layout = &call->in_spec[i]->layout;
    const struct stni_conv_attrs *attrs = call->attrs;
    if (layout->ndim != dims + 2)
        return stn_op_fail(call, STN_ERR_SHAPE, "'weight' got %d dims, wanted %d", layout->ndim, dims + 2);
    conv->o = layout->shape[0];
    *channels = layout->shape[1] * attrs->groups;
    return STN_OK;
}

static stn_status check_groups(const stn_op_call *call, const struct stni_conv *conv)
{
    if (conv->c % conv->groups != 0 || conv->o % conv->groups != 0)
        return stn_op_fail(call, STN_ERR_SHAPE, "got %lld channels in and %lld out, wanted multiples of the %lld groups", (long long)conv->c,
                           (long long)conv->o, (long long)conv->groups);
    return STN_OK;
}

stn_status stni_conv_of_forward(const stn_op_call *call, int dims, struct stni_conv *conv)
{
    int64_t channels = 0;
    memset(conv, 0, sizeof *conv);
    STNI_TRY(read_image(call, 0, dims, conv, &conv->c));
    STNI_TRY(read_weight(call, 1, dims, conv, &channels));
    STNI_TRY(stni_conv_windows(call, dims, call->in_spec[0]->layout.shape + stni_conv_dim(conv, 0), call->in_spec[1]->layout.shape + 2,
                               conv));
    if (conv->c != channels)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %lld channels, wanted %lld for this weight and %lld groups", (long long)conv->c,
                           (long long)channels, (long long)conv->groups);
    if (call->n_in > 2 && call->in_spec[2] != NULL) {
        const struct stni_layout *bias = &call->in_spec[2]->layout;
        if (bias->ndim != 1 || bias->shape[0] != conv->o) {
            char text[STNI_SHAPE_TEXT];
            return stn_op_fail(call, STN_ERR_SHAPE, "'bias' got shape %s, wanted (%lld)", stni_shape_text(bias->ndim, bias->shape, text),
                               (long long)conv->o);
        }
    }
    return check_groups(call, conv);
}

/* The size attribute of a gradient: what the shapes of its inputs leave open. */
static stn_status read_size(const stn_op_call *call, int dims, const char *name, int64_t *out)
{
    const struct stni_conv_attrs *attrs = call->attrs;
    if (attrs->size.n != dims)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "attribute '%s' got %lld numbers, wanted %d", name, (long long)attrs->size.n, dims);
    return read_list(call, name, &attrs->size, dims, 0, 0, out);
}

static stn_status check_grad(const stn_op_call *call, int i, const struct stni_conv *conv)
{
    const struct stni_layout *layout = &call->in_spec[i]->layout;
    stn_meta want = {0};
    stni_conv_shape_y(conv, &want);
    if (layout->ndim != want.ndim || memcmp(layout->shape, want.shape, (size_t)want.ndim * sizeof *want.shape) != 0) {
        char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
        return stn_op_fail(call, STN_ERR_SHAPE, "'grad' got shape %s, wanted %s", stni_shape_text(layout->ndim, layout->shape, got),
                           stni_shape_text(want.ndim, want.shape, wanted));
    }
    return check_groups(call, conv);
}

stn_status stni_conv_of_grad_input(const stn_op_call *call, int dims, struct stni_conv *conv)
{
    int64_t in[STNI_CONV_MAX_DIMS], channels = 0;
    memset(conv, 0, sizeof *conv);
    STNI_TRY(read_image(call, 0, dims, conv, &channels));
    STNI_TRY(read_weight(call, 1, dims, conv, &conv->c));
    STNI_TRY(read_size(call, dims, "input_size", in));
    STNI_TRY(stni_conv_windows(call, dims, in, call->in_spec[1]->layout.shape + 2, conv));
    return check_grad(call, 0, conv);
}

stn_status stni_conv_of_grad_weight(const stn_op_call *call, int dims, struct stni_conv *conv)
{
    int64_t kernel[STNI_CONV_MAX_DIMS];
    memset(conv, 0, sizeof *conv);
    STNI_TRY(read_image(call, 1, dims, conv, &conv->o));
    STNI_TRY(read_image(call, 0, dims, conv, &conv->c));
    STNI_TRY(read_size(call, dims, "kernel_size", kernel));
    STNI_TRY(stni_conv_windows(call, dims, call->in_spec[0]->layout.shape + stni_conv_dim(conv, 0), kernel, conv));
    return check_grad(call, 1, conv);
}

static void image_shape(const struct stni_conv *conv, int64_t channels, stn_meta *meta)
{
    meta->ndim = conv->batched + 1 + conv->dims;
    meta->shape[0] = conv->n;
    meta->shape[conv->batched] = channels;
}

void stni_conv_shape_x(const struct stni_conv *conv, stn_meta *meta)
{
    image_shape(conv, conv->c, meta);
    for (int d = 0; d < conv->dims; d++)
        meta->shape[stni_conv_dim(conv, d)] = conv->window[d].n_in;
}

void stni_conv_shape_y(const struct stni_conv *conv, stn_meta *meta)
{
    image_shape(conv, conv->o, meta);
    for (int d = 0; d < conv->dims; d++)
        meta->shape[stni_conv_dim(conv, d)] = conv->window[d].n_out;
}

void stni_conv_shape_weight(const struct stni_conv *conv, stn_meta *meta)
{
    meta->ndim = 2 + conv->dims;
    meta->shape[0] = conv->o;
    meta->shape[1] = conv->c / conv->groups;
    for (int d = 0; d < conv->dims; d++)
        meta->shape[2 + d] = conv->window[d].kernel;
}

stn_status stni_conv_check_dtypes(const stn_op_call *call)
{
    stn_dtype dtype = call->in_spec[0]->layout.dtype;
    if (!stni_dtype_is_floating(dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got dtype %s, wanted f32 f64 bf16 or f16",
                           stn_op_descriptor(call->op)->inputs[0].name, stn_dtype_name(dtype));
    for (int i = 1; i < call->n_in; i++)
        if (call->in_spec[i] != NULL && call->in_spec[i]->layout.dtype != dtype)
            return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got dtype %s, wanted %s", stn_op_descriptor(call->op)->inputs[i].name,
                               stn_dtype_name(call->in_spec[i]->layout.dtype), stn_dtype_name(dtype));
    return STN_OK;
}

/* Labels of the windowed dims follow these. */
enum { BATCH, CHANNEL_IN, CHANNEL_OUT, GROUP, WINDOW };

void stni_conv_label(const struct stni_conv *conv, struct stni_conv_labels *labels)
{
    static const uint8_t row_major[STN_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
    int grouped = conv->groups > 1, channel = stni_conv_channel_dim(conv), at = 0;
    struct stni_labels none = {.memory_order = row_major};
    memset(none.of, STNI_NO_LABEL, sizeof none.of);
    *labels = (struct stni_conv_labels){none, none, none, none, {0}, grouped ? GROUP : -1, 0};
    labels->x.of[channel] = grouped ? GROUP : CHANNEL_IN;
    labels->y.of[channel] = labels->weight.of[0] = labels->bias.of[0] = grouped ? GROUP : CHANNEL_OUT;
    if (!grouped)
        labels->weight.of[1] = CHANNEL_IN;
    if (conv->batched) {
        labels->x.of[0] = labels->y.of[0] = BATCH;
        labels->memory_order[at++] = 0;
    }
    for (int d = 0; d < conv->dims; d++) {
        int dim = stni_conv_dim(conv, d);
        labels->x.of[dim] = labels->y.of[dim] = (int8_t)(WINDOW + d);
        labels->memory_order[at++] = (uint8_t)dim;
        labels->windows |= 1u << (WINDOW + d);
    }
    labels->memory_order[at] = (uint8_t)channel;
    labels->x.memory_order = labels->y.memory_order = labels->memory_order;
}
