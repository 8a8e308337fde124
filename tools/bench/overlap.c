/* What goes on beside the caller, and the same without: a training step whose gradients are reduced while the
 * backward goes on, and whose sharded weights are gathered before they are wanted, or when it has to; convolutions
 * (overlap_conv.c). Between two thread ranks; under mpirun between the job's; over a wire that takes time and no
 * core. */
#include "bench.h"
#include "overlap.h"
#include "wire.h"

#include <math.h>
#include <stdio.h>

enum { LAYERS = 16, WIDTH = 512, ONCE_WIDTH = 64, ROWS = 256 /* of a sample, in all */, WIRE_RANKS = 2 };

/* Replicas; in chunks, each gathered for its layer (fully sharded training); in chunks, gathered for backward once
 * more. */
enum weights { REPLICAS, SHARDED, GATHERED_AGAIN, N_WEIGHTS };

static const char *const programs[] = {"mlp", "fsdp", "fsdp, gathered again"};

struct step {
    struct bench *bench;
    const char *over;
    enum weights weights;
    int64_t steps; /* of one measurement */
    double alone;  /* seconds of a step of replicas whose gradients nobody reduces: what computes */
    stn_context *context;
    const stn_spec *whole; /* of a weight that was gathered */
    stn_tensor *x, *w[LAYERS];
};

static int64_t width_of(const struct step *s)
{
    return s->bench->once ? ONCE_WIDTH : WIDTH;
}

static stn_tensor *tensor(const struct step *s, const stn_mesh *mesh, stn_placement place, int64_t rows)
{
    const int64_t shape[] = {rows, width_of(s)};
    const stn_spec *spec = NULL;
    if (stn_spec_create(s->context, mesh, &place, STN_DTYPE_F32, 2, shape, NULL, &spec) != STN_OK)
        return NULL;
    stn_tensor *out = stn_mul_number(stn_randn(s->context, spec), 0.05);
    stn_spec_release(&spec);
    return out;
}

static stn_status make(struct step *s, const stn_mesh *mesh)
{
    const stn_placement whole = stn_replicate();
    const int64_t shape[] = {width_of(s), width_of(s)};
    stn_spec_create(s->context, mesh, &whole, STN_DTYPE_F32, 2, shape, NULL, &s->whole);
    s->x = tensor(s, mesh, stn_shard(0), ROWS);
    for (int k = 0; k < LAYERS; k++) {
        s->w[k] = tensor(s, mesh, s->weights == REPLICAS ? stn_replicate() : stn_shard(0), width_of(s));
        stn_set_requires_grad(s->w[k], 1);
    }
    return stn_context_status(s->context);
}

/* The weight of a layer as it is multiplied, from now on or, beside the caller, by the time that it is. The op would
 * not gather it by itself: a weight that is larger than the sample stays where it is, and the sample moves. */
static stn_tensor *gather(const struct step *s, int layer, int beside)
{
    if (layer == LAYERS)
        return NULL;
    if (s->weights == REPLICAS)
        return s->w[layer];
    return beside ? stn_redistribute_begin(s->w[layer], s->whole) : stn_redistribute(s->w[layer], s->whole);
}

/* In a scope of its own, so that the whole weight goes with the layer. With overlap that of the next layer is
 * gathered beside it. */
static stn_tensor *run_layer(const struct step *s, int layer, int overlap, stn_tensor *y, stn_tensor **w)
{
    stn_tensor *kept[2] = {NULL, NULL};
    stn_scope_begin(s->context);
    stn_tensor *next = overlap ? gather(s, layer + 1, 1) : NULL;
    y = stn_relu(stn_matmul(y, *w));
    next = overlap ? next : gather(s, layer + 1, 0);
    stn_scope_end_keep_all(s->context, next && s->weights != REPLICAS ? 2 : 1, (stn_tensor *[]){y, next}, kept);
    *w = kept[1] ? kept[1] : next;
    return kept[0];
}

static stn_status run_one(struct step *s, int overlap)
{
    stn_scope_begin(s->context);
    stn_tensor *y = s->x, *w = gather(s, 0, overlap);
    for (int k = 0; k < LAYERS; k++)
        y = run_layer(s, k, overlap, y, &w);
    stn_backward(stn_mean(y, 0, NULL, 0));
    for (int k = 0; k < LAYERS; k++)
        stn_zero_grad(s->w[k]);
    return stn_scope_end(s->context);
}

/* Seconds of a step; negative where one failed. All ranks begin and end together. */
static double run(struct step *s, int overlap)
{
    stn_comm *comm = stn_context_comm(s->context);
    stn_status status = stn_comm_barrier(comm, NULL);
    stn_set_grad_overlap(s->context, overlap);
    const double start = bench_now();
    for (int64_t i = 0; i < s->steps && status == STN_OK; i++)
        status = run_one(s, overlap);
    if (status == STN_OK)
        status = stn_comm_barrier(comm, NULL);
    return status == STN_OK ? (bench_now() - start) / (double)s->steps : -1;
}

/* What replicas' gradients take that nobody reduces. */
static double run_alone(struct step *s)
{
    stn_no_sync_begin(s->context);
    const double seconds = run(s, 0);
    stn_no_sync_end(s->context);
    return seconds;
}

static stn_stats count_one(struct step *s, int overlap)
{
    stn_stats stats = {.size = sizeof stats};
    stn_context_stats_reset(s->context);
    stn_set_grad_overlap(s->context, overlap);
    run_one(s, overlap);
    stn_context_stats(s->context, &stats);
    return stats;
}

static void report(struct step *s, const struct samples *samples)
{
    const stn_stats with = count_one(s, 1), without = count_one(s, 0);
    struct row row = {.name = "overlap", .unit = "us", .gate = NAN, .goal = NAN};
    snprintf(row.label, sizeof row.label, "%s, %s", programs[s->weights], s->over);
    row_measure(&row, samples, bench_times, 0, 1e-6);
    row.broken = with.messages != without.messages || with.bytes_sent != without.bytes_sent;
    row_count(&row, "messages", (double)with.messages);
    row_count(&row, "messages_without", (double)without.messages);
    row_count(&row, "bytes", (double)with.bytes_sent);
    row_count(&row, "bytes_without", (double)without.bytes_sent);
    row_count(&row, "hidden_us", row.peer - row.ours);
    row_count(&row, s->weights == REPLICAS ? "reducing_us" : "moving_us", row.peer - s->alone * 1e6);
    if (stn_context_rank(s->context) == 0)
        row_print(s->bench, &row);
}

/* With and without in turn. */
static stn_status measure(struct step *s)
{
    struct samples samples = {0};
    if (run(s, 1) < 0 || run(s, 0) < 0)
        return stn_context_status(s->context);
    for (int i = 0; i < s->bench->pairs; i++) {
        samples.ours[i] = run(s, 1);
        samples.peer[i] = run(s, 0);
        if (s->weights == REPLICAS)
            s->alone = fmin(s->alone, run_alone(s));
        if (samples.ours[i] < 0 || samples.peer[i] < 0)
            return stn_context_status(s->context);
        samples.n++;
    }
    report(s, &samples);
    return stn_context_status(s->context);
}

static stn_status rank_main(stn_context *context, void *arg)
{
    struct step step = *(const struct step *)arg;
    const int size = stn_context_size(context);
    const stn_mesh *mesh = NULL;
    step.context = context;
    step.steps = step.bench->quick ? 2 : 10;
    step.alone = INFINITY;
    for (step.weights = REPLICAS; step.weights < N_WEIGHTS; step.weights++) {
        stn_scope_begin(context);
        stn_set_gather_again(context, step.weights == GATHERED_AGAIN);
        stn_status status = stn_mesh_create(context, 1, &size, NULL, NULL, &mesh);
        if (status == STN_OK)
            status = make(&step, mesh);
        if (status == STN_OK)
            status = measure(&step);
        stn_spec_release(&step.whole);
        const stn_status ended = stn_scope_end(context);
        if (status != STN_OK || ended != STN_OK)
            return status != STN_OK ? status : ended;
    }
    return overlap_convolutions(step.bench, context, step.over);
}

/* Thread ranks, or those of the job that mpirun has started. */
static void over_ranks(struct step *step)
{
    char why[256] = "";
    const int job = stn_job_size();
    const stn_launch_options options = {.size = sizeof options,
                                        .ranks = job == 0 ? 2 : 0,
                                        .context = {.size = sizeof options.context,
                                                    .without = step->bench->without,
                                                    .isa = step->bench->isa,
                                                    .error_text = why,
                                                    .error_text_size = sizeof why}};
    step->over = job == 0 ? "threads" : "MPI";
    const stn_status status = stn_launch(&options, rank_main, step);
    if (status != STN_OK)
        bench_fail(step->bench, "overlap: %s: %s", stn_status_text(status), why);
}

static void over_wire(struct step *step, const char *name, double bytes_per_second)
{
    char why[256] = "";
    stn_comm *comm = NULL;
    stn_context *context = NULL;
    stn_status status = wire_create(WIRE_RANKS, 20e-6, bytes_per_second, &comm);
    const stn_context_options options = {.size = sizeof options,
                                         .comm = comm,
                                         .without = step->bench->without,
                                         .isa = step->bench->isa,
                                         .error_text = why,
                                         .error_text_size = sizeof why};
    step->over = name;
    if (status == STN_OK)
        status = stn_context_create(&options, &context);
    if (status == STN_OK)
        status = rank_main(context, step);
    if (status != STN_OK)
        bench_fail(step->bench, "overlap: %s: %s", stn_status_text(status),
                   context ? stn_context_error_text(context) : why);
    stn_context_destroy(&context);
}

void bench_overlap(struct bench *bench)
{
    struct step step = {.bench = bench};
    over_ranks(&step);
    if (stn_job_size() != 0)
        return;
    over_wire(&step, "wire of 1.25 GB/s", 1.25e9);
    over_wire(&step, "wire of 125 MB/s", 0.125e9);
}
