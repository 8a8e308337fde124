/* Communicators: making, adoption by a context, subsets, failure texts, the ring of calls. The collectives are in
 * comm_api.c. */
#include "core/comm/comm.h"

#include "core/comm/launch.h"
#include "core/comm/threads/threads.h"
#include "core/base/host_alloc.h"
#include "core/device/recording.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *stn_comm_ops_missing(const stn_comm_ops *ops)
{
    if (!ops || ops->size < STNI_COMM_OPS_LEAST || ops->size > sizeof *ops)
        return "size";
    return !ops->all_reduce ? "all_reduce"
           : !ops->group    ? "group"
           : !ops->subset   ? "subset"
           : !ops->destroy  ? "destroy"
                            : NULL;
}

stn_status stni_comm_create(const stn_comm_ops *ops, stni_comm_run_fn run, void *impl, int rank, int size,
                            stn_comm **out)
{
    stn_comm *comm = stni_calloc(1, sizeof *comm);
    if (!comm)
        return STN_ERR_MEMORY;
    comm->ops = ops;
    if (run == stni_coll_run) { /* a table from outside may go, and the communicator that it was taken from */
        memcpy(&comm->table, ops, ops->size);
        comm->ops = &comm->table;
    }
    comm->run = run;
    comm->impl = impl;
    comm->rank = rank;
    comm->size = size;
    comm->stats = &comm->own_stats;
    comm->staging_limit = STNI_STAGING_LIMIT;
    pthread_mutex_init(&comm->blocks_lock, NULL);
    *out = comm;
    return STN_OK;
}

stn_status stn_comm_create(const stn_comm_ops *ops, void *impl, int rank, int size, stn_comm **out)
{
    if (!ops || !out || size < 1 || rank < 0 || rank >= size)
        return STN_ERR_ARGUMENT;
    if (ops->size < STNI_COMM_OPS_LEAST || ops->size > sizeof *ops)
        return STN_ERR_VERSION;
    if (stn_comm_ops_missing(ops))
        return STN_ERR_ARGUMENT;
    return stni_comm_create(ops, stni_coll_run, impl, rank, size, out);
}

/* Collectives that are still queued run first, wherever that is. Those that wait for a peer that does not come end
 * with the deadline. */
static void destroy(stn_comm *comm)
{
    if (comm->queue && comm->queue != comm->own_queue)
        stni_queue_sync_for(comm->queue, STN_SYNC_GROUP);
    stn_status unrun = comm->side_queue ? stni_queue_sync_for(comm->side_queue, STN_SYNC_GROUP) : STN_OK;
    stni_staging_free(comm);
    stni_comm_leave_recorded(comm);
    stni_comm_leave_captured(comm);
    comm->ops->destroy(comm->impl); /* what it watches on a queue goes before the queue */
    stni_queue_destroy(&comm->side_queue);
    stni_comm_leave_requests(comm, unrun);
    stni_queue_destroy(&comm->own_queue);
    stni_event_destroy(&comm->side_end);
    stni_device_destroy(&comm->own_device);
    for (struct stni_comm_block *b = comm->blocks, *next; b; b = next) {
        next = b->next;
        stni_free(b);
    }
    pthread_mutex_destroy(&comm->blocks_lock);
    stni_free(comm);
}

/* In a step that is captured too, of which this is no part. */
void stn_comm_destroy(stn_comm **comm_at)
{
    if (!comm_at || !*comm_at)
        return;
    stn_comm *comm = *comm_at;
    stn_queue *queue = comm->queue != comm->own_queue ? comm->queue : NULL;
    if (queue)
        stni_recording_pause(queue);
    destroy(comm);
    if (queue)
        stni_recording_resume(queue);
    *comm_at = NULL;
}

int stn_comm_rank(const stn_comm *comm)
{
    return comm ? comm->rank : -1;
}

int stn_comm_size(const stn_comm *comm)
{
    return comm ? comm->size : 0;
}

const char *stn_comm_error_text(const stn_comm *comm)
{
    return comm ? comm->error.text : "";
}

stn_status stni_comm_fail(stn_comm *comm, stn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(comm->error.text, sizeof comm->error.text, format, args);
    va_end(args);
    comm->error.status = status;
    return status;
}

static int has_deadline(const stn_comm_ops *ops)
{
    return ops->size > offsetof(stn_comm_ops, set_deadline) && ops->set_deadline;
}

void stni_comm_set_deadline(stn_comm *comm, double seconds)
{
    if (has_deadline(comm->ops))
        comm->ops->set_deadline(comm->impl, seconds == 0 ? STNI_DEADLINE_SECONDS : seconds);
}

void stni_comm_adopt(stn_comm *comm, stn_queue *queue, struct stni_comm_stats *stats, int checks,
                     double deadline_seconds)
{
    stni_staging_free(comm);
    comm->queue = queue;
    comm->stats = stats;
    comm->checks = checks;
    stni_comm_set_deadline(comm, deadline_seconds);
}

void stni_comm_give_back(stn_comm *comm)
{
    stni_staging_free(comm);
    comm->queue = comm->own_queue;
    comm->stats = &comm->own_stats;
    comm->checks = 0;
    comm->exact_sums = 0;
}

stn_status stni_comm_own_queue(stn_comm *comm)
{
    static const stn_queue_options immediate = {.size = sizeof immediate, .kind = STN_QUEUE_IMMEDIATE};
    if (comm->own_queue)
        return STN_OK;
    if (!comm->own_device)
        STNI_TRY(stni_device_create_cpu(NULL, &comm->own_device));
    return stni_queue_create(comm->own_device, &immediate, &comm->own_queue);
}

stn_status stni_comm_main_queue(stn_comm *comm, stn_queue **out)
{
    if (!comm->queue) {
        STNI_TRY(stni_comm_own_queue(comm));
        comm->queue = comm->own_queue;
    }
    if (comm->queue == comm->own_queue && atomic_load_explicit(&comm->queue->failed, memory_order_relaxed))
        stni_queue_recover(comm->queue);
    *out = comm->queue;
    return STN_OK;
}

int64_t stni_comm_waited(const stn_comm *comm)
{
    const stn_comm_ops *ops = comm->ops;
    return ops->size > offsetof(stn_comm_ops, waited) && ops->waited ? ops->waited(comm->impl) : -1;
}

/* What goes through the host makes the caller wait where it begins. */
int stni_comm_goes_beside(const stn_comm *comm, const stn_queue *queue)
{
    const stn_comm_ops *ops = comm->ops;
    return ops->size > offsetof(stn_comm_ops, beside) && ops->beside && !stni_comm_needs_host(comm, queue) &&
           ops->beside(comm->impl);
}

void stni_comm_abort(stn_comm *comm, stn_status status, const char *text)
{
    if (comm->ops->abort)
        comm->ops->abort(comm->impl, status, text);
}

void stni_comm_leave(stn_comm *comm, stn_status status, const char *text)
{
    const stn_comm_ops *ops = comm->ops;
    if (ops->size > offsetof(stn_comm_ops, leave) && ops->leave)
        ops->leave(comm->impl, status, text);
    else
        stni_comm_abort(comm, status, text);
}

static int position(const int *ranks, int n_ranks, int rank)
{
    for (int i = 0; i < n_ranks; i++)
        if (ranks[i] == rank)
            return i;
    return -1;
}

/* Lists mostly rise, which tells without memory. */
static stn_status check_once(stn_comm *comm, const int *ranks, int n_ranks)
{
    int rising = 1, twice = -1;
    while (rising < n_ranks && ranks[rising] > ranks[rising - 1])
        rising++;
    if (rising >= n_ranks)
        return STN_OK;
    char *seen = stni_calloc((size_t)comm->size, 1);
    if (!seen)
        return stni_comm_fail(comm, STN_ERR_MEMORY, "subset: out of memory");
    for (int i = 0; i < n_ranks && twice < 0; i++)
        twice = seen[ranks[i]]++ ? i : -1;
    stni_free(seen);
    if (twice < 0)
        return STN_OK;
    return stni_comm_fail(comm, STN_ERR_ARGUMENT, "subset: ranks[%d] got %d, which comes before", twice, ranks[twice]);
}

static stn_status check_subset(stn_comm *comm, const int *ranks, int n_ranks)
{
    for (int i = 0; i < n_ranks; i++)
        if (ranks[i] < 0 || ranks[i] >= comm->size)
            return stni_comm_fail(comm, STN_ERR_ARGUMENT, "subset: ranks[%d] got %d, wanted 0 to %d", i, ranks[i],
                                  comm->size - 1);
    if (position(ranks, n_ranks, comm->rank) < 0)
        return stni_comm_fail(comm, STN_ERR_ARGUMENT, "subset: ranks lack the calling rank, %d", comm->rank);
    return check_once(comm, ranks, n_ranks);
}

/* A subset of an adopted communicator runs and counts where that does; any other has a queue of its own. */
static stn_status make_subset(stn_comm *comm, stn_queue *queue, const int *ranks, int n_ranks, stn_comm **out)
{
    void *impl;
    if (queue->device->is_cpu) { /* collectives that have not run yet come first; a device's have been called */
        STNI_TRY(stni_queue_sync_for(queue, STN_SYNC_GROUP));
        if (comm->side_end)
            STNI_TRY(stni_event_sync(comm->side_end));
    }
    STNI_TRY(comm->ops->subset(comm->impl, queue, ranks, n_ranks, &impl));
    stn_status status =
        stni_comm_create(comm->ops, comm->run, impl, position(ranks, n_ranks, comm->rank), n_ranks, out);
    if (status != STN_OK) {
        comm->ops->destroy(impl);
        return stn_queue_fail(queue, status, "subset: out of memory");
    }
    if (comm->queue != comm->own_queue) {
        (*out)->queue = comm->queue;
        (*out)->stats = comm->stats;
    }
    (*out)->checks = comm->checks;
    (*out)->exact_sums = comm->exact_sums;
    return STN_OK;
}

/* Made once, also in a step that is recorded. */
stn_status stni_comm_subset(stn_comm *comm, stn_queue *queue, const int *ranks, int n_ranks, stn_comm **out)
{
    STNI_TRY(check_subset(comm, ranks, n_ranks));
    stni_recording_pause(queue);
    stn_status status = make_subset(comm, queue, ranks, n_ranks, out);
    stni_recording_resume(queue);
    return status;
}

stn_status stn_comm_subset(stn_comm *comm, const int *ranks, int n_ranks, stn_comm **out)
{
    stn_queue *queue;
    if (!comm || !ranks || !out || n_ranks < 1)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_comm_main_queue(comm, &queue));
    stn_status status = stni_comm_subset(comm, queue, ranks, n_ranks, out);
    if (status != STN_OK && atomic_load(&queue->failed))
        stni_comm_fail(comm, status, "%s", stn_queue_error_text(queue));
    return status;
}

void stni_comm_dump_calls(const stn_comm *comm, void (*line)(void *arg, const char *text), void *arg)
{
    int64_t from = comm->sequence > STNI_CALL_RING ? comm->sequence - STNI_CALL_RING : 0;
    for (int64_t i = from; i < comm->sequence; i++) {
        const struct stni_call_record *r = &comm->ring[i % STNI_CALL_RING];
        char call[96], text[160];
        struct stni_coll coll = {.kind = r->kind, .dtype = r->dtype, .op = r->op, .root = r->root, .count = r->count};
        stni_coll_describe(&coll, call, sizeof call);
        snprintf(text, sizeof text, "call %lld: %s", (long long)r->sequence, call);
        line(arg, text);
    }
}
