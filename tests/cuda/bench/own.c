/* Ops that no library of CUDA's has, beside what the device's units could multiply at their highest clock: harmonic
 * transforms, neighborhood attention and searches for near points. Distances from a surface, which are f64's, stand
 * beside a search among as many points. */
#include "bench.h"

#include <stdio.h>

enum { FIELDS = 16, WINDOW = 7, HEADS = 8, WIDTH = 64, NEAR = 8, SPACE = 3 };

/* y: a result, and dy its gradient, for calls of gradients. */
struct inputs {
    stn_tensor *x[3], *y, *dy;
    int64_t nlat;
};

static stn_status made(stn_tensor *tensor)
{
    return stn_tensor_is_error(tensor) ? STN_ERR_INTERNAL : STN_OK;
}

static const stn_sht_basis gauss = {.size = sizeof gauss, .grid = STN_SHT_LEGENDRE_GAUSS};

static stn_status call_sht(struct bench_rank *rank)
{
    const struct inputs *in = rank->arg;
    return made(stn_sht(in->x[0], 0, 0, &gauss));
}

static stn_status call_isht(struct bench_rank *rank)
{
    const struct inputs *in = rank->arg;
    return made(stn_isht(in->y, in->nlat, 2 * in->nlat, &gauss));
}

static stn_tensor *attend(const struct inputs *in)
{
    static const stn_neighborhood_attrs attrs = {.size = sizeof attrs, .kernel_size = {WINDOW, WINDOW}};
    return stn_neighborhood_attention(in->x[0], in->x[1], in->x[2], &attrs);
}

static stn_status call_attend(struct bench_rank *rank)
{
    return made(attend(rank->arg));
}

static stn_status call_attend_backward(struct bench_rank *rank)
{
    const struct inputs *in = rank->arg;
    stn_tensor *grads[3], *y = in->y, *dy = in->dy, *x[] = {in->x[0], in->x[1], in->x[2]};
    return stn_grad(rank->context, 1, &y, &dy, 3, x, 1, 0, grads);
}

static stn_status call_knn(struct bench_rank *rank)
{
    const struct inputs *in = rank->arg;
    return made(stn_knn(in->x[0], in->x[1], NEAR, NULL));
}

static stn_status call_radius_search(struct bench_rank *rank)
{
    const struct inputs *in = rank->arg;
    return made(stn_radius_search(in->x[0], in->x[1], 0.1, NEAR, NULL, NULL));
}

static stn_status call_distance(struct bench_rank *rank)
{
    const struct inputs *in = rank->arg;
    return made(stn_signed_distance_field(in->x[0], in->x[2], in->x[1], NULL, NULL));
}

static stn_tensor *random_of(struct bench_rank *rank, stn_dtype dtype, int ndim, const int64_t *shape)
{
    return bench_tensor(rank, NULL, stn_replicate(), dtype, ndim, shape);
}

static void release(struct inputs *in)
{
    for (int i = 0; i < 3; i++)
        stn_tensor_release(&in->x[i]);
    stn_tensor_release(&in->y);
    stn_tensor_release(&in->dy);
}

static void measure(struct bench_rank *rank, struct inputs *in, bench_call call, double operations, const char *label)
{
    struct bench_row row = {.name = "own",
                            .ours = call,
                            .peer_seconds = operations / bench_peak(STN_DTYPE_F32),
                            .unit = "TFLOP/s",
                            .work = 1e-12 * operations,
                            .arg = in};
    snprintf(row.label, sizeof row.label, "%s", label);
    bench_measure(rank, &row);
}

/* A term of each function and latitude of half the grid, for real and imaginary parts. */
static void measure_harmonics(struct bench_rank *rank)
{
    const int64_t nlat = rank->bench->side / 8, shape[] = {FIELDS, nlat, 2 * nlat};
    const double operations = FIELDS * (double)nlat * (double)nlat * (double)nlat;
    char label[64];
    struct inputs in = {.x = {random_of(rank, STN_DTYPE_F32, 3, shape)}, .nlat = nlat};
    in.y = stn_sht(in.x[0], 0, 0, &gauss);
    snprintf(label, sizeof label, "sht, f32, %d x %d x %d", FIELDS, (int)nlat, (int)(2 * nlat));
    measure(rank, &in, call_sht, operations, label);
    measure(rank, &in, call_isht, operations, "isht, f32, of the same");
    release(&in);
}

static void measure_neighborhood(struct bench_rank *rank, stn_dtype dtype)
{
    const int64_t side = WINDOW + rank->bench->side / 32, shape[] = {1, side, side, HEADS, WIDTH};
    const double product = 2.0 * WINDOW * WINDOW * WIDTH * HEADS * (double)(side * side);
    char label[64];
    struct inputs in = {.nlat = 0};
    for (int i = 0; i < 3; i++)
        stn_set_requires_grad(in.x[i] = random_of(rank, dtype, 5, shape), 1);
    in.y = attend(&in);
    in.dy = random_of(rank, dtype, 5, shape);
    snprintf(label, sizeof label, "neighborhood %d^2, %s, %d^2", WINDOW, stn_dtype_name(dtype), (int)side);
    measure(rank, &in, call_attend, 2 * product, label);
    measure(rank, &in, call_attend_backward, 5 * product, "its gradients");
    release(&in);
}

/* Three of n vertices each. */
static stn_tensor *triangles_among(struct bench_rank *rank, int64_t n, const int64_t *shape)
{
    stn_tensor *part = random_of(rank, STN_DTYPE_F32, 2, shape), *scaled = stn_mul_number(part, (double)(n - 1));
    stn_tensor *whole = stn_abs(scaled), *named = stn_cast(whole, STN_DTYPE_I64);
    stn_tensor_release(&part);
    stn_tensor_release(&scaled);
    stn_tensor_release(&whole);
    return named;
}

/* Of a pair: a difference, a product and a sum for each coordinate. */
static void measure_points(struct bench_rank *rank)
{
    const int64_t n = rank->bench->side, points[] = {n, SPACE}, queries[] = {16 * n, SPACE};
    const double pairs = 16 * (double)n * (double)n;
    struct inputs in = {.x = {random_of(rank, STN_DTYPE_F32, 2, points), random_of(rank, STN_DTYPE_F32, 2, queries),
                              triangles_among(rank, n, points)}};
    char label[64];
    snprintf(label, sizeof label, "knn, f32, %d among %d", (int)(16 * n), (int)n);
    measure(rank, &in, call_knn, 3 * SPACE * pairs, label);
    measure(rank, &in, call_radius_search, 3 * SPACE * pairs, "radius_search among the same");
    struct bench_row row = {.name = "own",
                            .label = "distance from as many triangles, beside knn",
                            .ours = call_distance,
                            .peer = call_knn,
                            .arg = &in};
    bench_measure(rank, &row);
    release(&in);
}

static void body(struct bench_rank *rank)
{
    if (!bench_ready(rank, "own", stn_context_status(rank->context)))
        return;
    measure_harmonics(rank);
    measure_neighborhood(rank, STN_DTYPE_F32);
    measure_neighborhood(rank, STN_DTYPE_BF16);
    measure_points(rank);
}

void bench_own(struct bench *bench)
{
    bench_launch(bench, 1, body);
}
