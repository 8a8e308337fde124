/* What each collective copies, given what all ranks have published: no waiting, no allocation, nobody else's code.
 *
 * Reductions run in rank order on whichever rank does them, so that results are the same bits on all ranks and in all runs. */
#include "core/comm/threads.h"

#include "core/box.h"

#include <string.h>

enum { MEMCPY_BYTES = 1 << 15 }; /* up to here plain stores keep the result in the cache */

static int64_t sum_before(const int64_t *counts, int rank)
{
    return stni_counts_sum(counts, rank);
}

static int64_t largest(const int64_t *counts, int n)
{
    int64_t max = 0;
    for (int i = 0; i < n; i++)
        max = counts[i] > max ? counts[i] : max;
    return max;
}

/* A dense box; the entries that a box of one dim does not have stay unset. */
static void line(stn_box *box, const void *data, int64_t elements, int64_t count, size_t size)
{
    box->data = (char *)(uintptr_t)data + elements * (int64_t)size;
    box->ndim = 1;
    box->shape[0] = count;
    box->strides[0] = 1;
}

static void copy_elements(void *dst, int64_t dst_at, const void *src, int64_t src_at, int64_t count, size_t size)
{
    char *to = (char *)dst + dst_at * (int64_t)size;
    const char *from = (const char *)src + src_at * (int64_t)size;
    if (count == 0 || to == from)
        return;
    if (count * (int64_t)size <= MEMCPY_BYTES) {
        memcpy(to, from, (size_t)count * size);
        return;
    }
    stn_box dst_box, src_box;
    line(&dst_box, to, 0, count, size);
    line(&src_box, from, 0, count, size);
    stni_box_copy_now(&dst_box, &src_box, size);
}

static const void *sent_by(const struct stni_thread_view *view, int peer)
{
    const struct stni_thread_mail *mail = stni_thread_mail_of(view, peer);
    return mail->large ? mail->data.at.send : mail->data.bytes;
}

/* Elements [from, from + count) of what every rank sends, combined into `n_dst` boxes at the end of scratch. */
static void combine(const struct stni_thread_view *view, int n_dst, int64_t from, int64_t count)
{
    const struct stni_verb *v = view->verb;
    stn_box *src = view->member->scratch;
    if (count == 0)
        return;
    for (int r = 0; r < view->size; r++)
        line(&src[r], sent_by(view, r), from, count, stn_dtype_size(v->dtype));
    stni_box_reduce_now(n_dst, src + view->size, view->size, src, v->dtype, v->op);
}

static void combine_to(const struct stni_thread_view *view, void *dst, int64_t dst_at, int64_t from, int64_t count)
{
    stn_box *to = (stn_box *)view->member->scratch + view->size;
    line(to, dst, dst_at, count, stn_dtype_size(view->verb->dtype));
    combine(view, 1, from, count);
}

/* This rank's part of the work on `count` elements: whole cache lines, so that no two ranks write the same one. */
static void work_share(const struct stni_thread_view *view, int64_t *from, int64_t *count)
{
    int64_t n = view->verb->count, lines = STNI_THREAD_LINE / (int64_t)stn_dtype_size(view->verb->dtype);
    int64_t share = (n + view->size - 1) / view->size;
    share = (share + lines - 1) / lines * lines;
    *from = share * view->rank < n ? share * view->rank : n;
    *count = n - *from < share ? n - *from : share;
}

static stn_status all_reduce(const struct stni_thread_view *view, int large)
{
    if (!large) {
        combine_to(view, view->verb->recv, 0, 0, view->verb->count);
        return STN_OK;
    }
    int64_t from, count;
    work_share(view, &from, &count);
    stn_box *dst = (stn_box *)view->member->scratch + view->size;
    for (int r = 0; r < view->size; r++)
        line(&dst[r], stni_thread_mail_of(view, r)->data.at.recv, from, count, stn_dtype_size(view->verb->dtype));
    combine(view, view->size, from, count);
    return STN_OK;
}

static stn_status reduce(const struct stni_thread_view *view, int large)
{
    int root = view->verb->root;
    if (!large) {
        if (view->rank == root)
            combine_to(view, view->verb->recv, 0, 0, view->verb->count);
        return STN_OK;
    }
    int64_t from, count;
    work_share(view, &from, &count);
    combine_to(view, stni_thread_mail_of(view, root)->data.at.recv, from, from, count);
    return STN_OK;
}

static stn_status all_gather(const struct stni_thread_view *view, int large)
{
    const struct stni_verb *v = view->verb;
    int64_t at = 0;
    (void)large;
    for (int r = 0; r < view->size; at += v->counts[r++])
        copy_elements(v->recv, at, sent_by(view, r), 0, v->counts[r], stn_dtype_size(v->dtype));
    return STN_OK;
}

static stn_status gather(const struct stni_thread_view *view, int large)
{
    const struct stni_verb *v = view->verb;
    if (!large)
        return view->rank == v->root ? all_gather(view, 0) : STN_OK;
    copy_elements(stni_thread_mail_of(view, v->root)->data.at.recv, sum_before(v->counts, view->rank), v->send, 0,
                  v->counts[view->rank], stn_dtype_size(v->dtype));
    return STN_OK;
}

static stn_status reduce_scatter(const struct stni_thread_view *view, int large)
{
    const struct stni_verb *v = view->verb;
    (void)large;
    combine_to(view, v->recv, 0, sum_before(v->counts, view->rank), v->counts[view->rank]);
    return STN_OK;
}

static stn_status scatter(const struct stni_thread_view *view, int large)
{
    const struct stni_verb *v = view->verb;
    (void)large;
    copy_elements(v->recv, 0, sent_by(view, v->root), sum_before(v->counts, view->rank), v->counts[view->rank],
                  stn_dtype_size(v->dtype));
    return STN_OK;
}

static stn_status broadcast(const struct stni_thread_view *view, int large)
{
    const struct stni_verb *v = view->verb;
    (void)large;
    if (view->rank != v->root)
        copy_elements(v->recv, 0, sent_by(view, v->root), 0, v->count, stn_dtype_size(v->dtype));
    return STN_OK;
}

/* In a mail the counts stand before the elements. */
static stn_status all_to_all(const struct stni_thread_view *view, int large)
{
    const struct stni_verb *v = view->verb;
    int64_t at = 0;
    (void)large;
    for (int i = 0; i < view->size; i++) {
        const struct stni_thread_mail *mail = stni_thread_mail_of(view, i);
        const int64_t *counts = mail->large ? mail->data.at.counts : (const void *)mail->data.bytes;
        if (counts[view->rank] != v->recv_counts[i])
            return stni_thread_fail_agreed(view->member, STN_ERR_MISMATCH,
                                           "all_to_all: rank %d sends %lld elements to rank %d, which wants %lld", i,
                                           (long long)counts[view->rank], view->rank, (long long)v->recv_counts[i]);
    }
    for (int i = 0; i < view->size; at += v->recv_counts[i++]) {
        const struct stni_thread_mail *mail = stni_thread_mail_of(view, i);
        const int64_t *counts = mail->large ? mail->data.at.counts : (const void *)mail->data.bytes;
        const void *data = mail->large ? mail->data.at.send : (const void *)(counts + view->size);
        copy_elements(v->recv, at, data, sum_before(counts, view->rank), v->recv_counts[i], stn_dtype_size(v->dtype));
    }
    return STN_OK;
}

static stn_status exchange(const struct stni_thread_view *view, int large)
{
    (void)large;
    return stni_thread_exchange_copy(view);
}

static stn_status barrier(const struct stni_thread_view *view, int large)
{
    (void)view;
    (void)large;
    return STN_OK;
}

static stn_status (*const copies[STNI_VERB_COUNT])(const struct stni_thread_view *view, int large) = {
    [STNI_VERB_ALL_REDUCE] = all_reduce,
    [STNI_VERB_REDUCE] = reduce,
    [STNI_VERB_ALL_GATHER] = all_gather,
    [STNI_VERB_GATHER] = gather,
    [STNI_VERB_REDUCE_SCATTER] = reduce_scatter,
    [STNI_VERB_SCATTER] = scatter,
    [STNI_VERB_BROADCAST] = broadcast,
    [STNI_VERB_ALL_TO_ALL] = all_to_all,
    [STNI_VERB_EXCHANGE] = exchange,
    [STNI_VERB_BARRIER] = barrier,
};

stn_status stni_thread_copy(const struct stni_thread_view *view, int large)
{
    return copies[view->verb->kind](view, large);
}

/* Elements that decide whether a collective is large: alike on all ranks, but for all_to_all, where each sees what its peers did. */
static int64_t deciding(const struct stni_verb *verb, int size)
{
    int gathers = verb->kind == STNI_VERB_ALL_GATHER || verb->kind == STNI_VERB_GATHER;
    return gathers ? largest(verb->counts, size) : verb->count;
}

/* Elements that this rank has to give. */
static int64_t given(const struct stni_verb *verb, int rank)
{
    if (verb->kind == STNI_VERB_ALL_GATHER || verb->kind == STNI_VERB_GATHER)
        return verb->counts[rank];
    if (verb->kind == STNI_VERB_SCATTER || verb->kind == STNI_VERB_BROADCAST)
        return rank == verb->root ? verb->count : 0;
    return verb->count;
}

static int pack_all_to_all(const struct stni_verb *verb, int size, struct stni_thread_mail *mail)
{
    size_t head = (size_t)size * sizeof *verb->counts, element = stn_dtype_size(verb->dtype);
    int64_t n = stni_counts_sum(verb->counts, size);
    if (head > STNI_THREAD_INLINE || n > (int64_t)((STNI_THREAD_INLINE - head) / element))
        return 1;
    memcpy(mail->data.bytes, verb->counts, head);
    if (n > 0)
        memcpy(mail->data.bytes + head, verb->send, (size_t)n * element);
    return 0;
}

int stni_thread_pack(const struct stni_verb *verb, int rank, int size, struct stni_thread_mail *mail)
{
    if (verb->kind == STNI_VERB_EXCHANGE)
        return 1;
    if (verb->kind == STNI_VERB_ALL_TO_ALL)
        return pack_all_to_all(verb, size, mail);
    size_t element = stn_dtype_size(verb->dtype);
    if (deciding(verb, size) > (int64_t)(STNI_THREAD_INLINE / element))
        return 1;
    int64_t n = given(verb, rank);
    if (n > 0)
        memcpy(mail->data.bytes, verb->send, (size_t)n * element);
    return 0;
}

size_t stni_thread_scratch(const struct stni_verb *verb, int size)
{
    if (verb->kind == STNI_VERB_EXCHANGE)
        return stni_thread_exchange_scratch(verb->messages);
    int reduces = verb->kind == STNI_VERB_ALL_REDUCE || verb->kind == STNI_VERB_REDUCE || verb->kind == STNI_VERB_REDUCE_SCATTER;
    return reduces ? 2 * (size_t)size * sizeof(stn_box) : 0;
}
