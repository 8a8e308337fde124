#include "thread_ranks.h"

#include <shardtensor/context.h>

#include <stdio.h>

int thread_ranks_check(const char *instead)
{
    if (stn_job_size() == 0)
        return 0;
    fprintf(stderr,
            "ranks: got a process of a job, as mpirun or torchrun starts them, wanted one that starts its "
            "ranks as threads; %s\n",
            instead);
    return 2;
}
