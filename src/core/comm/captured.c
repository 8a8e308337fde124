/* Collectives that are recorded with the kernels around them, by a communicator that says that it can
 * (stn_comm_ops.records). Each launch of the graph does them once more, and no host is met for it. */
#include "core/comm/launch.h"

#include "core/base/host_alloc.h"
#include "core/device/capture.h"

/* Staging memory: recorded kernels name it, so that it stays as long as the graph. */
struct block {
    struct block *next;
    void *data;
    size_t bytes;
};

/* What a communicator has in one graph. */
struct stni_comm_captured {
    stn_comm *comm; /* while it is recorded */
    stn_device *device;
    struct stni_comm_stats *stats; /* of the context, as those of every communicator that works on a device */
    struct stni_comm_stats cost;   /* of a launch */
    struct block *staging;       /* the largest first */
};

int stni_comm_captures(const stn_comm *comm, const stn_queue *queue)
{
    const stn_comm_ops *ops = comm->ops;
    return queue->capture && !queue->device->is_cpu && comm->run == stni_coll_run && !comm->checks &&
           ops->size > offsetof(stn_comm_ops, records) && ops->records;
}

void stni_comm_leave_captured(stn_comm *comm)
{
    if (comm->captured)
        comm->captured->comm = NULL;
    comm->captured = NULL;
}

static void recorded(void *arg)
{
    struct stni_comm_captured *captured = arg;
    if (captured->comm)
        stni_comm_leave_captured(captured->comm);
}

static stn_status begin(void *arg, stn_queue *queue)
{
    const struct stni_comm_captured *captured = arg;
    (void)queue;
    stni_comm_count(captured->stats, &captured->cost);
    return STN_OK;
}

static void end(void *arg, stn_queue *queue)
{
    (void)arg, (void)queue;
}

static void destroy(void *arg)
{
    struct stni_comm_captured *captured = arg;
    while (captured->staging) {
        struct block *block = captured->staging;
        captured->staging = block->next;
        stni_device_deallocate(captured->device, block->data, block->bytes);
        stni_free(block);
    }
    stni_free(captured);
}

/* The communicator's part of what the queue records; NULL without memory. */
static struct stni_comm_captured *part_of(stn_comm *comm, stn_queue *queue)
{
    if (comm->captured)
        return comm->captured;
    struct stni_comm_captured *captured = stni_calloc(1, sizeof *captured);
    if (!captured)
        return NULL;
    captured->comm = comm;
    captured->device = queue->device;
    captured->stats = comm->stats;
    if (stni_capture_part(queue, &(stn_graph_part){captured, recorded, begin, end, destroy}) != STN_OK) {
        stni_free(captured);
        return NULL;
    }
    return comm->captured = captured;
}

stn_status stni_comm_note_captured(stn_comm *comm, stn_queue *queue, const struct stni_comm_stats *cost)
{
    struct stni_comm_captured *captured = part_of(comm, queue);
    if (!captured)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "out of memory: a recorded collective (%zu bytes)",
                              sizeof *captured);
    stni_comm_count(&captured->cost, cost);
    return STN_OK;
}

static struct block *block_create(stn_device *device, size_t bytes)
{
    struct block *block = stni_malloc(sizeof *block);
    if (block && stni_device_allocate(device, bytes, &block->data) != STN_OK) {
        stni_free(block);
        return NULL;
    }
    if (block)
        block->bytes = bytes;
    return block;
}

void *stni_comm_staging_captured(stn_comm *comm, stn_queue *queue, size_t bytes)
{
    struct stni_comm_captured *captured = part_of(comm, queue);
    const size_t largest = captured && captured->staging ? captured->staging->bytes : 0;
    if (captured && bytes <= largest)
        return largest > 0 ? captured->staging->data : NULL;
    struct block *block = captured ? block_create(queue->device, bytes > 2 * largest ? bytes : 2 * largest) : NULL;
    if (!block) {
        stn_queue_fail(queue, STN_ERR_MEMORY, "exchange: out of memory: staging of recorded collectives (%zu bytes)",
                       bytes);
        return NULL;
    }
    block->next = captured->staging;
    captured->staging = block;
    return block->data;
}
