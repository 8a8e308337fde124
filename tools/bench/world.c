/* Thread ranks and fake worlds. */
#include "world.h"

#include <stdlib.h>

void world_launch(struct bench *bench, int ranks, stn_rank_main rank_main, struct world *world)
{
    char why[256] = "";
    const stn_launch_options options = {
        .size = sizeof options,
        .ranks = ranks,
        .context = {.size = sizeof options.context,
                    .without = bench->without,
                    .isa = bench->isa,
                    .error_text = why,
                    .error_text_size = sizeof why},
    };
    world->bench = bench;
    if (!team_init(&world->team, bench, ranks)) {
        bench_fail(bench, "no barrier for %d ranks", ranks);
        return;
    }
    stn_status status = stn_launch(&options, rank_main, world);
    if (status != STN_OK)
        bench_fail(bench, "%d ranks: %s: %s", ranks, stn_status_text(status), why);
    team_fini(&world->team);
}

void world_measure(struct world *world, int rank, const struct contest *contest, struct row *row)
{
    team_measure(&world->team, rank, contest, &world->samples);
    row_measure(row, &world->samples, bench_times, 0, 1e-6);
    row->unit = "us";
}

void world_contest(struct world *world, stn_context *context, const struct contest *contest, struct row *row)
{
    const int rank = stn_context_rank(context);
    world_measure(world, rank, contest, row);
    stn_context_stats_reset(context);
    const stn_stats before = world_stats(context);
    contest->ours(contest->ours_arg, 1);
    const stn_stats after = world_stats(context);
    row_count(row, "bytes_sent", (double)(after.bytes_sent - before.bytes_sent));
    row_count(row, "exchanges", (double)(after.collectives - before.collectives));
    row_count(row, "held_bytes", (double)(after.peak_bytes - before.live_bytes));
    if (rank == 0)
        row_print(world->bench, row);
}

/* The communicator is the context's, or gone. */
static stn_context *make_context(struct bench *bench, stn_comm *comm, const char *what, int size)
{
    char text[256] = "";
    stn_context *context = NULL;
    const stn_context_options options = {.size = sizeof options,
                                         .comm = comm,
                                         .error_text = text,
                                         .error_text_size = sizeof text,
                                         .without = bench->without,
                                         .isa = bench->isa};
    const stn_status status = stn_context_create(&options, &context);
    if (status != STN_OK) {
        stn_comm_destroy(&comm);
        bench_fail(bench, "%s of %d: %s: %s", what, size, stn_status_text(status), text);
    }
    return context;
}

stn_context *world_fake(struct bench *bench, int rank, int size)
{
    stn_comm *comm;
    const stn_status status = stn_comm_create_fake(rank, size, 0, 0, &comm);
    if (status == STN_OK)
        return make_context(bench, comm, "fake world", size);
    bench_fail(bench, "fake world of %d: %s", size, stn_status_text(status));
    return NULL;
}

stn_context *world_alone(struct bench *bench)
{
    return make_context(bench, NULL, "world", 1);
}

stn_stats world_stats(stn_context *context)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats(context, &stats);
    return stats;
}

stn_tensor *world_tensor(stn_context *context, const stn_spec *spec)
{
    const int64_t n = stn_spec_local_numel(spec);
    float *data = malloc(sizeof *data * (size_t)n + 1);
    if (data == NULL)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(i % 127) / 64 - 1;
    stn_tensor *tensor = stn_from_host(context, spec, data);
    free(data);
    return stn_tensor_is_error(tensor) ? NULL : tensor;
}
