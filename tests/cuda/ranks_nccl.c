/* Ranks of NCCL, each on its own device. */
#include "module/ranks_door.h"

#include "nccl_ranks.h"

#include <stdio.h>

stn_comm *ranks_comm(stn_comm *threads)
{
    return nccl_open(threads, 60, 0);
}

const char *ranks_device(int rank, char *text)
{
    snprintf(text, 16, "cuda:%d", rank);
    return text;
}

int ranks_fit(int ranks)
{
    return nccl_fits(ranks);
}
