/* A context's cuDNN: its handle, a description of its device, plans by problem. */
#include "ops/cuda/cudnn_plan.h"

#include "core/base/status.h"
#include "core/device/cuda/library.h"

#include <cuda_runtime_api.h>

#include <stdlib.h>

struct library {
    struct stni_cudnn_functions call;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device; /* NULL: there is no library, which is remembered */
    struct stni_cuda_plans plans;
};

struct plan {
    struct stni_cuda_plan head;
    struct stni_cudnn_conv conv;
    struct library *library;
    struct stni_cudnn_plan made; /* without a plan: refused */
};

_Static_assert(offsetof(struct plan, conv) == sizeof(struct stni_cuda_plan), "the problem follows the plan's head");

/* Whatever it fails for, it refuses. */
static stn_status status_of(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? STN_OK : STN_ERR_UNSUPPORTED;
}

static void plan_destroy(struct stni_cuda_plan *head)
{
    struct plan *plan = (struct plan *)head;
    stni_cudnn_plan_destroy(&plan->library->call, &plan->made);
    free(plan);
}

static void destroy(void *state)
{
    struct library *library = state;
    stni_cuda_plans_clear(&library->plans, plan_destroy);
    if (library->device)
        library->call.descriptor_destroy(library->device);
    if (library->handle)
        library->call.destroy(library->handle);
    free(library);
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

/* The context's, made at first use; NULL where it does without. */
static struct library *library_of(stn_queue *queue)
{
    if (stni_cuda_host()->queue_without(queue, "cudnn", STN_LIBRARY_OPEN))
        return NULL;
    struct stni_cuda_kept *kept = stni_cuda_kept(queue, STNI_CUDA_CUDNN);
    struct library *library = kept->state;
    if (!library) {
        library = calloc(1, sizeof *library);
        if (!library)
            return NULL;
        if (stni_cudnn_load(&library->call))
            describe_device(library);
        kept->state = library;
        kept->destroy = destroy;
    }
    return library->device ? library : NULL;
}

/* Room for one more plan: a table that is full is emptied, once nothing runs that its plans have launched. */
static stn_status make_room(stn_queue *queue, struct library *library)
{
    if (library->plans.n < STNI_CUDA_MOST_PLANS)
        return STN_OK;
    if (cudaStreamSynchronize(stni_cuda_stream(queue)) != cudaSuccess)
        return STN_ERR_UNSUPPORTED;
    stni_cuda_plans_clear(&library->plans, plan_destroy);
    return STN_OK;
}

/* Finds or makes a plan; what was refused is remembered too. */
static stn_status find(stn_queue *queue, const struct stni_cudnn_conv *conv, struct plan **out)
{
    struct library *library = library_of(queue);
    if (!library)
        return STN_ERR_UNSUPPORTED;
    struct plan *plan = (struct plan *)stni_cuda_plan_find(&library->plans, conv, sizeof *conv);
    if (!plan) {
        STNI_TRY(make_room(queue, library));
        plan = calloc(1, sizeof *plan);
        if (!plan)
            return STN_ERR_UNSUPPORTED;
        plan->conv = *conv;
        plan->library = library;
        if (!stni_cuda_host()->queue_without(queue, "cudnn", STN_LIBRARY_QUESTION))
            stni_cudnn_plan_make(&library->call, library->device, conv, &plan->made);
        stni_cuda_plan_add(&library->plans, &plan->head, sizeof *conv);
    }
    *out = plan;
    return plan->made.plan ? STN_OK : STN_ERR_UNSUPPORTED;
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
    const struct stni_cudnn_functions *call = &plan->library->call;
    STNI_TRY(status_of(call->descriptor_create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack)));
    stn_status status = fill_pack(call, pack, x, weight, y, workspace);
    if (status == STN_OK)
        status = status_of(call->set_stream(plan->library->handle, stni_cuda_stream(queue)));
    if (status == STN_OK)
        status = status_of(call->execute(plan->library->handle, plan->made.plan, pack));
    call->descriptor_destroy(pack);
    if (status != STN_OK)
        cudaGetLastError(); /* kept, it would fail the launch of our own kernel */
    return status;
}
