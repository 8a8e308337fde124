/* Worlds that stn_launch makes. */
#include "steps_door.h"

#include "ranks.h"

#include <stdlib.h>

/* Ranks whose data are on a device of a module's: threads, or the job's. */
static void on_device(stn_rank_main body, void *arg, const char *device)
{
    const stn_context_options options = {
        .size = sizeof options, .device = device, .module_path = getenv("STN_TEST_DEVICE_MODULES")};
    const int in_job = getenv("MASTER_ADDR") != NULL;
    for (int n = in_job ? 0 : 1; n <= (in_job ? 0 : 3); n++)
        CHECK_STATUS(test_launch(n, &options, body, arg), STN_OK);
}

/* Under mpirun and torchrun the job's ranks alone. */
void steps_on_worlds(stn_rank_main body, void *arg)
{
    const char *device = getenv("STN_TEST_DEVICE");
    if (device)
        on_device(body, arg, device);
    else if (getenv("STN_TEST_MODULES") || getenv("MASTER_ADDR"))
        test_ranks(0, body, arg);
    else
        test_worlds(body, arg);
}
