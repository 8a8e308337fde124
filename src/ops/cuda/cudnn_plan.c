/* A convolution as a graph of one operation, for which cuDNN proposes engines, its best first: the first whose notes
 * are those of the library's numbers, and that can be built, is the plan's. A problem of one windowed dim has a
 * second one of one element. */
#include "ops/cuda/cudnn_plan.h"

#include "core/base/status.h"
#include "core/device/cuda/library.h"

enum { SPATIAL = 3, NDIM = SPATIAL + 2, MOST_PROPOSALS = 128, MOST_NOTES = 16 };

#define TEXT_OF(number) #number
#define FILE_OF(major) "libcudnn.so." TEXT_OF(major)

int stni_cudnn_load(struct stni_cudnn_functions *call)
{
    static const char *const files[] = {FILE_OF(CUDNN_MAJOR), "libcudnn.so", NULL};
    const struct stni_cuda_symbol symbols[] = {
        {"cudnnCreate", &call->create},
        {"cudnnDestroy", &call->destroy},
        {"cudnnSetStream", &call->set_stream},
        {"cudnnBackendCreateDescriptor", &call->descriptor_create},
        {"cudnnBackendDestroyDescriptor", &call->descriptor_destroy},
        {"cudnnBackendSetAttribute", &call->set},
        {"cudnnBackendGetAttribute", &call->get},
        {"cudnnBackendFinalize", &call->finalize},
        {"cudnnBackendExecute", &call->execute},
    };
    return stni_cuda_load(files, symbols, sizeof symbols / sizeof *symbols);
}

/* What a plan is made of. */
enum { X, WEIGHT, Y, CONVOLUTION, OPERATION, GRAPH, HEURISTIC, CONFIG };

struct maker {
    const struct stni_cudnn_functions *call;
    const struct stni_cudnn_conv *conv;
    cudnnBackendDescriptor_t device, *part; /* part: the plan's */
};

static stn_status status_of(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? STN_OK : STN_ERR_UNSUPPORTED;
}

static stn_status set(const struct maker *m, cudnnBackendDescriptor_t part, int name, cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
    return status_of(m->call->set(part, (cudnnBackendAttributeName_t)name, type, n, value));
}

static stn_status set_part(const struct maker *m, cudnnBackendDescriptor_t part, int name, cudnnBackendDescriptor_t value)
{
    return set(m, part, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static cudnnDataType_t type_of(int32_t dtype)
{
    static const cudnnDataType_t types[] = {[STN_DTYPE_F64] = CUDNN_DATA_DOUBLE, [STN_DTYPE_F32] = CUDNN_DATA_FLOAT,
                                            [STN_DTYPE_F16] = CUDNN_DATA_HALF, [STN_DTYPE_BF16] = CUDNN_DATA_BFLOAT16};
    return types[dtype];
}

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

static stn_status make_tensor(struct maker *m, int part, int64_t name, int32_t dtype, const int64_t *shape, const int64_t *strides)
{
    const cudnnDataType_t type = type_of(dtype);
    const int64_t ndim = spatial_dims(&m->conv->problem) + 2, alignment = STNI_CUDNN_ALIGNMENT;
    STNI_TRY(status_of(m->call->descriptor_create(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &m->part[part])));
    STNI_TRY(set(m, m->part[part], CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
    STNI_TRY(set(m, m->part[part], CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, ndim, shape));
    STNI_TRY(set(m, m->part[part], CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, ndim, strides));
    STNI_TRY(set(m, m->part[part], CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &name));
    STNI_TRY(set(m, m->part[part], CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment));
    return status_of(m->call->finalize(m->part[part]));
}

/* x or y: the channels' stride is one, or that of all pixels. */
static stn_status make_image(struct maker *m, int part, int64_t name, int64_t channels, const int64_t *size)
{
    const struct stni_conv_problem *p = &m->conv->problem;
    const int n = spatial_dims(p);
    int64_t shape[NDIM] = {p->n, channels}, strides[NDIM] = {0}, stride = p->row_major ? 1 : channels;
    for (int d = n - 1; d >= 0; d--) {
        shape[2 + d] = along(p, size, d, 1);
        strides[2 + d] = stride;
        stride *= shape[2 + d];
    }
    strides[1] = p->row_major ? stride : 1;
    strides[0] = p->row_major ? stride * channels : stride;
    return make_tensor(m, part, name, p->dtype, shape, strides);
}

/* Rows of channels of y, each (c, kernel…), as they lie. */
static stn_status make_weight(struct maker *m)
{
    const struct stni_conv_problem *p = &m->conv->problem;
    const int n = spatial_dims(p);
    int64_t shape[NDIM] = {p->o, p->c / p->groups}, strides[NDIM], stride = 1;
    for (int d = 0; d < n; d++)
        shape[2 + d] = along(p, p->kernel, d, 1);
    for (int d = n + 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= shape[d];
    }
    return make_tensor(m, WEIGHT, STNI_CUDNN_WEIGHT, p->dtype, shape, strides);
}

/* What sums are computed in. */
static int is_double(const struct maker *m)
{
    return m->conv->problem.dtype == STN_DTYPE_F64;
}

static stn_status make_convolution(struct maker *m)
{
    const struct stni_conv_problem *p = &m->conv->problem;
    const cudnnDataType_t type = is_double(m) ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t n = spatial_dims(p);
    int64_t pad[SPATIAL], stride[SPATIAL], dilation[SPATIAL];
    for (int d = 0; d < n; d++) {
        pad[d] = along(p, p->pad_low, d, 0);
        stride[d] = along(p, p->stride, d, 1);
        dilation[d] = along(p, p->dilation, d, 1);
    }
    cudnnBackendDescriptor_t *part = &m->part[CONVOLUTION];
    STNI_TRY(status_of(m->call->descriptor_create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, part)));
    STNI_TRY(set(m, *part, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
    STNI_TRY(set(m, *part, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    STNI_TRY(set(m, *part, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n));
    STNI_TRY(set(m, *part, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, n, pad));
    STNI_TRY(set(m, *part, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, n, pad));
    STNI_TRY(set(m, *part, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, n, stride));
    STNI_TRY(set(m, *part, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n, dilation));
    return status_of(m->call->finalize(*part));
}

/* The words for an operation of each kind. */
static const struct {
    cudnnBackendDescriptorType_t descriptor;
    int x, weight, y, convolution, alpha, beta;
} operations[] = {
    [STNI_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [STNI_CONV_GRAD_INPUT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [STNI_CONV_GRAD_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

/* A factor of an operation. Engines read it in the type that sums are computed in, whatever type it was set in: the
 * double 1, read as a float, is 0. */
static stn_status set_factor(const struct maker *m, cudnnBackendDescriptor_t part, int name, double value)
{
    const float narrow = (float)value;
    if (is_double(m))
        return set(m, part, name, CUDNN_TYPE_DOUBLE, 1, &value);
    return set(m, part, name, CUDNN_TYPE_FLOAT, 1, &narrow);
}

static stn_status make_graph(struct maker *m)
{
    const int kind = m->conv->problem.kind;
    cudnnBackendDescriptor_t *part = m->part;
    STNI_TRY(status_of(m->call->descriptor_create(operations[kind].descriptor, &part[OPERATION])));
    STNI_TRY(set_part(m, part[OPERATION], operations[kind].x, part[X]));
    STNI_TRY(set_part(m, part[OPERATION], operations[kind].weight, part[WEIGHT]));
    STNI_TRY(set_part(m, part[OPERATION], operations[kind].y, part[Y]));
    STNI_TRY(set_part(m, part[OPERATION], operations[kind].convolution, part[CONVOLUTION]));
    STNI_TRY(set_factor(m, part[OPERATION], operations[kind].alpha, 1));
    STNI_TRY(set_factor(m, part[OPERATION], operations[kind].beta, (double)m->conv->adds));
    STNI_TRY(status_of(m->call->finalize(part[OPERATION])));
    STNI_TRY(status_of(m->call->descriptor_create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &part[GRAPH])));
    STNI_TRY(set_part(m, part[GRAPH], CUDNN_ATTR_OPERATIONGRAPH_OPS, part[OPERATION]));
    return status_of(m->call->finalize(part[GRAPH]));
}

/* Whether an engine keeps to the library's numbers. Tensor cores multiply f32 as TF32, and add up 16-bit floats in
 * f32. */
static int is_strict(const struct maker *m, cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t notes[MOST_NOTES];
    int64_t n = 0;
    uint32_t unwanted = 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS | 1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION |
                        1u << CUDNN_NUMERICAL_NOTE_FFT | 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD |
                        1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 |
                        1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    if (m->conv->problem.dtype == STN_DTYPE_F32 && !m->conv->allow_tf32)
        unwanted |= 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    int strict = m->call->descriptor_create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) == CUDNN_STATUS_SUCCESS &&
                 m->call->get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine) == CUDNN_STATUS_SUCCESS &&
                 m->call->get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MOST_NOTES, &n, notes) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; strict && i < n && i < MOST_NOTES; i++)
        strict = !(unwanted >> notes[i] & 1);
    if (engine)
        m->call->descriptor_destroy(engine);
    return strict;
}

static stn_status build(const struct maker *m, cudnnBackendDescriptor_t config, struct stni_cudnn_plan *out)
{
    cudnnBackendDescriptor_t plan = NULL;
    int64_t bytes = 0, n = 0;
    STNI_TRY(status_of(m->call->descriptor_create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan)));
    stn_status status = set_part(m, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (status == STN_OK)
        status = set_part(m, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, m->device);
    if (status == STN_OK)
        status = status_of(m->call->finalize(plan));
    if (status == STN_OK)
        status = status_of(m->call->get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &bytes));
    if (status != STN_OK) {
        m->call->descriptor_destroy(plan);
        return status;
    }
    out->plan = plan;
    out->workspace = (size_t)bytes;
    return STN_OK;
}

/* Takes the configuration that serves out of the list. */
static stn_status build_first(const struct maker *m, int n, cudnnBackendDescriptor_t *configs, struct stni_cudnn_plan *out)
{
    for (int i = 0; i < n; i++)
        if (is_strict(m, configs[i]) && build(m, configs[i], out) == STN_OK) {
            m->part[CONFIG] = configs[i];
            configs[i] = NULL;
            return STN_OK;
        }
    return STN_ERR_UNSUPPORTED;
}

static stn_status ask(struct maker *m, cudnnBackendHeurMode_t mode)
{
    cudnnBackendDescriptor_t *part = &m->part[HEURISTIC];
    if (*part)
        m->call->descriptor_destroy(*part);
    *part = NULL;
    STNI_TRY(status_of(m->call->descriptor_create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, part)));
    STNI_TRY(set_part(m, *part, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, m->part[GRAPH]));
    STNI_TRY(set(m, *part, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    STNI_TRY(set_part(m, *part, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, m->device));
    return status_of(m->call->finalize(*part));
}

/* The first proposal of a heuristic that serves. */
static stn_status choose(struct maker *m, cudnnBackendHeurMode_t mode, struct stni_cudnn_plan *out)
{
    cudnnBackendDescriptor_t configs[MOST_PROPOSALS] = {NULL};
    stn_status status = ask(m, mode);
    int64_t n = 0;
    for (int i = 0; i < MOST_PROPOSALS && status == STN_OK; i++)
        status = status_of(m->call->descriptor_create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]));
    if (status == STN_OK)
        status = status_of(m->call->get(m->part[HEURISTIC], CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_PROPOSALS, &n,
                                     configs));
    if (status == STN_OK)
        status = build_first(m, (int)n, configs, out);
    for (int i = 0; i < MOST_PROPOSALS; i++)
        if (configs[i])
            m->call->descriptor_destroy(configs[i]);
    return status;
}

static stn_status describe(struct maker *m)
{
    const struct stni_conv_problem *p = &m->conv->problem;
    for (int d = 0; d < p->dims; d++)
        if (!stni_cudnn_pads_agree(p, d))
            return STN_ERR_UNSUPPORTED;
    STNI_TRY(make_image(m, X, STNI_CUDNN_X, p->c, p->in));
    STNI_TRY(make_image(m, Y, STNI_CUDNN_Y, p->o, p->out));
    STNI_TRY(make_weight(m));
    STNI_TRY(make_convolution(m));
    return make_graph(m);
}

/* Whether it is the gradient of an f32 weight, without TF32. Two engines of cuDNN 9.19 serve for it. One of them gives
 * each tile of the weight to one block, which adds up all pixels, so that it takes some 25 ns for each pixel of y on an
 * H200, however few channels there are. For row-major images mode A proposes it first where it is the slower one; mode
 * B, which cuDNN says is better and takes longer to ask, does not. */
static int is_exact_gradient(const struct stni_cudnn_conv *conv)
{
    const struct stni_conv_problem *p = &conv->problem;
    return p->kind == STNI_CONV_GRAD_WEIGHT && p->dtype == STN_DTYPE_F32 && !conv->allow_tf32;
}

stn_status stni_cudnn_plan_make(const struct stni_cudnn_functions *call, cudnnBackendDescriptor_t device, const struct stni_cudnn_conv *conv,
                                struct stni_cudnn_plan *plan)
{
    struct maker m = {.call = call, .conv = conv, .device = device, .part = plan->part};
    STNI_TRY(describe(&m));
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    stn_status status = STN_ERR_UNSUPPORTED;
    for (int i = is_exact_gradient(conv) ? 0 : 1; i < 3 && status != STN_OK; i++)
        status = choose(&m, modes[i], plan);
    return status;
}

void stni_cudnn_plan_destroy(const struct stni_cudnn_functions *call, struct stni_cudnn_plan *plan)
{
    if (plan->plan)
        call->descriptor_destroy(plan->plan);
    for (int i = STNI_CUDNN_PARTS - 1; i >= 0; i--)
        if (plan->part[i])
            call->descriptor_destroy(plan->part[i]);
    *plan = (struct stni_cudnn_plan){0};
}
