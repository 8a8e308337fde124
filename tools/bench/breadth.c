/* 16. Ops of all families at 1 to 64 MB on two thread ranks, beside PyTorch on as many cores: the same operands,
 * pair by pair. A pending sum is reduced, so that both give the whole answer. Where there is no PyTorch the peer
 * copies the inputs, and the rows are only reported. */
#include "breadth.h"
#include "buffers.h"
#include "peer_torch.h"
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, QUICK_STEP = 6 /* the short form takes every so manieth case */ };

struct breadth_world {
    struct world world;
    const struct breadth_case *c;
    struct peer_torch *torch; /* NULL: copies are the peer */
    int with_gradient;
    struct samples samples;
};

struct breadth_rank {
    struct breadth_world *world;
    stn_context *context;
    stn_tensor *x[BREADTH_INPUTS], *leaves[BREADTH_INPUTS], *cotangent;
    int n_inputs, n_leaves;
    size_t bytes; /* of the inputs' chunks */
    char *from, *to;
};

static int is_pending(const stn_tensor *tensor)
{
    return stn_spec_placement(stn_tensor_spec(tensor), 0).kind == STN_PLACE_PARTIAL;
}

static stn_tensor *run_op(struct breadth_rank *rank)
{
    const stn_placement whole = stn_replicate();
    stn_tensor *y = rank->world->c->ours(rank->x);
    return !stn_tensor_is_error(y) && is_pending(y) ? stn_redistribute_to(y, &whole) : y;
}

static double run_ours(void *arg, int64_t n)
{
    struct breadth_rank *rank = arg;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
        stn_tensor *gradients[BREADTH_INPUTS];
        stn_scope_begin(rank->context);
        stn_tensor *y = run_op(rank);
        if (rank->cotangent)
            stn_grad(rank->context, 1, &y, &rank->cotangent, rank->n_leaves, rank->leaves, 0, 0, gradients);
        if (stn_scope_end(rank->context) != STN_OK)
            return -1;
    }
    return bench_now() - start;
}

/* One process with as many threads as there are ranks; the other ranks sleep meanwhile. */
static double run_torch(void *arg, int64_t n)
{
    struct breadth_rank *rank = arg;
    return stn_context_rank(rank->context) == 0 ? peer_torch_run(rank->world->torch, n) : 0;
}

static double run_copy(void *arg, int64_t n)
{
    struct breadth_rank *rank = arg;
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++)
        memcpy(rank->to, rank->from, rank->bytes);
    return bench_now() - start;
}

/* Inputs */

static stn_tensor *make_input(struct breadth_rank *rank, const stn_mesh *mesh, const struct breadth_input *input)
{
    const stn_placement placement = input->cut < 0 ? stn_replicate() : stn_shard(input->cut);
    const stn_dtype drawn = input->dtype == STN_DTYPE_I64 ? STN_DTYPE_I64 : STN_DTYPE_F32;
    const stn_spec *spec;
    if (stn_spec_create(rank->context, mesh, &placement, drawn, input->ndim, input->shape, NULL, &spec) != STN_OK)
        return NULL;
    stn_tensor *x =
        drawn == STN_DTYPE_I64 ? stn_randint(rank->context, spec, 0, input->high) : stn_rand(rank->context, spec);
    stn_spec_release(&spec);
    if (input->dtype == STN_DTYPE_C64)
        return stn_complex(x, x);
    return input->dtype == STN_DTYPE_BOOL   ? stn_lt_number(x, 0.5)
           : input->dtype == STN_DTYPE_BF16 ? stn_cast(x, STN_DTYPE_BF16)
                                            : x;
}

static int is_leaf(const struct breadth_input *input)
{
    return !input->constant && stn_dtype_is_differentiable(input->dtype);
}

static stn_status make_inputs(struct breadth_rank *rank)
{
    const struct breadth_case *c = rank->world->c;
    const int sizes[] = {RANKS};
    const stn_mesh *mesh;
    stn_status status = stn_mesh_create(rank->context, 1, sizes, NULL, NULL, &mesh);
    for (int i = 0; status == STN_OK && i < BREADTH_INPUTS && c->input[i].ndim > 0; i++) {
        stn_tensor *x = make_input(rank, mesh, &c->input[i]);
        status = stn_context_status(rank->context);
        if (status != STN_OK)
            return status;
        rank->x[rank->n_inputs++] = x;
        rank->bytes += (size_t)stn_spec_local_numel(stn_tensor_spec(x)) * stn_dtype_size(c->input[i].dtype);
        if (rank->world->with_gradient && is_leaf(&c->input[i])) {
            rank->leaves[rank->n_leaves++] = x;
            status = stn_set_requires_grad(x, 1);
        }
    }
    return status;
}

static stn_status make_cotangent(struct breadth_rank *rank)
{
    stn_tensor *y = run_op(rank);
    if (stn_context_status(rank->context) == STN_OK)
        rank->cotangent = stn_ones(rank->context, stn_tensor_spec(y));
    return stn_context_status(rank->context);
}

/* Measuring */

static void measure(struct breadth_rank *rank)
{
    struct breadth_world *world = rank->world;
    const int is_first = stn_context_rank(rank->context) == 0;
    const struct contest contest = {
        .ours = run_ours, .peer = world->torch ? run_torch : run_copy, .ours_arg = rank, .peer_arg = rank};
    team_measure(&world->world.team, stn_context_rank(rank->context), &contest, &world->samples);
    struct row row = {.name = "breadth",
                      .unit = "us",
                      .gate = world->torch ? 0.8 : (double)NAN,
                      .goal = world->torch ? 1 : (double)NAN};
    snprintf(row.label, sizeof row.label, "%s%s", world->c->label, world->with_gradient ? ", gradients" : "");
    row_measure(&row, &world->samples, bench_times, 0, 1e-6);
    const stn_stats before = world_stats(rank->context);
    run_ours(rank, 1);
    const stn_stats after = world_stats(rank->context);
    row_count(&row, "bytes_sent", (double)(after.bytes_sent - before.bytes_sent));
    row_count(&row, "messages", (double)(after.messages - before.messages));
    if (is_first)
        row_print(world->world.bench, &row);
}

static stn_status breadth_rank_main(stn_context *context, void *arg)
{
    struct breadth_rank rank = {.world = arg, .context = context};
    stn_scope_begin(context);
    stn_status status = make_inputs(&rank);
    if (status == STN_OK && rank.world->with_gradient)
        status = make_cotangent(&rank);
    rank.from = status == STN_OK ? buffer_make(rank.bytes) : NULL;
    rank.to = status == STN_OK ? buffer_make(rank.bytes) : NULL;
    if (status == STN_OK && (rank.from == NULL || rank.to == NULL))
        status = STN_ERR_MEMORY;
    if (status == STN_OK)
        measure(&rank);
    free(rank.from);
    free(rank.to);
    const stn_status end = stn_scope_end(context);
    return status == STN_OK ? end : status;
}

/* The peer's side of a case. @return 0 where it cannot. */
static int tell_torch(const struct breadth_world *w)
{
    int good = peer_torch_clear(w->torch);
    for (int i = 0; good && i < BREADTH_INPUTS && w->c->input[i].ndim > 0; i++) {
        const struct breadth_input *input = &w->c->input[i];
        good = peer_torch_input(w->torch, stn_dtype_name(input->dtype), input->high, input->constant, input->ndim,
                                input->shape);
    }
    return good && peer_torch_op(w->torch, w->c->torch, w->with_gradient);
}

static void run_case(struct bench *bench, const struct breadth_case *c, struct peer_torch *torch, int with_gradient)
{
    struct breadth_world world = {.c = c, .torch = torch, .with_gradient = with_gradient};
    if (torch && !tell_torch(&world)) {
        bench_fail(bench, "breadth %s: the peer could not run it", c->label);
        return;
    }
    world_launch(bench, RANKS, breadth_rank_main, &world.world);
}

void bench_breadth(struct bench *bench)
{
    char text[128];
    struct peer_torch *torch = peer_torch_open(bench->python ? bench->python : "python3", RANKS, text, sizeof text);
    fprintf(stderr,
            torch ? "breadth: beside PyTorch %s\n" : "breadth: beside copies of the inputs, without PyTorch (%s)\n",
            text);
    for (int i = 0; i < breadth_n_cases; i++) {
        const struct breadth_case *c = &breadth_cases[i];
        if (bench->only ? strstr(c->label, bench->only) == NULL : bench->quick && i % QUICK_STEP != 0)
            continue;
        run_case(bench, c, torch, 0);
        if (c->with_gradient)
            run_case(bench, c, torch, 1);
    }
    peer_torch_close(&torch);
}
