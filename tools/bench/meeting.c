#include "meeting.h"

#include <sched.h>

enum { SPINS = 1 << 16 }; /* before the core is offered to others: where both ranks share one, waiting alone would take a time slice */

void meeting_wait(struct meeting *meeting, int rank)
{
    const uint64_t times = atomic_load_explicit(&meeting->rank[rank].arrived, memory_order_relaxed) + 1;
    atomic_store_explicit(&meeting->rank[rank].arrived, times, memory_order_release);
    for (int spins = 0; atomic_load_explicit(&meeting->rank[1 - rank].arrived, memory_order_acquire) < times; spins++)
        if (spins > SPINS)
            sched_yield();
}

const void *meeting_show(struct meeting *meeting, int rank, const void *shows)
{
    const int slot = (atomic_load_explicit(&meeting->rank[rank].arrived, memory_order_relaxed) + 1) % 2;
    meeting->rank[rank].shows[slot] = shows;
    meeting_wait(meeting, rank);
    return meeting->rank[1 - rank].shows[slot];
}
