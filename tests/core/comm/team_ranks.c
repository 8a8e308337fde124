/* Threads for communicators of one process, whatever their tables. */
#include "team.h"

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

void team_run_on(int n, stn_comm *const *comms, team_body body, void *arg)
{
    struct rank *ranks = calloc((size_t)n, sizeof *ranks);
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    for (int r = 0; r < n; r++) {
        ranks[r] = (struct rank){comms[r], body, arg};
        pthread_create(&threads[r], NULL, rank_main, &ranks[r]);
    }
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
    free(threads);
    free(ranks);
}

void team_run(int n, team_body body, void *arg)
{
    team_run_hooked(n, 60, NULL, body, arg);
}
