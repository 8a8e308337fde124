/* The communicator that moves nothing: one process acts as any rank of any world. It advances a clock by what the
 * collective would send, copies what a rank sends to itself, and leaves the rest of what would be received as it
 * was, but for integers on a CPU. */
#include "core/comm/launch.h"

#include "core/base/host_alloc.h"
#include "core/box/box.h"

#include <stdio.h>
#include <string.h>

struct fake_family {
    atomic_int refs;
    double seconds_per_message, seconds_per_byte;
    _Atomic(double) seconds;
    atomic_int status; /* of an abort */
    char text[STNI_ERROR_TEXT];
};

struct fake {
    struct fake_family *family;
    int rank, size;
};

static void advance(struct fake_family *family, double seconds)
{
    double before = atomic_load(&family->seconds);
    while (!atomic_compare_exchange_weak(&family->seconds, &before, before + seconds)) {
    }
}

static stn_status count(const struct fake *fake, stn_queue *queue, const struct stni_coll *coll)
{
    struct fake_family *family = fake->family;
    int aborted = atomic_load(&family->status);
    if (aborted)
        return stn_queue_fail(queue, (stn_status)aborted, "%s", family->text);
    struct stni_comm_stats cost = stni_coll_cost(coll, fake->rank, fake->size);
    advance(family,
            (double)cost.messages * family->seconds_per_message + (double)cost.bytes_sent * family->seconds_per_byte);
    return STN_OK;
}

static stn_box line(const void *data, int64_t at, int64_t n, stn_dtype dtype)
{
    return (stn_box){(char *)(uintptr_t)data + at * (int64_t)stn_dtype_size(dtype), 1, {n}, {1}};
}

static stn_status copy(stn_queue *queue, const struct stni_coll *v, int64_t dst_at, int64_t src_at, int64_t n)
{
    const stn_box to = line(v->recv, dst_at, n, v->dtype), from = line(v->send, src_at, n, v->dtype);
    return n > 0 && to.data != from.data ? stni_staged_move(queue, &to, &from, stn_dtype_size(v->dtype)) : STN_OK;
}

/* What a rank sends to itself; the rest of what would be received stays. */
static stn_status copy_own(const stn_comm *comm, stn_queue *queue, const struct stni_coll *v)
{
    const int rank = comm->rank;
    switch (v->kind) {
    case STNI_COLL_ALL_GATHER:
        return copy(queue, v, stni_counts_sum(v->counts, rank), 0, v->counts[rank]);
    case STNI_COLL_GATHER:
        return rank == v->root ? copy(queue, v, stni_counts_sum(v->counts, rank), 0, v->counts[rank]) : STN_OK;
    case STNI_COLL_SCATTER:
        return rank == v->root ? copy(queue, v, 0, stni_counts_sum(v->counts, rank), v->counts[rank]) : STN_OK;
    case STNI_COLL_ALL_TO_ALL:
        return copy(queue, v, stni_counts_sum(v->recv_counts, rank), stni_counts_sum(v->counts, rank), v->counts[rank]);
    case STNI_COLL_GROUP:
    case STNI_COLL_EXCHANGE:
        return stni_staged_self(comm, queue, v->messages);
    default:
        return STN_OK;
    }
}

static stn_status zero(stn_queue *queue, const stn_box *box, stn_dtype dtype)
{
    static const uint64_t element[2] = {0};
    stn_box from = *box;
    from.data = (void *)(uintptr_t)element;
    memset(from.strides, 0, sizeof from.strides);
    return stni_box_numel(box) > 0 ? stni_staged_move(queue, box, &from, stn_dtype_size(dtype)) : STN_OK;
}

/* Elements from `at` on but for n of them, of `total`. */
static stn_status zero_others(stn_queue *queue, const struct stni_coll *v, int64_t at, int64_t n, int64_t total)
{
    const stn_box before = line(v->recv, 0, at, v->dtype), behind = line(v->recv, at + n, total - at - n, v->dtype);
    STNI_TRY(zero(queue, &before, v->dtype));
    return zero(queue, &behind, v->dtype);
}

static stn_status zero_messages(stn_queue *queue, const stn_exchange *messages, int rank)
{
    for (int i = 0; i < messages->n_recv && !messages->reduce; i++) {
        if (messages->recv[i].peer != rank)
            STNI_TRY(zero(queue, &messages->recv[i].box, messages->dtype));
    }
    return STN_OK;
}

/* Integers may say how much there is to come: of what others would send of them there are none, and their reduction is
 * what this rank has. */
static stn_status take_integers(const stn_comm *comm, stn_queue *queue, const struct stni_coll *v)
{
    const int rank = comm->rank;
    switch (v->kind) {
    case STNI_COLL_ALL_REDUCE: return copy(queue, v, 0, 0, v->count);
    case STNI_COLL_REDUCE: return rank == v->root ? copy(queue, v, 0, 0, v->count) : STN_OK;
    case STNI_COLL_REDUCE_SCATTER: return copy(queue, v, 0, stni_counts_sum(v->counts, rank), v->counts[rank]);
    case STNI_COLL_ALL_GATHER:
        return zero_others(queue, v, stni_counts_sum(v->counts, rank), v->counts[rank], v->count);
    case STNI_COLL_GATHER:
        return rank == v->root
                       ? zero_others(queue, v, stni_counts_sum(v->counts, rank), v->counts[rank], v->count)
                       : STN_OK;
    case STNI_COLL_SCATTER: return rank == v->root ? STN_OK : zero_others(queue, v, 0, 0, v->counts[rank]);
    case STNI_COLL_BROADCAST: return rank == v->root ? STN_OK : zero_others(queue, v, 0, 0, v->count);
    case STNI_COLL_ALL_TO_ALL:
        return zero_others(queue, v, stni_counts_sum(v->recv_counts, rank), v->recv_counts[rank],
                           stni_counts_sum(v->recv_counts, comm->size));
    case STNI_COLL_GROUP:
    case STNI_COLL_EXCHANGE: return zero_messages(queue, v->messages, rank);
    default: return STN_OK;
    }
}

static stn_status run(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    STNI_TRY(count(comm->impl, queue, coll));
    if (queue->device->is_cpu && !stn_dtype_is_differentiable(coll->dtype))
        STNI_TRY(take_integers(comm, queue, coll));
    return copy_own(comm, queue, coll);
}

static stn_status subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    const struct fake *parent = impl;
    struct fake *fake = stni_malloc(sizeof *fake);
    if (!fake)
        return stn_queue_fail(queue, STN_ERR_MEMORY, "out of memory: a communicator (%zu bytes)", sizeof *fake);
    *fake = (struct fake){parent->family, 0, n_ranks};
    while (ranks[fake->rank] != parent->rank)
        fake->rank++;
    atomic_fetch_add(&fake->family->refs, 1);
    *out = fake;
    return STN_OK;
}

/* One thread plays the family's only rank; an abort comes from it. */
static void abort_family(void *impl, stn_status status, const char *text)
{
    struct fake_family *family = ((struct fake *)impl)->family;
    if (atomic_load(&family->status))
        return;
    snprintf(family->text, sizeof family->text, "%s", text);
    atomic_store(&family->status, (int)status);
}

static void destroy(void *impl)
{
    struct fake *fake = impl;
    if (atomic_fetch_sub(&fake->family->refs, 1) == 1)
        stni_free(fake->family);
    stni_free(fake);
}

const stn_comm_ops stni_fake_ops = {
    .size = sizeof(stn_comm_ops),
    .name = "fake",
    .subset = subset,
    .abort = abort_family,
    .destroy = destroy,
};

stn_status stn_comm_create_fake(int rank, int size, double seconds_per_message, double seconds_per_byte, stn_comm **out)
{
    if (!out || size < 1 || rank < 0 || rank >= size || !(seconds_per_message >= 0) || !(seconds_per_byte >= 0))
        return STN_ERR_ARGUMENT;
    struct fake *fake = stni_malloc(sizeof *fake);
    struct fake_family *family = stni_calloc(1, sizeof *family);
    stn_status status = STN_ERR_MEMORY;
    if (fake && family) {
        atomic_init(&family->refs, 1);
        family->seconds_per_message = seconds_per_message;
        family->seconds_per_byte = seconds_per_byte;
        *fake = (struct fake){family, rank, size};
        status = stni_comm_create(&stni_fake_ops, run, fake, rank, size, out);
    }
    if (status != STN_OK) {
        stni_free(family);
        stni_free(fake);
    }
    return status;
}

double stn_comm_fake_seconds(const stn_comm *comm)
{
    if (!comm || comm->ops != &stni_fake_ops)
        return 0;
    return atomic_load(&((const struct fake *)comm->impl)->family->seconds);
}
