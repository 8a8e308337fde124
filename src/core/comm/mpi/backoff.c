/* Waiting without blocking in MPI: every wait polls, so that it can look at the clock and at notices of failure. */
#include "core/comm/mpi/process.h"

#include <sched.h>
#include <time.h>

enum {
    SPINS = 40,       /* polls without anything between them */
    LOOK_EVERY = 64,  /* polls */
    SLEEP = 50000     /* nanoseconds: yields alone would take processor time from busy ranks */
};

int64_t stni_mpi_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int stni_mpi_wait_a_little(struct stni_mpi_backoff *backoff)
{
    static const struct timespec sleep = {.tv_nsec = SLEEP};
    int polls = ++backoff->polls;
    if (polls < SPINS)
        return 0;
    int64_t patience = backoff->sleep_after ? backoff->sleep_after : STNI_MPI_SLEEP_AFTER;
    if (backoff->begin && backoff->now - backoff->begin > patience)
        nanosleep(&sleep, NULL);
    else if (sched_yield() == 0 && polls % LOOK_EVERY != 0)
        return 0;
    backoff->now = stni_mpi_now();
    if (!backoff->begin)
        backoff->begin = backoff->now;
    return 1;
}
