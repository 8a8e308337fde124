/* Plans own tables in memory of the device, which cuFFT allocates when it makes them; their scratch is the caller's. */
#include "ops/cuda/cufft.h"

#include "core/base/status.h"
#include "core/device/cuda/library.h"

#include <cuda_runtime_api.h>
#include <cufftXt.h>

#define TEXT_OF(number) #number
#define FILE_OF(major) "libcufft.so." TEXT_OF(major)

struct functions {
    __typeof__(cufftCreate) *create;
    __typeof__(cufftDestroy) *destroy;
    __typeof__(cufftSetAutoAllocation) *set_allocation;
    __typeof__(cufftSetStream) *set_stream;
    __typeof__(cufftSetWorkArea) *set_workspace;
    __typeof__(cufftXtMakePlanMany) *make;
    __typeof__(cufftXtExec) *run;
};

/* A context's. */
struct library {
    struct stni_cuda_opened opened;
    struct functions call;
};

struct plan {
    struct stni_cuda_plan head;
    struct stni_cufft_lines lines;
    int is_made; /* the handle is one */
    cufftHandle handle;
    size_t workspace; /* bytes */
};

_Static_assert(offsetof(struct plan, lines) == sizeof(struct stni_cuda_plan), "the problem follows the plan's head");

/* Whatever it fails for, it refuses. */
static stn_status status_of(cufftResult result)
{
    return result == CUFFT_SUCCESS ? STN_OK : STN_ERR_UNSUPPORTED;
}

static const struct functions *calls_of(const struct plan *plan)
{
    const struct library *library = plan->head.state;
    return &library->call;
}

static int open_library(void *state)
{
    static const char *const files[] = {FILE_OF(CUFFT_VER_MAJOR), "libcufft.so", NULL};
    struct functions *call = &((struct library *)state)->call;
    const struct stni_cuda_symbol symbols[] = {
        {"cufftCreate", &call->create},
        {"cufftDestroy", &call->destroy},
        {"cufftSetAutoAllocation", &call->set_allocation},
        {"cufftSetStream", &call->set_stream},
        {"cufftSetWorkArea", &call->set_workspace},
        {"cufftXtMakePlanMany", &call->make},
        {"cufftXtExec", &call->run},
    };
    return stni_cuda_load(files, symbols, sizeof symbols / sizeof *symbols);
}

static void close_library(void *state)
{
    (void)state; /* it has plans alone */
}

static cudaDataType type_of(const struct stni_cufft_lines *lines, int is_real)
{
    if (lines->real == STN_DTYPE_F64)
        return is_real ? CUDA_R_64F : CUDA_C_64F;
    return is_real ? CUDA_R_32F : CUDA_C_32F;
}

/* cuFFT reads strides where it is told of dims that enclose the lines; with one dim, not how large that is. It takes
 * pointers to what it may change. */
static stn_status make(struct stni_cuda_plan *head)
{
    struct plan *plan = (struct plan *)head;
    const struct stni_cufft_lines *lines = &plan->lines;
    const struct functions *call = calls_of(plan);
    long long n[STNI_CUFFT_MOST_DIMS], in[STNI_CUFFT_MOST_DIMS], out[STNI_CUFFT_MOST_DIMS];
    for (int d = 0; d < STNI_CUFFT_MOST_DIMS; d++) {
        n[d] = lines->n[d];
        in[d] = lines->in.enclosing[d];
        out[d] = lines->out.enclosing[d];
    }
    STNI_TRY(status_of(call->create(&plan->handle)));
    plan->is_made = 1;
    STNI_TRY(status_of(call->set_allocation(plan->handle, 0)));
    return status_of(call->make(plan->handle, (int)lines->dims, n, in, lines->in.step, lines->in.line,
                                type_of(lines, lines->kind == STNI_CUFFT_HALVE), out, lines->out.step, lines->out.line,
                                type_of(lines, lines->kind == STNI_CUFFT_RESTORE), lines->count, &plan->workspace,
                                type_of(lines, 0)));
}

static void plan_destroy(struct stni_cuda_plan *head)
{
    struct plan *plan = (struct plan *)head;
    if (plan->is_made)
        calls_of(plan)->destroy(plan->handle);
}

static const struct stni_cuda_planner planner = {
    .library = STNI_CUDA_CUFFT,
    .name = "cufft",
    .state_bytes = sizeof(struct library),
    .plan_bytes = sizeof(struct plan),
    .problem_bytes = sizeof(struct stni_cufft_lines),
    .open = open_library,
    .close = close_library,
    .make = make,
    .destroy = plan_destroy,
    .allocates = 1,
};

static stn_status find(stn_queue *queue, const struct stni_cufft_lines *lines, struct plan **out)
{
    struct stni_cuda_plan *found = NULL;
    const stn_status status = stni_cuda_plan_of(queue, &planner, lines, &found);
    *out = (struct plan *)found;
    if (status != STN_OK)
        cudaGetLastError(); /* kept, it would fail the launch of our own kernel */
    return status;
}

stn_status stni_cufft_workspace(stn_queue *queue, const struct stni_cufft_lines *lines, size_t *bytes)
{
    struct plan *plan = NULL;
    STNI_TRY(find(queue, lines, &plan));
    *bytes = plan->workspace;
    return STN_OK;
}

stn_status stni_cufft_run(stn_queue *queue, const struct stni_cufft_lines *lines, int backward, void *in, void *out,
                          void *workspace)
{
    struct plan *plan = NULL;
    STNI_TRY(find(queue, lines, &plan));
    if (stni_cuda_host()->queue_without(queue, "cufft", STN_LIBRARY_RUN) || (plan->workspace > 0 && !workspace))
        return STN_ERR_UNSUPPORTED;
    const struct functions *call = calls_of(plan);
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    stn_status status = status_of(call->set_stream(plan->handle, stni_cuda_stream(queue)));
    if (status == STN_OK && plan->workspace > 0)
        status = status_of(call->set_workspace(plan->handle, workspace));
    if (status == STN_OK)
        status = status_of(call->run(plan->handle, in, out, backward ? CUFFT_INVERSE : CUFFT_FORWARD));
    stni_cuda_permit_in_capture(mode);
    if (status != STN_OK)
        cudaGetLastError();
    return status;
}
