/* Adding where several threads of a block may mean one place: they take turns, the threads of a place in ascending
 * order, so that sums have the same bits in every run. Threads whose places share a slot take turns too.
 *
 *     bool waits = ..., more = true;
 *     for (int turn = 0; more && turn < MOST_TURNS; turn++) {
 *         const bool mine = begin_turn(t, slot, waits);
 *         if (mine)
 *             ... add ...
 *         waits = waits && !mine;
 *         more = end_turn(t, slot, mine, waits);
 *     }
 *
 * Where all places differ that is one turn. If `more` is left many threads mean one place: of those that wait the first
 * of each place adds what all of them have, is_first_of_place. All threads of the block call all of these. */
#ifndef STNI_CORE_DEVICE_CUDA_TURNS_CUH
#define STNI_CORE_DEVICE_CUDA_TURNS_CUH

#include "core/device/cuda/grid.h"

namespace {

enum { TURN_SLOTS = 4096, MOST_TURNS = 6 };

constexpr unsigned NO_THREAD = 0xffffffffu;

/* In memory that the block shares: whose turn it is in each slot, and whether any thread waits. */
struct turns {
    unsigned *slot; /* TURN_SLOTS */
    unsigned *waiting;
};

/* Before the first turn. */
STNI_DEVICE void init_turns(const turns &t, int threads)
{
    for (int k = (int)threadIdx.x; k < TURN_SLOTS; k += threads)
        t.slot[k] = NO_THREAD;
    __syncthreads();
}

STNI_DEVICE unsigned slot_of_place(int64_t place)
{
    return (unsigned)place % TURN_SLOTS;
}

/* The least thread of those that ask gets the slot. */
STNI_DEVICE void ask_for_slot(unsigned *slot, unsigned me)
{
    unsigned expected = NO_THREAD, found = atomicCAS(slot, expected, me);
    while (found != expected && found > me) {
        expected = found;
        found = atomicCAS(slot, expected, me);
    }
}

/* Whether it is this thread's turn. */
STNI_DEVICE bool begin_turn(const turns &t, unsigned slot, bool waits)
{
    if (waits)
        ask_for_slot(&t.slot[slot], threadIdx.x);
    __syncthreads();
    const bool mine = waits && t.slot[slot] == threadIdx.x;
    if (threadIdx.x == 0)
        *t.waiting = 0;
    __syncthreads();
    return mine;
}

/* Whether there is another turn. */
STNI_DEVICE bool end_turn(const turns &t, unsigned slot, bool mine, bool waits)
{
    if (mine)
        t.slot[slot] = NO_THREAD;
    if (waits)
        atomicExch(t.waiting, 1u);
    __syncthreads();
    return *t.waiting != 0;
}

/* Of those that wait: `place` has every thread's, -1 of those that do not. */
STNI_DEVICE bool is_first_of_place(const int64_t *place)
{
    const int me = (int)threadIdx.x;
    bool is_first = place[me] >= 0;
    for (int k = 0; k < me && is_first; k++)
        is_first = place[k] != place[me];
    return is_first;
}

}

#endif
