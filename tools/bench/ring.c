/* 8. Attention over a sharded sequence, beside the same on whole sequences, of which each rank has half of the heads:
 * as much work, and nothing is sent. */
#include "world.h"

#include <stdio.h>

enum { RANKS = 2, HEADS = 8, WIDTH = 64, QUICK_LENGTH = 256 };

static const int64_t lengths[] = {4096, 8192, 16384};

struct ring_world {
    struct world world;
    int64_t length;
};

struct ring_side {
    stn_context *context;
    int is_causal, with_gradients;
    stn_tensor *x[4]; /* queries, keys, values, and the result's cotangent */
};

static double run(void *arg, int64_t n)
{
    struct ring_side *side = arg;
    const stn_attention_attrs attrs = {.size = sizeof attrs, .is_causal = side->is_causal};
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
        stn_tensor *gradients[3] = {NULL, NULL, NULL};
        stn_tensor *result = stn_scaled_dot_product_attention(side->x[0], side->x[1], side->x[2], NULL, &attrs);
        if (side->with_gradients)
            stn_grad(side->context, 1, &result, &side->x[3], 3, side->x, 0, 0, gradients);
        stn_tensor_release(&result);
        for (int k = 0; k < 3; k++)
            stn_tensor_release(&gradients[k]);
    }
    return stn_context_status(side->context) == STN_OK ? bench_now() - start : -1;
}

static stn_status make(struct ring_side *side, int64_t length, const stn_mesh *mesh, int cut)
{
    const int64_t shape[] = {HEADS, length, WIDTH};
    const stn_placement placement = stn_shard(cut);
    const stn_spec *spec;
    const stn_status status = stn_spec_create(side->context, mesh, &placement, STN_DTYPE_F32, 3, shape, NULL, &spec);
    if (status != STN_OK)
        return status;
    for (int k = 0; k < 4; k++)
        side->x[k] = stn_randn(side->context, spec);
    stn_spec_release(&spec);
    return stn_context_status(side->context);
}

static void measure(struct ring_world *world, struct ring_side *ours, struct ring_side *peer, int is_causal,
                    int with_gradients)
{
    const struct contest contest = {.ours = run, .peer = run, .ours_arg = ours, .peer_arg = peer};
    struct row row = {.name = "ring", .gate = 0.95, .goal = 0.98};
    ours->is_causal = peer->is_causal = is_causal;
    ours->with_gradients = peer->with_gradients = with_gradients;
    for (int k = 0; k < 3; k++) {
        stn_set_requires_grad(ours->x[k], with_gradients);
        stn_set_requires_grad(peer->x[k], with_gradients);
    }
    snprintf(row.label, sizeof row.label, "%lld tokens%s%s", (long long)world->length, is_causal ? ", causal" : "",
             with_gradients ? ", gradients" : "");
    world_contest(&world->world, ours->context, &contest, &row);
}

static stn_status ring_rank_main(stn_context *context, void *arg)
{
    struct ring_world *world = arg;
    struct ring_side ours = {.context = context}, peer = {.context = context};
    const int ranks = RANKS;
    const stn_mesh *mesh;
    stn_status status = stn_mesh_create(context, 1, &ranks, NULL, NULL, &mesh);
    if (status == STN_OK)
        status = make(&ours, world->length, mesh, 1);
    if (status == STN_OK)
        status = make(&peer, world->length, mesh, 0);
    if (status != STN_OK)
        return status;
    for (int is_causal = 0; is_causal < 2; is_causal++)
        for (int with_gradients = 0; with_gradients < 2; with_gradients++)
            measure(world, &ours, &peer, is_causal, with_gradients);
    for (int k = 0; k < 4; k++) {
        stn_tensor_release(&ours.x[k]);
        stn_tensor_release(&peer.x[k]);
    }
    return STN_OK;
}

void bench_ring(struct bench *bench)
{
    for (int i = 0; i < (bench->quick ? 1 : (int)(sizeof lengths / sizeof lengths[0])); i++) {
        struct ring_world world = {.length = bench->quick ? QUICK_LENGTH : lengths[i]};
        world_launch(bench, RANKS, ring_rank_main, &world.world);
    }
}
