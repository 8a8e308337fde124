#include "team.h"

#include "core/comm/threads/threads.h"

#include <pthread.h>

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
    if (!CHECK_STATUS(stni_comm_create_threads(n, deadline_seconds, comms), STN_OK))
        return;
    if (hook)
        ((struct stni_thread_member *)comms[0]->impl)->group->family->hook = *hook;
    for (int r = 0; r < n; r++) {
        ranks[r] = (struct rank){comms[r], body, arg};
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
