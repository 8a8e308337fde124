/* 5. All-to-all between two thread ranks: halves, and 1:3 (each rank keeps one quarter and sends three). Beside both
 * ranks copying as much with memcpy, uneven beside even, beside its copies by hand, and beside the installed MPI. */
#include "buffers.h"
#include "meeting.h"
#include "peer_mpi.h"
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, QUICK_SIZES = 2, ELEMENT = 4, SMALL = 1 << 20 }; /* SMALL: bytes up to which meeting takes a time that counts */

static const int64_t byte_counts[] = {64 << 10, 1 << 20, 16 << 20, 128 << 20};

enum { SIZES = sizeof byte_counts / sizeof byte_counts[0] };

struct alltoallv_world {
    struct world world;
    struct peer_mpi *mpi;
    struct meeting meeting;
    struct samples samples;
};

struct alltoallv_rank {
    struct alltoallv_world *world;
    stn_context *context;
    int rank;
    int64_t bytes;
    void *send, *recv;
};

/* Elements that a rank keeps, in quarters of all it has. */
static int64_t kept(const struct alltoallv_rank *rank, int quarters)
{
    return rank->bytes / ELEMENT / 4 * quarters;
}

static double run_split(struct alltoallv_rank *rank, int quarters, int64_t n)
{
    stn_comm *comm = stn_context_comm(rank->context);
    int64_t counts[RANKS];
    counts[rank->rank] = kept(rank, quarters);
    counts[1 - rank->rank] = kept(rank, 4 - quarters);
    stn_status status = STN_OK;
    const double start = bench_now();
    for (int64_t i = 0; i < n && status == STN_OK; i++)
        status = stn_comm_all_to_all(comm, rank->send, counts, rank->recv, counts, STN_DTYPE_F32, NULL);
    return status == STN_OK ? bench_now() - start : -1;
}

static double run_even(void *arg, int64_t n)
{
    return run_split(arg, 2, n);
}

static double run_uneven(void *arg, int64_t n)
{
    return run_split(arg, 1, n);
}

static double run_memcpy(void *arg, int64_t n)
{
    struct alltoallv_rank *rank = arg;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++)
        memcpy(rank->recv, rank->send, (size_t)rank->bytes);
    return bench_now() - start;
}

/* What no all-to-all in place can do without: to meet before the other's buffer is read, the copies, and to meet
 * before it is written again. */
static double run_by_hand(void *arg, int64_t n)
{
    struct alltoallv_rank *rank = arg;
    struct meeting *meeting = &rank->world->meeting;
    const size_t half = (size_t)rank->bytes / 2, mine = (size_t)rank->rank * half, others = half - mine;
    char *recv = rank->recv;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
        const char *theirs = meeting_show(meeting, rank->rank, rank->send);
        memcpy(recv + mine, (const char *)rank->send + mine, half);
        memcpy(recv + others, theirs + mine, half);
        meeting_wait(meeting, rank->rank);
    }
    return bench_now() - start;
}

static double run_mpi_even(void *arg, int64_t n)
{
    struct alltoallv_rank *rank = arg;
    return rank->rank == 0 ? peer_mpi_run(rank->world->mpi, "alltoallv", kept(rank, 2), kept(rank, 2), n) : 0;
}

static double run_mpi_uneven(void *arg, int64_t n)
{
    struct alltoallv_rank *rank = arg;
    return rank->rank == 0 ? peer_mpi_run(rank->world->mpi, "alltoallv", kept(rank, 1), kept(rank, 3), n) : 0;
}

static const struct comparison {
    const char *label;
    team_trial ours, peer;
    int mpi;
    int64_t largest; /* bytes; 0: any */
    double gate, goal;
} comparisons[] = {
    {"even vs memcpy", run_even, run_memcpy, 0, 0, 0.8, 0.95},
    {"1:3 vs memcpy", run_uneven, run_memcpy, 0, 0, 0.8, 0.95},
    {"1:3 vs even", run_uneven, run_even, 0, 0, 0.95, 0.95},
    {"even vs its copies by hand", run_even, run_by_hand, 0, SMALL, NAN, NAN},
    {"even vs MPI", run_even, run_mpi_even, 1, 0, NAN, NAN},
    {"1:3 vs MPI", run_uneven, run_mpi_uneven, 1, 0, NAN, NAN},
};

static int is_measured(const struct alltoallv_rank *rank, const struct comparison *c)
{
    return (!c->mpi || rank->world->mpi != NULL) && (c->largest == 0 || rank->bytes <= c->largest);
}

static void measure(struct alltoallv_rank *rank, const struct comparison *c)
{
    struct alltoallv_world *world = rank->world;
    const struct contest contest = {.ours = c->ours, .peer = c->peer, .ours_arg = rank, .peer_arg = rank};
    team_measure(&world->world.team, rank->rank, &contest, &world->samples);
    struct row row = {.name = "alltoallv", .unit = "us", .gate = c->gate, .goal = c->goal};
    char size[32];
    buffer_describe(rank->bytes, size, sizeof size);
    snprintf(row.label, sizeof row.label, "%s %s", size, c->label);
    row_measure(&row, &world->samples, bench_times, 0, 1e-6);
    stn_stats before = world_stats(rank->context);
    c->ours(rank, 1);
    stn_stats after = world_stats(rank->context);
    row_count(&row, "messages", (double)(after.messages - before.messages));
    row_count(&row, "bytes_sent", (double)(after.bytes_sent - before.bytes_sent));
    row_count(&row, "allocations", (double)(after.allocations - before.allocations));
    if (rank->rank == 0)
        row_print(world->world.bench, &row);
}

static stn_status alltoallv_rank_main(stn_context *context, void *arg)
{
    struct alltoallv_world *world = arg;
    struct alltoallv_rank rank = {.world = world, .context = context, .rank = stn_context_rank(context)};
    const int sizes = world->world.bench->quick ? QUICK_SIZES : SIZES;
    for (int i = 0; i < sizes; i++) {
        rank.bytes = byte_counts[i];
        rank.send = buffer_make((size_t)rank.bytes);
        rank.recv = buffer_make((size_t)rank.bytes);
        if (rank.send == NULL || rank.recv == NULL)
            return STN_ERR_MEMORY;
        for (size_t c = 0; c < sizeof comparisons / sizeof comparisons[0]; c++)
            if (is_measured(&rank, &comparisons[c]))
                measure(&rank, &comparisons[c]);
        free(rank.send);
        free(rank.recv);
    }
    return STN_OK;
}

void bench_alltoallv(struct bench *bench)
{
    struct alltoallv_world world = {.mpi = peer_mpi_start(RANKS)};
    world_launch(bench, RANKS, alltoallv_rank_main, &world.world);
    peer_mpi_stop(&world.mpi);
}
