/* Contexts for the tests of the core, on ranks of MPI. */
#include "core_ranks.h"

#include "counted.h"
#include "harness.h"

#include <shardtensor/module.h>

#include <stdio.h>
#include <stdlib.h>

enum { MAX_RANKS = 16 };

const int ranks_are_processes = 1;

stn_context_options ranks_options(void)
{
    return (stn_context_options){
        .size = sizeof(stn_context_options), .allocator = &counted_allocator, .deadline_seconds = 30};
}

static void run_body(stn_comm *comm, ranks_body body, void *arg)
{
    stn_context_options options = ranks_options();
    struct stni_error error = {.status = STN_OK};
    stn_context *context = NULL;
    options.comm = comm;
    CHECK_STATUS(stni_context_create_core(&options, &context, &error), STN_OK);
    if (!CHECK_STR(error.text, ""))
        return;
    body(context, arg);
    stni_context_destroy_core(context);
}

void on_one_rank(ranks_body body, void *arg)
{
    run_body(NULL, body, arg);
}

void on_ranks(int size, ranks_body body, void *arg)
{
    char why[256] = "";
    const stn_comm_options how = {sizeof how, getenv("STN_TEST_MODULES"), "deadline=30", why, sizeof why};
    stn_comm *world = NULL, *first = NULL;
    int ranks[MAX_RANKS];
    if (!CHECK_STATUS(stn_comm_open("mpi", &how, &world), STN_OK)) {
        fprintf(stderr, "%s\n", why);
        return;
    }
    int rank = stn_comm_rank(world), job = stn_comm_size(world);
    test_set_rank(rank);
    for (int r = 0; r < size && r < MAX_RANKS; r++)
        ranks[r] = r;
    if (size >= job)
        run_body(world, body, arg);
    else if (rank < size && CHECK_STATUS(stn_comm_subset(world, ranks, size, &first), STN_OK))
        run_body(first, body, arg);
    if (size < job)
        stn_comm_destroy(&world);
}
