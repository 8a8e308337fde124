/* The communicator that moves nothing: one process acts as any rank of any world. It advances a clock by what the collective would send, copies
 * what a rank sends to itself, and leaves the rest of what would be received as it was. */
#include "core/comm/launch.h"

#include "core/base/host_alloc.h"

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
    advance(family, (double)cost.messages * family->seconds_per_message + (double)cost.bytes_sent * family->seconds_per_byte);
    return STN_OK;
}

static void copy(void *dst, int64_t dst_at, const void *src, int64_t src_at, int64_t n, stn_dtype dtype)
{
    int64_t size = (int64_t)stn_dtype_size(dtype);
    char *to = (char *)dst + dst_at * size;
    const char *from = (const char *)src + src_at * size;
    if (n > 0 && to != from)
        memmove(to, from, (size_t)(n * size));
}

/* What a rank sends to itself; the rest of what would be received stays. */
static void copy_own(const stn_comm *comm, enum stni_isa isa, const struct stni_coll *v)
{
    const int rank = comm->rank;
    switch (v->kind) {
    case STNI_COLL_ALL_GATHER:
        copy(v->recv, stni_counts_sum(v->counts, rank), v->send, 0, v->counts[rank], v->dtype);
        break;
    case STNI_COLL_GATHER:
        if (rank == v->root)
            copy(v->recv, stni_counts_sum(v->counts, rank), v->send, 0, v->counts[rank], v->dtype);
        break;
    case STNI_COLL_SCATTER:
        if (rank == v->root)
            copy(v->recv, 0, v->send, stni_counts_sum(v->counts, rank), v->counts[rank], v->dtype);
        break;
    case STNI_COLL_ALL_TO_ALL:
        copy(v->recv, stni_counts_sum(v->recv_counts, rank), v->send, stni_counts_sum(v->counts, rank), v->counts[rank], v->dtype);
        break;
    case STNI_COLL_GROUP:
    case STNI_COLL_EXCHANGE:
        stni_staged_self(comm, isa, v->messages);
        break;
    default:
        break;
    }
}

static stn_status run(stn_comm *comm, stn_queue *queue, const struct stni_coll *coll)
{
    STNI_TRY(count(comm->impl, queue, coll));
    copy_own(comm, queue->isa, coll);
    return STN_OK;
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
