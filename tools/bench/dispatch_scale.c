/* 2. The same call in worlds of 2 to 100,000 ranks: one process plays a rank of a world that moves nothing. The peer
 * is the world of 2. */
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCOPE = 64 };

static const int world_sizes[] = {8, 64, 1024, 8192, 100000};

/* One world with a tensor in it. */
struct fake_world {
    stn_context *context;
    stn_tensor *x;
};

/* One element a rank; explicit: two on the first and every other rank, none on the rest. */
static stn_tensor *make_tensor(stn_context *context, int size, int explicit)
{
    const stn_placement placement = stn_shard(0);
    const int64_t shape[] = {size};
    int64_t *pieces = malloc(sizeof *pieces * (size_t)size);
    const int64_t *sizes[] = {pieces};
    const stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_mesh *mesh;
    const stn_spec *spec;
    stn_tensor *tensor = NULL;
    for (int r = 0; pieces != NULL && r < size; r++)
        pieces[r] = r % 2 == 0 ? 2 : 0;
    if (pieces != NULL && stn_mesh_create(context, 1, &size, NULL, NULL, &mesh) == STN_OK &&
        stn_spec_create(context, mesh, &placement, STN_DTYPE_F32, 1, shape, explicit ? &options : NULL, &spec) ==
            STN_OK) {
        tensor = world_tensor(context, spec);
        stn_spec_release(&spec);
    }
    free(pieces);
    return tensor;
}

static int open_world(struct bench *bench, struct fake_world *world, int size, int explicit, int grad)
{
    world->x = NULL;
    world->context = world_fake(bench, 0, size);
    if (world->context != NULL)
        world->x = make_tensor(world->context, size, explicit);
    return world->x != NULL && (!grad || stn_set_requires_grad(world->x, 1) == STN_OK);
}

static double run_add(void *arg, int64_t n)
{
    struct fake_world *world = arg;
    stn_status status = STN_OK;
    const double start = bench_now();
    for (int64_t i = 0; i < n && status == STN_OK; i += SCOPE) {
        stn_scope_begin(world->context);
        for (int64_t j = i; j < n && j < i + SCOPE; j++)
            stn_add(world->x, world->x);
        status = stn_scope_end(world->context);
    }
    return status == STN_OK ? bench_now() - start : -1;
}

static void measure(struct bench *bench, int size, int explicit, int grad)
{
    struct fake_world large = {0}, small = {0};
    struct samples samples = {0};
    struct team team;
    if (open_world(bench, &large, size, explicit, grad) && open_world(bench, &small, 2, explicit, grad) &&
        team_init(&team, bench, 1)) {
        const struct contest contest = {.ours = run_add, .peer = run_add, .ours_arg = &large, .peer_arg = &small};
        team_measure(&team, 0, &contest, &samples);
        team_fini(&team);
    }
    struct row row = {.name = "dispatch-scale", .unit = "us", .gate = 1 / 1.5, .goal = 1 / 1.1};
    snprintf(row.label, sizeof row.label, "add among %d, %s%s", size, explicit ? "explicit" : "balanced",
             grad ? ", gradient" : "");
    row_measure(&row, &samples, bench_times, 0, 1e-6);
    if (large.context != NULL)
        row_count(&row, "messages", (double)world_stats(large.context).messages);
    row_print(bench, &row);
    stn_tensor_release(&large.x);
    stn_tensor_release(&small.x);
    stn_context_destroy(&large.context);
    stn_context_destroy(&small.context);
}

void bench_dispatch_scale(struct bench *bench)
{
    for (size_t i = 0; i < sizeof world_sizes / sizeof world_sizes[0]; i++)
        for (int explicit = 0; explicit < 2; explicit++)
            for (int grad = 0; grad < 2; grad++)
                measure(bench, world_sizes[i], explicit, grad);
}
