/* Recorded work. A device that records by itself does; for the CPU the kernels of the queue and their arguments are
 * kept here, one behind the other in one piece of memory, and run from there in a loop. */
#include "core/device/capture.h"

#include "core/base/host_alloc.h"
#include "core/context/context.h"

#include <stdalign.h>
#include <stddef.h>
#include <string.h>

/* One launch, its arguments behind it. */
struct record {
    alignas(max_align_t) stn_kernel_fn kernel;
    const char *name; /* for a trace; NULL: not told */
    size_t bytes;     /* to the next one: a multiple of the alignment of arguments */
};

enum { ALIGNMENT = _Alignof(max_align_t) };
_Static_assert(sizeof(struct record) % ALIGNMENT == 0, "arguments are aligned for every type");

struct stn_graph {
    stn_device *device;
    void *impl;              /* the device's own; NULL: the records */
    char *records;
    size_t bytes, cap;
    int64_t n;
    int immediate; /* of the queue, before it recorded */
    stn_graph_part *parts;
    int n_parts;
};

static int device_records(const stn_device *device)
{
    const stn_device_ops *ops = device->ops;
    return ops->capture_begin && ops->capture_end && ops->graph_launch && ops->graph_destroy;
}

stn_status stn_queue_capture_begin(stn_queue *queue)
{
    if (!queue)
        return STN_ERR_ARGUMENT;
    stn_device *device = queue->device;
    if (queue->capture)
        return STN_ERR_STATE;
    if (!device->is_cpu && !device_records(device))
        return STN_ERR_UNSUPPORTED;
    stn_graph *graph = stni_calloc(1, sizeof *graph);
    if (!graph)
        return STN_ERR_MEMORY;
    stn_status status = device_records(device) ? device->ops->capture_begin(device->impl, queue->impl) : STN_OK;
    if (status != STN_OK) {
        stni_free(graph);
        return status;
    }
    graph->device = device;
    graph->immediate = queue->immediate;
    if (queue->immediate) /* a worker's thread reads it: there it is never written */
        queue->immediate = 0; /* launches take the long way, where they are recorded */
    queue->capture = graph;
    return STN_OK;
}

/* Space for one record more; NULL without memory. */
static struct record *reserve(stn_graph *graph, size_t bytes)
{
    if (bytes > graph->cap - graph->bytes) {
        const size_t cap = 2 * graph->cap > graph->bytes + bytes ? 2 * graph->cap : graph->bytes + bytes + 1024;
        char *records = stni_realloc(graph->records, cap);
        if (!records)
            return NULL;
        graph->records = records;
        graph->cap = cap;
    }
    struct record *record = (void *)(graph->records + graph->bytes);
    graph->bytes += bytes;
    graph->n++;
    return record;
}

stn_status stni_capture_launch(stn_queue *queue, stn_kernel_fn kernel, const void *args, size_t args_size)
{
    const size_t bytes = sizeof(struct record) + (args_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct record *record = reserve(queue->capture, bytes);
    if (!record)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "out of memory: a recorded kernel (%zu bytes)", bytes);
    *record = (struct record){kernel, queue->launching, bytes};
    if (args_size > 0)
        memcpy(record + 1, args, args_size);
    return STN_OK;
}

/* What the context has kept already says more. While a step is captured the failure is the context's alone, and the
 * ranks can go on. */
stn_status stni_capture_refuses(stn_queue *queue, const char *what)
{
    stn_context *context = queue->context;
    if (context && context->error.status != STN_OK)
        return context->error.status;
    if (context && context->capture)
        return stni_fail(context, STN_ERR_STATE, "%s while a step is captured, of which that cannot be a part", what);
    return stn_queue_fail(queue, STN_ERR_STATE, "%s while the queue records its work", what);
}

stn_status stni_capture_part(stn_queue *queue, const stn_graph_part *part)
{
    stn_graph *graph = queue->capture;
    if (!graph)
        return STN_ERR_STATE;
    stn_graph_part *parts = stni_realloc(graph->parts, ((size_t)graph->n_parts + 1) * sizeof *parts);
    if (!parts)
        return STN_ERR_MEMORY;
    graph->parts = parts;
    parts[graph->n_parts++] = *part;
    return STN_OK;
}

int stni_capture_is_empty(const stn_graph *graph)
{
    return !graph->impl && graph->n == 0;
}

stn_status stn_queue_capture_end(stn_queue *queue, stn_graph **out)
{
    if (!queue || !out)
        return STN_ERR_ARGUMENT;
    stn_graph *graph = queue->capture;
    stn_device *device = queue->device;
    if (!graph)
        return STN_ERR_STATE;
    stn_status status =
        device_records(device) ? device->ops->capture_end(device->impl, queue->impl, &graph->impl) : STN_OK;
    queue->capture = NULL;
    for (int i = 0; i < graph->n_parts; i++)
        graph->parts[i].recorded(graph->parts[i].arg);
    if (graph->immediate)
        queue->immediate = 1;
    if (atomic_load(&queue->failed))
        status = (stn_status)atomic_load(&queue->failed);
    if (status == STN_OK)
        *out = graph;
    else
        stn_graph_destroy(&graph);
    return status;
}

static const struct record *end_of(const stn_graph *graph)
{
    return (const void *)(graph->records + graph->bytes);
}

static const struct record *after(const struct record *record)
{
    return (const void *)((const char *)record + record->bytes);
}

/* All of them as one kernel: what is checked before each launch has been checked once. */
static stn_status run_records(stn_queue *queue, const void *args)
{
    const stn_graph *graph = *(stn_graph *const *)args;
    for (const struct record *record = (const void *)graph->records; record < end_of(graph); record = after(record))
        STNI_TRY(record->kernel(queue, record + 1));
    return STN_OK;
}

/* For a trace, which tells kernels apart. */
static stn_status launch_each(stn_graph *graph, stn_queue *queue)
{
    for (const struct record *record = (const void *)graph->records; record < end_of(graph); record = after(record))
        STNI_TRY(stni_queue_launch_named(queue, record->kernel, record + 1, record->bytes - sizeof *record,
                                         record->name));
    return STN_OK;
}

/* Between its parts' begins and ends. */
static stn_status launch_on_device(stn_graph *graph, stn_queue *queue)
{
    stn_status status = STN_OK;
    int begun = 0;
    while (begun < graph->n_parts && status == STN_OK) {
        status = graph->parts[begun].begin(graph->parts[begun].arg, queue);
        begun += status == STN_OK;
    }
    if (status == STN_OK)
        status = stni_queue_refused(
            queue, graph->device->ops->graph_launch(graph->device->impl, graph->impl, queue->impl), "a graph of");
    while (begun-- > 0)
        graph->parts[begun].end(graph->parts[begun].arg, queue);
    return status == STN_OK ? (stn_status)atomic_load(&queue->failed) : status;
}

stn_status stn_graph_launch(stn_graph *graph, stn_queue *queue)
{
    if (!graph || graph->device != queue->device)
        return STN_ERR_ARGUMENT;
    if (atomic_load(&queue->failed))
        return (stn_status)atomic_load(&queue->failed);
    if (graph->impl)
        return launch_on_device(graph, queue);
    if (graph->n == 0)
        return STN_OK;
    if (queue->capture || atomic_load_explicit(&queue->trace, memory_order_relaxed))
        return launch_each(graph, queue);
    atomic_fetch_add_explicit(&queue->kernels, graph->n - 1, memory_order_relaxed);
    return stn_queue_launch(queue, run_records, &graph, sizeof graph);
}

void stn_graph_destroy(stn_graph **graph_at)
{
    if (!graph_at || !*graph_at)
        return;
    stn_graph *graph = *graph_at;
    if (graph->impl)
        graph->device->ops->graph_destroy(graph->device->impl, graph->impl);
    for (int i = 0; i < graph->n_parts; i++)
        graph->parts[i].destroy(graph->parts[i].arg);
    stni_free(graph->parts);
    stni_free(graph->records);
    stni_free(graph);
    *graph_at = NULL;
}
