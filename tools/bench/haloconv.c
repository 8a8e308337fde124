/* 7. conv2d and conv3d with their rows, or planes, over two thread ranks, beside oneDNN un-sharded on the same two
 * cores, both channels last. Backward passes go through stn_grad, as a user's do. */
#include "peer_onednn.h"
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

enum { RANKS = 2, QUICK_SIDE = 64, QUICK_SIDE_3D = 16, ONCE_PART = 4 };

static const char *const pass_names[] = {"forward", "backward-data", "backward-weights"};

static const struct conv_case {
    struct conv_shape shape;
    double gate, goal;
} cases[] = {
    {{2, 1, 64, 64, {256, 256}, 3, 1}, 0.95, 0.99},
    {{2, 1, 64, 64, {257, 256}, 3, 1}, 0.95, 0.99},
    {{2, 4, 64, 64, {256, 256}, 3, 1}, 0.95, 0.99},
    {{2, 4, 64, 64, {257, 256}, 3, 1}, 0.95, 0.99},
    {{3, 1, 16, 32, {64, 64, 64}, 3, 1}, 0.95, 0.99},
    {{3, 4, 16, 32, {64, 64, 64}, 3, 1}, 0.95, 0.99},
    {{2, 1, 64, 64, {256, 256}, 3, 2}, NAN, NAN},
    {{2, 4, 64, 64, {256, 256}, 3, 2}, NAN, NAN},
};

enum { CASES = sizeof cases / sizeof cases[0], PASSES = 3 };

struct conv_world {
    struct world world;
    struct conv_shape shape;
    enum conv_pass pass;
    double gate, goal;
    struct peer_onednn *peer;
    stn_stats before[RANKS], after[RANKS];
    int64_t result_bytes[RANKS]; /* of the tensor that the pass gives */
    struct samples samples;
};

struct conv_rank {
    struct conv_world *world;
    stn_context *context;
    int rank;
    stn_tensor *x, *w, *y, *dy; /* y: what backward passes begin at */
    stn_conv_attrs attrs;
};

static stn_tensor *convolve(struct conv_rank *rank)
{
    return (rank->world->shape.dims == 3 ? stn_conv3d : stn_conv2d)(rank->x, rank->w, NULL, &rank->attrs);
}

static stn_tensor *run_pass(struct conv_rank *rank)
{
    stn_tensor *grad = NULL, *wanted = rank->world->pass == CONV_BACKWARD_DATA ? rank->x : rank->w;
    if (rank->world->pass == CONV_FORWARD)
        return convolve(rank);
    return stn_grad(rank->context, 1, &rank->y, &rank->dy, 1, &wanted, 1, 0, &grad) == STN_OK ? grad : NULL;
}

static double run_ours(void *arg, int64_t n)
{
    struct conv_rank *rank = arg;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
        stn_tensor *result = run_pass(rank);
        if (stn_tensor_is_error(result))
            return -1;
        rank->world->result_bytes[rank->rank] = stn_spec_local_numel(stn_tensor_spec(result)) * (int64_t)sizeof(float);
        stn_tensor_release(&result);
    }
    return bench_now() - start;
}

/* The peer's threads are those of rank 0's OpenMP; the other rank sleeps at the barrier. */
static double run_peer(void *arg, int64_t n)
{
    struct conv_rank *rank = arg;
    if (rank->rank != 0)
        return 0;
    const double start = bench_now();
    const int fine = peer_onednn_run(rank->world->peer, RANKS, n);
    const double seconds = bench_now() - start;
    /* OpenMP's threads spin for a while after their work, on a core that our next measurement needs. */
    const struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    return fine ? seconds : -1;
}

static stn_tensor *make_tensor(struct conv_rank *rank, const stn_mesh *mesh, stn_placement placement,
                               const int64_t *shape, int grad)
{
    static const int channels_last[][2 + CONV_DIMS] = {{0, 2, 1}, {0, 2, 3, 1}, {0, 2, 3, 4, 1}};
    const int dims = rank->world->shape.dims;
    const stn_spec_options options = {
        .size = sizeof options, .memory_order = placement.kind == STN_PLACE_SHARD ? channels_last[dims - 1] : NULL};
    const stn_spec *spec;
    if (stn_spec_create(rank->context, mesh, &placement, STN_DTYPE_F32, 2 + dims, shape, &options, &spec) != STN_OK)
        return NULL;
    stn_tensor *tensor = world_tensor(rank->context, spec);
    stn_spec_release(&spec);
    if (tensor != NULL && grad)
        stn_set_requires_grad(tensor, 1);
    return tensor;
}

static stn_status prepare(struct conv_rank *rank)
{
    const struct conv_shape *s = &rank->world->shape;
    const enum conv_pass pass = rank->world->pass;
    const int64_t pad = (s->kernel - 1) / 2, k = s->kernel,
                  x_shape[] = {s->batch, s->in, s->size[0], s->size[1], s->size[2]};
    const int64_t w_shape[] = {s->out, s->in, k, k, k};
    const int sizes[] = {RANKS};
    const stn_mesh *mesh;
    stn_status status = stn_mesh_create(rank->context, 1, sizes, NULL, NULL, &mesh);
    if (status != STN_OK)
        return status;
    rank->attrs = (stn_conv_attrs){
        .size = sizeof rank->attrs, .stride = {s->stride, s->stride, s->stride}, .padding = {pad, pad, pad}};
    rank->x = make_tensor(rank, mesh, stn_shard(2), x_shape, pass == CONV_BACKWARD_DATA);
    rank->w = make_tensor(rank, mesh, stn_replicate(), w_shape, pass == CONV_BACKWARD_WEIGHTS);
    if (rank->x == NULL || rank->w == NULL)
        return STN_ERR_MEMORY;
    if (pass == CONV_FORWARD)
        return STN_OK;
    rank->y = convolve(rank);
    if (stn_tensor_is_error(rank->y))
        return stn_context_status(rank->context);
    rank->dy = world_tensor(rank->context, stn_tensor_spec(rank->y));
    return rank->dy == NULL ? STN_ERR_MEMORY : STN_OK;
}

static void count_one(struct conv_rank *rank)
{
    struct conv_world *world = rank->world;
    stn_context_stats_reset(rank->context);
    world->before[rank->rank] = world_stats(rank->context);
    run_ours(rank, 1);
    world->after[rank->rank] = world_stats(rank->context);
    team_wait(&world->world.team);
}

static void print_row(struct conv_world *world)
{
    const struct conv_shape *s = &world->shape;
    struct row row = {.name = "haloconv", .unit = "us", .gate = world->gate, .goal = world->goal};
    int64_t plane = 1;
    int at = snprintf(row.label, sizeof row.label, "%lld", (long long)s->batch);
    for (int d = 0; d < s->dims; d++) {
        at += snprintf(row.label + at, sizeof row.label - (size_t)at, "x%lld", (long long)s->size[d]);
        plane *= d > 0 ? s->size[d] : 1;
    }
    snprintf(row.label + at, sizeof row.label - (size_t)at, "%s %s", s->stride > 1 ? " stride 2" : "",
             pass_names[world->pass]);
    row_measure(&row, &world->samples, bench_times, 0, 1e-6);
    int64_t bytes = 0, messages = 0, temporary = 0;
    for (int r = 0; r < RANKS; r++) {
        const stn_stats *before = &world->before[r], *after = &world->after[r];
        const int64_t extra = after->peak_bytes - before->live_bytes - world->result_bytes[r];
        bytes += after->bytes_sent - before->bytes_sent;
        messages += after->messages - before->messages;
        temporary = extra > temporary ? extra : temporary;
    }
    row_count(&row, "bytes_sent", (double)bytes);
    row_count(&row, "messages", (double)messages);
    row_count(&row, "temporary_bytes", (double)temporary);
    const int64_t input = s->batch * s->in * (s->size[0] / RANKS) * plane * (int64_t)sizeof(float);
    row_count(&row, "input_bytes", (double)input);
    row.broken = temporary >= input; /* the input was copied */
    row_print(world->world.bench, &row);
}

static stn_status conv_rank_main(stn_context *context, void *arg)
{
    struct conv_world *world = arg;
    struct conv_rank rank = {.world = world, .context = context, .rank = stn_context_rank(context)};
    stn_status status = prepare(&rank);
    if (status == STN_OK) {
        const struct contest contest = {.ours = run_ours, .peer = run_peer, .ours_arg = &rank, .peer_arg = &rank};
        team_measure(&world->world.team, rank.rank, &contest, &world->samples);
        count_one(&rank);
        if (rank.rank == 0)
            print_row(world);
    }
    stn_tensor_release(&rank.dy);
    stn_tensor_release(&rank.y);
    stn_tensor_release(&rank.w);
    stn_tensor_release(&rank.x);
    return status;
}

static void measure(struct bench *bench, const struct conv_case *c, enum conv_pass pass)
{
    struct conv_world world = {.shape = c->shape, .pass = pass, .gate = c->gate, .goal = c->goal};
    const int64_t side = (c->shape.dims == 3 ? QUICK_SIDE_3D : QUICK_SIDE) / (bench->once ? ONCE_PART : 1);
    for (int d = 0; d < c->shape.dims && bench->quick; d++)
        world.shape.size[d] = c->shape.size[d] % 2 + side;
    world.peer = peer_onednn_create(&world.shape, pass);
    if (world.peer == NULL)
        bench_fail(bench, "haloconv: oneDNN offers no such convolution");
    else
        world_launch(bench, RANKS, conv_rank_main, &world.world);
    peer_onednn_destroy(&world.peer);
}

void bench_haloconv(struct bench *bench)
{
    /* Once: every second case, two of which have uneven rows, one is 3-D, one has a stride. */
    for (int i = bench->once; i < CASES; i += 1 + bench->once)
        for (int pass = 0; pass < PASSES; pass++)
            measure(bench, &cases[i], (enum conv_pass)pass);
}
