/* 15. Training steps of whole models whose space, or tokens, is cut over two ranks: threads beside the same step
 * without ranks, and processes of MPI beside threads. */
#include "peer_mpi.h"
#include "steps.h"

#include <stdio.h>

enum { RANKS = 2, SAMPLES = 2 };

struct e2e_rank {
    struct steps_rank steps;
    struct peer_mpi *mpi; /* NULL: none, or another rank */
};

struct e2e_world {
    struct steps_world steps;
    struct peer_mpi *mpi;
};

/* On two processes; the threads sleep meanwhile. */
static double run_mpi(void *arg, int64_t n)
{
    const struct e2e_rank *rank = arg;
    const struct model *model = &rank->steps.ours.model;
    return rank->mpi ? peer_mpi_run(rank->mpi, model->kind->name, model->samples, model->is_small, n) : 0;
}

/* The processes' counts are not those of this rank's context: the row has none. */
static void measure_mpi(struct e2e_rank *rank, struct row *row)
{
    struct world *world = &rank->steps.world->world;
    const struct contest contest = {
        .ours = run_mpi, .peer = steps_run, .ours_arg = rank, .peer_arg = &rank->steps.ours};
    world_measure(world, rank->steps.rank, &contest, row);
    if (rank->steps.rank == 0)
        row_print(world->bench, row);
}

static void measure(struct e2e_rank *rank, int with_mpi)
{
    struct row row = {.name = "e2e", .gate = with_mpi ? 0.95 : 0.9, .goal = with_mpi ? 1 : 0.97};
    snprintf(row.label, sizeof row.label, "%s, %s", rank->steps.ours.model.kind->name,
             with_mpi ? "MPI vs threads" : "threads");
    if (with_mpi)
        measure_mpi(rank, &row);
    else
        steps_contest(&rank->steps, &row);
}

static stn_status e2e_rank_main(stn_context *context, void *arg)
{
    struct e2e_world *world = arg;
    struct e2e_rank rank;
    const stn_status status = steps_make(&rank.steps, context, &world->steps);
    rank.mpi = rank.steps.rank == 0 ? world->mpi : NULL;
    if (status == STN_OK)
        measure(&rank, 0);
    if (status == STN_OK && world->mpi)
        measure(&rank, 1);
    steps_drop(&rank.steps);
    return status;
}

void bench_e2e(struct bench *bench)
{
    static const struct model_kind *const kinds[] = {&model_unet, &model_transformer, &model_sfno};
    struct peer_mpi *mpi = peer_mpi_start(RANKS);
    if (mpi == NULL)
        fprintf(stderr, "e2e: there is no MPI to run on\n");
    for (int i = 0; i < (int)(sizeof kinds / sizeof kinds[0]); i++) {
        const struct steps_case c = {kinds[i], RANKS, {RANKS}, SAMPLES, 1};
        struct e2e_world world = {.steps = {.c = &c}, .mpi = mpi};
        world_launch(bench, RANKS, e2e_rank_main, &world.steps.world);
    }
    if (mpi)
        peer_mpi_stop(&mpi);
}
