/* The same bodies on the ranks of an MPI job: worlds smaller than the job are subsets of it, larger ones are the
 * whole of it. */
#include "team.h"

#include <shardtensor/module.h>

#include <stdio.h>

static const char *folder(void)
{
    return getenv("STN_TEST_MODULES");
}

/* Ranks may come late from the case before. */
static stn_comm *job(void)
{
    char why[256] = "";
    stn_comm *comm = NULL;
    const stn_comm_options options = {sizeof options, folder(), "deadline=60", why, sizeof why};
    if (!CHECK_STATUS(stn_comm_open("mpi", &options, &comm), STN_OK))
        fprintf(stderr, "%s\n", why);
    return comm;
}

void team_run_hooked(int n, double deadline_seconds, const struct stni_thread_hook *hook, team_body body, void *arg)
{
    stn_comm *world = job(), *first = NULL;
    if (!world || !CHECK(hook == NULL))
        return;
    int rank = stn_comm_rank(world), size = stn_comm_size(world), ranks[64];
    test_set_rank(rank);
    world->ops->set_deadline(world->impl, deadline_seconds);
    for (int r = 0; r < n && r < 64; r++)
        ranks[r] = r;
    if (n >= size)
        body(world, arg);
    else if (rank < n && CHECK_STATUS(stn_comm_subset(world, ranks, n, &first), STN_OK))
        body(first, arg);
    stn_comm_destroy(&first);
    stn_comm_destroy(&world);
}

void team_run(int n, team_body body, void *arg)
{
    team_run_hooked(n, 60, NULL, body, arg);
}
