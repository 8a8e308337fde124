/* Worlds of ranks of NCCL. */
#include "train/steps_door.h"

#include "harness.h"
#include "nccl_ranks.h"

struct run {
    stn_rank_main body;
    void *arg;
};

static void run_body(struct nccl_rank *r)
{
    const struct run *run = r->arg;
    CHECK_STATUS(run->body(r->context, run->arg), STN_OK);
}

void steps_on_worlds(stn_rank_main body, void *arg)
{
    struct run run = {body, arg};
    const int ranks[] = {2, 3, 6};
    for (int i = 0; i < 3; i++)
        nccl_run(ranks[i], 60, 0, run_body, &run);
}
