/* Problems in oneDNN's terms: descriptors of the data, the code that it has for them, their weights' layouts. */
#include "ops/onednn/onednn_primitive.h"

#include <string.h>

stn_status stni_onednn_status(dnnl_status_t status)
{
    return status == dnnl_success ? STN_OK : STN_ERR_UNSUPPORTED;
}

static dnnl_data_type_t data_type(int32_t dtype)
{
    return dtype == STN_DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
}
/* A memory object without an address, put among the arguments as `arg`. */
static stn_status add_arg(struct stni_onednn *library, struct stni_onednn_primitive *p, int arg,
                          const dnnl_memory_desc_t *desc, dnnl_memory_t *memory)
{
    STNI_TRY(stni_onednn_status(dnnl_memory_create(memory, desc, library->engine, DNNL_MEMORY_NONE)));
    p->args[p->n_args++] = (dnnl_exec_arg_t){arg, *memory};
    return STN_OK;
}

static stn_status add_scratch(struct stni_onednn *library, struct stni_onednn_primitive *p,
                              const_dnnl_primitive_desc_t desc)
{
    const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    p->scratch_bytes = dnnl_memory_desc_get_size(scratch);
    return p->scratch_bytes == 0 ? STN_OK : add_arg(library, p, DNNL_ARG_SCRATCHPAD, scratch, &p->scratch);
}

/* STN_ERR_UNSUPPORTED for oneDNN's reference code. */
static stn_status read_name(struct stni_onednn_primitive *p, const_dnnl_primitive_desc_t desc)
{
    STNI_TRY(stni_onednn_status(dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &p->name)));
    return strncmp(p->name, "ref", 3) == 0 ? STN_ERR_UNSUPPORTED : STN_OK;
}

static stn_status make_reorder(struct stni_onednn *library, const dnnl_memory_desc_t *from,
                               const dnnl_memory_desc_t *to, dnnl_primitive_attr_t attr, dnnl_primitive_t *out)
{
    dnnl_primitive_desc_t desc = NULL;
    STNI_TRY(stni_onednn_status(
        dnnl_reorder_primitive_desc_create(&desc, from, library->engine, to, library->engine, attr)));
    stn_status status = stni_onednn_status(dnnl_primitive_create(out, desc));
    dnnl_primitive_desc_destroy(desc);
    return status;
}

/* Convolutions */

struct conv_descs {
    dnnl_memory_desc_t x, weight, plain, y, bias;
};

/* The weight in any layout (`weight`) and row-major (`plain`). */
static stn_status describe_conv(const struct stni_conv_problem *p, struct conv_descs *d)
{
    static const dnnl_format_tag_t data[] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc};
    static const dnnl_format_tag_t weight[2][3] = {{dnnl_oiw, dnnl_oihw, dnnl_oidhw},
                                                   {dnnl_goiw, dnnl_goihw, dnnl_goidhw}};
    int grouped = p->groups > 1, nd = p->dims, at = 0;
    dnnl_dims_t x = {p->n, p->c}, y = {p->n, p->o}, w = {0}, bias = {p->o};
    if (grouped)
        w[at++] = p->groups;
    w[at++] = p->o / p->groups;
    w[at++] = p->c / p->groups;
    for (int i = 0; i < nd; i++) {
        x[2 + i] = p->in[i];
        y[2 + i] = p->out[i];
        w[at++] = p->kernel[i];
    }
    dnnl_data_type_t type = data_type(p->dtype), weight_type = data_type(p->weight_dtype);
    STNI_TRY(stni_onednn_status(dnnl_memory_desc_init_by_tag(&d->x, 2 + nd, x, type, data[nd - 1])));
    STNI_TRY(stni_onednn_status(dnnl_memory_desc_init_by_tag(&d->y, 2 + nd, y, type, data[nd - 1])));
    STNI_TRY(stni_onednn_status(dnnl_memory_desc_init_by_tag(&d->weight, at, w, weight_type, dnnl_format_tag_any)));
    STNI_TRY(stni_onednn_status(dnnl_memory_desc_init_by_tag(&d->plain, at, w, weight_type, weight[grouped][nd - 1])));
    return stni_onednn_status(dnnl_memory_desc_init_by_tag(&d->bias, 1, bias, weight_type, dnnl_a));
}

/* The descriptor of a convolution; those of gradients need the forward one's as a hint. */
static stn_status conv_desc(struct stni_onednn *library, const struct stni_conv_problem *p, const struct conv_descs *d,
                            int32_t kind, const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out)
{
    dnnl_dims_t stride = {0}, dilation = {0}, low = {0}, high = {0};
    for (int i = 0; i < p->dims; i++) {
        stride[i] = p->stride[i];
        dilation[i] = p->dilation[i] - 1;
        low[i] = p->pad_low[i];
        high[i] = p->pad_high[i];
    }
    dnnl_convolution_desc_t desc;
    dnnl_status_t status;
    if (kind == STNI_CONV_FORWARD)
        status = dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_training, dnnl_convolution_direct,
                                                            &d->x, &d->weight, p->has_bias ? &d->bias : NULL, &d->y,
                                                            stride, dilation, low, high);
    else if (kind == STNI_CONV_GRAD_INPUT)
        status = dnnl_dilated_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &d->x, &d->weight,
                                                                  &d->y, stride, dilation, low, high);
    else
        status = dnnl_dilated_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &d->x, &d->weight,
                                                                     NULL, &d->y, stride, dilation, low, high);
    STNI_TRY(stni_onednn_status(status));
    return stni_onednn_status(dnnl_primitive_desc_create(out, &desc, library->attr, library->engine, hint));
}

/* The weight as the primitive wants it, and the way from and to the plain one. */
static stn_status add_weight(struct stni_onednn *library, struct stni_onednn_primitive *p, const struct conv_descs *d,
                             const dnnl_memory_desc_t *wanted)
{
    int gradient = p->key.conv.kind == STNI_CONV_GRAD_WEIGHT;
    STNI_TRY(add_arg(library, p, gradient ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, wanted, &p->b));
    p->weight_bytes = dnnl_memory_desc_get_size(wanted);
    if (dnnl_memory_desc_equal(wanted, &d->plain) && !gradient)
        return STN_OK;
    STNI_TRY(stni_onednn_status(dnnl_memory_create(&p->plain, &d->plain, library->engine, DNNL_MEMORY_NONE)));
    const dnnl_memory_desc_t *from = gradient ? wanted : &d->plain, *to = gradient ? &d->plain : wanted;
    STNI_TRY(make_reorder(library, from, to, NULL, &p->reorder));
    return gradient ? make_reorder(library, from, to, library->add_attr, &p->reorder_add) : STN_OK;
}

/* Its code for 1x1 kernels gathers what a stride leaves over into a workspace, whole vectors at a time: with a
 * number of channels that does not fill them it writes past the end (2.6.3, avx2, the gradients). */
static int writes_outside(const struct stni_conv_problem *p, const char *name)
{
    enum { VECTOR = 16 };
    int strided = 0;
    for (int i = 0; i < p->dims; i++)
        strided |= p->stride[i] > 1;
    return strided && strncmp(name, "jit_1x1", 7) == 0 && (p->c / p->groups) % VECTOR != 0;
}

/* Its gradient by the weight of three dims loses its place in the kernel where no window lies between those that begin
 * before the image and those that end behind it: it adds up elements of other memory (2.6.3, avx512). */
static int reads_outside(const struct stni_conv_problem *p, const char *name)
{
    const int gradient = p->kind == STNI_CONV_GRAD_WEIGHT && strncmp(name, "jit", 3) == 0;
    const int64_t before = (p->pad_low[0] + p->stride[0] - 1) / p->stride[0];
    const int64_t behind = (p->in[0] + p->pad_low[0] - (p->kernel[0] - 1) * p->dilation[0]) / p->stride[0];
    return gradient && p->dims == 3 && before > 0 && behind <= before;
}

static stn_status fill_conv(struct stni_onednn *library, struct stni_onednn_primitive *p, const struct conv_descs *d,
                            const_dnnl_primitive_desc_t desc)
{
    static const struct {
        int x, y;
        dnnl_query_t weight;
    } kinds[] = {[STNI_CONV_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_DST, dnnl_query_weights_md},
                 [STNI_CONV_GRAD_INPUT] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, dnnl_query_weights_md},
                 [STNI_CONV_GRAD_WEIGHT] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, dnnl_query_diff_weights_md}};
    int32_t kind = p->key.conv.kind;
    STNI_TRY(read_name(p, desc));
    if (writes_outside(&p->key.conv, p->name) || reads_outside(&p->key.conv, p->name))
        return STN_ERR_UNSUPPORTED;
    STNI_TRY(add_arg(library, p, kinds[kind].x, &d->x, &p->a));
    STNI_TRY(add_arg(library, p, kinds[kind].y, &d->y, &p->c));
    if (p->key.conv.has_bias)
        STNI_TRY(add_arg(library, p, DNNL_ARG_BIAS, &d->bias, &p->bias));
    STNI_TRY(add_weight(library, p, d, dnnl_primitive_desc_query_md(desc, kinds[kind].weight, 0)));
    STNI_TRY(add_scratch(library, p, desc));
    return stni_onednn_status(dnnl_primitive_create(&p->run, desc));
}

stn_status stni_onednn_make_conv(struct stni_onednn *library, struct stni_onednn_primitive *p)
{
    struct conv_descs d;
    dnnl_primitive_desc_t forward = NULL, backward = NULL;
    const struct stni_conv_problem *conv = &p->key.conv;
    if (stni_conv_reaches_far(conv))
        return STN_ERR_UNSUPPORTED;
    STNI_TRY(describe_conv(conv, &d));
    STNI_TRY(conv_desc(library, conv, &d, STNI_CONV_FORWARD, NULL, &forward));
    stn_status status = STN_OK;
    if (conv->kind != STNI_CONV_FORWARD)
        status = conv_desc(library, conv, &d, conv->kind, forward, &backward);
    if (status == STN_OK)
        status = fill_conv(library, p, &d, backward != NULL ? backward : forward);
    if (backward != NULL)
        dnnl_primitive_desc_destroy(backward);
    dnnl_primitive_desc_destroy(forward);
    return status;
}

/* Products */

stn_status stni_onednn_make_product(struct stni_onednn *library, struct stni_onednn_primitive *p)
{
    const struct stni_onednn_product *q = &p->key.product;
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_dims_t a_dims = {q->batch, q->m, q->k}, a_strides = {q->a_batch, q->a_row, q->a_col};
    dnnl_dims_t b_dims = {q->batch, q->k, q->n}, b_strides = {q->b_batch, q->b_row, q->b_col};
    dnnl_dims_t c_dims = {q->batch, q->m, q->n}, c_strides = {q->c_batch, q->c_row, 1};
    dnnl_data_type_t type = data_type(q->dtype);
    STNI_TRY(stni_onednn_status(dnnl_memory_desc_init_by_strides(&a, 3, a_dims, type, a_strides)));
    STNI_TRY(stni_onednn_status(dnnl_memory_desc_init_by_strides(&b, 3, b_dims, type, b_strides)));
    STNI_TRY(stni_onednn_status(dnnl_memory_desc_init_by_strides(&c, 3, c_dims, type, c_strides)));
    STNI_TRY(stni_onednn_status(dnnl_matmul_desc_init(&matmul, &a, &b, NULL, &c)));
    STNI_TRY(stni_onednn_status(dnnl_primitive_desc_create(&desc, &matmul, library->attr, library->engine, NULL)));
    stn_status status;
    STNI_TRY_GOTO(read_name(p, desc), out);
    STNI_TRY_GOTO(add_arg(library, p, DNNL_ARG_SRC, &a, &p->a), out);
    STNI_TRY_GOTO(add_arg(library, p, DNNL_ARG_WEIGHTS, &b, &p->b), out);
    STNI_TRY_GOTO(add_arg(library, p, DNNL_ARG_DST, &c, &p->c), out);
    STNI_TRY_GOTO(add_scratch(library, p, desc), out);
    status = stni_onednn_status(dnnl_primitive_create(&p->run, desc));
out:
    dnnl_primitive_desc_destroy(desc);
    return status;
}
