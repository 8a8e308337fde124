#include "overlap.h"
#include "world.h"

#include <math.h>
#include <stdio.h>

enum { CHANNELS = 32, KERNEL = 3, ONCE_PART = 8 };

/* Channels last; their rows, or planes, are cut over the ranks. */
static const struct shape {
    const char *name;
    int dims;
    int64_t size[3];
} shapes[] = {{"conv 256x256", 2, {256, 256}}, {"conv 32x32x32", 3, {32, 32, 32}}, {"small conv 64x64", 2, {64, 64}}};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* A convolution with its gradients. */
struct step {
    stn_context *context;
    const struct shape *shape;
    stn_tensor *x, *w, *dy;
    int64_t steps; /* of one measurement */
};

static stn_tensor *tensor(stn_context *context, const stn_mesh *mesh, stn_placement place, int ndim,
                          const int64_t *shape, int channels_last)
{
    static const int orders[][5] = {{0, 2, 3, 1}, {0, 2, 3, 4, 1}};
    const stn_spec_options options = {.size = sizeof options, .memory_order = channels_last ? orders[ndim - 4] : NULL};
    const stn_spec *spec = NULL;
    if (stn_spec_create(context, mesh, &place, STN_DTYPE_F32, ndim, shape, &options, &spec) != STN_OK)
        return NULL;
    stn_tensor *out = world_tensor(context, spec);
    stn_spec_release(&spec);
    return out;
}

static stn_tensor *convolve(const struct step *s)
{
    const stn_conv_attrs attrs = {.size = sizeof attrs, .padding = {1, 1, 1}};
    return (s->shape->dims == 3 ? stn_conv3d : stn_conv2d)(s->x, s->w, NULL, &attrs);
}

static stn_status make(struct step *s, const stn_mesh *mesh, int64_t part)
{
    const int64_t *size = s->shape->size, x[] = {1, CHANNELS, size[0] / part, size[1] / part, size[2] / part};
    const int64_t w[] = {CHANNELS, CHANNELS, KERNEL, KERNEL, KERNEL};
    const int ndim = 2 + s->shape->dims;
    s->x = tensor(s->context, mesh, stn_shard(2), ndim, x, 1);
    s->dy = tensor(s->context, mesh, stn_shard(2), ndim, x, 1);
    s->w = tensor(s->context, mesh, stn_replicate(), ndim, w, 0);
    if (s->x == NULL || s->dy == NULL || s->w == NULL)
        return STN_ERR_MEMORY;
    stn_set_requires_grad(s->x, 1);
    return stn_context_status(s->context);
}

/* Forward, and the gradient by the input: the two whose results a halo delays. */
static stn_status run_one(const struct step *s)
{
    stn_tensor *wanted = s->x, *grad = NULL;
    stn_scope_begin(s->context);
    stn_tensor *y = convolve(s);
    stn_grad(s->context, 1, &y, &s->dy, 1, &wanted, 0, 0, &grad);
    return stn_scope_end(s->context);
}

/* Seconds of a step; negative where one failed. All ranks begin and end together. */
static double run(const struct step *s, stn_halo_overlap when)
{
    stn_comm *comm = stn_context_comm(s->context);
    stn_status status = stn_comm_barrier(comm, NULL);
    stn_set_halo_overlap(s->context, when);
    const double start = bench_now();
    for (int64_t i = 0; i < s->steps && status == STN_OK; i++)
        status = run_one(s);
    if (status == STN_OK)
        status = stn_comm_barrier(comm, NULL);
    const double seconds = (bench_now() - start) / (double)s->steps;
    stn_set_halo_overlap(s->context, STN_HALO_OVERLAP_WHERE_IT_PAYS);
    return status == STN_OK ? seconds : -1;
}

static stn_stats count_one(struct step *s, stn_halo_overlap when)
{
    stn_set_halo_overlap(s->context, when);
    const stn_stats before = world_stats(s->context);
    run_one(s);
    stn_stats after = world_stats(s->context);
    after.messages -= before.messages, after.bytes_sent -= before.bytes_sent;
    return after;
}

/* Always and never in turn; the choice that the library makes by itself is a row of its own. */
static stn_status measure(struct bench *bench, struct step *s, stn_halo_overlap when, const char *over)
{
    struct samples samples = {0};
    if (run(s, when) < 0 || run(s, STN_HALO_OVERLAP_NEVER) < 0)
        return stn_context_status(s->context);
    for (int i = 0; i < bench->pairs; i++) {
        samples.ours[i] = run(s, when);
        samples.peer[i] = run(s, STN_HALO_OVERLAP_NEVER);
        if (samples.ours[i] < 0 || samples.peer[i] < 0)
            return stn_context_status(s->context);
        samples.n++;
    }
    const stn_stats with = count_one(s, when), without = count_one(s, STN_HALO_OVERLAP_NEVER);
    struct row row = {.name = "overlap", .unit = "us", .gate = NAN, .goal = NAN};
    snprintf(row.label, sizeof row.label, "%s%s, %s", s->shape->name, when == STN_HALO_OVERLAP_ALWAYS ? " always" : "",
             over);
    row_measure(&row, &samples, bench_times, 0, 1e-6);
    row.broken = with.messages != without.messages || with.bytes_sent != without.bytes_sent;
    row_count(&row, "messages", (double)with.messages);
    row_count(&row, "bytes", (double)with.bytes_sent);
    row_count(&row, "hidden_us", row.peer - row.ours);
    if (stn_context_rank(s->context) == 0)
        row_print(bench, &row);
    return stn_context_status(s->context);
}

stn_status overlap_convolutions(struct bench *bench, stn_context *context, const char *over)
{
    const int size = stn_context_size(context);
    const stn_mesh *mesh = NULL;
    stn_status status = stn_mesh_create(context, 1, &size, NULL, NULL, &mesh);
    for (int i = 0; i < SHAPES && status == STN_OK; i++) {
        struct step step = {.context = context, .shape = &shapes[i], .steps = bench->quick ? 2 : 20};
        stn_scope_begin(context);
        status = make(&step, mesh, bench->once ? ONCE_PART : 1);
        if (status == STN_OK)
            status = measure(bench, &step, STN_HALO_OVERLAP_WHERE_IT_PAYS, over);
        if (status == STN_OK)
            status = measure(bench, &step, STN_HALO_OVERLAP_ALWAYS, over);
        const stn_status ended = stn_scope_end(context);
        status = status != STN_OK ? status : ended;
    }
    return status;
}
