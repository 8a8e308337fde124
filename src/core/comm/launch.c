/* Collectives as kernels. On a queue that runs them later, what a collective needs is copied into the kernel's
 * arguments, or into a block of the heap where it does not fit there. */
#include "core/comm/launch.h"

#include "core/base/host_alloc.h"
#include "core/device/capture.h"
#include "core/device/recording.h"
#include "core/device/trace.h"

#include <limits.h>
#include <string.h>

/* One call of a collective. */
struct call {
    stn_comm *comm;
    const struct stni_coll *coll;
    int64_t sequence;
    stn_request *request;
    stn_queue *main; /* whose trace gets the span, and which counts what is waited: the main queue for the side queue too */
};

/* The arguments of a call that runs later, when the caller's collective and its arrays are gone. */
struct queued_call {
    struct call call;
    struct stni_coll coll;
    stn_exchange exchange;         /* a copy of *coll.messages */
    struct stni_comm_block *block; /* where the arrays are; NULL: behind this */
};

/* Space for arrays behind queued_call in the arguments of a kernel. */
enum { ARRAY_BYTES = STN_MAX_KERNEL_ARGS - sizeof(struct queued_call) };

struct packed_call {
    struct queued_call queued;
    unsigned char arrays[ARRAY_BYTES];
};

static size_t counts_bytes(const stn_comm *comm, const int64_t *counts)
{
    return counts ? (size_t)comm->size * sizeof *counts : 0;
}

static size_t messages_bytes(int n)
{
    return (size_t)n * sizeof(stn_message);
}

static size_t arrays_bytes(const stn_comm *comm, const struct stni_coll *coll)
{
    size_t bytes = counts_bytes(comm, coll->counts) + counts_bytes(comm, coll->recv_counts);
    if (coll->messages)
        bytes += messages_bytes(coll->messages->n_send) + messages_bytes(coll->messages->n_recv);
    return bytes;
}

static char *append(char *at, const void *array, size_t bytes)
{
    if (bytes > 0)
        memcpy(at, array, bytes);
    return at + bytes;
}

static void pack_arrays(struct queued_call *queued, char *at)
{
    const stn_comm *comm = queued->call.comm;
    const struct stni_coll *coll = &queued->coll;
    at = append(at, coll->counts, counts_bytes(comm, coll->counts));
    at = append(at, coll->recv_counts, counts_bytes(comm, coll->recv_counts));
    if (!coll->messages)
        return;
    queued->exchange = *coll->messages;
    at = append(at, coll->messages->send, messages_bytes(coll->messages->n_send));
    append(at, coll->messages->recv, messages_bytes(coll->messages->n_recv));
}

/* The collective with its arrays where they now are. `exchange` is filled where the collective has messages. */
static struct stni_coll unpack_arrays(const struct queued_call *queued, stn_exchange *exchange)
{
    const stn_comm *comm = queued->call.comm;
    struct stni_coll coll = queued->coll;
    const char *at =
        queued->block ? (const char *)queued->block->data : (const char *)((const struct packed_call *)queued)->arrays;
    const char *counts = at, *recv_counts = at + counts_bytes(comm, coll.counts);
    at = recv_counts + counts_bytes(comm, coll.recv_counts);
    if (coll.counts)
        coll.counts = (const void *)counts;
    if (coll.recv_counts)
        coll.recv_counts = (const void *)recv_counts;
    if (!coll.messages)
        return coll;
    *exchange = queued->exchange;
    exchange->send = (const void *)at;
    exchange->recv = (const void *)(at + messages_bytes(exchange->n_send));
    coll.messages = exchange;
    return coll;
}

static struct stni_comm_block *block_create(stn_comm *comm, size_t bytes)
{
    struct stni_comm_block *block = stni_malloc(sizeof *block + bytes);
    if (!block)
        return NULL;
    pthread_mutex_lock(&comm->blocks_lock);
    block->prev = NULL;
    block->next = comm->blocks;
    if (block->next)
        block->next->prev = block;
    comm->blocks = block;
    pthread_mutex_unlock(&comm->blocks_lock);
    return block;
}

static void block_destroy(stn_comm *comm, struct stni_comm_block *block)
{
    if (!block)
        return;
    pthread_mutex_lock(&comm->blocks_lock);
    *(block->prev ? &block->prev->next : &comm->blocks) = block->next;
    if (block->next)
        block->next->prev = block->prev;
    pthread_mutex_unlock(&comm->blocks_lock);
    stni_free(block);
}

static stn_status run(stn_queue *queue, const struct call *call)
{
    stn_comm *comm = call->comm;
    queue->collective = stni_coll_name(call->coll->kind);
    if (comm->checks)
        STNI_TRY(stni_comm_check(comm, queue, call->coll, call->sequence));
    if (comm->exact_sums && stni_comm_adds_exactly(comm, call->coll))
        return stni_comm_build(comm, queue, call->coll);
    return comm->run(comm, queue, call->coll);
}

/* `*waited`: for peers, nanoseconds; -1 where the communicator does not tell. */
static stn_status run_counted(stn_queue *queue, const struct call *call, int64_t *waited)
{
    const int64_t before = stni_comm_waited(call->comm);
    const stn_status status = run(queue, call);
    *waited = before < 0 ? -1 : stni_comm_waited(call->comm) - before;
    if (*waited > 0)
        atomic_fetch_add_explicit(&call->main->waited, *waited, memory_order_relaxed);
    return status;
}

/* The trace gets a span that describes the collective. The span that the queue would record says only that a kernel
 * ran: it has no name, and is not shown. */
static stn_status run_recorded(struct stni_trace *trace, stn_queue *queue, const struct call *call)
{
    const stn_comm *comm = call->comm;
    const struct stni_coll *coll = call->coll;
    const struct stni_comm_stats cost = stni_coll_cost(coll, comm->rank, comm->size);
    const int64_t start = stni_trace_span_begin(trace);
    struct stni_trace_args args = {.bytes = cost.bytes_sent, .messages = cost.messages};
    char text[96];
    stni_coll_describe(coll, text, sizeof text);
    stni_trace_arg(&args, "call", text);
    stni_trace_arg_number(&args, "ranks", comm->size);
    stni_trace_arg_number(&args, "rank", comm->rank);
    stn_status status = run_counted(queue, call, &args.waited);
    if (args.waited >= 0)
        stni_trace_arg_number(&args, "waited_ns", args.waited);
    stni_trace_add_args(trace, STNI_TRACE_COLL, stni_coll_name(coll->kind), start, &args);
    return status;
}

STNI_COLD static stn_status run_traced(struct stni_trace *trace, stn_queue *queue, const struct call *call)
{
    int64_t waited;
    const int marked = stni_trace_mark_begin(trace, stni_coll_name(call->coll->kind));
    const stn_status status =
        stni_trace_records(trace) ? run_recorded(trace, queue, call) : run_counted(queue, call, &waited);
    stni_trace_mark_end(marked);
    return status;
}

static stn_status coll_kernel(stn_queue *queue, const void *args)
{
    const struct call *call = args;
    struct stni_trace *trace = atomic_load_explicit(&call->main->trace, memory_order_relaxed);
    int64_t waited;
    return trace ? run_traced(trace, queue, call) : run_counted(queue, call, &waited);
}

static stn_status queued_kernel(stn_queue *queue, const void *args)
{
    const struct queued_call *queued = args;
    struct call call = queued->call;
    stn_exchange exchange;
    struct stni_coll coll = unpack_arrays(queued, &exchange);
    call.coll = &coll;
    stn_status status = coll_kernel(queue, &call);
    block_destroy(call.comm, queued->block);
    if (call.request)
        atomic_store(&call.request->status, (int)status);
    return status;
}

/* A communicator puts its work on a device's queue itself, from the calling thread: its ranks' hosts meet here, and
 * nothing has to be kept for later. */
static stn_status run_at_once(stn_queue *queue, const struct call *call)
{
    stn_status status = coll_kernel(queue, call);
    if (status != STN_OK)
        stn_queue_fail(queue, status, "%s: %s", stni_coll_name(call->coll->kind), stn_status_text(status));
    if (call->request)
        atomic_store(&call->request->status, (int)status);
    return status;
}

void stni_comm_count(struct stni_comm_stats *stats, const struct stni_comm_stats *cost)
{
    stats->collectives += cost->collectives;
    stats->messages += cost->messages;
    stats->bytes_sent += cost->bytes_sent;
}

static void note(stn_comm *comm, const struct stni_coll *coll)
{
    struct stni_call_record *r = &comm->ring[comm->sequence++ % STNI_CALL_RING];
    r->sequence = comm->sequence;
    r->kind = coll->kind;
    r->count = coll->count;
    r->dtype = coll->dtype;
    r->op = coll->op;
    r->root = coll->root;
}

static void record(stn_comm *comm, const struct stni_coll *coll)
{
    const struct stni_comm_stats cost = stni_coll_cost(coll, comm->rank, comm->size);
    note(comm, coll);
    stni_comm_count(comm->stats, &cost);
}

static stn_status launch_queued(stn_queue *queue, const struct call *call)
{
    struct packed_call packed;
    struct queued_call *queued = &packed.queued;
    *queued = (struct queued_call){.call = *call, .coll = *call->coll};
    size_t bytes = arrays_bytes(call->comm, call->coll);
    char *at = (char *)packed.arrays;
    if (bytes > ARRAY_BYTES) {
        queued->block = block_create(call->comm, bytes);
        if (!queued->block)
            return stn_queue_fail(queue, STN_ERR_MEMORY, "%s: out of memory: arguments (%zu bytes)",
                                  stni_coll_name(call->coll->kind), bytes);
        at = (char *)queued->block->data;
        bytes = 0;
    }
    pack_arrays(queued, at);
    return stni_queue_launch_named(queue, queued_kernel, &packed, sizeof *queued + bytes, "");
}

stn_status stni_comm_fail_for_queue(stn_comm *comm, const stn_queue *queue)
{
    stn_status status = (stn_status)atomic_load(&queue->failed);
    stni_comm_abort(comm, status, stn_queue_error_text(queue));
    return status;
}

/* A collective on a device's side queue may fail when it was called long ago and no host waits for it: `queue`, which
 * comes behind it, then fails too. */
static stn_status fail_along(stn_queue *side, stn_queue *queue)
{
    atomic_store(&side->follower, queue);
    const stn_status failed = (stn_status)atomic_load(&side->failed);
    return failed == STN_OK ? STN_OK : stn_queue_fail(queue, failed, "%s", stn_queue_error_text(side));
}

/* `queue` comes behind the event. */
static stn_status come_behind(const stn_comm *comm, stn_queue *queue, stn_event *event)
{
    if (queue->device->is_cpu)
        return stni_queue_wait(queue, event);
    const stn_status waits = stni_queue_wait(queue, event); /* also behind one that has failed: it uses its buffers until it has ended */
    const stn_status failed = fail_along(comm->side_queue, queue);
    return failed == STN_OK ? waits : failed;
}

/* What a step records would wait for it each time: it comes before that. */
static stn_status follow_side(const stn_comm *comm, stn_queue *queue, stn_event *event)
{
    stni_recording_pause(queue);
    const stn_status status = come_behind(comm, queue, event);
    stni_recording_resume(queue);
    return status;
}

/* `queue` comes behind collectives with a request that were called before. */
static stn_status follow_requests(stn_comm *comm, stn_queue *queue)
{
    if (!comm->side_end || queue == comm->side_queue)
        return STN_OK;
    const stn_status status = follow_side(comm, queue, comm->side_end);
    if (status == STN_OK)
        stni_event_destroy(&comm->side_end);
    return status;
}

/* It costs something when the graph is launched. */
static stn_status capture(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    const struct stni_comm_stats cost = stni_coll_cost(coll, comm->rank, comm->size);
    STNI_TRY(follow_requests(comm, queue));
    STNI_TRY(stni_comm_note_captured(comm, queue, &cost));
    note(comm, coll);
    return run_at_once(queue, &(struct call){comm, coll, comm->sequence, NULL, queue});
}

stn_status stni_comm_launch(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll, stn_request *request)
{
    if (atomic_load_explicit(&queue->failed, memory_order_acquire))
        return stni_comm_fail_for_queue(comm, queue);
    if (coll->kind != STNI_COLL_BARRIER && stni_comm_captures(comm, queue))
        return capture(comm, queue, coll);
    if (stni_recording_is_on(queue))
        return stni_comm_launch_recorded(comm, queue, coll);
    if (queue->capture && queue->device->is_cpu)
        return stni_capture_refuses(queue, "a collective was called");
    STNI_TRY(follow_requests(comm, queue));
    record(comm, coll);
    struct call call = {comm, coll, comm->sequence, request, request ? comm->queue : queue};
    if (queue->immediate)
        return stni_queue_launch_named(queue, coll_kernel, &call, sizeof call, "");
    return queue->device->is_cpu ? launch_queued(queue, &call) : run_at_once(queue, &call);
}

stn_status stni_comm_run_here(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    if (comm->side_end && queue->device->is_cpu) {
        STNI_TRY(stni_event_sync(comm->side_end));
        stni_event_destroy(&comm->side_end);
    }
    record(comm, coll);
    const struct call call = {comm, coll, comm->sequence, NULL, queue};
    return coll_kernel(queue, &call);
}

/* On a device it goes first where it competes: what packs a message would else stand behind all blocks of a kernel
 * that came to the main queue after it, and peers wait for that message. */
static stn_status side_queue(stn_comm *comm, stn_queue **out)
{
    static const stn_queue_options worker = {.size = sizeof worker, .kind = STN_QUEUE_WORKER, .priority = INT_MAX};
    stn_queue *queue;
    STNI_TRY(stni_comm_main_queue(comm, &queue));
    if (!comm->side_queue)
        STNI_TRY(stni_queue_create(queue->device, &worker, &comm->side_queue));
    if (atomic_load(&comm->side_queue->failed))
        stni_queue_recover(comm->side_queue);
    *out = comm->side_queue;
    return STN_OK;
}

/* Work that is on the main queue now, earlier collectives among it, comes before, and so does `after`. */
static stn_status follow(stn_comm *comm, const stn_request *after, stn_queue *side)
{
    stn_event *event = NULL;
    if (after && after->comm && after->comm != comm)
        STNI_TRY(stni_queue_wait(side, after->end));
    if (comm->queue->immediate)
        return STN_OK;
    stn_status status = stni_event_create(side->device, &event);
    if (status == STN_OK)
        status = stni_event_record(event, comm->queue);
    if (status == STN_OK)
        status = stni_queue_wait(side, event);
    stni_event_destroy(&event);
    return status;
}

static stn_status mark_end(stn_comm *comm, stn_queue *side, stn_request *request)
{
    if (!comm->side_end)
        STNI_TRY(stni_event_create(side->device, &comm->side_end));
    STNI_TRY(stni_event_record(comm->side_end, side));
    STNI_TRY(stni_event_record(request->end, side));
    comm->side_last = request;
    return STN_OK;
}

/* Whoever calls is told what fails at once. What comes later fails the queue that waits for older requests, as it did
 * before. */
static stn_status launch_beside(stn_comm *comm, stn_queue *side, const struct stni_coll *coll, stn_request *request)
{
    stn_queue *follower = atomic_exchange(&side->follower, NULL);
    const stn_status status = stni_comm_launch(comm, side, coll, request);
    if (status == STN_OK && follower)
        return fail_along(side, follower);
    atomic_store(&side->follower, follower);
    return status;
}

stn_status stni_comm_launch_request(stn_comm *comm, const struct stni_coll *coll, const stn_request *after,
                                    stn_request **out)
{
    stn_queue *side;
    stn_status status = side_queue(comm, &side);
    stn_request *request = stni_calloc(1, sizeof *request);
    if (status != STN_OK || !request) {
        stni_free(request);
        status = status != STN_OK ? status : STN_ERR_MEMORY;
        return stni_comm_fail(comm, status, "%s: no queue for a request: %s", stni_coll_name(coll->kind),
                              stn_status_text(status));
    }
    request->comm = comm;
    atomic_init(&request->status, STNI_REQUEST_NOT_RUN);
    STNI_TRY_GOTO(stni_event_create(side->device, &request->end), fail);
    STNI_TRY_GOTO(follow(comm, after, side), fail);
    STNI_TRY_GOTO(launch_beside(comm, side, coll, request), fail);
    STNI_TRY_GOTO(mark_end(comm, side, request), fail);
    request->next = comm->requests;
    if (request->next)
        request->next->prev = request;
    comm->requests = request;
    *out = request;
    return STN_OK;
fail:
    stn_queue_sync(side); /* a kernel may still write to the request */
    stni_event_destroy(&request->end);
    stni_free(request);
    stni_comm_fail(comm, status, "%s: %s", stni_coll_name(coll->kind),
                   atomic_load(&side->failed) ? stn_queue_error_text(side) : stn_status_text(status));
    if (!side->device->is_cpu)
        stni_queue_recover(side); /* what is left there is what comes later than a call */
    return status;
}

static void request_unlink(stn_request *request)
{
    *(request->prev ? &request->prev->next : &request->comm->requests) = request->next;
    if (request->next)
        request->next->prev = request->prev;
}

void stni_comm_leave_requests(stn_comm *comm, stn_status unrun)
{
    for (stn_request *r = comm->requests; r; r = r->next) {
        int not_run = STNI_REQUEST_NOT_RUN;
        atomic_compare_exchange_strong(&r->status, &not_run, (int)unrun);
        stni_event_destroy(&r->end);
        r->comm = NULL;
    }
    comm->requests = NULL;
}

/* Work that is put on a device's main queue from now on comes behind the collective; only the CPU's host waits for
 * it. */
static stn_status pass_end(const stn_request *request)
{
    stn_queue *queue = request->comm->queue;
    return queue->device->is_cpu ? stni_event_sync(request->end) : follow_side(request->comm, queue, request->end);
}

static stn_status wait_for(stn_request *request)
{
    stn_comm *comm = request->comm;
    stn_status status = pass_end(request);
    int ran = atomic_load(&request->status);
    if (status == STN_OK)
        status = ran == STNI_REQUEST_NOT_RUN ? (stn_status)atomic_load(&comm->side_queue->failed) : (stn_status)ran;
    if (status != STN_OK)
        stni_comm_fail(comm, status, "%s", stn_queue_error_text(comm->side_queue));
    if (status == STN_OK && comm->side_last == request) { /* nothing is behind it on the side queue */
        comm->side_last = NULL;
        stni_event_destroy(&comm->side_end);
    }
    stni_event_destroy(&request->end);
    request_unlink(request);
    return status;
}

stn_status stn_request_wait(stn_request **request_at)
{
    if (!request_at || !*request_at)
        return STN_ERR_ARGUMENT;
    stn_request *request = *request_at;
    stn_status status = request->comm ? wait_for(request) : (stn_status)atomic_load(&request->status);
    stni_free(request);
    *request_at = NULL;
    return status;
}
