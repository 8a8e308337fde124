/* Worlds that stn_launch makes. */
#include "steps_door.h"

#include "ranks.h"

#include <stdlib.h>

/* Under mpirun and torchrun the job's ranks alone. */
void steps_on_worlds(stn_rank_main body, void *arg)
{
    if (getenv("STN_TEST_MODULES") || getenv("MASTER_ADDR"))
        test_ranks(0, body, arg);
    else
        test_worlds(body, arg);
}
