/* 3. The smallest collectives between two thread ranks, beside the installed MPI between two processes. */
#include "peer_mpi.h"
#include "world.h"

#include <math.h>
#include <stdio.h>

enum { RANKS = 2 };

struct latency_world {
    struct world world;
    struct peer_mpi *mpi; /* NULL where there is none */
    struct samples samples;
};

struct latency_rank {
    struct latency_world *world;
    stn_comm *comm;
    int rank, barrier;
};

static double run_ours(void *arg, int64_t n)
{
    struct latency_rank *rank = arg;
    float send[2] = {1, 2}, recv[2];
    stn_status status = STN_OK;
    const double start = bench_now();
    for (int64_t i = 0; i < n && status == STN_OK; i++)
        status = rank->barrier ? stn_comm_barrier(rank->comm, NULL)
                               : stn_comm_all_reduce(rank->comm, send, recv, 2, STN_DTYPE_F32, STN_SUM, NULL);
    return status == STN_OK ? bench_now() - start : -1;
}

/* Without a peer nothing is done: its column then says nothing, and the row is only reported. */
static double run_mpi(void *arg, int64_t n)
{
    struct latency_rank *rank = arg;
    if (rank->world->mpi == NULL)
        return (double)n;
    return rank->rank == 0 ? peer_mpi_run(rank->world->mpi, rank->barrier ? "barrier" : "allreduce", 2, 0, n) : 0;
}

static stn_status latency_rank_main(stn_context *context, void *arg)
{
    struct latency_world *world = arg;
    struct latency_rank rank = {.world = world, .comm = stn_context_comm(context), .rank = stn_context_rank(context)};
    for (rank.barrier = 0; rank.barrier < 2; rank.barrier++) {
        const struct contest contest = {.ours = run_ours, .peer = run_mpi, .ours_arg = &rank, .peer_arg = &rank};
        team_measure(&world->world.team, rank.rank, &contest, &world->samples);
        struct row row = {.name = "latency", .unit = "us", .gate = 1, .goal = 2};
        snprintf(row.label, sizeof row.label, "%s, threads vs MPI", rank.barrier ? "barrier" : "8-byte all-reduce");
        row_measure(&row, &world->samples, bench_times, 0, 1e-6);
        if (world->mpi == NULL)
            row.peer = row.ratio = row.gate = row.goal = NAN;
        if (rank.rank == 0)
            row_print(world->world.bench, &row);
    }
    return STN_OK;
}

void bench_latency(struct bench *bench)
{
    struct latency_world world = {.mpi = peer_mpi_start(RANKS)};
    world_launch(bench, RANKS, latency_rank_main, &world.world);
    peer_mpi_stop(&world.mpi);
}
