/* What each collective copies, given what all ranks have published: no waiting, no allocation, nobody else's code.
 *
 * Reductions run in rank order on whichever rank does them, so that results are the same bits on all ranks and in
 * all runs. */
#include "core/comm/threads/threads.h"

#include "core/box/box.h"
#include "core/box/box_kernel.h"
#include "core/box/nontemporal.h"

#include <string.h>

enum {
    STREAM_BYTES = 1 << 21, /* from here on results do not fit into the caches, and are written by non-temporal stores */
    STREAM_SOURCES = 64,    /* with more, plain stores do */
    CHUNK_BYTES = 2048
};

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

static void copy_elements(const struct stni_thread_view *view, void *dst, int64_t dst_at, const void *src,
                          int64_t src_at, int64_t count, size_t size)
{
    char *to = (char *)dst + dst_at * (int64_t)size;
    const char *from = (const char *)src + src_at * (int64_t)size;
    if (count == 0 || to == from)
        return;
    if (count * (int64_t)size <= view->member->memcpy_bytes) {
        memcpy(to, from, (size_t)count * size);
        return;
    }
    stn_box dst_box, src_box;
    line(&dst_box, to, 0, count, size);
    line(&src_box, from, 0, count, size);
    stni_thread_copy_box(view->member, &dst_box, &src_box, size);
}

static const void *sent_by(const struct stni_thread_view *view, int peer)
{
    const struct stni_thread_mail *mail = stni_thread_mail_of(view, peer);
    return mail->large ? mail->data.at.send : mail->data.bytes;
}

/* For more data than the caches hold: each chunk is reduced into a buffer that stays in the L1 cache, then written
 * to every dst by non-temporal stores, so that no load of a source runs ahead of such a store. */
static void multi_reduce_streamed(enum stni_isa isa, stni_multi_reduce_fn fold, const struct stni_multi_reduce *all,
                                  int64_t size)
{
    const struct stni_copy_kernels *copies = STNI_ISA_PICK(stni_copy_kernels, isa);
    alignas(STNI_THREAD_LINE) char buffer[STNI_STREAMING_PAGE + CHUNK_BYTES];
    void *place = stni_streaming_place(buffer, all->n_dst, all->dst), *const to[] = {place};
    const void *from[STREAM_SOURCES];
    struct stni_multi_reduce chunk = {1, all->n_src, to, from, CHUNK_BYTES / size, all->divisor};
    for (int64_t at = 0; at < all->n; at += chunk.n) {
        chunk.n = all->n - at < chunk.n ? all->n - at : chunk.n;
        for (int s = 0; s < all->n_src; s++)
            from[s] = (const char *)all->src[s] + at * size;
        fold(&chunk);
        for (int d = 0; d < all->n_dst; d++)
            copies->stream((char *)all->dst[d] + at * size, place, chunk.n * size);
    }
    copies->fence();
}

/* Elements [from, from + count) of what every rank sends, combined into n_dst places; the first n_dst pointers of
 * scratch say where. */
static void combine(const struct stni_thread_view *view, int n_dst, int64_t from, int64_t count)
{
    const struct stni_coll *v = view->coll;
    size_t size = stn_dtype_size(v->dtype);
    void **dst = view->member->scratch;
    const void **src = (const void **)dst + view->size;
    if (count == 0)
        return;
    for (int r = 0; r < view->size; r++)
        src[r] = (const char *)sent_by(view, r) + from * (int64_t)size;
    stni_multi_reduce_fn fold = view->member->queue ? NULL : stni_multi_reduce_for(view->member->isa, v->dtype, v->op);
    struct stni_multi_reduce all = {n_dst, view->size, dst, src, count, v->op == STN_AVG ? view->size : 1};
    if (fold && v->count * (int64_t)size >= STREAM_BYTES && view->size <= STREAM_SOURCES) {
        multi_reduce_streamed(view->member->isa, fold, &all, (int64_t)size);
        return;
    }
    if (fold) {
        fold(&all);
        return;
    }
    stn_box *boxes = (stn_box *)(void *)(src + view->size);
    for (int i = 0; i < 2 * view->size; i++)
        line(&boxes[i], ((const void **)dst)[i], 0, count, size);
    stni_thread_reduce_boxes(view->member, n_dst, boxes, view->size, boxes + view->size, v->dtype, v->op);
}

static void combine_to(const struct stni_thread_view *view, void *dst, int64_t dst_at, int64_t from, int64_t count)
{
    *(void **)view->member->scratch = (char *)dst + dst_at * (int64_t)stn_dtype_size(view->coll->dtype);
    combine(view, 1, from, count);
}

/* This rank's part of the work on `count` elements of `size` bytes, a power of two: whole cache lines, so that no
 * two ranks write the same one. */
static void work_share(const struct stni_thread_view *view, size_t size, int64_t *from, int64_t *count)
{
    int64_t n = view->coll->count, line = STNI_THREAD_LINE / (int64_t)size;
    int64_t share = ((n + view->size - 1) / view->size + line - 1) & -line;
    *from = share * view->rank < n ? share * view->rank : n;
    *count = n - *from < share ? n - *from : share;
}

static stn_status all_reduce(const struct stni_thread_view *view, int large)
{
    if (!large) {
        combine_to(view, view->coll->recv, 0, 0, view->coll->count);
        return STN_OK;
    }
    int64_t from, count;
    const size_t size = stn_dtype_size(view->coll->dtype);
    work_share(view, size, &from, &count);
    void **dst = view->member->scratch;
    for (int r = 0; r < view->size; r++)
        dst[r] = (char *)stni_thread_mail_of(view, r)->data.at.recv + from * (int64_t)size;
    combine(view, view->size, from, count);
    return STN_OK;
}

static stn_status reduce(const struct stni_thread_view *view, int large)
{
    int root = view->coll->root;
    if (!large) {
        if (view->rank == root)
            combine_to(view, view->coll->recv, 0, 0, view->coll->count);
        return STN_OK;
    }
    int64_t from, count;
    work_share(view, stn_dtype_size(view->coll->dtype), &from, &count);
    combine_to(view, stni_thread_mail_of(view, root)->data.at.recv, from, from, count);
    return STN_OK;
}

static stn_status all_gather(const struct stni_thread_view *view, int large)
{
    const struct stni_coll *v = view->coll;
    int64_t at = 0;
    for (int r = 0; r < view->size; at += v->counts[r++])
        if (!large || r != view->rank || view->member->queue)
            copy_elements(view, v->recv, at, sent_by(view, r), 0, v->counts[r], stn_dtype_size(v->dtype));
    return STN_OK;
}

static stn_status gather(const struct stni_thread_view *view, int large)
{
    const struct stni_coll *v = view->coll;
    if (!large)
        return view->rank == v->root ? all_gather(view, 0) : STN_OK;
    copy_elements(view, stni_thread_mail_of(view, v->root)->data.at.recv, sum_before(v->counts, view->rank), v->send, 0,
                  v->counts[view->rank], stn_dtype_size(v->dtype));
    return STN_OK;
}

static stn_status reduce_scatter(const struct stni_thread_view *view, int large)
{
    const struct stni_coll *v = view->coll;
    (void)large;
    combine_to(view, v->recv, 0, sum_before(v->counts, view->rank), v->counts[view->rank]);
    return STN_OK;
}

static stn_status scatter(const struct stni_thread_view *view, int large)
{
    const struct stni_coll *v = view->coll;
    (void)large;
    copy_elements(view, v->recv, 0, sent_by(view, v->root), sum_before(v->counts, view->rank), v->counts[view->rank],
                  stn_dtype_size(v->dtype));
    return STN_OK;
}

static stn_status broadcast(const struct stni_thread_view *view, int large)
{
    const struct stni_coll *v = view->coll;
    (void)large;
    if (view->rank != v->root)
        copy_elements(view, v->recv, 0, sent_by(view, v->root), 0, v->count, stn_dtype_size(v->dtype));
    return STN_OK;
}

/* What a rank sends to each; in a small mail the counts stand before the elements. */
static const int64_t *counts_in(const struct stni_thread_view *view, const struct stni_thread_mail *mail)
{
    if (!mail->large)
        return (const void *)mail->data.bytes;
    return view->size <= STNI_THREAD_FEW ? mail->data.few.counts : mail->data.at.counts;
}

static stn_status all_to_all(const struct stni_thread_view *view, int large)
{
    const struct stni_coll *v = view->coll;
    int64_t at = 0;
    (void)large;
    for (int i = 0; i < view->size; i++) {
        const int64_t *counts = counts_in(view, stni_thread_mail_of(view, i));
        if (counts[view->rank] != v->recv_counts[i])
            return stni_thread_fail_agreed(view->member, STN_ERR_MISMATCH,
                                           "all_to_all: rank %d sends %lld elements to rank %d, which wants %lld", i,
                                           (long long)counts[view->rank], view->rank, (long long)v->recv_counts[i]);
    }
    for (int i = 0; i < view->size; at += v->recv_counts[i++]) {
        const struct stni_thread_mail *mail = stni_thread_mail_of(view, i);
        if (i == view->rank && mail->large && !view->member->queue)
            continue;
        const int64_t *counts = counts_in(view, mail);
        const void *data = mail->large ? mail->data.at.send : (const void *)(counts + view->size);
        copy_elements(view, v->recv, at, data, sum_before(counts, view->rank), v->recv_counts[i],
                      stn_dtype_size(v->dtype));
    }
    return STN_OK;
}

void stni_thread_copy_own(const struct stni_thread_view *view, int second_half)
{
    const struct stni_coll *v = view->coll;
    int gathers = v->kind == STNI_COLL_ALL_GATHER;
    if (view->member->queue || !stni_thread_mail_of(view, view->rank)->large)
        return;
    int64_t count = v->counts[view->rank], half = count / 2;
    int64_t from = gathers ? 0 : sum_before(v->counts, view->rank);
    int64_t to = sum_before(gathers ? v->counts : v->recv_counts, view->rank);
    if (!gathers && v->recv_counts[view->rank] != count)
        return; /* the copy phase will refuse it */
    if (second_half)
        copy_elements(view, v->recv, to + half, v->send, from + half, count - half, stn_dtype_size(v->dtype));
    else
        copy_elements(view, v->recv, to, v->send, from, half, stn_dtype_size(v->dtype));
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

static stn_status (*const copies[STNI_COLL_COUNT])(const struct stni_thread_view *view, int large) = {
    [STNI_COLL_ALL_REDUCE] = all_reduce,
    [STNI_COLL_REDUCE] = reduce,
    [STNI_COLL_ALL_GATHER] = all_gather,
    [STNI_COLL_GATHER] = gather,
    [STNI_COLL_REDUCE_SCATTER] = reduce_scatter,
    [STNI_COLL_SCATTER] = scatter,
    [STNI_COLL_BROADCAST] = broadcast,
    [STNI_COLL_ALL_TO_ALL] = all_to_all,
    [STNI_COLL_EXCHANGE] = exchange,
    [STNI_COLL_BARRIER] = barrier,
};

stn_status stni_thread_copy(const struct stni_thread_view *view, int large)
{
    return copies[view->coll->kind](view, large);
}

/* Elements that decide whether a collective is large: alike on all ranks, but for all_to_all, where each sees what
 * its peers did. */
static int64_t deciding(const struct stni_coll *coll, int size)
{
    int gathers = coll->kind == STNI_COLL_ALL_GATHER || coll->kind == STNI_COLL_GATHER;
    return gathers ? largest(coll->counts, size) : coll->count;
}

/* Elements that this rank has to give. */
static int64_t given(const struct stni_coll *coll, int rank)
{
    if (coll->kind == STNI_COLL_ALL_GATHER || coll->kind == STNI_COLL_GATHER)
        return coll->counts[rank];
    if (coll->kind == STNI_COLL_SCATTER || coll->kind == STNI_COLL_BROADCAST)
        return rank == coll->root ? coll->count : 0;
    return coll->count;
}

static int pack_all_to_all(const struct stni_thread_member *member, const struct stni_coll *coll,
                           struct stni_thread_mail *mail)
{
    const int size = member->group->size;
    size_t head = (size_t)size * sizeof *coll->counts, element = stn_dtype_size(coll->dtype);
    int64_t n = stni_counts_sum(coll->counts, size);
    if ((int64_t)head + n * (int64_t)element > member->inline_bytes)
        return member->large;
    memcpy(mail->data.bytes, coll->counts, head);
    if (n > 0)
        memcpy(mail->data.bytes + head, coll->send, (size_t)n * element);
    return 0;
}

int stni_thread_pack(const struct stni_thread_member *member, const struct stni_coll *coll,
                     struct stni_thread_mail *mail)
{
    if (coll->kind == STNI_COLL_EXCHANGE)
        return member->large;
    if (coll->kind == STNI_COLL_ALL_TO_ALL)
        return pack_all_to_all(member, coll, mail);
    size_t element = stn_dtype_size(coll->dtype);
    if (deciding(coll, member->group->size) * (int64_t)element > member->inline_bytes)
        return member->large;
    int64_t n = given(coll, member->rank);
    if (n > 0)
        memcpy(mail->data.bytes, coll->send, (size_t)n * element);
    return 0;
}

size_t stni_thread_scratch(const struct stni_coll *coll, int size)
{
    if (coll->kind == STNI_COLL_EXCHANGE)
        return stni_thread_exchange_scratch(coll->messages);
    int reduces =
        coll->kind == STNI_COLL_ALL_REDUCE || coll->kind == STNI_COLL_REDUCE || coll->kind == STNI_COLL_REDUCE_SCATTER;
    return reduces ? 2 * (size_t)size * (sizeof(void *) + sizeof(stn_box)) : 0;
}
