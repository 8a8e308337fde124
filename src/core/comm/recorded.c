/* A collective as a part of a recorded step: the hosts call it each time, on the same buffers. */
#include "core/comm/launch.h"

#include "core/base/host_alloc.h"
#include "core/device/recording.h"

#include <string.h>

/* With copies of the caller's arrays, counts first. */
struct recorded {
    stn_comm *comm;
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

static struct recorded *record(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    const stn_exchange *messages = coll->messages;
    const size_t n_send = messages ? (size_t)messages->n_send : 0, n_recv = messages ? (size_t)messages->n_recv : 0;
    const size_t bytes = (n_send + n_recv) * sizeof(stn_message) + counts_bytes(comm, coll->counts) + counts_bytes(comm, coll->recv_counts);
    struct recorded *made = stni_malloc(sizeof *made + bytes);
    if (!made)
        return NULL;
    *made = (struct recorded){.comm = comm, .queue = queue, .coll = *coll};
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

static stn_status run(void *arg)
{
    const struct recorded *recorded = arg;
    return stni_comm_launch(recorded->comm, recorded->queue, &recorded->coll, NULL);
}

stn_status stni_comm_launch_recorded(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    struct recorded *recorded = record(comm, queue, coll);
    if (!recorded)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "%s: out of memory: a recorded collective", stni_coll_name(coll->kind));
    return stni_recording_call(queue, &(struct stni_recorded_call){run, stni_free, recorded, NULL, stni_coll_name(coll->kind)});
}
