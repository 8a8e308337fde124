/* 10. Spherical harmonic transforms of fields whose latitudes are sharded over two ranks, beside libsharp on as many
 * threads; their gradients, which are the adjoint transforms. */
#include "peer_sharp.h"
#include "world.h"

#include <stdio.h>

enum { RANKS = 2, QUICK_DEGREES = 24 };

static const struct sht_case {
    int64_t degrees, fields;
} cases[] = {{256, 1}, {256, 32}, {512, 1}, {512, 32}, {1024, 1}, {1024, 8}};

enum { CASES = sizeof cases / sizeof cases[0] };

enum direction { TO_COEFFICIENTS, TO_FIELDS, GRADIENT };

static const char *const directions[] = {"analysis", "synthesis", "gradient of analysis"};

struct sht_world {
    struct world world;
    int64_t degrees, fields;
    struct peer_sharp *peer;
};

struct sht_rank {
    struct sht_world *world;
    stn_context *context;
    int rank;
    enum direction direction;
    stn_tensor *grid, *coefficients; /* coefficients: also the cotangent of a gradient */
};

static stn_tensor *transform(const struct sht_rank *rank)
{
    const stn_sht_basis basis = {.size = sizeof basis, .grid = STN_SHT_LEGENDRE_GAUSS};
    const int64_t degrees = rank->world->degrees;
    return rank->direction == TO_FIELDS ? stn_isht(rank->coefficients, degrees, 2 * degrees, &basis)
                                        : stn_sht(rank->grid, degrees, degrees, &basis);
}

/* Of a gradient, the backward alone is counted: the forward before it is not. */
static double run_ours(void *arg, int64_t n)
{
    struct sht_rank *rank = arg;
    double seconds = 0;
    for (int64_t i = 0; i < n; i++) {
        double start = bench_now();
        stn_tensor *result = transform(rank), *gradient = NULL;
        if (rank->direction == GRADIENT) {
            start = bench_now();
            stn_grad(rank->context, 1, &result, &rank->coefficients, 1, &rank->grid, 0, 0, &gradient);
        }
        seconds += bench_now() - start;
        stn_tensor_release(&result);
        stn_tensor_release(&gradient);
    }
    return stn_context_status(rank->context) == STN_OK ? seconds : -1;
}

/* One rank asks for all threads; the other sleeps. The adjoint of analysis is, but for weights, synthesis. */
static double run_peer(void *arg, int64_t n)
{
    struct sht_rank *rank = arg;
    const double start = bench_now();
    if (rank->rank == 0)
        peer_sharp_run(rank->world->peer, rank->direction != TO_COEFFICIENTS, RANKS, n);
    return rank->rank == 0 ? bench_now() - start : 0;
}

static void measure(struct sht_rank *rank)
{
    struct sht_world *world = rank->world;
    const struct contest contest = {.ours = run_ours, .peer = run_peer, .ours_arg = rank, .peer_arg = rank};
    struct row row = {.name = "sht", .gate = 1, .goal = 1};
    snprintf(row.label, sizeof row.label, "%lld degrees, %lld fields, %s", (long long)world->degrees,
             (long long)world->fields, directions[rank->direction]);
    stn_set_requires_grad(rank->grid, rank->direction == GRADIENT);
    world_contest(&world->world, rank->context, &contest, &row);
}

static stn_status make_sources(struct sht_rank *rank)
{
    const int64_t shape[] = {rank->world->fields, rank->world->degrees, 2 * rank->world->degrees};
    const int ranks = RANKS;
    const stn_placement cut = stn_shard(1);
    const stn_mesh *mesh;
    const stn_spec *spec;
    stn_status status = stn_mesh_create(rank->context, 1, &ranks, NULL, NULL, &mesh);
    if (status == STN_OK)
        status = stn_spec_create(rank->context, mesh, &cut, STN_DTYPE_F32, 3, shape, NULL, &spec);
    if (status != STN_OK)
        return status;
    rank->grid = world_tensor(rank->context, spec);
    stn_spec_release(&spec);
    if (rank->grid == NULL)
        return STN_ERR_MEMORY;
    rank->direction = TO_COEFFICIENTS;
    rank->coefficients = transform(rank);
    return stn_context_status(rank->context);
}

static stn_status sht_rank_main(stn_context *context, void *arg)
{
    struct sht_world *world = arg;
    struct sht_rank rank = {.world = world, .context = context, .rank = stn_context_rank(context)};
    const stn_status status = make_sources(&rank);
    if (status != STN_OK)
        return status;
    for (rank.direction = TO_COEFFICIENTS; rank.direction <= GRADIENT; rank.direction++)
        measure(&rank);
    stn_tensor_release(&rank.grid);
    stn_tensor_release(&rank.coefficients);
    return STN_OK;
}

void bench_sht(struct bench *bench)
{
    for (int i = 0; i < (bench->quick ? 2 : CASES); i++) {
        struct sht_world world = {.degrees = bench->quick ? QUICK_DEGREES : cases[i].degrees,
                                  .fields = cases[i].fields};
        world.peer = peer_sharp_create(world.degrees, world.fields);
        if (world.peer == NULL) {
            fprintf(stderr, "sht: not measured: libsharp was not found at build time\n");
            return;
        }
        world_launch(bench, RANKS, sht_rank_main, &world.world);
        peer_sharp_destroy(&world.peer);
    }
}
