/* Recorded work. A device that records by itself does; for the CPU the kernels of the queue and their arguments are kept here in a list. */
#include "core/device/capture.h"

#include "core/base/host_alloc.h"

#include <stddef.h>
#include <string.h>

/* One launch. */
struct step {
    struct step *next;
    stn_kernel_fn kernel;
    size_t args_size;
    max_align_t args[];
};

struct stn_graph {
    stn_device *device;
    void *impl; /* the device's own; NULL: the list */
    struct step *first, **end;
    int immediate; /* of the queue, before it recorded */
};

static int device_records(const stn_device *device)
{
    const stn_device_ops *ops = device->ops;
    return ops->capture_begin && ops->capture_end && ops->graph_launch && ops->graph_destroy;
}

stn_status stn_queue_capture_begin(stn_queue *queue)
{
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
    graph->end = &graph->first;
    graph->immediate = queue->immediate;
    queue->immediate = 0; /* launches take the long way, where they are recorded */
    queue->capture = graph;
    return STN_OK;
}

stn_status stni_capture_launch(stn_queue *queue, stn_kernel_fn kernel, const void *args, size_t args_size)
{
    stn_graph *graph = queue->capture;
    struct step *step = stni_malloc(sizeof *step + args_size);
    if (!step)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "out of memory: a recorded kernel (%zu bytes)", sizeof *step + args_size);
    *step = (struct step){.kernel = kernel, .args_size = args_size};
    if (args_size > 0)
        memcpy(step->args, args, args_size);
    *graph->end = step;
    graph->end = &step->next;
    return STN_OK;
}

stn_status stni_capture_refuses(stn_queue *queue, const char *what)
{
    return stn_queue_fail(queue, STN_ERR_STATE, "%s while the queue records its work", what);
}

stn_status stn_queue_capture_end(stn_queue *queue, stn_graph **out)
{
    stn_graph *graph = queue->capture;
    stn_device *device = queue->device;
    if (!graph)
        return STN_ERR_STATE;
    stn_status status = device_records(device) ? device->ops->capture_end(device->impl, queue->impl, &graph->impl) : STN_OK;
    queue->capture = NULL;
    queue->immediate = graph->immediate;
    if (atomic_load(&queue->failed))
        status = (stn_status)atomic_load(&queue->failed);
    if (status == STN_OK)
        *out = graph;
    else
        stn_graph_destroy(&graph);
    return status;
}

stn_status stn_graph_launch(stn_graph *graph, stn_queue *queue)
{
    if (!graph || graph->device != queue->device)
        return STN_ERR_ARGUMENT;
    if (atomic_load(&queue->failed))
        return (stn_status)atomic_load(&queue->failed);
    if (graph->impl)
        return graph->device->ops->graph_launch(graph->device->impl, graph->impl, queue->impl);
    for (const struct step *step = graph->first; step; step = step->next)
        STNI_TRY(stn_queue_launch(queue, step->kernel, step->args, step->args_size));
    return STN_OK;
}

void stn_graph_destroy(stn_graph **graph_at)
{
    if (!graph_at || !*graph_at)
        return;
    stn_graph *graph = *graph_at;
    if (graph->impl)
        graph->device->ops->graph_destroy(graph->device->impl, graph->impl);
    for (struct step *step = graph->first, *next; step; step = next) {
        next = step->next;
        stni_free(step);
    }
    stni_free(graph);
    *graph_at = NULL;
}
