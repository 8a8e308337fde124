/* 4. All-reduce between two thread ranks, beside both ranks copying as much with memcpy, beside its copies by hand,
 * and beside the installed MPI. */
#include "buffers.h"
#include "meeting.h"
#include "peer_mpi.h"
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, QUICK_SIZES = 2, SMALL = 1 << 20 }; /* SMALL: bytes up to which meeting takes a time that counts */

static const int64_t byte_counts[] = {64 << 10, 1 << 20, 16 << 20, 128 << 20};

enum { SIZES = sizeof byte_counts / sizeof byte_counts[0] };

struct allreduce_world {
    struct world world;
    struct peer_mpi *mpi;
    struct meeting meeting;
    struct samples samples;
};

struct allreduce_rank {
    struct allreduce_world *world;
    stn_context *context;
    int rank;
    stn_dtype dtype;
    int64_t bytes;
    void *send, *recv;
};

static double run_ours(void *arg, int64_t n)
{
    struct allreduce_rank *rank = arg;
    stn_comm *comm = stn_context_comm(rank->context);
    const int64_t count = rank->bytes / (int64_t)stn_dtype_size(rank->dtype);
    stn_status status = STN_OK;
    const double start = bench_now();
    for (int64_t i = 0; i < n && status == STN_OK; i++)
        status = stn_comm_all_reduce(comm, rank->send, rank->recv, count, rank->dtype, STN_SUM, NULL);
    return status == STN_OK ? bench_now() - start : -1;
}

static double run_memcpy(void *arg, int64_t n)
{
    struct allreduce_rank *rank = arg;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++)
        memcpy(rank->recv, rank->send, (size_t)rank->bytes);
    return bench_now() - start;
}

/* What no all-reduce in place can do without, for two ranks that add one half each and take the other: to read the
 * other's part of that half (here without adding to it), to read its sums, and to meet before each other's memory is
 * read, when sums are there, and before anything is written again. */
static double run_by_hand(void *arg, int64_t n)
{
    struct allreduce_rank *rank = arg;
    struct meeting *meeting = &rank->world->meeting;
    const size_t half = (size_t)rank->bytes / 2, mine = (size_t)rank->rank * half, others = half - mine;
    char *recv = rank->recv;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
        const char *theirs = meeting_show(meeting, rank->rank, rank->send);
        memcpy(recv + mine, theirs + mine, half);
        const char *sums = meeting_show(meeting, rank->rank, recv);
        memcpy(recv + others, sums + others, half);
        meeting_wait(meeting, rank->rank);
    }
    return bench_now() - start;
}

static double run_mpi(void *arg, int64_t n)
{
    struct allreduce_rank *rank = arg;
    return rank->rank == 0 ? peer_mpi_run(rank->world->mpi, "allreduce", rank->bytes / 4, 0, n) : 0;
}

static void measure(struct allreduce_rank *rank, const char *peer_name, team_trial peer, double gate, double goal)
{
    struct allreduce_world *world = rank->world;
    const struct contest contest = {.ours = run_ours, .peer = peer, .ours_arg = rank, .peer_arg = rank};
    team_measure(&world->world.team, rank->rank, &contest, &world->samples);
    struct row row = {.name = "allreduce", .unit = "us", .gate = gate, .goal = goal};
    char size[32];
    buffer_describe(rank->bytes, size, sizeof size);
    snprintf(row.label, sizeof row.label, "%s %s vs %s", stn_dtype_name(rank->dtype), size, peer_name);
    row_measure(&row, &world->samples, bench_times, 0, 1e-6);
    stn_stats before = world_stats(rank->context);
    run_ours(rank, 1);
    stn_stats after = world_stats(rank->context);
    row_count(&row, "messages", (double)(after.messages - before.messages));
    row_count(&row, "bytes_sent", (double)(after.bytes_sent - before.bytes_sent));
    row_count(&row, "allocations", (double)(after.allocations - before.allocations));
    if (rank->rank == 0)
        row_print(world->world.bench, &row);
}

static stn_status allreduce_rank_main(stn_context *context, void *arg)
{
    struct allreduce_world *world = arg;
    struct allreduce_rank rank = {.world = world, .context = context, .rank = stn_context_rank(context)};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16};
    const int sizes = world->world.bench->quick ? QUICK_SIZES : SIZES;
    for (int i = 0; i < sizes; i++) {
        rank.bytes = byte_counts[i];
        rank.send = buffer_make((size_t)rank.bytes);
        rank.recv = buffer_make((size_t)rank.bytes);
        if (rank.send == NULL || rank.recv == NULL)
            return STN_ERR_MEMORY;
        for (int d = 0; d < 2; d++) {
            rank.dtype = dtypes[d];
            measure(&rank, "memcpy", run_memcpy, 0.7, 0.9);
            if (rank.bytes <= SMALL)
                measure(&rank, "its copies by hand", run_by_hand, NAN, NAN);
            if (world->mpi != NULL && rank.dtype == STN_DTYPE_F32) /* MPI has no bf16 */
                measure(&rank, "MPI", run_mpi, 4, 4);
        }
        free(rank.send);
        free(rank.recv);
    }
    return STN_OK;
}

void bench_allreduce(struct bench *bench)
{
    struct allreduce_world world = {.mpi = peer_mpi_start(RANKS)};
    world_launch(bench, RANKS, allreduce_rank_main, &world.world);
    peer_mpi_stop(&world.mpi);
}
