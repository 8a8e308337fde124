/* The ranks of a measurement. */
#ifndef STN_TESTS_CUDA_BENCH_TEAM_H
#define STN_TESTS_CUDA_BENCH_TEAM_H

#include "bench.h"

struct bench_team {
    struct bench *bench;
    void (*body)(struct bench_rank *rank);
    int size;
    pthread_barrier_t barrier;
    double found[BENCH_MOST_RANKS];
    char texts[BENCH_MOST_RANKS][BENCH_MOST_TEXT]; /* of what failed on each */
};

void team_wait(struct bench_team *team);

/* The largest that the ranks have found, or a negative number where one found such a one: the same on all. */
double team_slowest(struct bench_rank *rank, double found);

/* Prints that a row could not be measured, and the first text, which is forgotten; every rank calls it. */
void team_fail(struct bench_rank *rank, const char *name, const char *label);

#endif
