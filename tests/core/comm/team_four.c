/* The same bodies on communicators whose tables have the four entries that are needed and no more; thread ranks are
 * behind them. */
#include "team.h"

static stn_status all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                             stn_reduce_op op)
{
    const struct stni_coll coll = {
        .kind = STNI_COLL_ALL_REDUCE, .dtype = dtype, .op = op, .count = count, .send = send, .recv = recv};
    stn_comm *inner = impl;
    return inner->run(inner, queue, &coll);
}

static stn_status group(void *impl, stn_queue *queue, const stn_exchange *messages)
{
    const struct stni_coll coll = {.kind = STNI_COLL_GROUP, .dtype = messages->dtype, .messages = messages};
    stn_comm *inner = impl;
    return inner->run(inner, queue, &coll);
}

static stn_status subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    stn_comm *made = NULL;
    stn_status status = stni_comm_subset(impl, queue, ranks, n_ranks, &made);
    if (status == STN_OK)
        *out = made;
    return status;
}

static void destroy(void *impl)
{
    stn_comm *inner = impl;
    stn_comm_destroy(&inner);
}

static const stn_comm_ops four = {.size = sizeof four,
                                  .name = "four",
                                  .all_reduce = all_reduce,
                                  .group = group,
                                  .subset = subset,
                                  .destroy = destroy};

void team_run_hooked(int n, double deadline_seconds, const struct stni_thread_hook *hook, team_body body, void *arg)
{
    stn_comm **inner = calloc((size_t)n, sizeof *inner), **comms = calloc((size_t)n, sizeof *comms);
    if (!CHECK(hook == NULL) || !CHECK_STATUS(stni_comm_create_threads(n, deadline_seconds, inner), STN_OK))
        return;
    for (int r = 0; r < n; r++)
        CHECK_STATUS(stn_comm_create(&four, inner[r], r, n, &comms[r]), STN_OK);
    team_run_on(n, comms, body, arg);
    free(comms);
    free(inner);
}
