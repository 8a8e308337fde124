/* Neighborhood attention and its gradients on a CUDA device: more sources than a warp has lanes, more columns than it
 * gathers at once, heads that share keys, rows that are packs and rows with gaps, and none of what may be missing. */
#include "both.h"

#include "harness.h"

#include <math.h>

enum { LENGTH, OF_KEYS, OF_VALUES }; /* of a shape: positions along the last dim, elements of keys and of values */

static const stn_neighborhood_attrs attrs[] = {
    {.size = sizeof *attrs, .kernel_size = {3, 14}, .has_scale = 1, .scale = 0.02},
    {.size = sizeof *attrs,
     .kernel_size = {2, 3},
     .dilation = {2, 4},
     .is_causal = {0, 1},
     .has_scale = 1,
     .scale = 0.02},
};

/* Keys are every second element of rows, but of rows of 8 elements, which are packs on every side. */
static void inputs(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **x)
{
    const int step = shape[OF_KEYS] == 8 ? 1 : 2;
    const int64_t n = shape[LENGTH], e = shape[OF_KEYS], query[] = {1, 4, n, 4, e}, key[] = {1, 4, n, 2, step * e},
                  value[] = {1, 4, n, 2, shape[OF_VALUES]};
    x[0] = both_input(context, dtype, 5, query, 1);
    x[1] = stn_slice(both_input(context, dtype, 5, key, 2), 4, 0, step * e, step);
    x[2] = both_input(context, dtype, 5, value, 3);
}

static int all_of(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    int n = 0;
    for (int i = 0; i < 2; i++) {
        stn_tensor *x[3];
        inputs(context, dtype, shape, x);
        for (int k = 0; k < 3; k++)
            stn_set_requires_grad(x[k], 1);
        stn_tensor *y = stn_neighborhood_attention(x[0], x[1], x[2], &attrs[i]);
        stn_tensor *cotangent = both_input(context, dtype, 5, stn_tensor_shape(y), 4);
        stn_grad(context, 1, &y, &cotangent, 3, x, 0, 0, out + n + 1);
        out[n] = y;
        n += 4;
    }
    return n;
}

static void results_and_gradients_are_the_cpus(void)
{
    static const both_work work = {"neighborhood attention", all_of};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};
    static const double tolerances[] = {2e-5, 1e-13, 3e-2, 4e-3};
    static const int64_t shapes[][3] = {{17, 5, 7}, {19, 150, 3}, {14, 2, 131}, {15, 8, 16}};
    for (int i = 0; i < 4; i++)
        for (int d = 0; d < 4; d++)
            if (i == 0 || i == 3 || d == i - 1)
                both_compare(&work, dtypes[d], shapes[i], tolerances[d]);
}

/* A mean has no columns to come from, and is needed all the same: no values, or no keys. */
static void rows_without_elements_are_no_hindrance(void)
{
    static const both_work work = {"rows without elements", all_of};
    static const int64_t shapes[][3] = {{14, 3, 0}, {14, 0, 3}};
    for (int i = 0; i < 2; i++)
        both_compare(&work, STN_DTYPE_F32, shapes[i], 1e-5);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"results_and_gradients_are_the_cpus", results_and_gradients_are_the_cpus},
        {"rows_without_elements_are_no_hindrance", rows_without_elements_are_no_hindrance},
    };
    return TEST_MAIN(argc, argv, cases);
}
