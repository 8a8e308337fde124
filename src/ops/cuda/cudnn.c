/* A context's cuDNN: its handle, a description of its device, plans by problem. */
#include "ops/cuda/cudnn_graph.h"

#include "core/base/status.h"
#include "core/device/cuda/library.h"

#include <cuda_runtime_api.h>

#include <math.h>
#include <string.h>

struct library {
    struct stni_cuda_opened opened;
    struct stni_cudnn_functions call;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device;
};

struct plan {
    struct stni_cuda_plan head;
    struct stni_cudnn_problem problem;
    struct stni_cudnn_plan made;
};

_Static_assert(offsetof(struct plan, problem) == sizeof(struct stni_cuda_plan), "the problem follows the plan's head");

static const struct library *library_of(const struct plan *plan)
{
    return plan->head.state;
}

static void plan_destroy(struct stni_cuda_plan *head)
{
    struct plan *plan = (struct plan *)head;
    stni_cudnn_plan_destroy(&library_of(plan)->call, &plan->made);
}

/* The device that is current, which is the queue's. */
static stn_status describe_device(struct library *library)
{
    cudnnBackendDescriptor_t device = NULL;
    STNI_TRY(stni_cudnn_status_of(library->call.create(&library->handle)));
    STNI_TRY(stni_cudnn_status_of(library->call.descriptor_create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device)));
    stn_status status = stni_cudnn_status_of(
        library->call.set(device, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &library->handle));
    if (status == STN_OK)
        status = stni_cudnn_status_of(library->call.finalize(device));
    if (status == STN_OK)
        library->device = device;
    else
        library->call.descriptor_destroy(device);
    return status;
}

static int open_library(void *state)
{
    struct library *library = state;
    return stni_cudnn_load(&library->call) && describe_device(library) == STN_OK;
}

static void close_library(void *state)
{
    struct library *library = state;
    if (library->device)
        library->call.descriptor_destroy(library->device);
    if (library->handle)
        library->call.destroy(library->handle);
}

static stn_status make(struct stni_cuda_plan *head)
{
    struct plan *plan = (struct plan *)head;
    const struct library *library = library_of(plan);
    return stni_cudnn_plan_make(&library->call, library->device, &plan->problem, &plan->made);
}

static const struct stni_cuda_planner planner = {
    .library = STNI_CUDA_CUDNN,
    .name = "cudnn",
    .state_bytes = sizeof(struct library),
    .plan_bytes = sizeof(struct plan),
    .problem_bytes = sizeof(struct stni_cudnn_problem),
    .open = open_library,
    .close = close_library,
    .make = make,
    .destroy = plan_destroy,
};

static stn_status find(stn_queue *queue, const struct stni_cudnn_problem *problem, struct plan **out)
{
    struct stni_cuda_plan *found = NULL;
    STNI_TRY(stni_cuda_plan_of(queue, &planner, problem, &found));
    *out = (struct plan *)found;
    return STN_OK;
}

/* Of which everything else is zero. */
static struct stni_cudnn_problem problem_of(int64_t kind)
{
    struct stni_cudnn_problem problem;
    memset(&problem, 0, sizeof problem);
    problem.kind = kind;
    return problem;
}

static struct stni_cudnn_problem conv_problem(const struct stni_cudnn_conv *conv)
{
    struct stni_cudnn_problem problem = problem_of(STNI_CUDNN_CONV);
    problem.of.conv = *conv;
    return problem;
}

static struct stni_cudnn_problem attention_problem(const struct stni_cudnn_attention *attention)
{
    struct stni_cudnn_problem problem = problem_of(STNI_CUDNN_ATTENTION);
    problem.of.attention = *attention;
    return problem;
}

static stn_status workspace(stn_queue *queue, const struct stni_cudnn_problem *problem, size_t *bytes)
{
    struct plan *plan = NULL;
    STNI_TRY(find(queue, problem, &plan));
    *bytes = plan->made.workspace;
    return STN_OK;
}

/* What a plan is run on: n tensors and numbers. */
struct given {
    int n;
    int64_t name[STNI_CUDNN_FIRST_VIRTUAL];
    void *data[STNI_CUDNN_FIRST_VIRTUAL];
    void *workspace;
};

static void give(struct given *to, int64_t name, void *data)
{
    to->name[to->n] = name;
    to->data[to->n++] = data;
}

static stn_status fill_pack(const struct stni_cudnn_functions *call, cudnnBackendDescriptor_t pack,
                            const struct given *given)
{
    STNI_TRY(stni_cudnn_status_of(
        call->set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, given->n, given->name)));
    STNI_TRY(stni_cudnn_status_of(
        call->set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, given->n, given->data)));
    STNI_TRY(stni_cudnn_status_of(
        call->set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &given->workspace)));
    return stni_cudnn_status_of(call->finalize(pack));
}

static stn_status run(stn_queue *queue, const struct stni_cudnn_problem *problem, const struct given *given)
{
    struct plan *plan = NULL;
    cudnnBackendDescriptor_t pack = NULL;
    STNI_TRY(find(queue, problem, &plan));
    if (stni_cuda_host()->queue_without(queue, "cudnn", STN_LIBRARY_RUN) ||
        (plan->made.workspace > 0 && !given->workspace))
        return STN_ERR_UNSUPPORTED;
    const struct library *library = library_of(plan);
    const struct stni_cudnn_functions *call = &library->call;
    STNI_TRY(stni_cudnn_status_of(call->descriptor_create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack)));
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    stn_status status = fill_pack(call, pack, given);
    if (status == STN_OK)
        status = stni_cudnn_status_of(call->set_stream(library->handle, stni_cuda_stream(queue)));
    if (status == STN_OK)
        status = stni_cudnn_status_of(call->execute(library->handle, plan->made.plan, pack));
    stni_cuda_permit_in_capture(mode);
    call->descriptor_destroy(pack);
    if (status != STN_OK)
        cudaGetLastError(); /* kept, it would fail the launch of our own kernel */
    return status;
}

stn_status stni_cudnn_conv_workspace(stn_queue *queue, const struct stni_cudnn_conv *conv, size_t *bytes)
{
    const struct stni_cudnn_problem problem = conv_problem(conv);
    return workspace(queue, &problem, bytes);
}

stn_status stni_cudnn_attention_workspace(stn_queue *queue, const struct stni_cudnn_attention *attention, size_t *bytes)
{
    const struct stni_cudnn_problem problem = attention_problem(attention);
    return workspace(queue, &problem, bytes);
}

stn_status stni_cudnn_conv_run(stn_queue *queue, const struct stni_cudnn_conv *conv, void *x, void *weight, void *y,
                               void *workspace)
{
    const struct stni_cudnn_problem problem = conv_problem(conv);
    struct given given = {.workspace = workspace};
    give(&given, STNI_CUDNN_X, x);
    give(&given, STNI_CUDNN_WEIGHT, weight);
    give(&given, STNI_CUDNN_Y, y);
    return run(queue, &problem, &given);
}

/* Numbers are read while the plan is put on the stream. */
stn_status stni_cudnn_attention_run(stn_queue *queue, const struct stni_cudnn_attention *attention, float scale,
                                    void *const *data, void *workspace)
{
    const struct stni_cudnn_problem problem = attention_problem(attention);
    struct given given = {.workspace = workspace};
    float one = 1, nothing = -INFINITY;
    int32_t keys = (int32_t)attention->keys, rows = (int32_t)attention->rows;
    for (int k = 0; k < STNI_CUDNN_ATTENTION_OPERANDS; k++)
        if (data[k])
            give(&given, STNI_CUDNN_FIRST_OPERAND + k, data[k]);
    give(&given, STNI_CUDNN_SCALE, &scale);
    if (attention->is_gradient)
        give(&given, STNI_CUDNN_ONE, &one);
    if (attention->causal)
        give(&given, STNI_CUDNN_NOTHING, &nothing);
    if (attention->causal && attention->is_last) {
        give(&given, STNI_CUDNN_KEYS, &keys);
        give(&given, STNI_CUDNN_ROWS, &rows);
    }
    return run(queue, &problem, &given);
}
