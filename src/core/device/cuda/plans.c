/* Foreign libraries as contexts have them: opened at first use, with plans by problem. */
#include "core/device/cuda/device.h"

#include "core/base/fnv.h"
#include "core/base/status.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const void *problem, size_t bytes)
{
    const uint64_t hash = stni_fnv(STNI_FNV_EMPTY, problem, bytes);
    return hash ^ hash >> 32;
}

static struct stni_cuda_plan *find(const struct stni_cuda_plans *plans, const void *problem, size_t bytes)
{
    const uint64_t hash = hash_of(problem, bytes);
    struct stni_cuda_plan *plan = plans->list[hash % STNI_CUDA_PLAN_LISTS];
    while (plan && (plan->hash != hash || memcmp(plan + 1, problem, bytes) != 0))
        plan = plan->next;
    return plan;
}

static void add(struct stni_cuda_plans *plans, struct stni_cuda_plan *plan, size_t problem_bytes)
{
    plan->hash = hash_of(plan + 1, problem_bytes);
    struct stni_cuda_plan **list = &plans->list[plan->hash % STNI_CUDA_PLAN_LISTS];
    plan->next = *list;
    *list = plan;
    plans->n++;
}

static void clear(struct stni_cuda_opened *opened, int recorded_too)
{
    for (int i = 0; i < STNI_CUDA_PLAN_LISTS; i++)
        for (struct stni_cuda_plan **link = &opened->plans.list[i], *plan; (plan = *link) != NULL;) {
            if (plan->recorded && !recorded_too) {
                link = &plan->next;
                continue;
            }
            *link = plan->next;
            opened->planner->destroy(plan);
            free(plan);
        }
    opened->plans.n = 0;
}

static void destroy(struct stni_cuda_opened *opened)
{
    clear(opened, 1);
    opened->planner->close(opened);
    free(opened);
}

/* The context may be recording a step: what is opened and made then is no part of it. */

/* Tables that a library copied to the device may still be on their way, on the stream that no queue waits for. */
static int tables_arrive(void)
{
    return cudaStreamSynchronize(cudaStreamLegacy) == cudaSuccess;
}

static int open_now(struct stni_cuda_opened *opened)
{
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const int is_open = opened->planner->open(opened);
    stni_cuda_permit_in_capture(mode);
    return is_open;
}

static stn_status make_now(struct stni_cuda_opened *opened, struct stni_cuda_plan *plan)
{
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const stn_status status = opened->planner->make(plan);
    const int is_ready = status != STN_OK || !opened->planner->allocates || tables_arrive();
    stni_cuda_permit_in_capture(mode);
    return is_ready ? status : STN_ERR_UNSUPPORTED;
}

/* The context's, NULL where it does without. That a library is not there is remembered. */
static struct stni_cuda_opened *open_library(stn_queue *queue, const struct stni_cuda_planner *planner)
{
    if (stni_cuda_host()->queue_without(queue, planner->name, STN_LIBRARY_OPEN))
        return NULL;
    struct stni_cuda_opened **kept = stni_cuda_kept(queue, planner->library);
    if (!*kept) {
        *kept = calloc(1, planner->state_bytes);
        if (!*kept)
            return NULL;
        (*kept)->planner = planner;
        (*kept)->destroy = destroy;
        (*kept)->is_open = open_now(*kept);
    }
    return (*kept)->is_open ? *kept : NULL;
}

static int records(stn_queue *queue)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(stni_cuda_stream(queue), &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
}

static void note_recorded(stn_queue *queue, struct stni_cuda_opened *opened, struct stni_cuda_plan *plan)
{
    if (plan->recorded || plan->refused || !records(queue))
        return;
    plan->recorded = 1;
    opened->plans.n--;
}

/* Room for one more plan: a table that is full is emptied, once nothing runs that its plans have launched. */
static stn_status make_room(stn_queue *queue, struct stni_cuda_opened *opened)
{
    const int is_full = opened->plans.n >= STNI_CUDA_MOST_PLANS;
    if ((is_full || opened->planner->allocates) && records(queue))
        return STN_ERR_UNSUPPORTED;
    if (!is_full)
        return STN_OK;
    if (cudaStreamSynchronize(stni_cuda_stream(queue)) != cudaSuccess)
        return STN_ERR_UNSUPPORTED;
    clear(opened, 0);
    return STN_OK;
}

static stn_status plan_of(stn_queue *queue, const struct stni_cuda_planner *planner, const void *problem,
                          struct stni_cuda_plan **out)
{
    struct stni_cuda_opened *opened = open_library(queue, planner);
    if (!opened)
        return STN_ERR_UNSUPPORTED;
    struct stni_cuda_plan *plan = find(&opened->plans, problem, planner->problem_bytes);
    if (!plan) {
        STNI_TRY(make_room(queue, opened));
        plan = calloc(1, planner->plan_bytes);
        if (!plan)
            return STN_ERR_UNSUPPORTED;
        memcpy(plan + 1, problem, planner->problem_bytes);
        plan->state = opened;
        plan->refused = stni_cuda_host()->queue_without(queue, planner->name, STN_LIBRARY_QUESTION) ||
                        make_now(opened, plan) != STN_OK;
        add(&opened->plans, plan, planner->problem_bytes);
    }
    note_recorded(queue, opened, plan);
    *out = plan;
    return plan->refused ? STN_ERR_UNSUPPORTED : STN_OK;
}

/* Handles and tables are of the GPU that is current when they are made. Who asks for a kernel's workspace is the
 * caller's thread, of which that may be another one than the queue's. */
stn_status stni_cuda_plan_of(stn_queue *queue, const struct stni_cuda_planner *planner, const void *problem,
                             struct stni_cuda_plan **out)
{
    void *const device = stni_cuda_host()->queue_device(queue);
    const int before = stni_cuda_enter(device);
    const stn_status status = plan_of(queue, planner, problem, out);
    stni_cuda_leave(device, before, cudaSuccess);
    return status;
}
