/* A collective as a part of a recorded step: the hosts call it each time, on the same buffers. */
#include "core/comm/launch.h"

#include "core/base/host_alloc.h"
#include "core/context/context.h"
#include "core/device/recording.h"

#include <string.h>

/* With copies of the caller's arrays, counts first. */
struct stni_comm_recorded {
    stn_comm *comm; /* NULL once that is destroyed */
    struct stni_comm_recorded *prev, *next; /* of the communicator's list */
    stn_queue *queue;
    struct stni_coll coll;
    stn_exchange exchange;
    stn_message arrays[];
};

static size_t counts_bytes(const stn_comm *comm, const int64_t *counts)
{
    return counts ? (size_t)comm->size * sizeof *counts : 0;
}

/* Behind the messages. NULL stays NULL. */
static const int64_t *copy_counts(const stn_comm *comm, const int64_t *counts, char **at)
{
    const size_t bytes = counts_bytes(comm, counts);
    if (!counts)
        return NULL;
    const int64_t *copy = memcpy(*at, counts, bytes);
    *at += bytes;
    return copy;
}

static struct stni_comm_recorded *record(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    const stn_exchange *messages = coll->messages;
    const size_t n_send = messages ? (size_t)messages->n_send : 0, n_recv = messages ? (size_t)messages->n_recv : 0;
    const size_t bytes = (n_send + n_recv) * sizeof(stn_message) + counts_bytes(comm, coll->counts) +
                         counts_bytes(comm, coll->recv_counts);
    struct stni_comm_recorded *made = stni_malloc(sizeof *made + bytes);
    if (!made)
        return NULL;
    *made = (struct stni_comm_recorded){.comm = comm, .queue = queue, .coll = *coll};
    char *at = (char *)(made->arrays + n_send + n_recv);
    made->coll.counts = copy_counts(comm, coll->counts, &at);
    made->coll.recv_counts = copy_counts(comm, coll->recv_counts, &at);
    if (!messages)
        return made;
    made->exchange = *messages;
    if (n_send > 0)
        memcpy(made->arrays, messages->send, n_send * sizeof(stn_message));
    if (n_recv > 0)
        memcpy(made->arrays + n_send, messages->recv, n_recv * sizeof(stn_message));
    made->exchange.send = made->arrays;
    made->exchange.recv = made->arrays + n_send;
    made->coll.messages = &made->exchange;
    return made;
}

static void link_recorded(struct stni_comm_recorded *recorded)
{
    recorded->next = recorded->comm->recorded;
    if (recorded->next)
        recorded->next->prev = recorded;
    recorded->comm->recorded = recorded;
}

static void unlink_recorded(struct stni_comm_recorded *recorded)
{
    *(recorded->prev ? &recorded->prev->next : &recorded->comm->recorded) = recorded->next;
    if (recorded->next)
        recorded->next->prev = recorded->prev;
}

void stni_comm_leave_recorded(stn_comm *comm)
{
    for (struct stni_comm_recorded *r = comm->recorded; r; r = r->next)
        r->comm = NULL;
    comm->recorded = NULL;
}

static stn_status run(void *arg)
{
    const struct stni_comm_recorded *recorded = arg;
    return stni_comm_launch(recorded->comm, recorded->queue, &recorded->coll, NULL);
}

static stn_status check(void *arg)
{
    const struct stni_comm_recorded *recorded = arg;
    if (recorded->comm)
        return STN_OK;
    return stni_fail(recorded->queue->context, STN_ERR_STATE,
                     "step_run: the communicator of a captured %s was destroyed", stni_coll_name(recorded->coll.kind));
}

static void forget(void *arg)
{
    struct stni_comm_recorded *recorded = arg;
    if (recorded->comm)
        unlink_recorded(recorded);
    stni_free(recorded);
}

stn_status stni_comm_launch_recorded(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    struct stni_comm_recorded *recorded = record(comm, queue, coll);
    if (!recorded)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "%s: out of memory: a recorded collective",
                              stni_coll_name(coll->kind));
    link_recorded(recorded);
    return stni_recording_call(queue,
                               &(struct stni_recorded_call){run, forget, recorded, check, stni_coll_name(coll->kind)});
}
