/* cuDNN's plans for convolutions, without a GPU: the device is described. Nothing is run; what is asked is whether
 * there are plans, with the limits that the library sets, for the shapes that its convolutions come in: those of the
 * table below, and those to which the conformance cases come on one rank and on two. Skipped where cuDNN is not
 * installed. */
#include "conv_problems.h"
#include "harness.h"

#include "ops/cuda/cudnn_graph.h"

#include <stdio.h>
#include <string.h>

/* What cudnnBackendFinalize wants to know, of a GPU of compute capability `version` / 100. */
#define DESCRIPTION \
    "{\"version\":1,\"schemaVersion\":1,\"cudaDeviceId\":0,\"deviceId\":0,\"deviceName\":\"described\"," \
    "\"deviceVer\":%d,\"ccMajor\":%d,\"ccMinor\":%d," \
    "\"driverVer\":13000,\"runtimeVer\":13000,\"cudaDriverVersion\":13000,\"cudaRuntimeVersion\":13000,\"multiProcessorCount\":132,\"warpSize\":32," \
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,\"maxSharedMemoryPerSM\":%d,\"reservedSharedMemoryPerBlock\":1024," \
    "\"regsPerBlock\":65536,\"maxRegistersPerSM\":65536,\"maxRegistersPerBlock\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024," \
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"pciBusId\":0,\"pciDomainId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1," \
    "\"supportManagedMemory\":1,\"supportMemoryPools\":1,\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800," \
    "\"totalGlobalMem\":85899345920,\"memoryBusWidth\":5120,\"memBusWidth\":5120,\"maxGridSize\":[2147483647,65535,65535]," \
    "\"maxBlockSize\":[1024,1024,64]}"

static struct stni_cudnn_functions call;

static cudnnBackendDescriptor_t describe_device(int version)
{
    char text[2048];
    const int shared = version == 800 ? 166912 : 232448;
    cudnnBackendDescriptor_t device = NULL;
    const int n =
        snprintf(text, sizeof text, DESCRIPTION, version, version / 100, version / 10 % 10, shared, shared + 1024);
    if (!CHECK_I64(call.descriptor_create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device), CUDNN_STATUS_SUCCESS) ||
        !CHECK_I64(call.set(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n + 1, text),
                   CUDNN_STATUS_SUCCESS) ||
        !CHECK_I64(call.finalize(device), CUDNN_STATUS_SUCCESS))
        return NULL;
    return device;
}

/* A cube of `size` elements a side. */
struct shape {
    const char *name;
    int dims;
    int64_t n, c, o, size, kernel, stride, dilation, low, high, groups;
};

static const struct shape shapes[] = {
    {"1-d, 5 taps", 1, 2, 8, 16, 100, 5, 1, 1, 2, 2, 1},
    {"3 x 3, same size", 2, 2, 64, 64, 56, 3, 1, 1, 1, 1, 1},
    {"an edge: padded on one side", 2, 2, 64, 64, 56, 3, 1, 1, 1, 0, 1},
    {"between halos: not padded", 2, 2, 64, 64, 58, 3, 1, 1, 0, 0, 1},
    {"stride 2", 2, 2, 32, 64, 57, 3, 2, 1, 1, 0, 1},
    {"dilation 2", 2, 2, 32, 32, 30, 3, 1, 2, 2, 2, 1},
    {"4 groups", 2, 2, 32, 32, 30, 3, 1, 1, 1, 1, 4},
    {"each channel by itself", 2, 2, 32, 32, 30, 3, 1, 1, 1, 1, 32},
    {"4 x 4, odd channels", 2, 1, 3, 5, 17, 4, 1, 1, 1, 2, 1},
    {"1 x 1", 2, 3, 7, 9, 11, 1, 1, 1, 0, 0, 1},
    {"3-d", 3, 1, 16, 16, 20, 3, 1, 1, 1, 1, 1},
    {"3-d, an edge", 3, 1, 16, 16, 20, 3, 1, 1, 1, 0, 1},
    {"3-d, 2 groups, stride 2", 3, 1, 8, 8, 15, 3, 2, 1, 1, 1, 2},
    {"3-d, one channel", 3, 1, 1, 3, 9, 3, 1, 1, 0, 0, 1},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static struct stni_cudnn_conv conv_of(const struct shape *s, int kind, stn_dtype dtype, int adds)
{
    struct stni_cudnn_conv conv;
    memset(&conv, 0, sizeof conv);
    struct stni_conv_problem *p = &conv.problem;
    p->kind = kind, p->dims = s->dims, p->dtype = (int32_t)dtype, p->weight_dtype = (int32_t)dtype;
    p->n = s->n, p->groups = s->groups, p->c = s->c, p->o = s->o;
    for (int d = 0; d < s->dims; d++) {
        p->in[d] = s->size, p->kernel[d] = s->kernel, p->stride[d] = s->stride, p->dilation[d] = s->dilation,
        p->pad_low[d] = s->low;
        const int64_t reach = (s->kernel - 1) * s->dilation + 1;
        p->out[d] = (s->size + s->low + s->high - reach) / s->stride + 1;
        p->pad_high[d] = (p->out[d] - 1) * s->stride + reach - s->size - s->low;
    }
    conv.adds = adds;
    return conv;
}

static stn_status make_plan(cudnnBackendDescriptor_t device, const struct stni_cudnn_conv *conv,
                            struct stni_cudnn_plan *plan)
{
    struct stni_cudnn_problem problem;
    memset(&problem, 0, sizeof problem);
    problem.kind = STNI_CUDNN_CONV;
    problem.of.conv = *conv;
    return stni_cudnn_plan_make(&call, device, &problem, plan);
}

/* 1 where there is a plan, which is thrown away. */
static int has_plan(cudnnBackendDescriptor_t device, const struct stni_cudnn_conv *conv)
{
    struct stni_cudnn_plan plan = {0};
    const int has = make_plan(device, conv, &plan) == STN_OK && plan.plan != NULL;
    stni_cudnn_plan_destroy(&call, &plan);
    return has;
}

static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
static const char *const dtype_names[] = {"f32", "f64", "bf16", "f16"};
static const char *const kind_names[] = {"forward", "gradient of x", "gradient of the weight"};

static int is_16_bits(const struct stni_conv_problem *p)
{
    return p->dtype == STN_DTYPE_BF16 || p->dtype == STN_DTYPE_F16;
}

/* As conv_cuda.cu asks for it: where pads differ in its frame, images of f32 and f64 row-major. */
static struct stni_cudnn_conv as_asked_for(const struct stni_cudnn_conv *given)
{
    struct stni_cudnn_conv conv = *given;
    stni_cudnn_frame(&conv.problem);
    conv.problem.row_major = !is_16_bits(&conv.problem);
    return conv;
}

/* Images of f32 that may be rounded to TF32 are channels-last. */
static int has_plans(cudnnBackendDescriptor_t device, const struct stni_cudnn_conv *given)
{
    struct stni_cudnn_conv conv = as_asked_for(given);
    if (!has_plan(device, &conv))
        return 0;
    conv.problem.row_major = 0;
    conv.allow_tf32 = 1;
    return conv.problem.dtype != STN_DTYPE_F32 || has_plan(device, &conv);
}

static void check_shape(cudnnBackendDescriptor_t device, const struct shape *s)
{
    for (int d = 0; d < 4; d++)
        for (int kind = 0; kind < 3; kind++)
            for (int adds = 0; adds < (kind == STNI_CONV_GRAD_WEIGHT ? 1 : 2); adds++) {
                const struct stni_cudnn_conv conv = conv_of(s, kind, dtypes[d], adds);
                if (!CHECK(has_plans(device, &conv)))
                    fprintf(stderr, "  %s, %s, %s%s\n", s->name, dtype_names[d], kind_names[kind],
                            adds ? ", added" : "");
            }
}

static void describe_problem(const struct stni_cudnn_conv *conv)
{
    const struct stni_conv_problem *p = &conv->problem;
    fprintf(stderr, "  %s, dtype %d, %lld samples, groups %lld, channels %lld to %lld%s\n",
            kind_names[p->kind], (int)p->dtype, (long long)p->n, (long long)p->groups, (long long)p->c, (long long)p->o,
            conv->adds ? ", added" : "");
    for (int d = 0; d < p->dims; d++)
        fprintf(stderr, "    %lld to %lld, kernel %lld, stride %lld, dilation %lld, padded by %lld and %lld\n",
                (long long)p->in[d], (long long)p->out[d], (long long)p->kernel[d], (long long)p->stride[d],
                (long long)p->dilation[d], (long long)p->pad_low[d], (long long)p->pad_high[d]);
}

static struct conv_problems problems; /* of the conformance cases, once one was asked for */

static void find_problems(void)
{
    if (problems.n > 0)
        return;
    for (int d = 0; d < 4; d++)
        for (int ranks = 1; ranks <= 2; ranks++)
            conv_problems_add(&problems, CASES_FOLDER, dtypes[d], ranks);
    CHECK(problems.n > 4 * problems.cases);
    printf("%d problems of %d conformance cases\n", problems.n, problems.cases);
}

static void check_problem(cudnnBackendDescriptor_t device, const struct stni_cudnn_conv *given)
{
    if (!CHECK(has_plans(device, given)))
        describe_problem(given);
}

static void check_device(int version)
{
    cudnnBackendDescriptor_t device = describe_device(version);
    find_problems();
    for (int i = 0; device && i < N_SHAPES; i++)
        check_shape(device, &shapes[i]);
    for (int i = 0; device && i < problems.n; i++)
        check_problem(device, &problems.list[i]);
    if (device)
        call.descriptor_destroy(device);
}

/* 1 where a plan is one of tensor cores, which multiply f32 as TF32; -1: no plan. */
static int uses_tensor_cores(cudnnBackendDescriptor_t device, struct stni_cudnn_conv conv, int allow_tf32)
{
    struct stni_cudnn_plan plan = {0};
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t notes[16];
    int64_t n = 0;
    int uses = 0;
    conv.allow_tf32 = allow_tf32;
    if (make_plan(device, &conv, &plan) == STN_OK) {
        cudnnBackendDescriptor_t config = plan.config;
        CHECK_I64(call.descriptor_create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine), CUDNN_STATUS_SUCCESS);
        CHECK_I64(call.get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine), 0);
        CHECK_I64(call.get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 16, &n, notes), 0);
        for (int64_t i = 0; i < n; i++)
            uses |= notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        call.descriptor_destroy(engine);
    }
    const int is_made = plan.plan != NULL;
    stni_cudnn_plan_destroy(&call, &plan);
    return is_made ? uses : -1;
}

/* Attention of `heads` heads with dense operands. */
static struct stni_cudnn_problem attention_of(stn_dtype dtype, int64_t heads, int64_t key_heads, int64_t width)
{
    struct stni_cudnn_problem problem;
    memset(&problem, 0, sizeof problem);
    problem.kind = STNI_CUDNN_ATTENTION;
    struct stni_cudnn_attention *p = &problem.of.attention;
    p->dtype = dtype;
    p->batch = 2, p->heads = heads, p->key_heads = key_heads, p->rows = 300, p->keys = 517;
    p->width = p->value_width = width;
    for (int k = 0; k < STNI_CUDNN_MEANS; k++) {
        p->stride[k][2] = k == STNI_CUDNN_LSE ? 1 : width;
        p->stride[k][1] = 520 * p->stride[k][2];
        p->stride[k][0] = heads * p->stride[k][1];
    }
    return problem;
}

/* To choose an engine, and to compile its kernel, cuDNN wants a driver: what it says of the operations is asked
 * here. */
static void graphs_of_attention_are_cudnns(void)
{
    enum { EACH = 2 * 2 * 2 * 2 };
    for (int i = 0; i < 2 * EACH; i++) {
        const int is_gradient = i < EACH;
        struct stni_cudnn_problem problem =
            attention_of(i % 2 ? STN_DTYPE_F16 : STN_DTYPE_BF16, 6, is_gradient ? 6 : 2, i / 2 % 2 ? 64 : 72);
        problem.of.attention.is_gradient = is_gradient;
        problem.of.attention.causal = i / 4 % 2;
        problem.of.attention.is_last = i / 8 % 2;
        struct stni_cudnn_plan plan = {0};
        struct stni_cudnn_graph graph = {.call = &call, .plan = &plan};
        stni_cudnn_describe(&graph, &problem);
        if (!CHECK_STATUS(graph.status, STN_OK))
            fprintf(stderr, "  attention %d\n", i);
        stni_cudnn_plan_destroy(&call, &plan);
    }
}

static void there_are_plans_for_capability_8_0(void)
{
    check_device(800);
}

static void there_are_plans_for_capability_9_0(void)
{
    check_device(900);
}

static void there_are_plans_for_capability_10_0(void)
{
    check_device(1000);
}

static void tensor_cores_sum_gradients_of_16_bit_weights(void)
{
    static const int versions[] = {800, 900, 1000};
    for (int v = 0; v < 3; v++) {
        cudnnBackendDescriptor_t device = describe_device(versions[v]);
        int fast = 0;
        for (int i = 0; device && i < N_SHAPES; i++) {
            const struct stni_cudnn_conv conv = conv_of(&shapes[i], STNI_CONV_GRAD_WEIGHT, STN_DTYPE_BF16, 0);
            fast += uses_tensor_cores(device, as_asked_for(&conv), 1) == 1;
        }
        printf("capability %d: %d of %d\n", versions[v], fast, (int)N_SHAPES);
        CHECK(2 * fast > N_SHAPES); /* which, cuDNN decides */
        call.descriptor_destroy(device);
    }
}

static void tensor_cores_multiply_f32_only_where_tf32_is_allowed(void)
{
    static const int versions[] = {800, 900, 1000};
    for (int v = 0; v < 3; v++) {
        cudnnBackendDescriptor_t device = describe_device(versions[v]);
        int fast = 0;
        for (int i = 0; device && i < N_SHAPES; i++)
            for (int kind = 0; kind < 3; kind++) {
                struct stni_cudnn_conv conv = conv_of(&shapes[i], kind, STN_DTYPE_F32, 0);
                stni_cudnn_frame(&conv.problem);
                CHECK_I64(uses_tensor_cores(device, conv, 0), 0);
                const int uses = uses_tensor_cores(device, conv, 1);
                CHECK(uses >= 0);
                fast += uses > 0;
            }
        CHECK(fast > N_SHAPES); /* of three times as many; which, cuDNN decides */
        call.descriptor_destroy(device);
    }
}

static size_t version_9_2(void)
{
    return 90200;
}

/* One image of 2^31 elements and some, and weights and results of few. */
static void images_of_2_31_elements_want_version_9_3(void)
{
    const struct shape fits = {"almost 2^31", 2, 1, 64, 8, 5792, 3, 2, 1, 1, 1, 1},
                       large = {"above 2^31", 2, 1, 64, 8, 5793, 3, 2, 1, 1, 1, 1};
    struct stni_cudnn_functions all = call;
    cudnnBackendDescriptor_t device = describe_device(900);
    for (int kind = 0; device && kind < 3; kind++)
        for (int old = 0; old < 2; old++) {
            const struct stni_cudnn_conv small = conv_of(&fits, kind, STN_DTYPE_F32, 0),
                                         big = conv_of(&large, kind, STN_DTYPE_F32, 0);
            if (old)
                call.version = version_9_2;
            CHECK_I64(has_plans(device, &small), 1);
            CHECK_I64(has_plans(device, &big), !old && call.version() >= 90300);
            call = all;
        }
    if (device)
        call.descriptor_destroy(device);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"graphs_of_attention_are_cudnns", graphs_of_attention_are_cudnns},
        {"there_are_plans_for_capability_8_0", there_are_plans_for_capability_8_0},
        {"there_are_plans_for_capability_9_0", there_are_plans_for_capability_9_0},
        {"there_are_plans_for_capability_10_0", there_are_plans_for_capability_10_0},
        {"tensor_cores_sum_gradients_of_16_bit_weights", tensor_cores_sum_gradients_of_16_bit_weights},
        {"tensor_cores_multiply_f32_only_where_tf32_is_allowed", tensor_cores_multiply_f32_only_where_tf32_is_allowed},
        {"images_of_2_31_elements_want_version_9_3", images_of_2_31_elements_want_version_9_3},
    };
    if (!stni_cudnn_load(&call)) {
        fprintf(stderr, "cuDNN is not installed\n");
        return 77;
    }
    return TEST_MAIN(argc, argv, cases);
}
