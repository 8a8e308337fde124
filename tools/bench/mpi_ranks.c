/* The library's ranks of MPI beside MPI's own collectives, on the same two processes. */
#include "buffers.h"
#include "peer_mpi.h"
#include "team.h"

#include <math.h>
#include <stdio.h>

enum { RANKS = 2, QUICK_SIZES = 2 };

struct trial {
    struct peer_mpi *mpi;
    const char *coll;
    int64_t first, second; /* elements */
};

static double run(void *arg, int64_t n)
{
    const struct trial *t = arg;
    return peer_mpi_run(t->mpi, t->coll, t->first, t->second, n);
}

static void measure(struct bench *bench, struct peer_mpi *mpi, const char *label, const char *const collectives[2],
                    int64_t first, int64_t second)
{
    struct trial ours = {mpi, collectives[0], first, second}, peer = {mpi, collectives[1], first, second};
    const struct contest contest = {.ours = run, .peer = run, .ours_arg = &ours, .peer_arg = &peer};
    struct team team;
    struct samples samples;
    if (!team_init(&team, bench, 1)) {
        bench_fail(bench, "no barrier for one rank");
        return;
    }
    team_measure(&team, 0, &contest, &samples);
    team_fini(&team);
    struct row row = {.name = "mpi-ranks", .unit = "us", .gate = NAN, .goal = NAN};
    snprintf(row.label, sizeof row.label, "%s, ours vs MPI", label);
    row_measure(&row, &samples, bench_times, 0, 1e-6);
    row_print(bench, &row);
}

void bench_mpi_ranks(struct bench *bench)
{
    static const char *const barrier[] = {"our-barrier", "barrier"}, *const reduce[] = {"our-allreduce", "allreduce"};
    static const char *const exchange[] = {"our-alltoallv", "alltoallv"};
    static const int64_t byte_counts[] = {16 << 10, 1 << 20, 16 << 20, 64 << 20};
    const int sizes = bench->quick ? QUICK_SIZES : (int)(sizeof byte_counts / sizeof byte_counts[0]);
    struct peer_mpi *mpi = peer_mpi_start(RANKS);
    if (mpi == NULL) {
        fprintf(stderr, "mpi-ranks: there is no MPI to run on\n");
        return;
    }
    measure(bench, mpi, "barrier", barrier, 0, 0);
    measure(bench, mpi, "8-byte all-reduce", reduce, 2, 0);
    for (int i = 0; i < sizes; i++) {
        char size[32], label[64];
        buffer_describe(byte_counts[i], size, sizeof size);
        snprintf(label, sizeof label, "all-reduce f32 %s", size);
        measure(bench, mpi, label, reduce, byte_counts[i] / 4, 0);
        snprintf(label, sizeof label, "all-to-all %s 1:3", size);
        measure(bench, mpi, label, exchange, byte_counts[i] / 16, byte_counts[i] / 16 * 3);
    }
    peer_mpi_stop(&mpi);
}
