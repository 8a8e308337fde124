/* A convolution whose rows are shared by two ranks, beside the same un-sharded one on one of them: the whole device
 * is each one's. Then beside one that the ranks share by images, which takes no halo: what two ranks of a device lose
 * by sharing it is in both, and what the halo costs is left. */
#include "bench.h"

#include <stdio.h>

enum { RANKS = 2, BATCH = 4, CHANNELS = 64, KERNEL = 3, SIDES = 16 /* of an image, in the side of a square */ };

enum pass { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS, PASSES };

static const char *const pass_names[] = {"forward", "backward-data", "backward-weights"};

/* dy: the gradient of y, which is what backward passes begin at. */
struct conv {
    enum pass pass;
    stn_tensor *x, *w, *y, *dy;
};

/* What ranks have together, and what the peers have. */
struct convs {
    struct conv sharded, whole, by_images;
};

static stn_tensor *convolve(const struct conv *c)
{
    static const stn_conv_attrs attrs = {.size = sizeof attrs, .same = 1};
    return stn_conv2d(c->x, c->w, NULL, &attrs);
}

static stn_status run_pass(stn_context *context, const struct conv *c)
{
    stn_tensor *grad = NULL, *y = c->y, *dy = c->dy, *wanted = c->pass == BACKWARD_DATA ? c->x : c->w;
    if (c->pass == FORWARD)
        return stn_tensor_is_error(convolve(c)) ? STN_ERR_INTERNAL : STN_OK;
    return stn_grad(context, 1, &y, &dy, 1, &wanted, 1, 0, &grad);
}

static stn_status run_sharded(struct bench_rank *rank)
{
    const struct convs *convs = rank->arg;
    return run_pass(rank->context, &convs->sharded);
}

/* The other rank has nothing to do. */
static stn_status run_whole(struct bench_rank *rank)
{
    const struct convs *convs = rank->arg;
    return rank->rank == 0 ? run_pass(rank->context, &convs->whole) : STN_OK;
}

static stn_status run_by_images(struct bench_rank *rank)
{
    const struct convs *convs = rank->arg;
    return run_pass(rank->context, &convs->by_images);
}

/* `cut`: how x and y lie on the mesh. */
static struct conv make(struct bench_rank *rank, const stn_mesh *mesh, stn_placement cut, stn_dtype dtype,
                        enum pass pass)
{
    const int64_t side = rank->bench->side / SIDES, x_shape[] = {BATCH, CHANNELS, side, side},
                  w_shape[] = {CHANNELS, CHANNELS, KERNEL, KERNEL};
    struct conv c = {.pass = pass,
                     .x = bench_tensor(rank, mesh, cut, dtype, 4, x_shape),
                     .w = bench_tensor(rank, mesh, stn_replicate(), dtype, 4, w_shape)};
    if (pass == FORWARD)
        return c;
    stn_set_requires_grad(pass == BACKWARD_DATA ? c.x : c.w, 1);
    c.y = convolve(&c);
    c.dy = bench_tensor(rank, mesh, cut, dtype, 4, x_shape);
    return c;
}

static void release(struct conv *c)
{
    stn_tensor_release(&c->dy);
    stn_tensor_release(&c->y);
    stn_tensor_release(&c->w);
    stn_tensor_release(&c->x);
}

static void measure_beside(struct bench_rank *rank, struct convs *convs, stn_dtype dtype, enum pass pass,
                           bench_call peer, const char *what)
{
    const long long side = rank->bench->side / SIDES;
    const double operations = 2.0 * BATCH * CHANNELS * CHANNELS * KERNEL * KERNEL * (double)(side * side);
    struct bench_row row = {.name = "haloconv",
                            .ours = run_sharded,
                            .peer = peer,
                            .unit = "TFLOP/s",
                            .work = 1e-12 * operations,
                            .arg = convs};
    snprintf(row.label, sizeof row.label, "%s, %dx%dx%lldx%lld %s%s", pass_names[pass], BATCH, CHANNELS, side, side,
             stn_dtype_name(dtype), what);
    bench_measure(rank, &row);
}

static void measure(struct bench_rank *rank, const stn_mesh *mesh, stn_dtype dtype, enum pass pass)
{
    struct convs convs = {make(rank, mesh, stn_shard(2), dtype, pass), make(rank, NULL, stn_replicate(), dtype, pass),
                          make(rank, mesh, stn_shard(0), dtype, pass)};
    measure_beside(rank, &convs, dtype, pass, run_whole, "");
    measure_beside(rank, &convs, dtype, pass, run_by_images, ", by images");
    release(&convs.sharded);
    release(&convs.whole);
    release(&convs.by_images);
}

static void body(struct bench_rank *rank)
{
    const stn_mesh *mesh = NULL;
    if (!bench_ready(rank, "haloconv", stn_mesh_create(rank->context, 1, &rank->size, NULL, NULL, &mesh)))
        return;
    for (int pass = 0; pass < PASSES; pass++) {
        measure(rank, mesh, STN_DTYPE_F32, (enum pass)pass);
        measure(rank, mesh, STN_DTYPE_BF16, (enum pass)pass);
    }
}

void bench_conv(struct bench *bench)
{
    bench_launch(bench, RANKS, body);
}
