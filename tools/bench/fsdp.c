/* 11. A transformer of 30 M parameters that are in chunks between the steps and whole for their layer alone, AdamW,
 * gradients of two parts added up; on two ranks, and in chunks along one axis of 2 x 2. Beside the same step without
 * ranks, on as many threads. */
#include "steps.h"

#include <stdio.h>

enum { SAMPLES = 4 };

/* The most that a rank should hold: its chunks of parameters, gradients and state, two whole layers, and what lives
 * beside them in the peer's step. */
static double limit_of(const struct steps_rank *rank, const stn_stats *before, const stn_stats *peer)
{
    const double parameters = (double)model_bytes(&rank->ours.model);
    const int chunks = rank->world->c->sizes[rank->ours.model.kind->n_axes - 1];
    const double beside = (double)(peer->peak_bytes - before->live_bytes) - parameters; /* without gradients */
    return 1.02 * 4 * parameters / chunks + 2 * (double)model_layer_bytes(&rank->ours.model) + beside;
}

static stn_stats peak_of_step(struct model *model)
{
    stn_context_stats_reset(model->context);
    model_step(model, NULL);
    return world_stats(model->context);
}

static void measure(struct steps_rank *rank)
{
    const struct steps_case *c = rank->world->c;
    struct model *model = &rank->ours.model;
    struct row row = {.name = "fsdp", .gate = 0.93, .goal = 0.97};
    const stn_stats before = world_stats(rank->alone), peer = peak_of_step(&rank->peer.model);
    const stn_stats ours = peak_of_step(model);
    const double limit = limit_of(rank, &before, &peer);
    snprintf(row.label, sizeof row.label, "%s, %d x %lld samples", model->kind->name, c->n_parts,
             (long long)c->samples);
    row.broken = (double)ours.peak_bytes > limit;
    row_count(&row, "parameters", (double)model_bytes(model) / sizeof(float));
    row_count(&row, "peak_bytes", (double)ours.peak_bytes);
    row_count(&row, "peak_limit", limit);
    row_count(&row, "reserved_bytes", (double)ours.reserved_bytes);
    steps_contest(rank, &row);
}

static stn_status fsdp_rank_main(stn_context *context, void *arg)
{
    struct steps_rank rank;
    const stn_status status = steps_make(&rank, context, arg);
    if (status == STN_OK)
        measure(&rank);
    steps_drop(&rank);
    return status;
}

void bench_fsdp(struct bench *bench)
{
    static const struct steps_case cases[] = {{&model_fsdp, 2, {2}, SAMPLES, 2}, {&model_hsdp, 4, {2, 2}, SAMPLES, 2}};
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        struct steps_world world = {.c = &cases[i]};
        world_launch(bench, cases[i].ranks, fsdp_rank_main, &world.world);
    }
}
