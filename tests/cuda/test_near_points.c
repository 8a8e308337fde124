/* Searches for near points, and distances from surfaces, on a CUDA device: near points are the CPU's to the last bit,
 * in blocks of several sizes, of few queries and many, with ties, NaN and infinities, few and many candidates. */
#include "both.h"

#include "harness.h"

enum { POINTS, QUERIES, COLUMNS, NEAR }; /* of a shape */

/* Numbers in steps, of which many are equal. */
static stn_tensor *cloud(stn_context *context, stn_dtype dtype, int64_t rows, int64_t columns, int seed)
{
    const int64_t shape[] = {columns, rows};
    stn_tensor *x = stn_transpose(both_input(context, dtype, 2, shape, seed), 0, 1);
    return stn_div_number(stn_round(stn_mul_number(x, 2), 0), 2);
}

static int searches(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *points = cloud(context, dtype, shape[POINTS], shape[COLUMNS], 1);
    stn_tensor *queries = cloud(context, dtype, shape[QUERIES], shape[COLUMNS], 2);
    out[0] = stn_knn(points, queries, shape[NEAR], &out[1]);
    out[2] = stn_radius_search(points, queries, 2.5, shape[NEAR] + 3, &out[3], &out[4]);
    points = stn_sqrt(points);                                         /* NaN */
    points = stn_masked_fill(points, stn_eq_number(points, 0), 1e300); /* infinity but in f64 */
    out[5] = stn_knn(points, queries, shape[NEAR], &out[6]);
    out[7] = stn_radius_search(points, queries, 1e300, 3, NULL, NULL);
    return 8;
}

static void searches_are_the_cpus(void)
{
    static const both_work work = {"searches", searches};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
    static const int64_t shapes[][4] = {
        {131, 21, 3, 5}, {32, 9, 2, 32}, {70, 5, 1, 17}, {7, 6, 9, 7}, {7, 8203, 1, 2}, {40, 8203, 2, 20}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int d = 0; d < 4; d++)
            if (d == (int)i % 4 || (test_draws(4) == 4 && (i < 2 || i == 4)))
                both_compare(&work, dtypes[d], shapes[i], 0);
}

/* Triangles among vertices in steps: many share edges, corners and planes. */
static int distances(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int64_t flat[] = {3 * shape[POINTS]}, rows[] = {shape[POINTS], 3};
    stn_tensor *vertices = cloud(context, dtype, 9, 3, 1), *points = cloud(context, dtype, shape[QUERIES], 3, 2);
    stn_tensor *names = stn_cast(stn_add_number(both_input(context, dtype, 1, flat, 3), 4), STN_DTYPE_I64), *x[2];
    stn_set_requires_grad(x[0] = vertices, 1);
    stn_set_requires_grad(x[1] = points, 1);
    out[0] = stn_signed_distance_field(vertices, stn_view(names, 2, rows), points, &out[1], &out[2]);
    stn_tensor *cotangent = both_input(context, dtype, 1, stn_tensor_shape(out[0]), 4);
    stn_grad(context, 1, &out[0], &cotangent, 2, x, 0, 0, out + 3);
    return 5;
}

static void distances_from_surfaces_are_the_cpus(void)
{
    static const both_work work = {"distances", distances};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16};
    static const double tolerances[] = {1e-5, 1e-13, 1e-2};
    static const int64_t shapes[][2] = {{70, 133}, {32, 128}, {1, 5}, {70, 600}, {45, 3}, {7, 100}};
    for (int i = 0; i < 6; i++)
        both_compare(&work, dtypes[i % 3], shapes[i], tolerances[i % 3]);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"searches_are_the_cpus", searches_are_the_cpus},
        {"distances_from_surfaces_are_the_cpus", distances_from_surfaces_are_the_cpus},
    };
    return TEST_MAIN(argc, argv, cases);
}
