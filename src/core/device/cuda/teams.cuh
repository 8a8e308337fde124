/* Blocks divided into teams of threads: a team works on one line of elements, which its threads share in turn, and
 * reduces what they found.
 *
 * Where the elements of one position of all lines lie beside each other in memory, neighbouring threads are of
 * neighbouring teams, else of one team: so they read neighbouring elements in either case. */
#ifndef STNI_CORE_DEVICE_CUDA_TEAMS_CUH
#define STNI_CORE_DEVICE_CUDA_TEAMS_CUH

#include "core/device/cuda/grid.h"

namespace {

enum {
    TEAMS_THREADS = 256,    /* of a block */
    TEAMS_FEW_ELEMENTS = 4, /* of a thread: a longer line gets more threads */
    TEAMS_FEW_ROWS = 8      /* threads of a team, of teams side by side if there are enough */
};

struct teams {
    int rows;    /* threads of a team, a power of two */
    bool across; /* neighbouring threads are of neighbouring teams */
};

/* For `lines` lines of `elements` elements; the shape alone decides, and with it the order in which a team joins. */
inline teams teams_of(int64_t elements, int64_t lines, bool across)
{
    int rows = 1;
    while (rows < TEAMS_THREADS && rows * TEAMS_FEW_ELEMENTS < elements &&
           !(across && rows >= TEAMS_FEW_ROWS && lines >= TEAMS_THREADS / rows))
        rows *= 2;
    return {rows, across};
}

/* Of a block. */
STNI_HOST_DEVICE int teams_count(const teams &t)
{
    return TEAMS_THREADS / t.rows;
}

/* Which thread of which team this is. */
struct seat {
    int row, team;
    int step; /* from a thread of the block to the next one of its team */
};

STNI_DEVICE seat seat_of(const teams &t)
{
    const int thread = (int)threadIdx.x, count = teams_count(t);
    return t.across ? seat{thread / count, thread % count, count} : seat{thread % t.rows, thread / t.rows, 1};
}

/* Every thread of a team gets the join of its values: the upper half's with the lower's, until one is left. `shared`
 * has TEAMS_THREADS values; all threads of the block call it. */
template <class T, class J> STNI_DEVICE T reduce_team(T *shared, const teams &t, const seat &me, T value, J join)
{
    const int thread = (int)threadIdx.x;
    __syncthreads();
    shared[thread] = value;
    for (int half = t.rows / 2; half > 0; half /= 2) {
        __syncthreads();
        if (me.row < half)
            shared[thread] = value = join(value, shared[thread + half * me.step]);
    }
    __syncthreads();
    return shared[thread - me.row * me.step];
}

}

#endif
