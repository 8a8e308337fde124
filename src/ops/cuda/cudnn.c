/* A context's cuDNN: its handle, a description of its device, plans by problem. */
#include "ops/cuda/cudnn_plan.h"

#include "core/base/status.h"
#include "core/device/cuda/library.h"

#include <cuda_runtime_api.h>

struct library {
    struct stni_cuda_opened opened;
    struct stni_cudnn_functions call;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device;
};

struct plan {
    struct stni_cuda_plan head;
    struct stni_cudnn_conv conv;
    struct stni_cudnn_plan made;
};

_Static_assert(offsetof(struct plan, conv) == sizeof(struct stni_cuda_plan), "the problem follows the plan's head");

/* Whatever it fails for, it refuses. */
static stn_status status_of(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? STN_OK : STN_ERR_UNSUPPORTED;
}

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
    STNI_TRY(status_of(library->call.create(&library->handle)));
    STNI_TRY(status_of(library->call.descriptor_create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device)));
    stn_status status = status_of(library->call.set(device, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &library->handle));
    if (status == STN_OK)
        status = status_of(library->call.finalize(device));
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
    return stni_cudnn_plan_make(&library->call, library->device, &plan->conv, &plan->made);
}

static const struct stni_cuda_planner planner = {
    .library = STNI_CUDA_CUDNN,
    .name = "cudnn",
    .state_bytes = sizeof(struct library),
    .plan_bytes = sizeof(struct plan),
    .problem_bytes = sizeof(struct stni_cudnn_conv),
    .open = open_library,
    .close = close_library,
    .make = make,
    .destroy = plan_destroy,
};

static stn_status find(stn_queue *queue, const struct stni_cudnn_conv *conv, struct plan **out)
{
    struct stni_cuda_plan *found = NULL;
    STNI_TRY(stni_cuda_plan_of(queue, &planner, conv, &found));
    *out = (struct plan *)found;
    return STN_OK;
}

stn_status stni_cudnn_workspace(stn_queue *queue, const struct stni_cudnn_conv *conv, size_t *bytes)
{
    struct plan *plan = NULL;
    STNI_TRY(find(queue, conv, &plan));
    *bytes = plan->made.workspace;
    return STN_OK;
}

/* What a plan is run on. */
static stn_status fill_pack(const struct stni_cudnn_functions *call, cudnnBackendDescriptor_t pack, void *x, void *weight, void *y, void *workspace)
{
    const int64_t names[] = {STNI_CUDNN_X, STNI_CUDNN_WEIGHT, STNI_CUDNN_Y};
    void *const data[] = {x, weight, y};
    STNI_TRY(status_of(call->set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, names)));
    STNI_TRY(status_of(call->set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, data)));
    STNI_TRY(status_of(call->set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace)));
    return status_of(call->finalize(pack));
}

stn_status stni_cudnn_run(stn_queue *queue, const struct stni_cudnn_conv *conv, void *x, void *weight, void *y, void *workspace)
{
    struct plan *plan = NULL;
    cudnnBackendDescriptor_t pack = NULL;
    STNI_TRY(find(queue, conv, &plan));
    if (stni_cuda_host()->queue_without(queue, "cudnn", STN_LIBRARY_RUN))
        return STN_ERR_UNSUPPORTED;
    const struct stni_cudnn_functions *call = &library_of(plan)->call;
    STNI_TRY(status_of(call->descriptor_create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack)));
    stn_status status = fill_pack(call, pack, x, weight, y, workspace);
    if (status == STN_OK)
        status = status_of(call->set_stream(library_of(plan)->handle, stni_cuda_stream(queue)));
    if (status == STN_OK)
        status = status_of(call->execute(library_of(plan)->handle, plan->made.plan, pack));
    call->descriptor_destroy(pack);
    if (status != STN_OK)
        cudaGetLastError(); /* kept, it would fail the launch of our own kernel */
    return status;
}
