/* Collectives that a queue records: a stream capture goes on through them. It forks from the queue's stream to the
 * member's by an event, takes NCCL's kernels in, and comes back by another one, so that a launch of the graph does them
 * without any call of NCCL's.
 *
 * The watch has to see where such a launch is, whose collectives no host has called. Around each of them a mark
 * writes a number to a word of the host's memory that the member has: odd while the GPU is in a collective. Events
 * would not do: launches may stand in line, and an event that a graph records tells of the last one. A launch is
 * watched as a called collective is, by an event before the graph and one behind it, which say whose marks the word
 * holds. */
#include "core/comm/nccl/family.h"

#include "core/comm/nccl/mark.h"
#include "core/device/cuda/module.h"

#include <stdlib.h>
#include <string.h>

/* Launches that may stand in line: a graph takes more of a stream's room than a call, and `calls` are held while it
 * goes there. Few keep the GPU busy. */
enum { MOST_LAUNCHES = 8 };

static void forget_parts(struct stni_nccl_recorded *r)
{
    while (r->parts) {
        struct stni_nccl_part *part = r->parts;
        r->parts = part->next;
        free(part->calls);
        free(part);
    }
}

static void free_recorded(struct stni_nccl_recorded *r)
{
    const int before = stni_nccl_enter(r->device);
    forget_parts(r);
    if (r->order)
        cudaEventDestroy(r->order);
    stni_nccl_leave(r->device, before);
    free(r);
}

/* The recording has ended. */
static void recorded(void *arg)
{
    struct stni_nccl_recorded *r = arg;
    if (r->family)
        r->family->recording = NULL;
}

/* What the watch has not seen the end of has passed the graph, or is aborted. With `lock` held. */
static void unlink_recorded(struct stni_nccl_recorded *r)
{
    struct stni_nccl_recorded **link = &r->family->recorded;
    while (*link != r)
        link = &(*link)->next;
    *link = r->next;
    for (struct stni_nccl_part *part = r->parts; part; part = part->next)
        for (struct stni_nccl_watched *w = part->member->first; w; w = w->next)
            w->part = w->part == part ? NULL : w->part;
    r->family = NULL;
}

static int has_part(const struct stni_nccl_recorded *r, const struct stni_nccl_member *m)
{
    const struct stni_nccl_part *part = r->parts;
    while (part && part->member != m)
        part = part->next;
    return part != NULL;
}

int stni_nccl_is_recorded(const struct stni_nccl_member *m)
{
    const struct stni_nccl_recorded *r = m->family->recorded;
    while (r && !has_part(r, m))
        r = r->next;
    return r != NULL;
}

void stni_nccl_leave_recorded(const struct stni_nccl_member *m)
{
    struct stni_nccl_family *family = m->family;
    for (struct stni_nccl_recorded *r = family->recorded, *next; r; r = next) {
        next = r->next;
        if (!has_part(r, m))
            continue;
        if (family->recording == r)
            family->recording = NULL;
        unlink_recorded(r);
    }
}

static void destroy(void *arg)
{
    struct stni_nccl_recorded *r = arg;
    struct stni_nccl_family *family = r->family;
    if (family) {
        pthread_mutex_lock(&family->lock);
        unlink_recorded(r);
        pthread_mutex_unlock(&family->lock);
    }
    free_recorded(r);
}

/* What goes to the queue goes there without `calls`, as in a call (calls.c). */
static stn_status begin_part(struct stni_nccl_part *part, stn_queue *queue, struct stni_error *error)
{
    struct stni_nccl_member *m = part->member;
    struct stni_nccl_watched *w = stni_nccl_watched_take(m, queue);
    if (!w)
        return stni_nccl_fail(m, error, STN_ERR_MEMORY, "%s: no events for it", part->calls[0]);
    memcpy(w->call, part->calls[0], sizeof w->call);
    w->part = part;
    part->launch = w;
    const cudaError_t answer = cudaEventRecord(w->ready, stni_cuda_stream(queue));
    return answer == cudaSuccess
               ? STN_OK
               : stni_nccl_fail(m, error, STN_ERR_DEVICE, "%s: %s", w->call, cudaGetErrorString(answer));
}

static void give_up_launch(struct stni_nccl_recorded *r)
{
    for (struct stni_nccl_part *part = r->parts; part; part = part->next) {
        stni_nccl_watched_free(part->launch);
        part->launch = NULL;
    }
}

/* Before a launch: takes `calls`, so that NCCL's communicators are not aborted meanwhile. */
static stn_status begin(void *arg, stn_queue *queue)
{
    struct stni_nccl_recorded *r = arg;
    struct stni_nccl_family *family = r->family;
    struct stni_error error = {0};
    stn_status status = STN_OK;
    if (!family)
        return stni_cuda_host()->queue_fail(
            queue, STN_ERR_STATE, "%s: its communicator was destroyed since it was recorded", r->parts->calls[0]);
    const int device = r->parts->member->device, before = stni_nccl_enter(device);
    for (const struct stni_nccl_part *part = r->parts; part; part = part->next)
        stni_nccl_wait_for_room(part->member, MOST_LAUNCHES);
    for (struct stni_nccl_part *part = r->parts; part && status == STN_OK; part = part->next)
        status = begin_part(part, queue, &error);
    pthread_mutex_lock(&family->calls);
    if (status == STN_OK && atomic_load(&family->aborted))
        status = stni_nccl_fail_aborted(r->parts->member, &error);
    if (status != STN_OK) {
        give_up_launch(r);
        pthread_mutex_unlock(&family->calls);
        stni_cuda_host()->queue_fail(queue, status, "%s", error.text);
    }
    stni_nccl_leave(device, before);
    return status;
}

/* Behind it. */
static void end(void *arg, stn_queue *queue)
{
    struct stni_nccl_recorded *r = arg;
    struct stni_nccl_family *family = r->family;
    const int device = r->parts->member->device, before = stni_nccl_enter(device);
    for (struct stni_nccl_part *part = r->parts; part; part = part->next) {
        const cudaError_t answer = cudaEventRecord(part->launch->end, stni_cuda_stream(queue));
        if (answer != cudaSuccess)
            stni_cuda_host()->queue_fail(queue, STN_ERR_DEVICE, "%s: %s", part->calls[0], cudaGetErrorString(answer));
        stni_nccl_add_watched(part->member, part->launch);
        part->launch = NULL;
    }
    pthread_mutex_unlock(&family->calls);
    stni_nccl_leave(device, before);
}

static struct stni_nccl_recorded *recorded_create(struct stni_nccl_family *family)
{
    struct stni_nccl_recorded *r = calloc(1, sizeof *r);
    if (r)
        r->device = family->device;
    if (r && cudaEventCreateWithFlags(&r->order, cudaEventDisableTiming) != cudaSuccess) {
        free_recorded(r);
        return NULL;
    }
    if (r)
        r->family = family;
    return r;
}

/* What the family has in this recording; its first collective makes it a part of that. With `calls` held, as all
 * that follows. */
static stn_status recording_of(struct stni_nccl_family *family, stn_queue *queue, struct stni_nccl_recorded **out)
{
    if ((*out = family->recording))
        return STN_OK;
    struct stni_nccl_recorded *r = recorded_create(family);
    const stn_graph_part part = {r, recorded, begin, end, destroy};
    if (!r)
        return STN_ERR_MEMORY;
    const stn_status status = stni_cuda_host()->queue_record_part(queue, &part);
    if (status != STN_OK) {
        free_recorded(r);
        return status;
    }
    pthread_mutex_lock(&family->lock);
    r->next = family->recorded;
    family->recorded = r;
    pthread_mutex_unlock(&family->lock);
    *out = family->recording = r;
    return STN_OK;
}

static struct stni_nccl_part *part_of(struct stni_nccl_recorded *r, struct stni_nccl_member *m)
{
    struct stni_nccl_part *part = r->parts;
    while (part && part->member != m)
        part = part->next;
    if (part)
        return part;
    part = calloc(1, sizeof *part);
    if (!part)
        return NULL;
    part->member = m;
    part->next = r->parts;
    return r->parts = part;
}

/* The member's word for marks. Memory may be asked for in a capture where the runtime is told so. */
static int has_progress(struct stni_nccl_member *m)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    void *word = NULL;
    if (m->progress)
        return 1;
    cudaThreadExchangeStreamCaptureMode(&mode);
    const cudaError_t answer = cudaHostAlloc(&word, sizeof *m->progress, cudaHostAllocPortable | cudaHostAllocMapped);
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (answer != cudaSuccess)
        return 0;
    atomic_init((_Atomic uint32_t *)word, 0);
    pthread_mutex_lock(&m->family->lock);
    m->progress = word;
    pthread_mutex_unlock(&m->family->lock);
    return 1;
}

static int append(struct stni_nccl_part *part, const struct stni_coll *coll)
{
    stni_nccl_call *calls = realloc(part->calls, ((size_t)part->n + 1) * sizeof *calls);
    if (!calls)
        return 0;
    part->calls = calls;
    stni_nccl_describe(coll, calls[part->n++], sizeof *calls);
    return 1;
}

/* Work of `later` comes behind what is on `earlier` now. */
static cudaError_t follow(const struct stni_nccl_recorded *r, cudaStream_t earlier, cudaStream_t later)
{
    const cudaError_t answer = cudaEventRecord(r->order, earlier);
    return answer == cudaSuccess ? cudaStreamWaitEvent(later, r->order, 0) : answer;
}

static cudaError_t mark(const struct stni_nccl_member *m, int number)
{
    return stni_nccl_mark(m->stream, (uint32_t *)m->progress, (uint32_t)number);
}

static stn_status fork(struct stni_nccl_member *m, struct stni_nccl_recorded *r, const struct stni_nccl_part *part,
                       stn_queue *queue, struct stni_error *error)
{
    cudaError_t answer = follow(r, stni_cuda_stream(queue), m->stream);
    if (answer == cudaSuccess)
        answer = mark(m, 2 * part->n - 1);
    if (answer == cudaSuccess)
        return STN_OK;
    return stni_nccl_fail(m, error, STN_ERR_DEVICE, "%s: the recording does not go on to its stream: %s",
                          part->calls[part->n - 1], cudaGetErrorString(answer));
}

/* With `calls` held. A stream that somebody else records is the caller's mistake, and no failure of the family's. */
static stn_status record(struct stni_nccl_member *m, stn_queue *queue, const struct stni_coll *coll,
                         struct stni_error *error)
{
    const char *name = stni_nccl_name(coll->kind);
    struct stni_nccl_recorded *r = NULL;
    if (atomic_load(&m->family->aborted))
        return stni_nccl_fail_aborted(m, error);
    const stn_status status = recording_of(m->family, queue, &r);
    if (status == STN_ERR_STATE)
        return stni_nccl_say(error, status, "%s: the queue's stream is being recorded, wanted it to be by the queue "
                             "(stn_capture_begin, stn_queue_capture_begin)", name);
    struct stni_nccl_part *part = r ? part_of(r, m) : NULL;
    if (!part || !has_progress(m) || !append(part, coll))
        return stni_nccl_fail(m, error, STN_ERR_MEMORY, "%s: no memory or event to record it", name);
    return fork(m, r, part, queue, error);
}

stn_status stni_nccl_record_begin(struct stni_nccl_member *m, stn_queue *queue, const struct stni_coll *coll,
                                  struct stni_error *error)
{
    pthread_mutex_lock(&m->family->calls);
    const stn_status status = record(m, queue, coll, error);
    if (status != STN_OK)
        pthread_mutex_unlock(&m->family->calls);
    return status;
}

/* Also after a failure: a stream that is not joined would keep the capture from ending. */
stn_status stni_nccl_record_end(struct stni_nccl_member *m, stn_queue *queue, ncclResult_t answer,
                                struct stni_error *error)
{
    struct stni_nccl_recorded *r = m->family->recording;
    const struct stni_nccl_part *part = part_of(r, m);
    const char *call = part->calls[part->n - 1];
    stn_status status = stni_nccl_await(m, error, call, m->comm, answer);
    cudaError_t joined = mark(m, 2 * part->n);
    if (joined == cudaSuccess)
        joined = follow(r, m->stream, stni_cuda_stream(queue));
    if (status == STN_OK && joined != cudaSuccess)
        status = stni_nccl_fail(m, error, STN_ERR_DEVICE, "%s: the recording does not come back from its stream: %s",
                                call, cudaGetErrorString(joined));
    pthread_mutex_unlock(&m->family->calls);
    return status;
}

const char *stni_nccl_place(struct stni_nccl_watched *w, const struct stni_nccl_member *m, int64_t now)
{
    const struct stni_nccl_part *part = w->part;
    if (!part)
        return w->call;
    const uint32_t at = atomic_load(m->progress);
    if (at != w->at)
        w->begun = now;
    w->at = at;
    return at % 2 == 1 && at / 2 < (uint32_t)part->n ? part->calls[at / 2] : NULL;
}
