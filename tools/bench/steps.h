/* Training steps of thread ranks, beside the same work without ranks: each thread has its share of the samples and of
 * the update, on a context of its own, and sends nothing. */
#ifndef BENCH_STEPS_H
#define BENCH_STEPS_H

#include "model.h"
#include "world.h"

struct steps_case {
    const struct model_kind *kind;
    int ranks;
    int sizes[2];    /* of the mesh's axes */
    int64_t samples; /* of a part, of all ranks together: a multiple of the ranks */
    int n_parts;
};

struct steps_world {
    struct world world;
    const struct steps_case *c;
    double whole[2]; /* losses of the first steps of one rank that has all samples */
};

/** What a trial steps. */
struct steps_side {
    struct model model;
    double cpu_seconds; /* that the thread has used in `steps` steps: of a contest, whatever else the machine does */
    int64_t steps;
};

/** One rank's both sides. */
struct steps_rank {
    struct steps_world *world;
    stn_context *context, *alone;
    int rank;
    struct steps_side ours, peer;
};

/** Makes both sides, once the losses of ours were found to be those of one rank. Collective; all get the same. */
stn_status steps_make(struct steps_rank *rank, stn_context *context, struct steps_world *world);
void steps_drop(struct steps_rank *rank);

/** `n` steps of a side, as a trial. */
double steps_run(void *side, int64_t n);

/** Measures threads beside the peer and prints the row, with the time that the threads' cores worked. */
void steps_contest(struct steps_rank *rank, struct row *row);

#endif
