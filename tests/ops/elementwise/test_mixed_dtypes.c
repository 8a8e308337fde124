/* Gradients of pointwise ops whose operands differ in dtype: those of the same operands in the widest. A derivative
 * that took a narrow operand as it is would square or subtract it within its own dtype. */
#include "harness.h"
#include "ranks.h"

#include <shardtensor/shardtensor.h>

#include <stdio.h>

enum { N = 4, OPERANDS = 3 };

/* Whole numbers, which all dtypes have; of i8 squares overflow, differences of the last two operands, and 1 less than
 * the least. */
static const double narrow_values[OPERANDS][N] = {{100, 3, 120, 7}, {-128, 90, 5, -2}, {100, -90, 2, 8}};
static const double leaf_values[N] = {1.3, 0.7, 2.9, 3.1};

static stn_tensor *tensor(stn_context *context, const double *values, stn_dtype dtype)
{
    const int64_t shape[] = {N};
    const stn_spec *spec = NULL;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, shape, NULL, &spec), STN_OK);
    stn_tensor *wide = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    return stn_cast(wide, dtype);
}

/* The gradient of the sum of what an op's result has in its real part by operand `leaf`, which is of f64; the others
 * are of `dtype`, or have been brought to f64. @return 0 where the op refuses them. */
static int gradient(stn_context *context, const char *name, int n, int leaf, stn_dtype dtype, int is_cast, double *to)
{
    stn_tensor *in[OPERANDS], *out = NULL, *grad = NULL;
    for (int i = 0; i < n; i++) {
        in[i] = tensor(context, i == leaf ? leaf_values : narrow_values[i], i == leaf ? STN_DTYPE_F64 : dtype);
        if (is_cast)
            in[i] = stn_cast(in[i], STN_DTYPE_F64);
    }
    stn_set_requires_grad(in[leaf], 1);
    if (stn_call(context, name, n, in, 0, NULL, 1, &out) != STN_OK) {
        stn_context_take_error(context, NULL, 0);
        return 0;
    }
    stn_tensor *sum = stn_sum(stn_tensor_dtype(out) == STN_DTYPE_C128 ? stn_real(out) : out, 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, &in[leaf], 0, 0, &grad), STN_OK);
    test_read(grad, to, N);
    return 1;
}

static void check(stn_context *context, const char *name, int n, int leaf, stn_dtype dtype)
{
    double got[N], want[N];
    stn_scope_begin(context);
    const int is_taken = gradient(context, name, n, leaf, dtype, 0, got);
    const int is_wanted = CHECK(gradient(context, name, n, leaf, dtype, 1, want));
    int is_same = !is_taken || is_wanted;
    for (int i = 0; is_taken && is_wanted && i < N; i++)
        is_same &= CHECK_NEAR(got[i], want[i], 1e-12);
    if (!is_same)
        fprintf(stderr, "%s, others of %s, by operand %d\n", name, stn_dtype_name(dtype), leaf);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status body(stn_context *context, void *arg)
{
    static const stn_dtype narrow[] = {STN_DTYPE_I8,   STN_DTYPE_U8,  STN_DTYPE_I16, STN_DTYPE_I32,
                                       STN_DTYPE_BF16, STN_DTYPE_F16, STN_DTYPE_F32};
    static const struct {
        const char *name;
        int n;
    } ops[] = {{"add", 2},   {"sub", 2},       {"mul", 2},   {"div", 2},     {"pow", 2},     {"atan2", 2},
               {"hypot", 2}, {"logaddexp", 2}, {"xlogy", 2}, {"polar", 2},   {"complex", 2}, {"fmod", 2},
               {"remainder", 2}, {"maximum", 2}, {"minimum", 2}, {"lerp", 3}, {"addcmul", 3}, {"addcdiv", 3}};
    (void)arg;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (int leaf = 0; leaf < ops[o].n; leaf++)
            for (size_t d = 0; d < sizeof narrow / sizeof *narrow; d++)
                check(context, ops[o].name, ops[o].n, leaf, narrow[d]);
    return STN_OK;
}

static void gradients_are_those_of_the_widest_dtype(void)
{
    test_ranks(1, body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"gradients_are_those_of_the_widest_dtype", gradients_are_those_of_the_widest_dtype},
    };
    return TEST_MAIN(argc, argv, cases);
}
