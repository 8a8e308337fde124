/* Communicators of hosts as modules see them: on a queue of their own, by the calling thread. */
#include "core/comm/control.h"

#include "core/comm/launch.h"

/* A failure as the public collectives leave it: its text with the communicator. */
static stn_status keep(stn_comm *comm, const stn_queue *queue, stn_status status)
{
    return status == STN_OK ? STN_OK : stni_comm_fail(comm, status, "%s", stn_queue_error_text(queue));
}

static stn_status agree(stn_comm *comm, int64_t *words, int n, stn_reduce_op op)
{
    stn_queue *queue;
    STNI_TRY(stni_comm_main_queue(comm, &queue));
    return keep(comm, queue, stni_comm_agree(comm, queue, words, n, op));
}

static stn_status agree_broadcast(stn_comm *comm, void *bytes, size_t n, int root)
{
    stn_queue *queue;
    STNI_TRY(stni_comm_main_queue(comm, &queue));
    return keep(comm, queue, stni_comm_agree_broadcast(comm, queue, bytes, n, root));
}

/* A group of no messages waits for nobody, and fails where the family has. */
static stn_status look(stn_comm *comm)
{
    const stn_exchange none = {.dtype = STN_DTYPE_U8};
    return stn_comm_group(comm, &none, NULL);
}

static void set_deadline(stn_comm *comm, double seconds)
{
    stni_comm_set_deadline(comm, seconds);
}

const stn_host_comm stni_host_comm = {
    .size = sizeof stni_host_comm,
    .rank = stn_comm_rank,
    .ranks = stn_comm_size,
    .agree = agree,
    .agree_broadcast = agree_broadcast,
    .subset = stn_comm_subset,
    .look = look,
    .abort = stni_comm_abort,
    .set_deadline = set_deadline,
    .error_text = stn_comm_error_text,
    .destroy = stn_comm_destroy,
};
