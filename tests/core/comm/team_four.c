/* The same bodies on communicators whose tables have the four entries that are needed and no more; thread ranks are behind them. */
#include "team.h"

#include <pthread.h>

static stn_status all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype, stn_reduce_op op)
{
    const struct stni_coll coll = {.kind = STNI_COLL_ALL_REDUCE, .dtype = dtype, .op = op, .count = count, .send = send, .recv = recv};
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

static const stn_comm_ops four = {
    .size = sizeof four, .name = "four", .all_reduce = all_reduce, .group = group, .subset = subset, .destroy = destroy};

struct rank {
    stn_comm *comm;
    team_body body;
    void *arg;
};

static void *rank_main(void *arg)
{
    struct rank *rank = arg;
    test_set_rank(stn_comm_rank(rank->comm));
    rank->body(rank->comm, rank->arg);
    stn_comm_destroy(&rank->comm);
    return NULL;
}

void team_run_hooked(int n, double deadline_seconds, const struct stni_thread_hook *hook, team_body body, void *arg)
{
    stn_comm **comms = calloc((size_t)n, sizeof *comms);
    struct rank *ranks = calloc((size_t)n, sizeof *ranks);
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    if (!CHECK(hook == NULL) || !CHECK_STATUS(stni_comm_create_threads(n, deadline_seconds, comms), STN_OK))
        return;
    for (int r = 0; r < n; r++) {
        ranks[r] = (struct rank){.body = body, .arg = arg};
        CHECK_STATUS(stn_comm_create(&four, comms[r], r, n, &ranks[r].comm), STN_OK);
        pthread_create(&threads[r], NULL, rank_main, &ranks[r]);
    }
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
    free(threads);
    free(ranks);
    free(comms);
}

void team_run(int n, team_body body, void *arg)
{
    team_run_hooked(n, 60, NULL, body, arg);
}
