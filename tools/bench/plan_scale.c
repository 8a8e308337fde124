/* 13. What it takes one rank among 2 to 100,000 to plan: a redistribution, a halo. The world moves nothing, shards
 * are tiny, and every call meets a layout that it has not met before, so that no cache answers. The peer is the
 * limit. */
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const int world_sizes[] = {2, 8, 64, 1000, 10000, 100000};

static const double GOAL_SECONDS = 50e-6;

/* 1 ms up to 1,000 ranks, 10 ms at 100,000. */
static double limit_of(int size)
{
    return size <= 1000 ? 1e-3 : 1e-2;
}

struct planner {
    stn_context *context;
    const stn_mesh *mesh;
    int size;
    int64_t next;         /* counts layouts that were used up */
    int64_t *pieces;      /* of an explicit split */
    const struct plan_case *c;
    stn_tensor *weight;
};

/* Each makes what the call needs, times the call alone and returns its seconds; negative where it failed. */
struct plan_case {
    const char *label;
    double (*plan)(struct planner *p);
    int flat; /* the goal holds at any size */
};

static double timed_redistribute(stn_tensor *source, const stn_spec *to)
{
    const double start = bench_now();
    stn_tensor *result = stn_redistribute(source, to);
    const double seconds = bench_now() - start;
    return stn_tensor_is_error(result) ? -1 : seconds;
}

static double redistribute(struct planner *p, int ndim, const int64_t *shape, stn_placement from,
                           const int64_t *from_sizes, stn_placement to)
{
    const int64_t *sizes[STN_MAX_NDIM] = {from_sizes};
    const stn_spec_options options = {.size = sizeof options, .sizes = from_sizes ? sizes : NULL};
    const stn_spec *source_spec = NULL, *spec = NULL;
    double seconds = -1;
    if (stn_spec_create(p->context, p->mesh, &from, STN_DTYPE_F32, ndim, shape, &options, &source_spec) == STN_OK &&
        stn_spec_create(p->context, p->mesh, &to, STN_DTYPE_F32, ndim, shape, NULL, &spec) == STN_OK) {
        stn_tensor *source = world_tensor(p->context, source_spec);
        seconds = source != NULL ? timed_redistribute(source, spec) : -1;
    }
    stn_spec_release(&source_spec);
    stn_spec_release(&spec);
    return seconds;
}

/* The first rank holds a few elements too many and the last one too few, so that every rank passes some on to its
 * neighbour. */
static double plan_shift(struct planner *p)
{
    const int64_t each = 4 + p->next++, more = 1 + each % 3, shape[] = {each * p->size};
    for (int r = 0; r < p->size; r++)
        p->pieces[r] = each;
    p->pieces[0] += more;
    p->pieces[p->size - 1] -= more;
    return redistribute(p, 1, shape, stn_shard(0), p->pieces, stn_shard(0));
}

/* Every rank sends to every other. */
static double plan_transpose(struct planner *p)
{
    const int64_t shape[] = {p->size, p->size + p->next++};
    return redistribute(p, 2, shape, stn_shard(0), NULL, stn_shard(1));
}

static double plan_gather(struct planner *p)
{
    const int64_t shape[] = {p->size + p->next++};
    return redistribute(p, 1, shape, stn_shard(0), NULL, stn_replicate());
}

/* Rows of a 3 x 3 convolution: in f64, for which the library has kernels of its own, so that no foreign library's
 * set-up is timed. */
static double plan_halo(struct planner *p)
{
    const stn_placement rows = stn_shard(2);
    const int64_t shape[] = {1, 1, 4 * (int64_t)p->size, 4 + p->next++};
    const stn_conv_attrs attrs = {.size = sizeof attrs, .padding = {1, 1}};
    const stn_spec *spec;
    if (stn_spec_create(p->context, p->mesh, &rows, STN_DTYPE_F64, 4, shape, NULL, &spec) != STN_OK)
        return -1;
    stn_tensor *x = stn_empty(p->context, spec);
    stn_spec_release(&spec);
    const double start = bench_now();
    stn_tensor *y = stn_conv2d(x, p->weight, NULL, &attrs);
    const double seconds = bench_now() - start;
    return stn_tensor_is_error(y) ? -1 : seconds;
}

static const struct plan_case cases[] = {
    {"uneven to balanced, 1-D", plan_shift, 1},
    {"S(0)->S(1)", plan_transpose, 0},
    {"S(0)->R", plan_gather, 0},
    {"halo of conv2d", plan_halo, 1},
};

enum { CASES = sizeof cases / sizeof cases[0] };

static double run_plan(void *arg, int64_t n)
{
    struct planner *p = arg;
    double seconds = 0;
    for (int64_t i = 0; i < n; i++) {
        stn_scope_begin(p->context);
        const double one = p->c->plan(p);
        if (stn_scope_end(p->context) != STN_OK || one < 0)
            return -1;
        seconds += one;
    }
    return seconds;
}

static double run_limit(void *arg, int64_t n)
{
    const struct planner *p = arg;
    return limit_of(p->size) * (double)n;
}

static int open_planner(struct planner *p, struct bench *bench, int size)
{
    const stn_placement placement = stn_replicate();
    const int64_t shape[] = {1, 1, 3, 3};
    const double ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const stn_spec *spec;
    p->size = size;
    p->pieces = malloc(sizeof *p->pieces * (size_t)size);
    p->context = world_fake(bench, size / 2, size);
    if (p->pieces == NULL || p->context == NULL ||
        stn_mesh_create(p->context, 1, &size, NULL, NULL, &p->mesh) != STN_OK ||
        stn_spec_create(p->context, p->mesh, &placement, STN_DTYPE_F64, 4, shape, NULL, &spec) != STN_OK)
        return 0;
    p->weight = stn_from_host(p->context, spec, ones);
    stn_spec_release(&spec);
    return !stn_tensor_is_error(p->weight);
}

static void measure(struct bench *bench, struct team *team, int size, const struct plan_case *c)
{
    struct planner planner = {.c = c};
    struct samples samples = {0};
    if (open_planner(&planner, bench, size)) {
        const struct contest contest = {.ours = run_plan,
                                        .peer = run_limit,
                                        .ours_arg = &planner,
                                        .peer_arg = &planner,
                                        .repetitions = bench->quick ? 2 : 16};
        run_plan(&planner, 2);
        team_measure(team, 0, &contest, &samples);
    }
    struct row row = {
        .name = "plan-scale", .unit = "us", .gate = 1, .goal = c->flat ? limit_of(size) / GOAL_SECONDS : 1};
    snprintf(row.label, sizeof row.label, "%s among %d", c->label, size);
    row_measure(&row, &samples, bench_times, 0, 1e-6);
    if (planner.context != NULL) {
        stn_context_stats_reset(planner.context);
        run_plan(&planner, 1);
        row_count(&row, "messages", (double)world_stats(planner.context).messages);
        row_count(&row, "bytes_sent", (double)world_stats(planner.context).bytes_sent);
    }
    row_print(bench, &row);
    stn_tensor_release(&planner.weight);
    stn_context_destroy(&planner.context);
    free(planner.pieces);
}

void bench_plan_scale(struct bench *bench)
{
    struct team team;
    if (!team_init(&team, bench, 1))
        return;
    for (int c = 0; c < CASES; c++)
        for (size_t i = 0; i < sizeof world_sizes / sizeof world_sizes[0]; i++)
            measure(bench, &team, world_sizes[i], &cases[c]);
    team_fini(&team);
}
