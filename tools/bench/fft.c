/* 9. Fourier transforms of a cube whose first dims are sharded, beside FFTW's of the whole cube on as many threads as
 * there are cores, and beside FFTW's own for MPI. */
#include "peer_fftw.h"
#include "peer_mpi.h"
#include "world.h"

#include <stdio.h>

enum { THREADS = 2, MAX_AXES = 2, QUICK_SIDE = 24 };

static const struct fft_case {
    const char *cut;
    int64_t side;
    int is_real, n_axes, axes[MAX_AXES]; /* axis k cuts dim k */
    int is_left;                         /* the result, where the last exchange led */
} cases[] = {
    {"slabs", 256, 0, 1, {2}, 0},
    {"slabs", 240, 0, 1, {2}, 0},
    {"slabs", 256, 1, 1, {2}, 0},
    {"slabs, left", 256, 0, 1, {2}, 1},
    {"4 pencils", 256, 0, 2, {2, 2}, 0},
    {"4 pencils, left", 256, 0, 2, {2, 2}, 1},
};

enum { CASES = sizeof cases / sizeof cases[0] };

struct fft_world {
    struct world world;
    const struct fft_case *c;
    int64_t side;
    struct peer_fftw *fftw;
    struct peer_mpi *mpi;
};

struct fft_rank {
    struct fft_world *world;
    stn_context *context;
    int rank;
    stn_tensor *source;
};

static stn_tensor *transform(stn_tensor *x, const struct fft_case *c)
{
    if (c->is_left)
        return stn_fftn_to(x, 3, NULL, NULL, STN_FFT_BACKWARD, NULL);
    return c->is_real ? stn_rfftn(x, 3, NULL, NULL, STN_FFT_BACKWARD) : stn_fftn(x, 3, NULL, NULL, STN_FFT_BACKWARD);
}

static double run_ours(void *arg, int64_t n)
{
    struct fft_rank *rank = arg;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
        stn_tensor *result = transform(rank->source, rank->world->c);
        if (stn_tensor_is_error(result))
            return -1;
        stn_tensor_release(&result);
    }
    return bench_now() - start;
}

/* One rank asks for all of its threads; the others sleep. */
static double run_fftw(void *arg, int64_t n)
{
    struct fft_rank *rank = arg;
    const double start = bench_now();
    if (rank->rank == 0)
        peer_fftw_run(rank->world->fftw, n);
    return rank->rank == 0 ? bench_now() - start : 0;
}

static double run_mpi(void *arg, int64_t n)
{
    struct fft_rank *rank = arg;
    const struct fft_world *world = rank->world;
    const struct fft_case *c = world->c;
    return rank->rank == 0 ? peer_mpi_run(world->mpi, c->is_real ? "rfft" : "fft", world->side, c->is_left, n) : 0;
}

static void measure(struct fft_rank *rank, const char *peer_name, team_trial peer, double gate, double goal)
{
    struct fft_world *world = rank->world;
    const struct contest contest = {.ours = run_ours, .peer = peer, .ours_arg = rank, .peer_arg = rank};
    struct row row = {.name = "fft", .gate = gate, .goal = goal};
    snprintf(row.label, sizeof row.label, "%lld^3 %s, %s, vs %s", (long long)world->side,
             world->c->is_real ? "f32" : "c64", world->c->cut, peer_name);
    world_contest(&world->world, rank->context, &contest, &row);
}

static stn_status make_source(struct fft_rank *rank)
{
    const struct fft_case *c = rank->world->c;
    const int64_t side = rank->world->side, shape[] = {side, side, side};
    const stn_placement placements[MAX_AXES] = {stn_shard(0), stn_shard(1)};
    const stn_mesh *mesh;
    const stn_spec *spec;
    stn_status status = stn_mesh_create(rank->context, c->n_axes, c->axes, NULL, NULL, &mesh);
    if (status == STN_OK)
        status = stn_spec_create(rank->context, mesh, placements, STN_DTYPE_F32, 3, shape, NULL, &spec);
    if (status != STN_OK)
        return status;
    rank->source = world_tensor(rank->context, spec);
    stn_spec_release(&spec);
    if (rank->source != NULL && !c->is_real) {
        stn_tensor *reals = rank->source;
        rank->source = stn_cast(reals, STN_DTYPE_C64);
        stn_tensor_release(&reals);
    }
    return rank->source != NULL ? stn_context_status(rank->context) : STN_ERR_MEMORY;
}

static stn_status fft_rank_main(stn_context *context, void *arg)
{
    struct fft_world *world = arg;
    struct fft_rank rank = {.world = world, .context = context, .rank = stn_context_rank(context)};
    const stn_status status = make_source(&rank);
    if (status != STN_OK)
        return status;
    if (rank.rank == 0) /* while nobody else plans */
        world->fftw = peer_fftw_create(world->side, world->c->is_real, THREADS);
    team_wait(&world->world.team);
    if (world->fftw != NULL)
        measure(&rank, "FFTW", run_fftw, 1 / 1.4, 1 / 1.15);
    if (world->mpi != NULL)
        measure(&rank, "FFTW for MPI", run_mpi, 1.3, 1.3);
    team_wait(&world->world.team);
    if (rank.rank == 0)
        peer_fftw_destroy(&world->fftw);
    stn_tensor_release(&rank.source);
    return STN_OK;
}

void bench_fft(struct bench *bench)
{
    for (int i = 0; i < CASES; i++) {
        struct fft_world world = {.c = &cases[i], .side = bench->quick ? QUICK_SIDE : cases[i].side};
        int ranks = 1;
        for (int a = 0; a < cases[i].n_axes; a++)
            ranks *= cases[i].axes[a];
        world.mpi = ranks == THREADS ? peer_mpi_start(ranks) : NULL;
        if (world.mpi != NULL && peer_mpi_run(world.mpi, cases[i].is_real ? "rfft" : "fft", QUICK_SIDE, 0, 1) < 0)
            peer_mpi_stop(&world.mpi); /* FFTW for MPI was not found */
        world_launch(bench, ranks, fft_rank_main, &world.world);
        peer_mpi_stop(&world.mpi);
    }
}
