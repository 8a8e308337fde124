/* Failures: the family keeps the first that this rank knows of. Collectives that wait on the GPU are marked as
 * failed on their queues before they are ended: who waits for a queue must not take what an aborted collective has
 * left for a result. */
#include "core/comm/nccl/family.h"

#include "core/device/cuda/module.h"

#include <stdarg.h>
#include <stdio.h>

stn_status stni_nccl_say(struct stni_error *error, stn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return error->status = status;
}

/* With `lock` held. */
static void mark_queues(struct stni_nccl_family *family)
{
    for (const struct stni_nccl_member *m = family->members; m; m = m->next)
        for (const struct stni_nccl_watched *w = m->first; w; w = w->next)
            stni_cuda_host()->queue_fail(w->queue, family->failed.status, "%s", family->failed.text);
}

void stni_nccl_abort(struct stni_nccl_family *family, stn_status status, const char *text, int tells)
{
    pthread_mutex_lock(&family->lock);
    const int is_first = !atomic_load(&family->aborted);
    if (is_first) {
        stni_nccl_say(&family->failed, status, "%s", text);
        atomic_store(&family->aborted, 1);
        mark_queues(family);
        pthread_cond_signal(&family->moved);
    }
    pthread_mutex_unlock(&family->lock);
    if (is_first && tells)
        stni_cuda_host()->comm->abort(family->alarm, status, text);
}

stn_status stni_nccl_fail_aborted(struct stni_nccl_member *member, struct stni_error *error)
{
    struct stni_nccl_family *family = member->family;
    pthread_mutex_lock(&family->lock);
    *error = family->failed;
    pthread_mutex_unlock(&family->lock);
    return error->status;
}

stn_status stni_nccl_fail(struct stni_nccl_member *member, struct stni_error *error, stn_status status,
                          const char *format, ...)
{
    char text[STNI_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    stni_nccl_abort(member->family, status, text, 1);
    return stni_nccl_fail_aborted(member, error);
}

/* What went wrong in the GPU's work is the device's failure, all else NCCL's. */
stn_status stni_nccl_fail_answer(struct stni_nccl_member *member, struct stni_error *error, const char *call,
                                 ncclResult_t answer)
{
    const stn_status status = answer == ncclUnhandledCudaError ? STN_ERR_DEVICE : STN_ERR_COMM;
    const char *last = member->comm ? stni_nccl()->ncclGetLastError(member->comm) : NULL;
    return stni_nccl_fail(member, error, status, "%s: NCCL answers \"%s\"%s%s", call,
                          stni_nccl()->ncclGetErrorString(answer), last && last[0] ? ": " : "", last ? last : "");
}

stn_status stni_nccl_fail_control(struct stni_nccl_member *member, struct stni_error *error, const char *call,
                                  stn_status status)
{
    const char *text = stni_cuda_host()->comm->error_text(member->control);
    return stni_nccl_fail(member, error, status, "%s%s%s", text[0] ? "" : call, text[0] ? "" : ": ",
                          text[0] ? text : stni_cuda_host()->status_text(status));
}
