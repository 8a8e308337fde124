/* A step of a queue as it is recorded: stretches of kernels, each a graph, and between them calls that the host
 * makes again each time. While it is recorded it also runs: a stretch when it ends, a call at once. */
#ifndef STNI_CORE_DEVICE_RECORDING_H
#define STNI_CORE_DEVICE_RECORDING_H

#include "core/device/device.h"

/* What the host does each time. `run` puts work on queues or meets other ranks' hosts; `destroy` frees `arg`;
 * `check`, NULL where nothing can have changed, tells before a repetition whether `run` will find what it needs, and
 * keeps the failure where it will not; `name` lives for good. */
struct stni_recorded_call {
    stn_status (*run)(void *arg);
    void (*destroy)(void *arg);
    void *arg;
    stn_status (*check)(void *arg);
    const char *name;
};

struct stni_recording;

/* From here on what is put on the queue is recorded. STN_ERR_STATE, STN_ERR_UNSUPPORTED, STN_ERR_MEMORY as
 * stn_queue_capture_begin. */
stn_status stni_recording_begin(stn_queue *queue, struct stni_recording **out);

/* The last stretch runs, and the queue records no more. Returns the queue's failure if there is one. */
stn_status stni_recording_end(struct stni_recording *recording);

/* Between these two the queue runs what is put on it and records nothing: what was recorded so far runs first. They
 * nest. Nothing where no step is recorded. A failure is the queue's. */
void stni_recording_pause(stn_queue *queue);
void stni_recording_resume(stn_queue *queue);

/* 1 where work that is put on the queue now becomes a part of a step. */
static inline int stni_recording_is_on(const stn_queue *queue)
{
    return queue->recording != NULL && queue->capture != NULL;
}

/* Makes the call, and keeps it where that succeeded; owns `call` in any case. The queue records. */
stn_status stni_recording_call(stn_queue *queue, const struct stni_recorded_call *call);

/* Whether all calls will find what they need; the first failure. */
stn_status stni_recording_check(const struct stni_recording *recording);

/* Once more all that was recorded, in its order. */
stn_status stni_recording_run(const struct stni_recording *recording);

/* Parts of either kind, and what call i is named; NULL: there is none. */
int stni_recording_graphs(const struct stni_recording *recording);
int stni_recording_calls(const struct stni_recording *recording);
const char *stni_recording_call_name(const struct stni_recording *recording, int i);

/* After the queue has passed it, or while it is still recorded. Accepts NULL and sets it to NULL. */
void stni_recording_destroy(struct stni_recording **recording);

#endif
