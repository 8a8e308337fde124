/* Measuring on several ranks at once: they start together, and the slowest one's time counts. */
#ifndef BENCH_TEAM_H
#define BENCH_TEAM_H

#include "bench.h"

#include <pthread.h>

enum { TEAM_MAX_RANKS = 8 };

struct team {
    const struct bench *bench;
    int ranks;
    pthread_barrier_t barrier; /* ranks that wait sleep, so that they take no core from a peer */
    double seconds[TEAM_MAX_RANKS];
};

/** Does `n` repetitions as this rank and returns the seconds they took; negative where it failed. */
typedef double (*team_trial)(void *arg, int64_t n);

/** Both sides of a comparison, as one rank sees them. */
struct contest {
    team_trial ours, peer;
    void *ours_arg, *peer_arg;
    int64_t repetitions; /* of each measurement; 0: as many as last bench->seconds */
};

int team_init(struct team *team, const struct bench *bench, int ranks); /**< 0 when that is impossible. */
void team_fini(struct team *team);

void team_wait(struct team *team); /**< All ranks meet. */

/** Chooses the way, of `ways`, in which the trial is fastest with all ranks at work, and leaves it chosen; all ranks
 * take the same. */
void team_choose(struct team *team, int rank, int ways, void (*choose)(void *arg, int way), team_trial trial,
                 void *arg);

/** Measures pairs; all ranks call it. `samples` is the same on all of them, and empty where a trial failed. */
void team_measure(struct team *team, int rank, const struct contest *contest, struct samples *samples);

#endif
