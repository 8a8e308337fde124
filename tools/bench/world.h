/* Contexts that benchmarks run in. */
#ifndef BENCH_WORLD_H
#define BENCH_WORLD_H

#include "team.h"

/** What a launch of thread ranks works on: a benchmark's own state begins with it. */
struct world {
    struct bench *bench;
    struct team team;
    struct samples samples; /* of the contest under way */
};

/** Runs `rank_main` on thread ranks; `world` is its argument. A failure is printed and counted. */
void world_launch(struct bench *bench, int ranks, stn_rank_main rank_main, struct world *world);

/** Measures a contest and fills in its row, but for counts. All ranks call it. */
void world_measure(struct world *world, int rank, const struct contest *contest, struct row *row);

/** Measures a contest and prints its row from rank 0, with what one repetition of ours does on that rank: `label` and
 * gates are filled in. All ranks call it. */
void world_contest(struct world *world, stn_context *context, const struct contest *contest, struct row *row);

/** A context that plays rank `rank` of a fake world; NULL, printed and counted, where that fails. */
stn_context *world_fake(struct bench *bench, int rank, int size);

/** A context of one rank; NULL, printed and counted, where that fails. */
stn_context *world_alone(struct bench *bench);

/** Counters of this rank. */
stn_stats world_stats(stn_context *context);

/** A tensor of `spec` filled with small numbers; NULL where it could not be made. f32 only. The caller owns it. */
stn_tensor *world_tensor(stn_context *context, const stn_spec *spec);

#endif
