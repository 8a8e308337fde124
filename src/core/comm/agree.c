/* Agreement between hosts: words and bytes of host memory, at most STN_MAX_AGREE at a time, whatever the ranks' device
 * is. They are collectives in one order with the others, so that whatever is under way ends first. */
#include "core/comm/launch.h"

#include "core/device/recording.h"

#include <string.h>

static int has_entries(const stn_comm_ops *ops)
{
    return ops->size > offsetof(stn_comm_ops, agree_broadcast) && ops->agree && ops->agree_broadcast;
}

int stni_comm_has_agreement(const stn_comm *comm)
{
    return comm->run != stni_coll_run || has_entries(comm->ops);
}

stn_status stni_comm_agree_run(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    const stn_comm_ops *ops = comm->ops;
    struct stni_coll by_table = *coll;
    if (has_entries(ops) && coll->kind == STNI_COLL_BROADCAST)
        return ops->agree_broadcast(comm->impl, queue, coll->recv, (size_t)coll->count, coll->root);
    if (has_entries(ops))
        return ops->agree(comm->impl, queue, coll->recv, (int)coll->count, coll->op);
    if (stni_comm_needs_host(comm, queue)) {
        by_table.host = 0;
        return stni_comm_run_on_host(comm, queue, &by_table);
    }
    if (!queue->device->is_cpu)
        return stn_queue_fail(
            queue, STN_ERR_UNSUPPORTED,
            "communicator '%s' has no entries agree and agree_broadcast, without which ranks on device %s "
            "cannot agree: its collectives move memory of the device",
            ops->name, queue->device->name);
    by_table.host = 0;
    return comm->run(comm, queue, &by_table);
}

/* Collectives that the CPU has queued end first: then the calling thread is the only one on the communicator. Those of
 * other devices were called on this thread, whether or not the device has done their work. */
static stn_status agree_now(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    stn_status status = queue->device->is_cpu ? stni_queue_sync_for(queue, STN_SYNC_AGREEMENT)
                                              : (stn_status)atomic_load(&queue->failed);
    return status == STN_OK ? stni_comm_run_here(comm, queue, coll) : stni_comm_fail_for_queue(comm, queue);
}

/* What the library agrees on in a step that is recorded holds for its repetitions too: they do the same. Where
 * collectives are recorded hosts meet beside the queue. */
static stn_status agree(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    if (stni_comm_captures(comm, queue))
        return agree_now(comm, queue, coll);
    stni_recording_pause(queue);
    stn_status status = agree_now(comm, queue, coll);
    stni_recording_resume(queue);
    return status;
}

stn_status stni_comm_agree(stn_comm *comm, stn_queue *queue, int64_t *words, int64_t n, stn_reduce_op op)
{
    return stni_comm_agree_first(comm, queue, STNI_AGREE_FURTHER, words, n, op);
}

stn_status stni_comm_agree_first(stn_comm *comm, stn_queue *queue, enum stni_agreement what, int64_t *words, int64_t n,
                                 stn_reduce_op op)
{
    const int64_t most = STN_MAX_AGREE / (int64_t)sizeof *words;
    for (int64_t at = 0; at < n; at += most) {
        const struct stni_coll coll = {.kind = STNI_COLL_ALL_REDUCE,
                                       .dtype = STN_DTYPE_I64,
                                       .op = op,
                                       .root = (int)what,
                                       .host = 1,
                                       .agreement = 1,
                                       .send = words + at,
                                       .recv = words + at,
                                       .count = n - at < most ? n - at : most};
        STNI_TRY(agree(comm, queue, &coll));
    }
    return STN_OK;
}

stn_status stni_comm_agree_broadcast(stn_comm *comm, stn_queue *queue, void *bytes, size_t n, int root)
{
    const struct stni_coll coll = {.kind = STNI_COLL_BROADCAST, .dtype = STN_DTYPE_U8, .root = root, .host = 1,
                                   .agreement = 1, .send = bytes, .recv = bytes, .count = (int64_t)n};
    return agree(comm, queue, &coll);
}
