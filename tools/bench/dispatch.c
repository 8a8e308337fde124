/* 1. What a call costs beyond its kernel: ops on tiny shards of two thread ranks, over the same arithmetic done by a
 * bare function.
 *
 * The peer is a kernel of our own, called in a loop from the `run` of an op registered through op.h: no launch, no
 * lookup, nothing but the call. What is allowed over it is in seconds, so the ratio is that allowance over the
 * difference. */
#include "heap.h"
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 2, SCOPE = 64 /* calls between the ends of scopes, as in a training step */ };

static const double CACHED_SECONDS = 1e-6, UNSEEN_SECONDS = 20e-6;

/* The bare kernels. */

struct bare_args {
    float *out;
    const float *a, *b;
    int64_t n;
};

static stn_status bare_add(stn_queue *queue, const void *args)
{
    const struct bare_args *x = args;
    (void)queue;
    for (int64_t i = 0; i < x->n; i++)
        x->out[i] = x->a[i] + x->b[i];
    return STN_OK;
}

static stn_status bare_none(stn_queue *queue, const void *args)
{
    (void)queue;
    (void)args;
    return STN_OK;
}

/* 4 x 4 times 4 x 4. */
static stn_status bare_matmul(stn_queue *queue, const void *args)
{
    const struct bare_args *x = args;
    (void)queue;
    for (int i = 0; i < 4; i++) {
        float sum[4] = {0};
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < 4; j++)
                sum[j] += x->a[4 * i + k] * x->b[4 * k + j];
        memcpy(x->out + 4 * i, sum, sizeof sum);
    }
    return STN_OK;
}

/* What one rank works on. */
struct dispatch_rank {
    struct dispatch_world *world;
    stn_context *context;
    const stn_mesh *mesh;
    const stn_op *add, *bare;
    stn_tensor *a, *b;
    stn_kernel_fn volatile kernel; /* read anew for each call, so that no call is inlined away */
    int64_t repetitions;
    double seconds;
    int64_t unseen; /* counts shapes that were used up */
    stn_step *step; /* SCOPE calls, captured */
};

/* What the ranks share; descriptors live as long as contexts. */
struct dispatch_world {
    struct world world;
    stn_op_desc bare[RANKS];
    struct samples samples;
};

/* The op that times the bare kernel: its output is like its first input. */

static stn_status bare_check(stn_op_call *call)
{
    const stn_spec *spec = call->in_spec[0];
    call->out_meta[0] = (stn_meta){.dtype = stn_spec_dtype(spec), .ndim = stn_spec_ndim(spec)};
    memcpy(call->out_meta[0].shape, stn_spec_shape(spec), sizeof(int64_t) * (size_t)stn_spec_ndim(spec));
    return STN_OK;
}

static stn_status bare_place(stn_op_call *call)
{
    call->out_spec[0] = call->in_spec[0];
    return STN_OK;
}

static stn_status bare_run(stn_op_call *call)
{
    struct dispatch_rank *rank = call->arg;
    const struct bare_args args = {stn_tensor_data(call->out[0]), stn_tensor_data(call->in[0]),
                                   stn_tensor_data(call->in[1]), stn_spec_local_numel(call->in_spec[0])};
    stn_queue *queue = stn_context_queue(call->context);
    const double start = bench_now();
    for (int64_t i = 0; i < rank->repetitions; i++)
        rank->kernel(queue, &args);
    rank->seconds = bench_now() - start;
    return STN_OK;
}

static const stn_input_schema bare_inputs[] = {{.name = "a"}, {.name = "b"}};

static const stn_op_desc bare_desc = {
    .size = sizeof(stn_op_desc),
    .name = "bench_bare",
    STN_INPUTS(bare_inputs),
    .n_outputs = 1,
    .impl = &(const stn_op_impl){.check = bare_check, .place = bare_place, .run = bare_run},
};

static double run_bare(void *arg, int64_t n)
{
    struct dispatch_rank *rank = arg;
    stn_tensor *in[] = {rank->a, rank->b}, *out;
    rank->repetitions = n;
    stn_scope_begin(rank->context);
    stn_op_apply(rank->bare, 2, in, NULL, 1, &out);
    return stn_scope_end(rank->context) == STN_OK ? rank->seconds : -1;
}

/* The calls that are measured. */

static stn_status call_add(struct dispatch_rank *rank)
{
    return stn_tensor_is_error(stn_add(rank->a, rank->b)) ? STN_ERR_INTERNAL : STN_OK;
}

static stn_status call_view(struct dispatch_rank *rank)
{
    static const int64_t shape[] = {RANKS, 1};
    return stn_tensor_is_error(stn_view(rank->a, 2, shape)) ? STN_ERR_INTERNAL : STN_OK;
}

static stn_status call_matmul(struct dispatch_rank *rank)
{
    return stn_tensor_is_error(stn_matmul(rank->a, rank->b)) ? STN_ERR_INTERNAL : STN_OK;
}

static stn_status call_by_handle(struct dispatch_rank *rank)
{
    stn_tensor *in[] = {rank->a, rank->b}, *out;
    return stn_op_invoke(rank->add, 2, in, 0, NULL, 1, &out);
}

static stn_status call_by_name(struct dispatch_rank *rank)
{
    stn_tensor *in[] = {rank->a, rank->b}, *out;
    return stn_call(rank->context, "add", 2, in, 0, NULL, 1, &out);
}

/* Forward and backward: the gradients are dropped, nothing is added up from call to call. */
static stn_status call_add_and_backward(struct dispatch_rank *rank)
{
    stn_tensor *in[] = {rank->a, rank->b}, *grads[2], *y = stn_add(rank->a, rank->b), *cotangent = rank->b;
    return stn_grad(rank->context, 1, &y, &cotangent, 2, in, 0, 0, grads);
}

static const struct dispatch_case {
    const char *label;
    stn_status (*call)(struct dispatch_rank *rank);
    stn_kernel_fn kernel;
    int64_t rows_a, rows_b, columns; /* a (rows_a, columns) and b (rows_b, columns); columns 0: one dim */
    int b_sharded, grad;
    double goal; /* NAN: reported only */
    int replayed; /* captured once, and repeated */
} dispatch_cases[] = {
    {"add", call_add, bare_add, RANKS, RANKS, 0, 1, 0, 4, 0},
    {"add, gradient recorded", call_add, bare_add, RANKS, RANKS, 0, 1, 1, 2, 0},
    {"add, by handle", call_by_handle, bare_add, RANKS, RANKS, 0, 1, 0, 4, 0},
    {"add, by name", call_by_name, bare_add, RANKS, RANKS, 0, 1, 0, 4, 0},
    {"view", call_view, bare_none, RANKS, RANKS, 0, 1, 0, 4, 0},
    {"view, gradient recorded", call_view, bare_none, RANKS, RANKS, 0, 1, 1, 2, 0},
    {"matmul 4x4", call_matmul, bare_matmul, 4 * RANKS, 4, 4, 0, 0, 4, 0},
    {"matmul 4x4, gradient recorded", call_matmul, bare_matmul, 4 * RANKS, 4, 4, 0, 1, 2, 0},
    {"add and its backward", call_add_and_backward, bare_add, RANKS, RANKS, 0, 1, 1, NAN, 0},
    {"add, replayed", call_add, bare_add, RANKS, RANKS, 0, 1, 0, 40, 1},
    {"matmul 4x4, replayed", call_matmul, bare_matmul, 4 * RANKS, 4, 4, 0, 0, 4, 1},
    {"add and its backward, replayed", call_add_and_backward, bare_add, RANKS, RANKS, 0, 1, 1, NAN, 1},
};

enum { CASES = sizeof dispatch_cases / sizeof dispatch_cases[0] };

struct measured {
    struct dispatch_rank *rank;
    const struct dispatch_case *c;
};

static double run_case(void *arg, int64_t n)
{
    const struct measured *m = arg;
    stn_context *context = m->rank->context;
    stn_status status = STN_OK;
    const double start = bench_now();
    for (int64_t i = 0; i < n && status == STN_OK; i += SCOPE) {
        stn_scope_begin(context);
        for (int64_t j = i; j < n && j < i + SCOPE; j++)
            m->c->call(m->rank);
        status = stn_scope_end(context);
    }
    return status == STN_OK ? bench_now() - start : -1;
}

/* The same calls as a captured step. */
static double run_replayed(void *arg, int64_t n)
{
    const struct measured *m = arg;
    stn_status status = STN_OK;
    const double start = bench_now();
    for (int64_t i = 0; i < n && status == STN_OK; i += SCOPE)
        status = stn_step_run(m->rank->step);
    return status == STN_OK ? bench_now() - start : -1;
}

static stn_status capture_calls(const struct measured *m)
{
    stn_context *context = m->rank->context;
    stn_status status = stn_capture_begin(context);
    stn_scope_begin(context);
    for (int i = 0; i < SCOPE && status == STN_OK; i++)
        status = m->c->call(m->rank);
    stn_scope_end(context);
    return stn_capture_end(context, &m->rank->step);
}

static stn_tensor *make_tensor(struct dispatch_rank *rank, int64_t rows, int64_t columns, int sharded, int grad)
{
    const stn_placement placement = sharded ? stn_shard(0) : stn_replicate();
    const int64_t shape[] = {rows, columns};
    const stn_spec *spec;
    if (stn_spec_create(rank->context, rank->mesh, &placement, STN_DTYPE_F32, columns > 0 ? 2 : 1, shape, NULL,
                        &spec) != STN_OK)
        return NULL;
    stn_tensor *tensor = world_tensor(rank->context, spec);
    stn_spec_release(&spec);
    if (tensor != NULL && grad)
        stn_set_requires_grad(tensor, 1);
    return tensor;
}

/* Exact numbers of one call, in the state that repeats. */
static void count_calls(struct measured *m, double (*run)(void *arg, int64_t n), struct row *row)
{
    enum { CALLS = 64 * SCOPE };
    run(m, CALLS);
    stn_stats before = world_stats(m->rank->context);
    int64_t heap = heap_calls();
    run(m, CALLS);
    stn_stats after = world_stats(m->rank->context);
    const int64_t calls_of_heap = heap_calls() - heap;
    const int64_t allocations = after.allocations - before.allocations,
                  reached = after.allocator_calls - before.allocator_calls;
    row_count(row, "allocations", (double)allocations / CALLS);
    row_count(row, "allocator_calls", (double)reached / CALLS);
    if (heap >= 0)
        row_count(row, "heap_allocations", (double)calls_of_heap / CALLS);
    /* Nothing is allocated but the output, whose memory comes from the pool; a table may grow once in a while. */
    row->broken = !isnan(row->gate) && (allocations > CALLS || reached > CALLS / 100 || calls_of_heap > CALLS / 100);
    row_count(row, "messages", (double)(after.messages - before.messages) / CALLS);
    row_count(row, "host_syncs", (double)(after.host_syncs - before.host_syncs) / CALLS);
}

static void measure_case(struct dispatch_rank *rank, const struct dispatch_case *c)
{
    struct dispatch_world *world = rank->world;
    const int me = stn_context_rank(rank->context);
    struct measured m = {rank, c};
    rank->kernel = c->kernel;
    rank->a = make_tensor(rank, c->rows_a, c->columns, 1, c->grad);
    rank->b = make_tensor(rank, c->rows_b, c->columns, c->b_sharded, c->grad);
    double (*run)(void *arg, int64_t n) = c->replayed ? run_replayed : run_case;
    if (c->replayed && capture_calls(&m) != STN_OK)
        run = run_case; /* whose failure is the row's */
    const struct contest contest = {
        .ours = run, .peer = run_bare, .ours_arg = &m, .peer_arg = rank, .repetitions = c->replayed ? 64 * SCOPE : 0};
    team_measure(&world->world.team, me, &contest, &world->samples);
    struct row row = {.name = "dispatch", .unit = "us", .gate = isnan(c->goal) ? NAN : 1, .goal = c->goal};
    snprintf(row.label, sizeof row.label, "%s", c->label);
    row_measure(&row, &world->samples, bench_allowance, CACHED_SECONDS, 1e-6);
    if (world->samples.n > 0)
        count_calls(&m, run, &row);
    stn_step_destroy(&rank->step);
    stn_tensor_release(&rank->a);
    stn_tensor_release(&rank->b);
    if (me == 0)
        row_print(world->world.bench, &row);
}

/* Every call meets a shape that it has not met before, and alternately a layout; making the tensors is not counted. */
static double run_unseen(void *arg, int64_t n)
{
    struct dispatch_rank *rank = arg;
    double seconds = 0;
    stn_scope_begin(rank->context);
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = rank->unseen++;
        rank->a = make_tensor(rank, 2 + k % 50, 1 + k / 50, k % 3 != 0, 0);
        rank->b = make_tensor(rank, 2 + k % 50, 1 + k / 50, k % 2 != 0, 0);
        const double start = bench_now();
        call_add(rank);
        seconds += bench_now() - start;
    }
    return stn_scope_end(rank->context) == STN_OK ? seconds : -1;
}

/* The kernel alone on shards of the same sizes as run_unseen meets. */
static double run_unseen_bare(void *arg, int64_t n)
{
    struct dispatch_rank *rank = arg;
    float out[4096], in[4096] = {0};
    const double start = bench_now();
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = rank->unseen - n + i, whole = (2 + k % 50) * (1 + k / 50);
        const struct bare_args args = {out, in, in, whole / 2 < 4096 ? whole / 2 : 4096};
        rank->kernel(NULL, &args);
    }
    return bench_now() - start;
}

static void measure_unseen(struct dispatch_rank *rank)
{
    struct dispatch_world *world = rank->world;
    const int me = stn_context_rank(rank->context);
    const struct contest contest = {
        .ours = run_unseen, .peer = run_unseen_bare, .ours_arg = rank, .peer_arg = rank, .repetitions = 64};
    rank->kernel = bare_add;
    team_measure(&world->world.team, me, &contest, &world->samples);
    struct row row = {
        .name = "dispatch", .label = "add, shape and layout never seen", .unit = "us", .gate = 1, .goal = 4};
    row_measure(&row, &world->samples, bench_allowance, UNSEEN_SECONDS, 1e-6);
    if (me == 0)
        row_print(world->world.bench, &row);
}

static stn_status dispatch_rank_main(stn_context *context, void *arg)
{
    struct dispatch_world *world = arg;
    struct dispatch_rank rank = {.world = world, .context = context, .kernel = bare_none};
    stn_op_desc *desc = &world->bare[stn_context_rank(context)];
    const int sizes[] = {RANKS};
    *desc = bare_desc;
    desc->arg = &rank;
    stn_status status = stn_mesh_create(context, 1, sizes, NULL, NULL, &rank.mesh);
    if (status == STN_OK)
        status = stn_op_register(context, desc, &rank.bare);
    if (status != STN_OK)
        return status;
    rank.add = stn_op_find(context, "add");
    for (int i = 0; i < CASES; i++)
        measure_case(&rank, &dispatch_cases[i]);
    measure_unseen(&rank);
    return STN_OK;
}

void bench_dispatch(struct bench *bench)
{
    struct dispatch_world world;
    world_launch(bench, RANKS, dispatch_rank_main, &world.world);
}
