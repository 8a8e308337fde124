#include "ops/conv/conv_geometry.h"

#include "core/base/dtype.h"
#include "ops/common/check.h"
#include "ops/common/dims.h"

#include <limits.h>
#include <string.h>

const char *const stni_conv_modes[] = {"zeros", "reflect", "replicate", "circular", NULL};

/* What is read of one call. */
struct reading {
    const stn_op_call *call;
    const struct stni_conv_rule *rule;
    const struct stni_conv_attrs *attrs;
    const struct stni_layout *layout[STNI_CONV_ROLES]; /* of the two inputs; NULL: the output's */
    const char *name[STNI_CONV_ROLES];
};

static struct reading begin(const stn_op_call *call)
{
    struct reading r = {.call = call, .rule = call->arg, .attrs = call->attrs};
    const struct stni_conv_roles *roles = &stni_conv_roles[r.rule->kind];
    for (int i = 0; i < 2; i++) {
        r.layout[roles->in[i]] = &call->in_spec[i]->layout;
        r.name[roles->in[i]] = stn_op_descriptor(call->op)->inputs[i].name;
    }
    return r;
}

/* Attributes */

/* A list with an entry for each windowed dim, or one for all. */
static stn_status read_list(const struct reading *r, const char *name, const stn_ints *list, int64_t least,
                            int64_t absent, int64_t *out)
{
    int dims = r->rule->dims;
    if (list->n != -1 && list->n != 1 && list->n != dims)
        return stn_op_fail(r->call, STN_ERR_ARGUMENT, "attribute '%s' got %lld numbers, wanted %s%d", name,
                           (long long)list->n, dims > 1 ? "1 or " : "", dims);
    for (int d = 0; d < dims; d++) {
        out[d] = list->n == -1 ? absent : list->v[list->n == 1 ? 0 : d];
        if (out[d] < least || out[d] > INT_MAX)
            return stn_op_fail(r->call, STN_ERR_ARGUMENT,
                               "attribute '%s' got %lld, wanted at least %lld and below 2^31", name, (long long)out[d],
                               (long long)least);
    }
    return STN_OK;
}

/* The size attribute of a gradient: what the shapes of its inputs leave open. */
static stn_status read_size(const struct reading *r, const char *name, int64_t *out)
{
    const stn_ints *size = &r->attrs->size;
    if (size->n != r->rule->dims)
        return stn_op_fail(r->call, STN_ERR_ARGUMENT, "attribute '%s' got %lld numbers, wanted %d", name,
                           (long long)size->n, r->rule->dims);
    return read_list(r, name, size, 0, 0, out);
}

static stn_status read_padding(const struct reading *r, struct stni_conv *conv)
{
    int64_t padding[STNI_CONV_MAX_DIMS], output_padding[STNI_CONV_MAX_DIMS];
    STNI_TRY(read_list(r, "padding", &r->attrs->padding, 0, 0, padding));
    STNI_TRY(read_list(r, "output_padding", &r->attrs->output_padding, 0, 0, output_padding));
    for (int d = 0; d < conv->dims; d++) {
        struct stni_window *w = &conv->window[d];
        int64_t total = stni_window_extent(w) - 1, step = w->stride > w->dilation ? w->stride : w->dilation;
        if (r->attrs->auto_padding == STNI_CONV_PADDING_SAME && w->stride != 1)
            return stn_op_fail(r->call, STN_ERR_ARGUMENT, "padding 'same' got stride %lld, wanted 1",
                               (long long)w->stride);
        if (output_padding[d] > 0 && output_padding[d] >= step)
            return stn_op_fail(r->call, STN_ERR_ARGUMENT,
                               "'output_padding' got %lld, wanted less than the stride or the dilation, %lld",
                               (long long)output_padding[d], (long long)step);
        w->pad = conv->pad_high[d] = r->attrs->auto_padding == STNI_CONV_PADDING_GIVEN ? padding[d] : 0;
        if (r->attrs->auto_padding == STNI_CONV_PADDING_SAME) {
            w->pad = total / 2;
            conv->pad_high[d] = total - w->pad;
        }
        conv->pad_high[d] -= output_padding[d];
    }
    return STN_OK;
}

/* Windows but for their sizes. */
static stn_status read_windows(const struct reading *r, struct stni_conv *conv)
{
    const struct stni_conv_attrs *attrs = r->attrs;
    const struct stni_layout *weight = r->layout[STNI_CONV_WEIGHT];
    int64_t stride[STNI_CONV_MAX_DIMS], dilation[STNI_CONV_MAX_DIMS], kernel[STNI_CONV_MAX_DIMS];
    STNI_TRY(read_list(r, "stride", &attrs->stride, 1, 1, stride));
    STNI_TRY(read_list(r, "dilation", &attrs->dilation, 1, 1, dilation));
    if (weight == NULL)
        STNI_TRY(read_size(r, "kernel_size", kernel));
    for (int d = 0; d < conv->dims; d++) {
        int64_t mode = attrs->dim_mode[conv->dims - 1 - d];
        kernel[d] = weight != NULL ? weight->shape[2 + d] : kernel[d];
        if (kernel[d] < 1)
            return stn_op_fail(r->call, STN_ERR_SHAPE, "got a kernel of size %lld, wanted at least 1",
                               (long long)kernel[d]);
        conv->window[d] = (struct stni_window){.kernel = kernel[d], .stride = stride[d], .dilation = dilation[d],
                                               .boundary = (enum stni_boundary)(mode >= 0 ? mode : attrs->mode)};
    }
    return read_padding(r, conv);
}

/* Shapes */

/* A tensor of a channel dim and windowed dims, with a batch dim before or without. */
static stn_status read_image(const struct reading *r, enum stni_conv_role role, struct stni_conv *conv,
                             int64_t *channels)
{
    const struct stni_layout *layout = r->layout[role];
    int dims = conv->dims;
    if (layout->ndim != dims + 1 && layout->ndim != dims + 2)
        return stn_op_fail(r->call, STN_ERR_SHAPE, "'%s' got %d dims, wanted %d or, without a batch, %d", r->name[role],
                           layout->ndim, dims + 2, dims + 1);
    conv->batched = layout->ndim == dims + 2;
    conv->n = conv->batched ? layout->shape[0] : 1;
    *channels = layout->shape[conv->batched];
    return STN_OK;
}

/* The channels of x and y. A weight's must be those of the tensor beside it. */
static stn_status read_channels(const struct reading *r, struct stni_conv *conv)
{
    const struct stni_layout *weight = r->layout[STNI_CONV_WEIGHT];
    if (r->layout[STNI_CONV_Y] != NULL)
        STNI_TRY(read_image(r, STNI_CONV_Y, conv, &conv->o));
    if (r->layout[STNI_CONV_X] != NULL)
        STNI_TRY(read_image(r, STNI_CONV_X, conv, &conv->c));
    if (weight == NULL)
        return STN_OK;
    if (weight->ndim != conv->dims + 2)
        return stn_op_fail(r->call, STN_ERR_SHAPE, "'weight' got %d dims, wanted %d", weight->ndim, conv->dims + 2);
    enum stni_conv_role beside = stni_conv_roles[conv->kind].in[0];
    int64_t of_weight[] = {[STNI_CONV_X] = weight->shape[1] * conv->groups, [STNI_CONV_Y] = weight->shape[0]};
    int64_t got = beside == STNI_CONV_X ? conv->c : conv->o;
    if (got != of_weight[beside])
        return stn_op_fail(r->call, STN_ERR_SHAPE,
                           "'%s' got %lld channels, wanted %lld for this weight and %lld groups", r->name[beside],
                           (long long)got, (long long)of_weight[beside], (long long)conv->groups);
    conv->c = of_weight[STNI_CONV_X];
    conv->o = of_weight[STNI_CONV_Y];
    return STN_OK;
}

static stn_status check_groups(const struct reading *r, const struct stni_conv *conv)
{
    if (conv->c % conv->groups != 0 || conv->o % conv->groups != 0)
        return stn_op_fail(r->call, STN_ERR_SHAPE,
                           "got %lld channels in and %lld out, wanted multiples of the %lld groups",
                           (long long)(r->rule->transposed ? conv->o : conv->c),
                           (long long)(r->rule->transposed ? conv->c : conv->o), (long long)conv->groups);
    return STN_OK;
}

/* A boundary has only so many elements to pad with. */
static stn_status check_boundary(const struct reading *r, const struct stni_window *w, int64_t pad_high)
{
    int64_t pad = w->pad > pad_high ? w->pad : pad_high;
    int64_t most[] = {INT64_MAX, w->n_in > 0 ? w->n_in - 1 : 0, w->n_in > 0 ? INT64_MAX : 0, w->n_in};
    if (pad > most[w->boundary])
        return stn_op_fail(
            r->call, STN_ERR_SHAPE, "padding mode '%s' got padding %lld for a dim of %lld, wanted at most %lld",
            stni_conv_modes[w->boundary], (long long)pad, (long long)w->n_in, (long long)most[w->boundary]);
    return STN_OK;
}

/* The output's size from the input's. */
static stn_status fit_out(const struct reading *r, struct stni_conv *conv, int d, int64_t n_in)
{
    struct stni_window *w = &conv->window[d];
    int64_t extent = stni_window_extent(w), padded = n_in + w->pad + conv->pad_high[d];
    w->n_in = n_in;
    STNI_TRY(check_boundary(r, w, conv->pad_high[d]));
    if (padded < extent)
        return stn_op_fail(
            r->call, STN_ERR_SHAPE,
            "got %lld elements, padding included, along windowed dim %d, wanted at least the kernel's %lld",
            (long long)padded, d, (long long)extent);
    w->n_out = (padded - extent) / w->stride + 1;
    return STN_OK;
}

/* The size of x, of which the transposed convolution's input y is the convolution: as far as its last output reads,
 * and output_padding. */
static stn_status fit_in(const struct reading *r, struct stni_conv *conv, int d, int64_t n_out)
{
    struct stni_window *w = &conv->window[d];
    if (n_out < 1)
        return stn_op_fail(r->call, STN_ERR_SHAPE, "'input' got no elements along windowed dim %d, wanted at least 1",
                           d);
    w->n_out = n_out;
    w->n_in = (n_out - 1) * w->stride + stni_window_extent(w) - w->pad - conv->pad_high[d];
    if (w->n_in < 1)
        return stn_op_fail(r->call, STN_ERR_SHAPE,
                           "got padding %lld, which leaves %lld elements along windowed dim %d, wanted at least 1",
                           (long long)w->pad, (long long)w->n_in, d);
    return STN_OK;
}

static stn_status fit(const struct reading *r, struct stni_conv *conv)
{
    const struct stni_layout *x = r->layout[STNI_CONV_X], *y = r->layout[STNI_CONV_Y];
    int64_t in[STNI_CONV_MAX_DIMS];
    if (x == NULL && !r->rule->transposed)
        STNI_TRY(read_size(r, "input_size", in));
    for (int d = 0; d < conv->dims; d++) {
        int dim = stni_conv_dim(conv, d);
        if (r->rule->transposed)
            STNI_TRY(fit_in(r, conv, d, y->shape[dim]));
        else
            STNI_TRY(fit_out(r, conv, d, x != NULL ? x->shape[dim] : in[d]));
    }
    return STN_OK;
}

/* Steps that nothing is reached by are no longer than they need be: a dilation of a kernel of 1, and a stride of one
 * output, which is still as long as its window and long enough for the elements behind it. So no library or kernel
 * meets numbers that mean nothing, but overflow. */
static void shorten_steps(struct stni_conv *conv)
{
    for (int d = 0; d < conv->dims; d++) {
        struct stni_window *w = &conv->window[d];
        const int64_t extent = stni_window_extent(w), unread = w->n_in + w->pad + conv->pad_high[d] - extent;
        const int64_t enough = unread >= extent ? unread + 1 : extent;
        if (w->kernel == 1)
            w->dilation = 1;
        if (w->n_out <= 1 && w->stride > enough)
            w->stride = enough;
    }
}

/* A cotangent's shape follows from the rest. */
static stn_status check_grad(const struct reading *r, const struct stni_conv *conv)
{
    const struct stni_layout *y = r->layout[STNI_CONV_Y];
    stn_meta want = {0};
    if (y == NULL)
        return STN_OK;
    stni_conv_shape(conv, STNI_CONV_Y, &want);
    if (y->ndim != want.ndim || memcmp(y->shape, want.shape, (size_t)want.ndim * sizeof *want.shape) != 0) {
        char got[STNI_SHAPE_TEXT], wanted[STNI_SHAPE_TEXT];
        return stn_op_fail(r->call, STN_ERR_SHAPE, "'%s' got shape %s, wanted %s", r->name[STNI_CONV_Y],
                           stni_shape_text(y->ndim, y->shape, got), stni_shape_text(want.ndim, want.shape, wanted));
    }
    return STN_OK;
}

static stn_status check_bias(const struct reading *r, const struct stni_conv *conv)
{
    const stn_op_call *call = r->call;
    int64_t channels = conv->kind == STNI_CONV_FORWARD ? conv->o : conv->c;
    if (call->n_in < 3 || call->in_spec[2] == NULL)
        return STN_OK;
    return stni_check_shape(call, 2, 1, &channels, NULL);
}

stn_status stni_conv_read(const stn_op_call *call, struct stni_conv *conv)
{
    const struct reading r = begin(call);
    memset(conv, 0, sizeof *conv);
    conv->kind = r.rule->kind, conv->dims = r.rule->dims, conv->groups = r.attrs->groups;
    if (conv->groups < 1 || conv->groups > INT_MAX)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "attribute 'groups' got %lld, wanted at least 1 and below 2^31",
                           (long long)conv->groups);
    STNI_TRY(read_channels(&r, conv));
    STNI_TRY(read_windows(&r, conv));
    STNI_TRY(fit(&r, conv));
    shorten_steps(conv);
    STNI_TRY(check_grad(&r, conv));
    STNI_TRY(check_bias(&r, conv));
    return check_groups(&r, conv);
}

void stni_conv_shape(const struct stni_conv *conv, enum stni_conv_role role, stn_meta *meta)
{
    int weight = role == STNI_CONV_WEIGHT, first = weight ? 2 : stni_conv_dim(conv, 0);
    meta->ndim = first + conv->dims;
    meta->shape[0] = weight ? conv->o : conv->n;
    meta->shape[first - 1] = weight ? conv->c / conv->groups : role == STNI_CONV_X ? conv->c : conv->o;
    for (int d = 0; d < conv->dims; d++) {
        const struct stni_window *w = &conv->window[d];
        meta->shape[first + d] = weight ? w->kernel : role == STNI_CONV_X ? w->n_in : w->n_out;
    }
}

stn_status stni_conv_check_dtypes(const stn_op_call *call)
{
    stn_dtype dtype = call->in_spec[0]->layout.dtype;
    if (!stni_dtype_is_floating(dtype) && !stni_dtype_is_complex(dtype))
        return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got dtype %s, wanted f32 f64 bf16 f16 c64 or c128",
                           stn_op_descriptor(call->op)->inputs[0].name, stn_dtype_name(dtype));
    for (int i = 1; i < call->n_in; i++)
        if (call->in_spec[i] != NULL && call->in_spec[i]->layout.dtype != dtype)
            return stn_op_fail(call, STN_ERR_DTYPE, "'%s' got dtype %s, wanted %s",
                               stn_op_descriptor(call->op)->inputs[i].name,
                               stn_dtype_name(call->in_spec[i]->layout.dtype), stn_dtype_name(dtype));
    return STN_OK;
}
