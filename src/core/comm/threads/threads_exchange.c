/* The copy phase of an exchange: each rank copies, or combines, straight from its peers' boxes into its own.
 *
 * Scratch holds, for each message that is received, its place in the order of boxes, then the box it comes from,
 * then the sources of one reduction. */
#include "core/comm/threads/threads.h"

#include "core/box/box.h"
#include "core/comm/recv_groups.h"

struct plan {
    struct stni_recv_group *recv_groups;
    const stn_box **sources; /* by index of the received message */
    stn_box *addends;
};

static struct plan plan_at(void *scratch, int n_recv)
{
    struct plan plan;
    plan.addends = scratch;
    plan.recv_groups = (void *)(plan.addends + n_recv);
    plan.sources = (void *)(plan.recv_groups + n_recv);
    return plan;
}

size_t stni_thread_exchange_scratch(const stn_exchange *messages)
{
    return (size_t)messages->n_recv * (sizeof(stn_box) + sizeof(struct stni_recv_group) + sizeof(const stn_box *));
}

void stni_thread_exchange_prepare(const stn_exchange *messages, void *scratch)
{
    if (!messages->reduce)
        return;
    stni_recv_groups_fill(messages, plan_at(scratch, messages->n_recv).recv_groups);
}

/* The first of a peer's messages to `rank`; n_send if there is none. */
static int first_to(const stn_exchange *sent, int rank)
{
    int low = 0, high = sent->n_send;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (sent->send[middle].peer < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int same_shape(const stn_box *a, const stn_box *b)
{
    int same = a->ndim == b->ndim;
    for (int d = 0; same && d < a->ndim; d++)
        same = a->shape[d] == b->shape[d];
    return same;
}

static stn_status mismatch(const struct stni_thread_view *view, int from, int k, const char *what)
{
    return stni_thread_fail_agreed(view->member, STN_ERR_MISMATCH, "exchange: message %d from rank %d to rank %d %s", k,
                                   from, view->rank, what);
}

/* Pairs the messages received from `peer`, which begin at `at`, with those it sends; returns where they end in *end. */
static stn_status pair_with(const struct stni_thread_view *view, int peer, int at, const stn_box **sources, int *end)
{
    const stn_exchange *mine = view->coll->messages;
    const stn_exchange *theirs = stni_thread_mail_of(view, peer)->data.at.messages;
    int k = first_to(theirs, view->rank), begin = k;
    for (; at < mine->n_recv && mine->recv[at].peer == peer; at++, k++) {
        if (k >= theirs->n_send || theirs->send[k].peer != view->rank)
            return mismatch(view, peer, k - begin, "is wanted but not sent");
        if (!same_shape(&theirs->send[k].box, &mine->recv[at].box))
            return mismatch(view, peer, k - begin, "has different shapes at its ends");
        sources[at] = &theirs->send[k].box;
    }
    if (k < theirs->n_send && theirs->send[k].peer == view->rank)
        return mismatch(view, peer, k - begin, "is sent but not wanted");
    *end = at;
    return STN_OK;
}

static stn_status pair_all(const struct stni_thread_view *view, const stn_box **sources)
{
    int at = 0;
    for (int r = 0; r < view->size; r++)
        STNI_TRY(pair_with(view, r, at, sources, &at));
    return STN_OK;
}

static void combine_all(struct stni_thread_member *member, const stn_exchange *mine, const struct plan *plan)
{
    for (int i = 0, n; i < mine->n_recv; i += n) {
        const stn_box *dst = &mine->recv[plan->recv_groups[i].index].box;
        n = stni_recv_groups_run(plan->recv_groups, i, mine->n_recv);
        for (int k = 0; k < n; k++)
            plan->addends[k] = *plan->sources[plan->recv_groups[i + k].index];
        if (plan->recv_groups[i].data)
            stni_thread_reduce_boxes(member, 1, dst, n, plan->addends, mine->dtype, mine->op);
    }
}

stn_status stni_thread_exchange_copy(const struct stni_thread_view *view)
{
    const stn_exchange *mine = view->coll->messages;
    struct plan plan = plan_at(view->member->scratch, mine->n_recv);
    STNI_TRY(pair_all(view, plan.sources));
    if (mine->reduce) {
        combine_all(view->member, mine, &plan);
        return STN_OK;
    }
    for (int i = 0; i < mine->n_recv; i++)
        if (stni_box_numel(&mine->recv[i].box) > 0)
            stni_thread_copy_box(view->member, &mine->recv[i].box, plan.sources[i], stn_dtype_size(mine->dtype));
    return STN_OK;
}
