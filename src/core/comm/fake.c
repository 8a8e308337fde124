/* The communicator that moves nothing: one process acts as any rank of any world. It advances a clock by what the verb would send, copies
 * what a rank sends to itself, and leaves the rest of what would be received as it was. */
#include "core/comm/launch.h"

#include "core/box.h"
#include "core/host_alloc.h"

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

/* Every verb begins with this. */
static stn_status count(const struct fake *fake, stn_queue *queue, const struct stni_verb *verb)
{
    struct fake_family *family = fake->family;
    int aborted = atomic_load(&family->status);
    if (aborted)
        return stn_queue_fail(queue, (stn_status)aborted, "%s", family->text);
    struct stni_comm_stats cost = stni_verb_cost(verb, fake->rank, fake->size);
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

static stn_status all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t n, stn_dtype dtype,
                             stn_reduce_op op)
{
    struct stni_verb verb = {STNI_VERB_ALL_REDUCE, dtype, op, 0, n, send, recv, NULL, NULL, NULL};
    return count(impl, queue, &verb);
}

static stn_status reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t n, stn_dtype dtype,
                         stn_reduce_op op, int root)
{
    struct stni_verb verb = {STNI_VERB_REDUCE, dtype, op, root, n, send, recv, NULL, NULL, NULL};
    return count(impl, queue, &verb);
}

static stn_status all_gather(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts, stn_dtype dtype)
{
    const struct fake *fake = impl;
    struct stni_verb verb = {STNI_VERB_ALL_GATHER, dtype, 0, 0, 0, send, recv, counts, NULL, NULL};
    STNI_TRY(count(fake, queue, &verb));
    copy(recv, stni_counts_sum(counts, fake->rank), send, 0, counts[fake->rank], dtype);
    return STN_OK;
}

static stn_status gather(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts, stn_dtype dtype,
                         int root)
{
    const struct fake *fake = impl;
    struct stni_verb verb = {STNI_VERB_GATHER, dtype, 0, root, 0, send, recv, counts, NULL, NULL};
    STNI_TRY(count(fake, queue, &verb));
    if (fake->rank == root)
        copy(recv, stni_counts_sum(counts, root), send, 0, counts[root], dtype);
    return STN_OK;
}

static stn_status reduce_scatter(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                                 stn_dtype dtype, stn_reduce_op op)
{
    struct stni_verb verb = {STNI_VERB_REDUCE_SCATTER, dtype, op, 0, 0, send, recv, counts, NULL, NULL};
    return count(impl, queue, &verb);
}

static stn_status scatter(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts, stn_dtype dtype,
                          int root)
{
    const struct fake *fake = impl;
    struct stni_verb verb = {STNI_VERB_SCATTER, dtype, 0, root, 0, send, recv, counts, NULL, NULL};
    STNI_TRY(count(fake, queue, &verb));
    if (fake->rank == root)
        copy(recv, 0, send, stni_counts_sum(counts, root), counts[root], dtype);
    return STN_OK;
}

static stn_status broadcast(void *impl, stn_queue *queue, void *buffer, int64_t n, stn_dtype dtype, int root)
{
    struct stni_verb verb = {STNI_VERB_BROADCAST, dtype, 0, root, n, buffer, buffer, NULL, NULL, NULL};
    return count(impl, queue, &verb);
}

static stn_status all_to_all(void *impl, stn_queue *queue, const void *send, const int64_t *send_counts, void *recv,
                             const int64_t *recv_counts, stn_dtype dtype)
{
    const struct fake *fake = impl;
    struct stni_verb verb = {STNI_VERB_ALL_TO_ALL, dtype, 0, 0, 0, send, recv, send_counts, recv_counts, NULL};
    STNI_TRY(count(fake, queue, &verb));
    copy(recv, stni_counts_sum(recv_counts, fake->rank), send, stni_counts_sum(send_counts, fake->rank),
         send_counts[fake->rank], dtype);
    return STN_OK;
}

/* The messages from this rank to itself, in their order. */
static void copy_to_self(const struct fake *fake, const stn_exchange *m)
{
    int at = 0;
    for (int i = 0; i < m->n_recv; i++) {
        if (m->recv[i].peer != fake->rank)
            continue;
        while (at < m->n_send && m->send[at].peer != fake->rank)
            at++;
        if (at == m->n_send)
            return;
        if (stni_box_numel(&m->recv[i].box) > 0)
            stni_box_copy_now(&m->recv[i].box, &m->send[at].box, stn_dtype_size(m->dtype));
        at++;
    }
}

static stn_status pass_messages(void *impl, stn_queue *queue, const stn_exchange *messages)
{
    struct stni_verb verb = {.kind = STNI_VERB_EXCHANGE, .dtype = messages->dtype, .messages = messages};
    STNI_TRY(count(impl, queue, &verb));
    copy_to_self(impl, messages);
    return STN_OK;
}

static stn_status barrier(void *impl, stn_queue *queue)
{
    struct stni_verb verb = {.kind = STNI_VERB_BARRIER};
    return count(impl, queue, &verb);
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
    .all_reduce = all_reduce,
    .reduce = reduce,
    .all_gather = all_gather,
    .gather = gather,
    .reduce_scatter = reduce_scatter,
    .scatter = scatter,
    .broadcast = broadcast,
    .all_to_all = all_to_all,
    .group = pass_messages,
    .barrier = barrier,
    .exchange = pass_messages,
    .subset = subset,
    .abort = abort_family,
    .destroy = destroy,
};

stn_status stn_comm_create_fake(int rank, int size, double seconds_per_message, double seconds_per_byte, stn_comm **out)
{
    if (!(seconds_per_message >= 0) || !(seconds_per_byte >= 0))
        return STN_ERR_ARGUMENT;
    struct fake *fake = stni_malloc(sizeof *fake);
    struct fake_family *family = stni_calloc(1, sizeof *family);
    stn_status status = STN_ERR_MEMORY;
    if (fake && family) {
        atomic_init(&family->refs, 1);
        family->seconds_per_message = seconds_per_message;
        family->seconds_per_byte = seconds_per_byte;
        *fake = (struct fake){family, rank, size};
        status = stn_comm_create(&stni_fake_ops, fake, rank, size, out);
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
