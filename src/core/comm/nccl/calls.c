/* Calls of NCCL: polled until they are through, and ordered with the caller's queue by events both ways. */
#include "core/comm/nccl/family.h"

#include "core/device/cuda/current.h"
#include "core/device/cuda/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { QUICK_POLLS = 16, MOST_PAUSE = 500 /* microseconds */ };

/* Collectives of a member that may stand in line: a stream's line has an end, and a host that waits there for a peer
 * that is lost waits with `calls` held. */
enum { MOST_CALLS = 64 };

int stni_nccl_enter(int device)
{
    return stni_cuda_make_current(device);
}

/* Errors of calls in between have been reported: kept, they would fail the next launch of a kernel. */
void stni_nccl_leave(int device, int before)
{
    stni_cuda_go_back(device, before);
    cudaGetLastError();
}

void stni_nccl_pause(int polls)
{
    if (polls >= QUICK_POLLS)
        usleep((useconds_t)(polls < MOST_PAUSE ? polls : MOST_PAUSE));
}

void stni_nccl_wait_for_room(struct stni_nccl_member *member, int most)
{
    struct stni_nccl_family *family = member->family;
    for (int polls = 0; !atomic_load(&family->aborted); polls++) {
        pthread_mutex_lock(&family->lock);
        if (member->under_way >= most)
            stni_nccl_retire(member);
        const int under_way = member->under_way;
        pthread_mutex_unlock(&family->lock);
        if (under_way < most)
            return;
        stni_nccl_pause(polls);
    }
}

stn_status stni_nccl_await(struct stni_nccl_member *member, struct stni_error *error, const char *call, ncclComm_t comm,
                           ncclResult_t answer)
{
    struct stni_nccl_family *family = member->family;
    const int64_t begun = stni_nccl_now();
    for (int polls = 0; answer == ncclInProgress; polls++) {
        if (atomic_load(&family->aborted))
            return stni_nccl_fail_aborted(member, error);
        if (member->deadline >= 0 && (double)(stni_nccl_now() - begun) > member->deadline * 1e9)
            return stni_nccl_fail(member, error, STN_ERR_TIMEOUT,
                                  "%s: deadline of %g s passed, NCCL is still in progress with it on %d ranks", call,
                                  member->deadline, member->size);
        stni_nccl_pause(polls);
        ncclResult_t state = ncclInProgress;
        const ncclResult_t asked = stni_nccl()->ncclCommGetAsyncError(comm, &state);
        answer = asked == ncclSuccess ? state : asked;
    }
    return answer == ncclSuccess ? STN_OK : stni_nccl_fail_answer(member, error, call, answer);
}

void stni_nccl_watched_free(struct stni_nccl_watched *watched)
{
    if (!watched)
        return;
    if (watched->ready)
        cudaEventDestroy(watched->ready);
    if (watched->end)
        cudaEventDestroy(watched->end);
    free(watched);
}

static struct stni_nccl_watched *watched_create(void)
{
    struct stni_nccl_watched *w = calloc(1, sizeof *w);
    if (w && (cudaEventCreateWithFlags(&w->ready, cudaEventDisableTiming) != cudaSuccess ||
              cudaEventCreateWithFlags(&w->end, cudaEventDisableTiming) != cudaSuccess)) {
        stni_nccl_watched_free(w);
        return NULL;
    }
    return w;
}

struct stni_nccl_watched *stni_nccl_watched_take(struct stni_nccl_member *m, stn_queue *queue)
{
    pthread_mutex_lock(&m->family->lock);
    struct stni_nccl_watched *w = m->spare;
    if (w)
        m->spare = w->next;
    pthread_mutex_unlock(&m->family->lock);
    if (!w)
        w = watched_create();
    if (w)
        *w = (struct stni_nccl_watched){.ready = w->ready, .end = w->end, .queue = queue};
    return w;
}

void stni_nccl_describe(const struct stni_coll *coll, char *text, size_t size)
{
    const char *name = stni_nccl_name(coll->kind);
    if (coll->messages)
        snprintf(text, size, "%s of %d sends and %d receives", name, coll->messages->n_send, coll->messages->n_recv);
    else
        snprintf(text, size, "%s of %lld elements", name, (long long)coll->count);
}

stn_status stni_nccl_check_queue(struct stni_nccl_member *m, stn_queue *queue, const struct stni_coll *coll,
                                 int *records, struct stni_error *error)
{
    enum cudaStreamCaptureStatus recording = cudaStreamCaptureStatusNone;
    const int device = stni_cuda_host()->queue_device_index(queue, "cuda");
    if (device < 0)
        return stni_nccl_fail(m, error, STN_ERR_ARGUMENT,
                              "%s: the queue is of no CUDA device, wanted one of device %d as the communicator's",
                              stni_nccl_name(coll->kind), m->device);
    if (device != m->device)
        return stni_nccl_fail(m, error, STN_ERR_ARGUMENT,
                              "%s: the queue is of CUDA device %d, wanted %d, the communicator's",
                              stni_nccl_name(coll->kind), device, m->device);
    const cudaError_t answer = cudaStreamIsCapturing(stni_cuda_stream(queue), &recording);
    *records = recording == cudaStreamCaptureStatusActive;
    if (answer == cudaSuccess && recording != cudaStreamCaptureStatusInvalidated)
        return STN_OK;
    return stni_nccl_fail(m, error, STN_ERR_DEVICE, "%s: the recording of the queue has failed: %s",
                          stni_nccl_name(coll->kind),
                          cudaGetErrorString(answer == cudaSuccess ? cudaErrorStreamCaptureInvalidated : answer));
}

/* What goes to the queue goes there without `calls`: the caller's own work may have filled its line, and the host then
 * waits for what the watch has to end. */
static stn_status mark_ready(struct stni_nccl_member *m, struct stni_nccl_watched *w, struct stni_error *error)
{
    const cudaError_t answer = cudaEventRecord(w->ready, stni_cuda_stream(w->queue));
    if (answer == cudaSuccess)
        return STN_OK;
    return stni_nccl_fail(m, error, STN_ERR_DEVICE, "%s: %s", w->call, cudaGetErrorString(answer));
}

/* With `calls` held. */
static stn_status order_behind(struct stni_nccl_member *m, struct stni_nccl_watched *w, struct stni_error *error)
{
    if (atomic_load(&m->family->aborted))
        return stni_nccl_fail_aborted(m, error);
    const cudaError_t answer = cudaStreamWaitEvent(m->stream, w->ready, 0);
    if (answer == cudaSuccess)
        return STN_OK;
    return stni_nccl_fail(m, error, STN_ERR_DEVICE, "%s: its stream does not wait for the queue: %s", w->call,
                          cudaGetErrorString(answer));
}

stn_status stni_nccl_begin(struct stni_nccl_member *m, stn_queue *queue, const struct stni_coll *coll,
                           struct stni_nccl_watched **out, struct stni_error *error)
{
    stni_nccl_wait_for_room(m, MOST_CALLS);
    struct stni_nccl_watched *w = stni_nccl_watched_take(m, queue);
    if (!w)
        return stni_nccl_fail(m, error, STN_ERR_MEMORY, "%s: no events for it", stni_nccl_name(coll->kind));
    stni_nccl_describe(coll, w->call, sizeof w->call);
    stn_status status = mark_ready(m, w, error);
    pthread_mutex_lock(&m->family->calls);
    if (status == STN_OK)
        status = order_behind(m, w, error);
    if (status == STN_OK) {
        *out = w;
        return STN_OK;
    }
    pthread_mutex_unlock(&m->family->calls);
    stni_nccl_watched_free(w);
    return status;
}

/* One that comes when the family has failed is marked like those before it. */
void stni_nccl_add_watched(struct stni_nccl_member *m, struct stni_nccl_watched *w)
{
    struct stni_nccl_family *family = m->family;
    pthread_mutex_lock(&family->lock);
    w->next = NULL;
    *(m->last ? &m->last->next : &m->first) = w;
    m->last = w;
    m->under_way++;
    if (atomic_load(&family->aborted))
        stni_cuda_host()->queue_fail(w->queue, family->failed.status, "%s", family->failed.text);
    pthread_mutex_unlock(&family->lock);
}

/* Also after a failure: until NCCL's communicator is aborted, what it had begun may read and write the buffers. */
stn_status stni_nccl_end(struct stni_nccl_member *m, struct stni_nccl_watched *w, ncclResult_t answer,
                         struct stni_error *error)
{
    stn_status status = stni_nccl_await(m, error, w->call, m->comm, answer);
    cudaError_t ordered = cudaEventRecord(w->end, m->stream);
    pthread_mutex_unlock(&m->family->calls);
    if (ordered == cudaSuccess)
        ordered = cudaStreamWaitEvent(stni_cuda_stream(w->queue), w->end, 0);
    if (status == STN_OK && ordered != cudaSuccess)
        status = stni_nccl_fail(m, error, STN_ERR_DEVICE, "%s: the queue does not wait for its stream: %s", w->call,
                                cudaGetErrorString(ordered));
    stni_nccl_add_watched(m, w);
    return status;
}
