/* im2col and fold, which are each other's adjoint: the windows of an image as columns, and columns added up to an
 * image. Both are unfolds of two dims, or their adjoints, between pads and views. */
#include "core/context/context.h"
#include "core/base/dtype.h"
#include "core/shard/spec.h"
#include "ops/pool/unfold.h"
#include "ops/common/call.h"

#include <shardtensor/ops.h>

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

enum { DIMS = 2, MOST = INT32_MAX };

struct fold_attrs {
    stn_ints output_size, kernel_size, dilation, padding, stride; /* one number stands for both dims */
};

/* A call with its numbers resolved: an image's size, and how many windows it has along each dim. */
struct fold {
    int batched;
    int64_t kernel[DIMS], dilation[DIMS], pad[DIMS], stride[DIMS], size[DIMS], windows[DIMS];
};

static void give(stn_ints *list, const int64_t *v, int64_t fallback)
{
    list->n = DIMS;
    for (int d = 0; d < DIMS; d++)
        list->v[d] = v[d] == 0 ? fallback : v[d];
}

static stn_tensor *call_with(enum stni_op_index op, const char *name, stn_tensor *input, const int64_t *output_size,
                             const stn_pool_attrs *given)
{
    struct fold_attrs attrs = {.output_size = {.n = -1}};
    if (!given || given->size != sizeof *given)
        return stni_call_fail(input, STN_ERR_ARGUMENT, "%s: attrs.size got %zu, wanted %zu", name,
                              given ? given->size : 0, sizeof *given);
    give(&attrs.kernel_size, given->kernel_size, 0);
    give(&attrs.dilation, given->dilation, 1);
    give(&attrs.padding, given->padding, 0);
    give(&attrs.stride, given->stride, 1);
    if (output_size)
        give(&attrs.output_size, output_size, 0);
    return stni_call(op, 1, &input, &attrs);
}

stn_tensor *stn_im2col(stn_tensor *input, const stn_pool_attrs *attrs)
{
    return call_with(STNI_OP_im2col, "im2col", input, NULL, attrs);
}

stn_tensor *stn_fold(stn_tensor *input, const int64_t *output_size, const stn_pool_attrs *attrs)
{
    return call_with(STNI_OP_fold, "fold", input, output_size, attrs);
}

static stn_status read_list(const stn_op_call *call, const char *name, const stn_ints *list, int64_t least,
                            int64_t fallback, int64_t *out)
{
    if (list->n > 0 ? list->n > DIMS : fallback < 0)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %" PRId64 " numbers, wanted 1 or %d", name,
                           list->n < 0 ? 0 : list->n, DIMS);
    for (int d = 0; d < DIMS; d++) {
        out[d] = list->n <= 0 ? fallback : list->v[list->n == 1 ? 0 : d];
        if (out[d] < least || out[d] > MOST)
            return stn_op_fail(call, STN_ERR_ARGUMENT, "'%s' got %" PRId64 ", wanted %" PRId64 " to %d", name, out[d],
                               least, MOST);
    }
    return STN_OK;
}

/* All but the image's size. `ndim`: dims of one that is batched. */
static stn_status read_attrs(const stn_op_call *call, int ndim, struct fold *out)
{
    const struct fold_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    if (in->ndim != ndim && in->ndim != ndim - 1)
        return stn_op_fail(call, STN_ERR_SHAPE, "'input' got %d dims, wanted %d or %d", in->ndim, ndim - 1, ndim);
    out->batched = in->ndim == ndim;
    STNI_TRY(read_list(call, "kernel_size", &attrs->kernel_size, 1, -1, out->kernel));
    STNI_TRY(read_list(call, "dilation", &attrs->dilation, 1, 1, out->dilation));
    STNI_TRY(read_list(call, "padding", &attrs->padding, 0, 0, out->pad));
    return read_list(call, "stride", &attrs->stride, 1, 1, out->stride);
}

static stn_status count_windows(const stn_op_call *call, struct fold *f)
{
    for (int d = 0; d < DIMS; d++) {
        int64_t space = f->size[d] + 2 * f->pad[d] - (f->kernel[d] - 1) * f->dilation[d] - 1;
        if (f->size[d] < 1 || space < 0)
            return stn_op_fail(call, STN_ERR_SHAPE,
                               "a window of %" PRId64 " does not fit into %" PRId64 " elements with pads of %" PRId64,
                               (f->kernel[d] - 1) * f->dilation[d] + 1, f->size[d], f->pad[d]);
        f->windows[d] = space / f->stride[d] + 1;
    }
    return STN_OK;
}

static struct stni_unfold_attrs unfold_of(const struct fold *f, int d)
{
    return (struct stni_unfold_attrs){f->batched + 1 + d, f->kernel[d], f->stride[d], f->dilation[d],
                                      f->size[d] + 2 * f->pad[d]};
}

/* Margins around an image, or with sign -1 away from it. */
static stn_tensor *pad(const struct fold *f, stn_tensor *image, int64_t sign)
{
    const int64_t padding[] = {sign * f->pad[1], sign * f->pad[1], sign * f->pad[0], sign * f->pad[0]};
    return f->pad[0] || f->pad[1] ? stn_pad(image, 4, padding, STN_PAD_CONSTANT, 0) : image;
}

/* (n, c, e0, e1, k0, k1) -> (n, c, k0, k1, e0, e1), which is the same the other way. */
static stn_tensor *swap(const struct fold *f, stn_tensor *windows)
{
    int b = f->batched, order[] = {0, b, b + 3, b + 4, b + 1, b + 2};
    return stn_permute(windows, 5 + b, b ? order : order + 1);
}

static stn_status im2col(stn_op_call *call)
{
    const struct stni_layout *in = &call->in_spec[0]->layout;
    struct fold f;
    STNI_TRY(read_attrs(call, 4, &f));
    int b = f.batched;
    memcpy(f.size, in->shape + b + 1, sizeof f.size);
    STNI_TRY(count_windows(call, &f));
    const int64_t shape[] = {in->shape[0], in->shape[b] * f.kernel[0] * f.kernel[1], f.windows[0] * f.windows[1]};
    struct stni_unfold_attrs rows = unfold_of(&f, 0), columns = unfold_of(&f, 1);
    stn_tensor *windows = stni_unfold(stni_unfold(pad(&f, call->in[0], 1), &rows), &columns);
    call->out[0] = stn_reshape(swap(&f, windows), 2 + b, b ? shape : shape + 1);
    return STN_OK;
}

static stn_status read_columns(const stn_op_call *call, const struct fold *f)
{
    const int64_t *shape = call->in_spec[0]->layout.shape + f->batched;
    int64_t each = f->kernel[0] * f->kernel[1], columns = f->windows[0] * f->windows[1];
    if (shape[0] % each != 0 || shape[1] != columns)
        return stn_op_fail(call, STN_ERR_SHAPE,
                           "'input' got %" PRId64 " x %" PRId64 " elements, wanted a multiple of %" PRId64
                           " x %" PRId64,
                           shape[0], shape[1], each, columns);
    return STN_OK;
}

/* Sums of 16-bit elements are taken in f32. */
static stn_status fold(stn_op_call *call)
{
    const struct fold_attrs *attrs = call->attrs;
    const struct stni_layout *in = &call->in_spec[0]->layout;
    struct fold f;
    STNI_TRY(read_attrs(call, 3, &f));
    STNI_TRY(read_list(call, "output_size", &attrs->output_size, 1, -1, f.size));
    STNI_TRY(count_windows(call, &f));
    STNI_TRY(read_columns(call, &f));
    int b = f.batched, half = in->dtype == STN_DTYPE_BF16 || in->dtype == STN_DTYPE_F16;
    const int64_t shape[] = {
        in->shape[0], in->shape[b] / (f.kernel[0] * f.kernel[1]), f.kernel[0], f.kernel[1], f.windows[0], f.windows[1]};
    struct stni_unfold_attrs rows = unfold_of(&f, 0), columns = unfold_of(&f, 1);
    stn_tensor *grad = half ? stn_cast(call->in[0], STN_DTYPE_F32) : call->in[0];
    grad = swap(&f, stn_reshape(grad, 5 + b, b ? shape : shape + 1));
    grad = pad(&f, stni_unfold_backward(stni_unfold_backward(grad, &columns), &rows), -1);
    call->out[0] = half ? stn_cast(grad, in->dtype) : grad;
    return STN_OK;
}

#define ROW(name) {#name, STN_ATTR_INTS, offsetof(struct fold_attrs, name), NULL}
static const stn_input_schema inputs[] = {{.name = "input"}};
static const stn_attr_schema im2col_schema[] = {ROW(kernel_size), ROW(dilation), ROW(padding), ROW(stride)};
static const stn_attr_schema fold_schema[] = {ROW(kernel_size), ROW(dilation), ROW(padding), ROW(stride),
                                              ROW(output_size)};
static const struct fold_attrs init = {{.n = -1}, {.n = -1}, {.n = -1}, {.n = -1}, {.n = -1}};

const stn_op_desc stni_op_im2col = {
    .size = sizeof(stn_op_desc), .name = "im2col", STN_INPUTS(inputs), STN_ATTRS(im2col_schema, struct fold_attrs),
    .attrs_init = &init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = im2col},
    .signature = "input, kernel_size, dilation=1, padding=0, stride=1",
};

const stn_op_desc stni_op_fold = {
    .size = sizeof(stn_op_desc), .name = "fold", STN_INPUTS(inputs), STN_ATTRS(fold_schema, struct fold_attrs),
    .attrs_init = &init, .n_outputs = 1, .impl = &(const stn_op_impl){.compose = fold},
    .signature = "input, output_size, kernel_size, dilation=1, padding=0, stride=1",
};
