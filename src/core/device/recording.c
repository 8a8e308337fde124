/* Recorded steps of one queue. */
#include "core/device/recording.h"

#include "core/base/host_alloc.h"
#include "core/device/capture.h"

/* A stretch of kernels, or a call. */
struct part {
    stn_graph *graph; /* NULL: `call` */
    struct stni_recorded_call call;
};

struct stni_recording {
    stn_queue *queue;
    struct part *parts;
    int n, cap;
    int pauses;   /* under way */
    int n_graphs;
    int n_checks; /* calls that have one */
};

static stn_status add(struct stni_recording *recording, struct part part)
{
    if (recording->n == recording->cap) {
        const int cap = recording->cap ? 2 * recording->cap : 16;
        struct part *parts = stni_realloc(recording->parts, (size_t)cap * sizeof *parts);
        if (!parts)
            return stn_queue_fail(recording->queue, STN_ERR_MEMORY,
                                  "out of memory: parts of a recorded step (%zu bytes)", (size_t)cap * sizeof *parts);
        recording->parts = parts;
        recording->cap = cap;
    }
    recording->parts[recording->n++] = part;
    recording->n_graphs += part.graph != NULL;
    recording->n_checks += part.call.check != NULL;
    return STN_OK;
}

/* Ends a stretch, which runs. */
static stn_status close_stretch(struct stni_recording *recording)
{
    stn_graph *graph = NULL;
    stn_queue *queue = recording->queue;
    if (!queue->capture)
        return (stn_status)atomic_load(&queue->failed);
    stn_status status = stn_queue_capture_end(queue, &graph);
    if (status != STN_OK)
        return stn_queue_fail(queue, status, "the recording of a step failed: %s", stn_status_text(status));
    if (stni_capture_is_empty(graph)) {
        stn_graph_destroy(&graph);
        return STN_OK;
    }
    status = add(recording, (struct part){.graph = graph});
    if (status != STN_OK) {
        stn_graph_destroy(&graph);
        return status;
    }
    return stn_graph_launch(graph, queue);
}

static stn_status open_stretch(struct stni_recording *recording)
{
    stn_queue *queue = recording->queue;
    stn_status status = (stn_status)atomic_load(&queue->failed);
    if (status != STN_OK)
        return status;
    status = stn_queue_capture_begin(queue);
    return status == STN_OK ? STN_OK
                            : stn_queue_fail(queue, status, "a step cannot be recorded: %s", stn_status_text(status));
}

stn_status stni_recording_begin(stn_queue *queue, struct stni_recording **out)
{
    if (queue->recording || queue->capture)
        return STN_ERR_STATE;
    struct stni_recording *recording = stni_calloc(1, sizeof *recording);
    if (!recording)
        return STN_ERR_MEMORY;
    recording->queue = queue;
    stn_status status = stn_queue_capture_begin(queue);
    if (status != STN_OK) {
        stni_free(recording);
        return status;
    }
    queue->recording = recording;
    *out = recording;
    return STN_OK;
}

stn_status stni_recording_end(struct stni_recording *recording)
{
    stn_status status = close_stretch(recording);
    recording->queue->recording = NULL;
    return status;
}

void stni_recording_pause(stn_queue *queue)
{
    if (queue->recording && queue->recording->pauses++ == 0)
        close_stretch(queue->recording);
}

void stni_recording_resume(stn_queue *queue)
{
    if (queue->recording && --queue->recording->pauses == 0)
        open_stretch(queue->recording);
}

stn_status stni_recording_call(stn_queue *queue, const struct stni_recorded_call *call)
{
    struct stni_recording *recording = queue->recording;
    stni_recording_pause(queue);
    stn_status status = (stn_status)atomic_load(&queue->failed);
    if (status == STN_OK)
        status = call->run(call->arg);
    if (status == STN_OK)
        status = add(recording, (struct part){.call = *call});
    if (status != STN_OK)
        call->destroy(call->arg);
    stni_recording_resume(queue);
    return status;
}

stn_status stni_recording_check(const struct stni_recording *recording)
{
    for (int i = 0; recording->n_checks > 0 && i < recording->n; i++)
        if (recording->parts[i].call.check)
            STNI_TRY(recording->parts[i].call.check(recording->parts[i].call.arg));
    return STN_OK;
}

stn_status stni_recording_run(const struct stni_recording *recording)
{
    for (int i = 0; i < recording->n; i++) {
        const struct part *part = &recording->parts[i];
        STNI_TRY(part->graph ? stn_graph_launch(part->graph, recording->queue) : part->call.run(part->call.arg));
    }
    return STN_OK;
}

int stni_recording_graphs(const struct stni_recording *recording)
{
    return recording->n_graphs;
}

int stni_recording_calls(const struct stni_recording *recording)
{
    return recording->n - recording->n_graphs;
}

const char *stni_recording_call_name(const struct stni_recording *recording, int i)
{
    for (int k = 0; k < recording->n && i >= 0; k++)
        if (!recording->parts[k].graph && i-- == 0)
            return recording->parts[k].call.name;
    return NULL;
}

void stni_recording_destroy(struct stni_recording **recording_at)
{
    struct stni_recording *recording = *recording_at;
    if (!recording)
        return;
    for (int i = 0; i < recording->n; i++) {
        struct part *part = &recording->parts[i];
        if (part->graph)
            stn_graph_destroy(&part->graph);
        else
            part->call.destroy(part->call.arg);
    }
    stni_free(recording->parts);
    stni_free(recording);
    *recording_at = NULL;
}
