/* Distances between many rows, and their gradients, on a CUDA device: rows and elements around the sizes of tiles,
 * batches that a side has or has not, rows with gaps and columns, equal rows, NaN, and rows whose squares f32 has no
 * room for. */
#include "both.h"

#include "harness.h"

#include <math.h>
#include <stdio.h>

enum { ROWS1, ROWS2, ELEMENTS }; /* of a shape */

/* That a device takes the tiles of many rows, of which the stand-in wants fewer. */
enum { MOST_BATCHES = 5 };

static int64_t batches(void)
{
    return both_on_standin() ? 2 : MOST_BATCHES;
}

static const double powers[] = {0, 1, 2, INFINITY};

/* The first row of one is the first row of the other. */
static void sides(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **x)
{
    const int64_t n = shape[ELEMENTS], wide[] = {batches(), shape[ROWS1], n + 3}, tall[] = {n, shape[ROWS2] - 1};
    x[0] = stn_narrow(both_input(context, dtype, 3, wide, 1), 2, 2, n);
    stn_tensor *others = stn_transpose(both_input(context, dtype, 2, tall, 2), 0, 1);
    x[1] = stn_cat(2, (stn_tensor *[]){stn_select(stn_narrow(x[0], 1, 0, 1), 0, 0), others}, 0);
}

static int distances(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x[2];
    sides(context, dtype, shape, x);
    for (int i = 0; i < 4; i++)
        out[i] = stn_cdist(x[0], x[1], powers[i]);
    out[4] = stn_cdist(stn_sqrt(stn_add_number(x[0], 3.9)), x[1], 2); /* NaN */
    out[5] = stn_cdist(x[1], x[0], 2);
    return 6;
}

/* Of rows some of which have elements that are NaN, or of none. */
static int gradients_of(stn_context *context, stn_dtype dtype, const int64_t *shape, int nan, stn_tensor **out)
{
    int n = 0;
    for (int i = 1; i < 4; i++) {
        stn_tensor *x[2];
        sides(context, dtype, shape, x);
        if (nan)
            x[0] = stn_sqrt(stn_add_number(x[0], 3.9));
        for (int k = 0; k < 2; k++)
            stn_set_requires_grad(x[k], 1);
        stn_tensor *y = stn_cdist(x[0], x[1], powers[i]);
        stn_tensor *cotangent = both_input(context, dtype, 3, stn_tensor_shape(y), 3);
        stn_grad(context, 1, &y, &cotangent, 2, x, 0, 0, out + n);
        n += 2;
    }
    return n;
}

static int gradients(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    return gradients_of(context, dtype, shape, 0, out);
}

static int gradients_of_nan(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    return gradients_of(context, dtype, shape, 1, out);
}

static void compare(const both_work *work, const double *tolerances)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
    static const int64_t shapes[][3] = {{200, 257, 70}, {193, 256, 16}, {257, 193, 17}, {5, 7, 65}, {257, 260, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int d = 0; d < 4; d++)
            if ((i < 1 || d % 2 == (int)i % 2) && both_takes((int)i + d))
                both_compare(work, dtypes[d], shapes[i], tolerances[d]);
}

static void distances_are_the_cpus(void)
{
    static const both_work work = {"distances", distances};
    compare(&work, (const double[]){1e-5, 1e-12, 1e-2, 2e-3});
}

static void gradients_are_the_cpus(void)
{
    static const both_work work = {"gradients", gradients}, of_nan = {"gradients_of_nan", gradients_of_nan};
    compare(&work, (const double[]){1e-4, 1e-11, 3e-2, 1e-2});
    both_compare(&of_nan, STN_DTYPE_F32, (const int64_t[]){200, 257, 70}, 1e-4);
}

/* The distances of many rows, and the rows' gradients where all cotangents are 1, with rows that are `scale` times as
 * large. */
static void scaled(stn_context *context, stn_dtype dtype, double scale, double *distances, double *gradients)
{
    const int64_t shape[] = {batches(), 200, 70}, others[] = {257, 70};
    stn_tensor *x[2] = {stn_mul_number(both_input(context, dtype, 3, shape, 1), scale),
                        stn_mul_number(both_input(context, dtype, 2, others, 2), scale)}, *grad[2];
    stn_set_requires_grad(x[0], 1);
    stn_set_requires_grad(x[1], 1);
    stn_tensor *y = stn_cdist(x[0], x[1], 2);
    stn_tensor *cotangent = stn_add_number(stn_mul_number(stn_detach(y), 0), 1);
    CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 2, x, 0, 0, grad), STN_OK);
    const size_t rows = (size_t)batches() * 200;
    CHECK_STATUS(stn_to_host(stn_cast(y, STN_DTYPE_F64), distances, rows * 257 * sizeof(double)), STN_OK);
    stn_tensor *first = stn_cast(grad[0], STN_DTYPE_F64);
    CHECK_STATUS(stn_to_host(first, gradients, rows * 70 * sizeof(double)), STN_OK);
}

/* Squares that f32 has no room for, or loses, and weights of gradients that it has none for: powers of two change no
 * digit of what is right. */
static void far_and_near_rows_keep_their_digits(void)
{
    enum { DISTANCES = MOST_BATCHES * 200 * 257, GRADIENTS = MOST_BATCHES * 200 * 70 };
    const int64_t distances_of_all = batches() * 200 * 257, gradients_of_all = batches() * 200 * 70;
    static const double scales[] = {1, 0x1p122, 0x1p-70};
    static double distances[2][DISTANCES], gradients[2][GRADIENTS];
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!CHECK(context != NULL))
        return;
    for (int i = 0; i < 3; i++) {
        int64_t wrong = 0;
        stn_scope_begin(context);
        scaled(context, STN_DTYPE_F32, scales[i], distances[i > 0], gradients[i > 0]);
        for (int k = 0; i > 0 && k < distances_of_all; k++)
            wrong += !(fabs(distances[1][k] / scales[i] - distances[0][k]) <= 1e-5 * distances[0][k]);
        for (int k = 0; i > 0 && k < gradients_of_all; k++)
            wrong += !(fabs(gradients[1][k] - gradients[0][k]) <= 1e-4);
        if (!CHECK_I64(wrong, 0))
            fprintf(stderr, "rows %g times as large\n", scales[i]);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"distances_are_the_cpus", distances_are_the_cpus},
        {"gradients_are_the_cpus", gradients_are_the_cpus},
        {"far_and_near_rows_keep_their_digits", far_and_near_rows_keep_their_digits},
    };
    return TEST_MAIN(argc, argv, cases);
}
