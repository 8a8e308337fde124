/* The watch: a thread that follows what this rank's collectives do on the GPU. The host that put them there does not
 * wait for them, so that nobody else would notice that a peer never comes. It notes when a collective has begun to
 * wait, finds those that wait too long, asks NCCL for errors that came later and the alarm for failures of other
 * ranks; then it aborts NCCL's communicators, which ends whatever hangs. */
#include "core/comm/nccl/family.h"

#include "core/device/cuda/library.h"

#include <stdio.h>
#include <time.h>

enum { BUSY = 5000000, IDLE = 50000000 /* nanoseconds between two looks */ };

int64_t stni_nccl_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* While a thread of this process records in the mode that is the runtime's own, a question about an event would end its
 * recording, whoever asks. */
static cudaError_t ask(cudaEvent_t event)
{
    const enum cudaStreamCaptureMode mode = stni_cuda_permit_in_capture(cudaStreamCaptureModeRelaxed);
    const cudaError_t answer = cudaEventQuery(event);
    stni_cuda_permit_in_capture(mode);
    return answer;
}

static int has_passed(cudaEvent_t event)
{
    return ask(event) == cudaSuccess;
}

void stni_nccl_retire(struct stni_nccl_member *m)
{
    while (m->first && has_passed(m->first->end)) {
        struct stni_nccl_watched *w = m->first;
        m->first = w->next;
        m->last = m->first ? m->last : NULL;
        m->under_way--;
        w->part = NULL;
        w->next = m->spare;
        m->spare = w;
    }
}

/* 1 where a kernel has failed on the GPU, of whosever: no event of the process' passes any more, and none is late. */
static int is_broken(const struct stni_nccl_watched *w, struct stni_error *error)
{
    const cudaError_t answer = ask(w->end);
    if (answer == cudaSuccess || answer == cudaErrorNotReady)
        return 0;
    stni_nccl_say(error, STN_ERR_DEVICE, "%s: the GPU has failed: %s", w->call, cudaGetErrorString(answer));
    return 1;
}

/* 1 where the oldest collective has waited for too long, or will for ever. */
static int is_late(struct stni_nccl_member *m, struct stni_error *error)
{
    struct stni_nccl_watched *w = m->first;
    const int64_t now = stni_nccl_now();
    if (is_broken(w, error))
        return 1;
    if (!w->begun && has_passed(w->ready))
        w->begun = now;
    const char *call = w->begun ? stni_nccl_place(w, m, now) : NULL;
    if (!call || m->deadline < 0 || (double)(now - w->begun) <= m->deadline * 1e9)
        return 0;
    stni_nccl_say(error, STN_ERR_TIMEOUT, "%s: deadline of %g s passed on the GPU, not all of %d ranks had come", call,
                  m->deadline, m->size);
    return 1;
}

/* With `lock` held. */
static int find_late(struct stni_nccl_family *family, int *waiting, struct stni_error *error)
{
    *waiting = 0;
    for (struct stni_nccl_member *m = family->members; m; m = m->next) {
        stni_nccl_retire(m);
        *waiting += m->first != NULL;
        if (m->first && is_late(m, error))
            return 1;
    }
    return 0;
}

/* What the oldest collective of the member is, for a text. */
static void describe(struct stni_nccl_family *family, const struct stni_nccl_member *m, char *text, size_t size)
{
    pthread_mutex_lock(&family->lock);
    const char *call = m->first ? stni_nccl_place(m->first, m, stni_nccl_now()) : NULL;
    snprintf(text, size, "%s", call ? call : "between collectives");
    pthread_mutex_unlock(&family->lock);
}

/* Errors that came after the call. A thread that is in a call of NCCL asks itself. */
static void ask_nccl(struct stni_nccl_family *family)
{
    struct stni_error error;
    char call[96];
    if (pthread_mutex_trylock(&family->calls) != 0)
        return;
    for (struct stni_nccl_member *m = family->members; m; m = m->next) {
        ncclResult_t state = ncclSuccess;
        if (!m->comm || stni_nccl()->ncclCommGetAsyncError(m->comm, &state) != ncclSuccess || state == ncclSuccess ||
            state == ncclInProgress)
            continue;
        describe(family, m, call, sizeof call);
        stni_nccl_fail_answer(m, &error, call, state);
        break;
    }
    pthread_mutex_unlock(&family->calls);
}

static void ask_peers(struct stni_nccl_family *family)
{
    const stn_host_comm *hosts = stni_cuda_host()->comm;
    const stn_status status = hosts->look(family->alarm);
    if (status != STN_OK)
        stni_nccl_abort(family, status, hosts->error_text(family->alarm), 0);
}

/* All at once: the kernel of one may stand behind another's. */
static void end_communicators(struct stni_nccl_family *family)
{
    pthread_mutex_lock(&family->calls);
    pthread_mutex_lock(&family->lock);
    for (struct stni_nccl_member *m = family->members; m; m = m->next) {
        if (m->comm)
            stni_nccl_end_apart(m->comm, m->device, 0, stni_nccl_is_recorded(m));
        m->comm = NULL;
    }
    pthread_mutex_unlock(&family->lock);
    pthread_mutex_unlock(&family->calls);
}

/* With `lock` held, which is released meanwhile. */
static void wait_for(struct stni_nccl_family *family, int64_t nanoseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t at = until.tv_nsec + nanoseconds;
    until.tv_sec += at / 1000000000;
    until.tv_nsec = at % 1000000000;
    pthread_cond_timedwait(&family->moved, &family->lock, &until);
}

/* One look, without locks at its begin and end. Returns how many members have collectives on the GPU. */
static int look(struct stni_nccl_family *family)
{
    struct stni_error error;
    int waiting;
    pthread_mutex_lock(&family->lock);
    const int late = find_late(family, &waiting, &error);
    pthread_mutex_unlock(&family->lock);
    if (late)
        stni_nccl_abort(family, error.status, error.text, 1);
    ask_nccl(family);
    if (!atomic_load(&family->aborted))
        ask_peers(family);
    return waiting;
}

static void *watch(void *arg)
{
    struct stni_nccl_family *family = arg;
    int waiting = 0, ended = 0;
    stni_nccl_enter(family->device); /* else the runtime begins to use GPU 0 for what this thread asks of it */
    pthread_mutex_lock(&family->lock);
    while (!family->ends) {
        const int aborted = atomic_load(&family->aborted);
        if (ended)
            pthread_cond_wait(&family->moved, &family->lock);
        else if (!aborted)
            wait_for(family, waiting ? BUSY : IDLE);
        if (family->ends || ended)
            continue;
        pthread_mutex_unlock(&family->lock);
        if (atomic_load(&family->aborted)) {
            end_communicators(family);
            ended = 1;
        } else {
            waiting = look(family);
        }
        pthread_mutex_lock(&family->lock);
    }
    pthread_mutex_unlock(&family->lock);
    return NULL;
}

stn_status stni_nccl_watch_begin(struct stni_nccl_family *family)
{
    family->has_watch = pthread_create(&family->watch, NULL, watch, family) == 0;
    return family->has_watch ? STN_OK : STN_ERR_MEMORY;
}

void stni_nccl_watch_end(struct stni_nccl_family *family)
{
    if (!family->has_watch)
        return;
    pthread_mutex_lock(&family->lock);
    family->ends = 1;
    pthread_cond_signal(&family->moved);
    pthread_mutex_unlock(&family->lock);
    pthread_join(family->watch, NULL);
}
