/* A convolution as a graph of one operation. A problem of one windowed dim has a second one of one element. */
#include "ops/cuda/cudnn_graph.h"

enum { SPATIAL = 3, NDIM = SPATIAL + 2 };

static int spatial_dims(const struct stni_conv_problem *p)
{
    return p->dims < 2 ? 2 : p->dims;
}

/* Dim d of a problem as cuDNN has it: behind the one of one element, where there is one. `none` is what that one
 * has. */
static int64_t along(const struct stni_conv_problem *p, const int64_t *values, int d, int64_t none)
{
    const int at = d - (spatial_dims(p) - p->dims);
    return at < 0 ? none : values[at];
}

static struct stni_cudnn_tensor tensor_of(const struct stni_conv_problem *p, int64_t name)
{
    return (struct stni_cudnn_tensor){.name = name, .type = stni_cudnn_type_of(p->dtype), .ndim = spatial_dims(p) + 2};
}

/* x or y: the channels' stride is one, or that of all pixels. */
static cudnnBackendDescriptor_t make_image(struct stni_cudnn_graph *graph, const struct stni_conv_problem *p,
                                           int64_t name, int64_t channels, const int64_t *size)
{
    struct stni_cudnn_tensor t = tensor_of(p, name);
    int64_t stride = p->row_major ? 1 : channels;
    for (int d = spatial_dims(p) - 1; d >= 0; d--) {
        t.shape[2 + d] = along(p, size, d, 1);
        t.stride[2 + d] = stride;
        stride *= t.shape[2 + d];
    }
    t.shape[0] = p->n, t.shape[1] = channels;
    t.stride[1] = p->row_major ? stride : 1;
    t.stride[0] = p->row_major ? stride * channels : stride;
    return stni_cudnn_make_tensor(graph, &t);
}

/* Rows of channels of y, each (c, kernel…), as they lie. */
static cudnnBackendDescriptor_t make_weight(struct stni_cudnn_graph *graph, const struct stni_conv_problem *p)
{
    struct stni_cudnn_tensor t = tensor_of(p, STNI_CUDNN_WEIGHT);
    int64_t stride = 1;
    t.shape[0] = p->o, t.shape[1] = p->c / p->groups;
    for (int d = 0; d < spatial_dims(p); d++)
        t.shape[2 + d] = along(p, p->kernel, d, 1);
    for (int d = t.ndim - 1; d >= 0; d--) {
        t.stride[d] = stride;
        stride *= t.shape[d];
    }
    return stni_cudnn_make_tensor(graph, &t);
}

/* What sums are computed in. */
static int is_double(const struct stni_conv_problem *p)
{
    return p->dtype == STN_DTYPE_F64;
}

static cudnnBackendDescriptor_t make_convolution(struct stni_cudnn_graph *graph, const struct stni_conv_problem *p)
{
    const cudnnDataType_t type = is_double(p) ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t n = spatial_dims(p);
    int64_t pad[SPATIAL], stride[SPATIAL], dilation[SPATIAL];
    for (int d = 0; d < n; d++) {
        pad[d] = along(p, p->pad_low, d, 0);
        stride[d] = along(p, p->stride, d, 1);
        dilation[d] = along(p, p->dilation, d, 1);
    }
    cudnnBackendDescriptor_t part = stni_cudnn_part(graph, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    stni_cudnn_set(graph, part, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    stni_cudnn_set(graph, part, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    stni_cudnn_set(graph, part, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    stni_cudnn_set(graph, part, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, n, pad);
    stni_cudnn_set(graph, part, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, n, pad);
    stni_cudnn_set(graph, part, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, n, stride);
    stni_cudnn_set(graph, part, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n, dilation);
    stni_cudnn_finish(graph, part);
    return part;
}

/* The words for an operation of each kind. */
static const struct {
    cudnnBackendDescriptorType_t descriptor;
    int x, weight, y, convolution, alpha, beta;
} operations[] = {
    [STNI_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [STNI_CONV_GRAD_INPUT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [STNI_CONV_GRAD_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

/* A factor of an operation. Engines read it in the type that sums are computed in, whatever type it was set in: the
 * double 1, read as a float, is 0. */
static void set_factor(struct stni_cudnn_graph *graph, const struct stni_conv_problem *p, cudnnBackendDescriptor_t part,
                       int name, double value)
{
    const float narrow = (float)value;
    if (is_double(p))
        stni_cudnn_set(graph, part, name, CUDNN_TYPE_DOUBLE, 1, &value);
    else
        stni_cudnn_set(graph, part, name, CUDNN_TYPE_FLOAT, 1, &narrow);
}

void stni_cudnn_describe_conv(struct stni_cudnn_graph *graph, const struct stni_cudnn_conv *conv)
{
    const struct stni_conv_problem *p = &conv->problem;
    for (int d = 0; d < p->dims; d++)
        if (!stni_cudnn_pads_agree(p, d))
            graph->status = STN_ERR_UNSUPPORTED;
    const cudnnBackendDescriptor_t x = make_image(graph, p, STNI_CUDNN_X, p->c, p->in);
    const cudnnBackendDescriptor_t y = make_image(graph, p, STNI_CUDNN_Y, p->o, p->out);
    const cudnnBackendDescriptor_t weight = make_weight(graph, p), convolution = make_convolution(graph, p);
    const cudnnBackendDescriptor_t operation = stni_cudnn_part(graph, operations[p->kind].descriptor);
    stni_cudnn_set_part(graph, operation, operations[p->kind].x, x);
    stni_cudnn_set_part(graph, operation, operations[p->kind].weight, weight);
    stni_cudnn_set_part(graph, operation, operations[p->kind].y, y);
    stni_cudnn_set_part(graph, operation, operations[p->kind].convolution, convolution);
    set_factor(graph, p, operation, operations[p->kind].alpha, 1);
    set_factor(graph, p, operation, operations[p->kind].beta, (double)conv->adds);
    stni_cudnn_add_operation(graph, operation);
}
