/* A communicator among threads of one process, as plain as can be: ranks post what they bring, meet, compute their
 * own result aside, meet again, and write it. Addresses may be hidden or not; where they are, the host waits for the
 * device's queue first. */
#include "probe.h"
#include "probe_number.h"
#include "probe_world.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Posts and meets. */
static stn_status bring(const struct probe_member *member, stn_queue *queue, struct probe_post post)
{
    probe_settle(queue, post.send);
    post.send = probe_true(post.send);
    member->world->posts[member->rank] = post;
    return probe_world_meet(member, queue);
}

/* Meets again, then writes what was computed aside, and frees it. */
static stn_status take(const struct probe_member *member, stn_queue *queue, void *recv, void *result, size_t bytes)
{
    probe_settle(queue, recv);
    stn_status status = probe_world_meet(member, queue);
    if (status == STN_OK && bytes > 0)
        memcpy(probe_true(recv), result, bytes);
    free(result);
    return status;
}

static const char *sent_by(const struct probe_member *member, int rank)
{
    return member->world->posts[rank].send;
}

static int64_t before(const int64_t *counts, int rank)
{
    int64_t sum = 0;
    for (int r = 0; r < rank; r++)
        sum += counts[r];
    return sum;
}

/* Elements [from, from + n) of all ranks' buffers, reduced in rank order. */
static void *reduced(const struct probe_member *member, int64_t from, int64_t n, stn_dtype dtype, stn_reduce_op op)
{
    char *result = malloc((size_t)n * probe_host->dtype_size(dtype) + 1);
    for (int64_t i = 0; result && i < n; i++) {
        struct probe_number x = probe_number_load(sent_by(member, 0), from + i, dtype);
        for (int r = 1; r < member->world->size; r++)
            x = probe_number_combine(x, probe_number_load(sent_by(member, r), from + i, dtype), dtype, op);
        probe_number_store(result, i, dtype, probe_number_divided(x, dtype, op, member->world->size));
    }
    return result;
}

static void *copied(const char *data, int64_t from, int64_t n, stn_dtype dtype)
{
    size_t size = probe_host->dtype_size(dtype);
    char *result = malloc((size_t)n * size + 1);
    if (result && n > 0)
        memcpy(result, data + from * (int64_t)size, (size_t)n * size);
    return result;
}

/* Collectives */

static stn_status probe_all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count,
                                   stn_dtype dtype, stn_reduce_op op)
{
    if (bring(impl, queue, (struct probe_post){.send = send}) != STN_OK)
        return STN_ERR_PEER;
    return take(impl, queue, recv, reduced(impl, 0, count, dtype, op), (size_t)count * probe_host->dtype_size(dtype));
}

static stn_status probe_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count,
                               stn_dtype dtype, stn_reduce_op op, int root)
{
    const struct probe_member *member = impl;
    if (member->rank != root)
        count = 0;
    return probe_all_reduce(impl, queue, send, recv, count, dtype, op);
}

/* Parts of all ranks, one after the other. */
static stn_status gather(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                         stn_dtype dtype, int wanted)
{
    const struct probe_member *member = impl;
    size_t size = probe_host->dtype_size(dtype);
    if (bring(impl, queue, (struct probe_post){.send = send}) != STN_OK)
        return STN_ERR_PEER;
    int64_t all = wanted ? before(counts, member->world->size) : 0;
    char *result = malloc((size_t)all * size + 1);
    for (int r = 0; all > 0 && r < member->world->size; r++)
        if (counts[r] > 0)
            memcpy(result + before(counts, r) * (int64_t)size, sent_by(member, r), (size_t)counts[r] * size);
    return take(impl, queue, recv, result, (size_t)all * size);
}

static stn_status probe_all_gather(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                                   stn_dtype dtype)
{
    return gather(impl, queue, send, recv, counts, dtype, 1);
}

static stn_status probe_gather(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                               stn_dtype dtype, int root)
{
    return gather(impl, queue, send, recv, counts, dtype, ((const struct probe_member *)impl)->rank == root);
}

static stn_status probe_reduce_scatter(void *impl, stn_queue *queue, const void *send, void *recv,
                                       const int64_t *counts, stn_dtype dtype, stn_reduce_op op)
{
    const struct probe_member *member = impl;
    int64_t n = counts[member->rank];
    if (bring(impl, queue, (struct probe_post){.send = send}) != STN_OK)
        return STN_ERR_PEER;
    return take(impl, queue, recv, reduced(impl, before(counts, member->rank), n, dtype, op),
                (size_t)n * probe_host->dtype_size(dtype));
}

static stn_status probe_scatter(void *impl, stn_queue *queue, const void *send, void *recv, const int64_t *counts,
                                stn_dtype dtype, int root)
{
    const struct probe_member *member = impl;
    int64_t n = counts[member->rank];
    if (bring(impl, queue, (struct probe_post){.send = send}) != STN_OK)
        return STN_ERR_PEER;
    return take(impl, queue, recv, copied(sent_by(member, root), before(counts, member->rank), n, dtype),
                (size_t)n * probe_host->dtype_size(dtype));
}

static stn_status probe_broadcast(void *impl, stn_queue *queue, void *buffer, int64_t count, stn_dtype dtype, int root)
{
    if (bring(impl, queue, (struct probe_post){.send = buffer}) != STN_OK)
        return STN_ERR_PEER;
    return take(impl, queue, buffer, copied(sent_by(impl, root), 0, count, dtype),
                (size_t)count * probe_host->dtype_size(dtype));
}

static stn_status probe_all_to_all(void *impl, stn_queue *queue, const void *send, const int64_t *send_counts,
                                   void *recv, const int64_t *recv_counts, stn_dtype dtype)
{
    const struct probe_member *member = impl;
    const struct probe_world *world = member->world;
    size_t size = probe_host->dtype_size(dtype);
    if (bring(impl, queue, (struct probe_post){.send = send, .counts = send_counts}) != STN_OK)
        return STN_ERR_PEER;
    int64_t all = before(recv_counts, world->size);
    char *result = malloc((size_t)all * size + 1);
    for (int r = 0; r < world->size; r++)
        if (recv_counts[r] > 0)
            memcpy(result + before(recv_counts, r) * (int64_t)size,
                   sent_by(member, r) + before(world->posts[r].counts, member->rank) * (int64_t)size,
                   (size_t)recv_counts[r] * size);
    return take(impl, queue, recv, result, (size_t)all * size);
}

static stn_status probe_barrier(void *impl, stn_queue *queue)
{
    return probe_world_meet(impl, queue);
}

/* With the lock held: the oldest message for this rank from `peer`. */
static struct probe_mail *mail_find(const struct probe_member *member, int peer)
{
    struct probe_mail *mail = member->world->mails;
    while (mail && (mail->taken || mail->from != peer || mail->to != member->rank))
        mail = mail->next;
    return mail;
}

static void mail_remove(struct probe_world *world, struct probe_mail *mail)
{
    struct probe_mail **at = &world->mails;
    while (*at != mail)
        at = &(*at)->next;
    *at = mail->next;
}

static stn_status receive_all(const struct probe_member *member, const stn_exchange *messages,
                              const struct timespec *until)
{
    stn_status status = STN_OK;
    for (int i = 0; i < messages->n_recv && status == STN_OK; i++) {
        struct probe_mail *mail;
        while (status == STN_OK && !(mail = mail_find(member, messages->recv[i].peer)))
            status = probe_family_await(member->world->family, until);
        if (status != STN_OK)
            return status;
        probe_copy_box(&messages->recv[i].box, mail->box, probe_host->dtype_size(messages->dtype));
        mail->taken = 1;
        pthread_cond_broadcast(&member->world->family->moved);
    }
    return status;
}

static void settle_all(stn_queue *queue, const stn_exchange *messages)
{
    for (int i = 0; i < messages->n_send; i++)
        probe_settle(queue, messages->send[i].box.data);
    for (int i = 0; i < messages->n_recv; i++)
        probe_settle(queue, messages->recv[i].box.data);
}

static stn_status probe_group(void *impl, stn_queue *queue, const stn_exchange *messages)
{
    settle_all(queue, messages);
    const struct probe_member *member = impl;
    struct probe_world *world = member->world;
    struct probe_family *family = world->family;
    struct timespec until = probe_deadline();
    struct probe_mail *mails = calloc((size_t)messages->n_send + 1, sizeof *mails), **end = &world->mails;
    pthread_mutex_lock(&family->mutex);
    stn_status status = mails ? family->failed : STN_ERR_MEMORY;
    while (*end)
        end = &(*end)->next;
    for (int i = 0; i < messages->n_send && mails; i++) {
        mails[i] =
            (struct probe_mail){.from = member->rank, .to = messages->send[i].peer, .box = &messages->send[i].box};
        *end = &mails[i];
        end = &mails[i].next;
    }
    pthread_cond_broadcast(&family->moved);
    if (status == STN_OK)
        status = receive_all(member, messages, &until);
    for (int i = 0; i < messages->n_send && mails; i++) {
        while (status == STN_OK && !mails[i].taken)
            status = probe_family_await(family, &until);
        mail_remove(world, &mails[i]);
    }
    if (status != STN_OK)
        probe_family_failure(family, queue);
    pthread_mutex_unlock(&family->mutex);
    free(mails);
    return status == STN_OK ? STN_OK : STN_ERR_PEER;
}

/* The k-th box that `peer` sends to this rank. */
static const stn_box *box_from(const struct probe_member *member, int peer, int k)
{
    const stn_exchange *theirs = member->world->posts[peer].messages;
    for (int i = 0; i < theirs->n_send; i++)
        if (theirs->send[i].peer == member->rank && k-- == 0)
            return &theirs->send[i].box;
    return NULL;
}

static int64_t numel(const stn_box *box)
{
    int64_t n = 1;
    for (int d = 0; d < box->ndim; d++)
        n *= box->shape[d];
    return n;
}

/* A dense copy of a box. */
static char *packed(const stn_box *box, size_t size)
{
    stn_box dense = *box;
    int64_t stride = 1;
    for (int d = box->ndim - 1; d >= 0; d--) {
        dense.strides[d] = stride;
        stride *= box->shape[d];
    }
    dense.data = malloc((size_t)stride * size + 1);
    probe_copy_box(&dense, box, size);
    return dense.data;
}

static void unpack(const stn_box *box, char *dense, size_t size)
{
    stn_box from = *box;
    int64_t stride = 1;
    for (int d = box->ndim - 1; d >= 0; d--) {
        from.strides[d] = stride;
        stride *= box->shape[d];
    }
    from.data = dense;
    probe_copy_box(box, &from, size);
}

static void combine(char *acc, const char *x, int64_t n, stn_dtype dtype, stn_reduce_op op)
{
    for (int64_t e = 0; e < n; e++) {
        struct probe_number a = probe_number_load(acc, e, dtype), b = probe_number_load(x, e, dtype);
        probe_number_store(acc, e, dtype, probe_number_combine(a, b, dtype, op));
    }
}

static void divide(char *acc, int64_t n, stn_dtype dtype, stn_reduce_op op, int addends)
{
    for (int64_t e = 0; e < n; e++) {
        struct probe_number sum = probe_number_load(acc, e, dtype);
        probe_number_store(acc, e, dtype, probe_number_divided(sum, dtype, op, addends));
    }
}

/* All that arrives is packed first, so that nobody sees what others write; addends of one box then are combined in
 * rank order. */
static stn_status probe_exchange(void *impl, stn_queue *queue, const stn_exchange *messages)
{
    const struct probe_member *member = impl;
    stn_dtype dtype = messages->dtype;
    size_t size = probe_host->dtype_size(dtype);
    settle_all(queue, messages);
    if (bring(impl, queue, (struct probe_post){.messages = messages}) != STN_OK)
        return STN_ERR_PEER;
    char **parts = calloc((size_t)messages->n_recv + 1, sizeof *parts);
    for (int i = 0, k = 0; i < messages->n_recv; i++) {
        k = i > 0 && messages->recv[i].peer == messages->recv[i - 1].peer ? k + 1 : 0;
        parts[i] = packed(box_from(member, messages->recv[i].peer, k), size);
    }
    stn_status status = probe_world_meet(impl, queue);
    for (int i = 0; i < messages->n_recv; i++) {
        const stn_box *box = &messages->recv[i].box;
        int addends = 1;
        for (int j = i + 1; parts[i] && messages->reduce && j < messages->n_recv; j++) {
            if (messages->recv[j].box.data != box->data || !parts[j])
                continue;
            combine(parts[i], parts[j], numel(box), dtype, messages->op);
            free(parts[j]);
            parts[j] = NULL;
            addends++;
        }
        if (parts[i] && messages->reduce)
            divide(parts[i], numel(box), dtype, messages->op, addends);
        if (parts[i] && status == STN_OK)
            unpack(box, parts[i], size);
        free(parts[i]);
    }
    free(parts);
    return status;
}

static stn_status probe_subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    const struct probe_member *member = impl;
    char name[128];
    int rank = -1;
    size_t at = (size_t)snprintf(name, sizeof name, "%p", (void *)member->world);
    for (int i = 0; i < n_ranks; i++) {
        at += (size_t)snprintf(name + at, sizeof name - at, ".%d", ranks[i]);
        if (ranks[i] == member->rank)
            rank = i;
    }
    if (rank < 0)
        return probe_host->queue_fail(queue, STN_ERR_ARGUMENT, "probe: subset: rank %d is not in it", member->rank);
    struct probe_member *made;
    stn_status status = probe_world_join(name, rank, n_ranks, member->world->family, &made);
    if (status == STN_OK)
        *out = made;
    return status == STN_OK ? STN_OK : probe_host->queue_fail(queue, status, "probe: subset: out of memory");
}

static void probe_abort(void *impl, stn_status status, const char *text)
{
    const struct probe_member *member = impl;
    struct probe_family *family = member->world->family;
    pthread_mutex_lock(&family->mutex);
    if (family->failed == STN_OK) {
        family->failed = status;
        snprintf(family->text, sizeof family->text, "rank %d: %s", member->rank, text);
        pthread_cond_broadcast(&family->moved);
    }
    pthread_mutex_unlock(&family->mutex);
}

static void probe_destroy(void *impl)
{
    probe_world_leave(impl);
}

static stn_status probe_agree(void *impl, stn_queue *queue, int64_t *words, int n, stn_reduce_op op)
{
    if (probe_is_hidden(words))
        return probe_host->queue_fail(queue, STN_ERR_COMM, "probe: agree got an address of the device");
    return probe_all_reduce(impl, queue, words, words, n, STN_DTYPE_I64, op);
}

static stn_status probe_agree_broadcast(void *impl, stn_queue *queue, void *bytes, size_t n, int root)
{
    if (probe_is_hidden(bytes))
        return probe_host->queue_fail(queue, STN_ERR_COMM, "probe: agree_broadcast got an address of the device");
    return probe_broadcast(impl, queue, bytes, (int64_t)n, STN_DTYPE_U8, root);
}

#define TABLE(bytes)                                                                                                   \
    {                                                                                                                  \
        .size = bytes, .name = "probe", .all_reduce = probe_all_reduce, .reduce = probe_reduce,                        \
        .all_gather = probe_all_gather, .gather = probe_gather, .reduce_scatter = probe_reduce_scatter,                \
        .scatter = probe_scatter, .broadcast = probe_broadcast, .all_to_all = probe_all_to_all, .group = probe_group,  \
        .barrier = probe_barrier, .exchange = probe_exchange, .subset = probe_subset, .abort = probe_abort,            \
        .destroy = probe_destroy, .agree = probe_agree, .agree_broadcast = probe_agree_broadcast                       \
    }

/* Options: "world=NAME rank=R size=N", and " old" for the table of a module that was compiled before the entries
 * from set_deadline on were there. */
stn_status probe_comm_open(const char *options, const stn_comm_ops **ops, void **impl, int *rank, int *size)
{
    static const stn_comm_ops table = TABLE(sizeof table), old = TABLE(offsetof(stn_comm_ops, set_deadline));
    char name[64];
    struct probe_member *member;
    if (!options || sscanf(options, "world=%63s rank=%d size=%d", name, rank, size) != 3 || *size < 1 ||
        *size > PROBE_MAX_RANKS || *rank < 0 || *rank >= *size)
        return STN_ERR_ARGUMENT;
    stn_status status = probe_world_join(name, *rank, *size, NULL, &member);
    if (status != STN_OK)
        return status;
    *ops = strstr(options, " old") ? &old : &table;
    *impl = member;
    return STN_OK;
}
