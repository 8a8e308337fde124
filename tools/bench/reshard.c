/* 6. Redistribution of a 4096 x 4096 f32 tensor, beside the fastest plain strided copy of the same elements by the
 * same threads, each from the sources' own memory into its own. */
#include "buffers.h"
#include "copy.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 4096, QUICK_SIDE = 512, MAX_AXES = 2, MAX_RANKS = 4, MAX_TEMPORARY = 1 << 20 /* bytes, design 5 contract 16 */ };

static const struct reshard_case {
    const char *label;
    int ndim, sizes[MAX_AXES];
    stn_placement from[MAX_AXES], to[MAX_AXES];
    int uneven; /* the source's rows are sharded 1:3 */
} cases[] = {
    {"S(0)->S(1)", 1, {2}, {{STN_PLACE_SHARD, 0, 0, 0}}, {{STN_PLACE_SHARD, 1, 0, 0}}, 0},
    {"S(0)S(1)->S(1)S(0) on 2x2", 2, {2, 2}, {{STN_PLACE_SHARD, 0, 0, 0}, {STN_PLACE_SHARD, 1, 0, 0}},
     {{STN_PLACE_SHARD, 1, 0, 0}, {STN_PLACE_SHARD, 0, 0, 0}}, 0},
    {"uneven->balanced", 1, {2}, {{STN_PLACE_SHARD, 0, 0, 0}}, {{STN_PLACE_SHARD, 0, 0, 0}}, 1},
    {"S(0)->R", 1, {2}, {{STN_PLACE_SHARD, 0, 0, 0}}, {{STN_PLACE_REPLICATE, 0, 0, 0}}, 0},
    {"P->S(0)", 1, {2}, {{STN_PLACE_PARTIAL, 0, STN_SUM, 0}}, {{STN_PLACE_SHARD, 0, 0, 0}}, 0},
};

enum { CASES = sizeof cases / sizeof cases[0] };

struct reshard_world {
    struct world world;
    const struct reshard_case *c;
    int64_t side;
    const float *source[MAX_RANKS]; /* each rank's chunk */
    stn_stats before[MAX_RANKS], after[MAX_RANKS]; /* of one redistribution */
    int64_t minimum; /* bytes that have to travel */
    struct samples samples;
};

struct reshard_rank {
    struct reshard_world *world;
    stn_context *context;
    int rank;
    const stn_spec *from, *to;
    stn_tensor *source;
    float *copy; /* where the peer puts its chunk */
    int n_pieces;
    struct rows pieces[MAX_RANKS];
    rows_fn way;
};

static double run_ours(void *arg, int64_t n)
{
    struct reshard_rank *rank = arg;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
        stn_tensor *result = stn_redistribute(rank->source, rank->to);
        if (stn_tensor_is_error(result))
            return -1;
        stn_tensor_release(&result);
    }
    return bench_now() - start;
}

static double run_copy(void *arg, int64_t n)
{
    struct reshard_rank *rank = arg;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++)
        for (int p = 0; p < rank->n_pieces; p++)
            rank->way(&rank->pieces[p]);
    return bench_now() - start;
}

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smallest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The rows that this rank's destination takes from `peer`'s chunk. Where a sum is pending, both chunks are whole and
 * are added. */
static void find_piece(struct reshard_rank *rank, int peer)
{
    int64_t from_shape[2], from_at[2];
    const int64_t *to_shape = stn_spec_local_shape(rank->to), *to_at = stn_spec_local_offset(rank->to);
    const int pending = stn_spec_placement(rank->from, 0).kind == STN_PLACE_PARTIAL;
    stn_spec_chunk(rank->from, peer, from_shape, from_at);
    const int64_t top = largest(to_at[0], from_at[0]),
                  bottom = smallest(to_at[0] + to_shape[0], from_at[0] + from_shape[0]);
    const int64_t left = largest(to_at[1], from_at[1]),
                  right = smallest(to_at[1] + to_shape[1], from_at[1] + from_shape[1]);
    if (top >= bottom || left >= right || (pending && peer > 0))
        return;
    const int64_t at = (top - from_at[0]) * from_shape[1] + left - from_at[1];
    rank->pieces[rank->n_pieces++] = (struct rows){
        .to = rank->copy + (top - to_at[0]) * to_shape[1] + left - to_at[1],
        .from = rank->world->source[peer] + at,
        .plus = pending ? rank->world->source[1] + at : NULL,
        .n = bottom - top,
        .length = right - left,
        .to_stride = to_shape[1],
        .from_stride = from_shape[1],
    };
}

static void choose_way(void *arg, int way)
{
    ((struct reshard_rank *)arg)->way = rows_ways()[way];
}

static stn_status make_specs(struct reshard_rank *rank)
{
    const struct reshard_world *world = rank->world;
    const struct reshard_case *c = world->c;
    const int64_t shape[] = {world->side, world->side}, cut[] = {world->side / 4, world->side - world->side / 4};
    const int64_t *sizes[] = {cut, NULL};
    const stn_spec_options options = {.size = sizeof options, .sizes = sizes};
    const stn_mesh *mesh;
    stn_status status = stn_mesh_create(rank->context, c->ndim, c->sizes, NULL, NULL, &mesh);
    if (status == STN_OK)
        status = stn_spec_create(rank->context, mesh, c->from, STN_DTYPE_F32, 2, shape, c->uneven ? &options : NULL,
                                 &rank->from);
    if (status == STN_OK)
        status = stn_spec_create(rank->context, mesh, c->to, STN_DTYPE_F32, 2, shape, NULL, &rank->to);
    return status;
}

/* What one redistribution does exactly, and the bytes that no plan can save: all that a rank's destination takes
 * from others. */
static void count_one(struct reshard_rank *rank)
{
    struct reshard_world *world = rank->world;
    int64_t held = 0, chunk_shape[2], chunk_at[2];
    run_ours(rank, 2);
    stn_context_stats_reset(rank->context);
    world->before[rank->rank] = world_stats(rank->context);
    run_ours(rank, 1);
    world->after[rank->rank] = world_stats(rank->context);
    const int64_t *to_shape = stn_spec_local_shape(rank->to), *to_at = stn_spec_local_offset(rank->to);
    stn_spec_chunk(rank->from, rank->rank, chunk_shape, chunk_at);
    int64_t rows = smallest(to_at[0] + to_shape[0], chunk_at[0] + chunk_shape[0]) - largest(to_at[0], chunk_at[0]);
    int64_t columns = smallest(to_at[1] + to_shape[1], chunk_at[1] + chunk_shape[1]) - largest(to_at[1], chunk_at[1]);
    if (rows > 0 && columns > 0)
        held = rows * columns;
    /* A pending sum has one addend on each rank, and all but the own one travel. */
    const int pending = stn_spec_placement(rank->from, 0).kind == STN_PLACE_PARTIAL;
    const int64_t wanted = to_shape[0] * to_shape[1];
    const int64_t travels = pending ? wanted * (world->world.team.ranks - 1) : wanted - held;
    for (int r = 0; r < world->world.team.ranks; r++) { /* one after the other */
        team_wait(&world->world.team);
        if (r == rank->rank)
            world->minimum += travels * (int64_t)sizeof(float);
    }
    team_wait(&world->world.team);
}

static void print_row(struct reshard_rank *rank)
{
    struct reshard_world *world = rank->world;
    int64_t bytes = 0, messages = 0, exchanges = 0, temporary = 0;
    for (int r = 0; r < world->world.team.ranks; r++) {
        const stn_stats *before = &world->before[r], *after = &world->after[r];
        int64_t chunk[2];
        stn_spec_chunk(rank->to, r, chunk, NULL);
        bytes += after->bytes_sent - before->bytes_sent;
        messages += after->messages - before->messages;
        exchanges = largest(exchanges, after->collectives - before->collectives);
        temporary =
            largest(temporary, after->peak_bytes - before->live_bytes - chunk[0] * chunk[1] * (int64_t)sizeof(float));
    }
    struct row row = {.name = "reshard", .unit = "us", .gate = 0.75, .goal = 0.9};
    snprintf(row.label, sizeof row.label, "%s", world->c->label);
    row_measure(&row, &world->samples, bench_times, 0, 1e-6);
    row_count(&row, "bytes_sent", (double)bytes);
    row_count(&row, "bytes_minimum", (double)world->minimum);
    row_count(&row, "exchanges", (double)exchanges);
    row_count(&row, "messages", (double)messages);
    row_count(&row, "temporary_bytes", (double)temporary);
    row.broken = bytes != world->minimum || exchanges != 1 || temporary > MAX_TEMPORARY;
    row_print(world->world.bench, &row);
}

static stn_status reshard_rank_main(stn_context *context, void *arg)
{
    struct reshard_world *world = arg;
    struct reshard_rank rank = {.world = world, .context = context, .rank = stn_context_rank(context)};
    stn_status status = make_specs(&rank);
    if (status != STN_OK)
        return status;
    rank.source = world_tensor(context, rank.from);
    rank.copy = buffer_make_large((size_t)stn_spec_local_numel(rank.to) * sizeof(float));
    if (rank.source == NULL || rank.copy == NULL)
        return STN_ERR_MEMORY;
    world->source[rank.rank] = stn_tensor_data(rank.source);
    team_wait(&world->world.team);
    for (int r = 0; r < world->world.team.ranks; r++)
        find_piece(&rank, r);
    team_choose(&world->world.team, rank.rank, rows_n_ways(), choose_way, run_copy, &rank);
    const struct contest contest = {.ours = run_ours, .peer = run_copy, .ours_arg = &rank, .peer_arg = &rank};
    team_measure(&world->world.team, rank.rank, &contest, &world->samples);
    count_one(&rank);
    if (rank.rank == 0)
        print_row(&rank);
    team_wait(&world->world.team);
    stn_tensor_release(&rank.source);
    stn_spec_release(&rank.from);
    stn_spec_release(&rank.to);
    free(rank.copy);
    return STN_OK;
}

void bench_reshard(struct bench *bench)
{
    for (int i = 0; i < CASES; i++) {
        struct reshard_world world = {.c = &cases[i], .side = bench->quick ? QUICK_SIDE : SIDE};
        world_launch(bench, cases[i].sizes[0] * (cases[i].ndim > 1 ? cases[i].sizes[1] : 1), reshard_rank_main,
                     &world.world);
    }
}
