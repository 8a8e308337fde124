/* Few lines of many elements on a CUDA device, which have several blocks each: reductions, selections and ranges are
 * the CPU's, selections bit by bit. */
#include "both.h"

#include "harness.h"

/* One line, some, some along the dim in the middle, and as many as leave each few parts. */
static const int64_t shapes[][3] = {{1, 1, 21001}, {1, 2, 16400}, {1, 16411, 2}, {3, 2, 5000}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* The long one. */
static int dim_of(const int64_t *shape)
{
    return shape[1] > shape[2] ? 1 : 2;
}

static int reductions(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int dim = dim_of(shape);
    stn_tensor *x = both_input(context, dtype, 3, shape, 1);
    out[0] = stn_sum(x, 1, &dim, 0);
    out[1] = stn_amax(x, 1, &dim, 0);
    out[2] = stn_amin(x, 0, NULL, 0);
    out[3] = stn_any(stn_gt_number(x, 3.9999), 1, &dim, 0);
    out[4] = stn_all(stn_lt_number(x, 4), 0, NULL, 0);
    out[5] = stn_count_nonzero(x, 1, &dim);
    out[6] = stn_prod(stn_exp(stn_mul_number(x, 1e-3)), 1, &dim, 0);
    out[7] = stn_mean(x, 0, NULL, 0);
    return 8;
}

static int norms(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int dim = dim_of(shape);
    stn_tensor *x = both_input(context, dtype, 3, shape, 2);
    out[0] = stn_vector_norm(x, 2, 1, &dim, 0);
    out[1] = stn_view_as_real(stn_sum(stn_complex(x, stn_square(x)), 1, &dim, 0));
    out[2] = stn_amax(stn_sqrt(x), 1, &dim, 0); /* NaN */
    return 3;
}

static int selections(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int dim = dim_of(shape);
    stn_tensor *x = both_input(context, dtype, 3, shape, 3);
    out[0] = stn_max_dim(x, dim, 0, &out[1]);
    out[2] = stn_topk(x, 7, dim, 1, &out[3]);
    out[4] = stn_kthvalue(x, shape[dim] / 3, dim, 0, &out[5]);
    out[6] = stn_argmin(x, NULL, 0);
    out[7] = stn_median(x);
    return 8;
}

static int selections_among_nan(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int dim = dim_of(shape);
    stn_tensor *x = both_input(context, dtype, 3, shape, 4), *nan;
    stn_tensor *some = stn_masked_fill(x, stn_gt_number(x, 3.99), 0.0 / 0.0);
    out[0] = stn_argmax(some, &dim, 0);
    out[1] = stn_argmin(some, &dim, 0);
    nan = stn_median_dim(some, dim, 0, &out[2]);
    out[3] = stn_isnan(nan);
    stn_topk(some, 5, dim, 0, &out[4]);
    nan = stn_kthvalue(some, shape[dim], dim, 0, &out[5]);
    out[6] = stn_isnan(nan);
    return 7;
}

static int ranges(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    out[0] = stn_histc(both_input(context, dtype, 3, shape, 5), 37, 0, 0);
    return 1;
}

static void reductions_are_the_cpus(void)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16};
    static const both_work sums = {"reductions", reductions}, norm = {"norms", norms};
    for (int s = 0; s < SHAPES; s++) {
        for (int d = 0; d < 3; d++)
            both_compare(&sums, dtypes[d], shapes[s], dtypes[d] == STN_DTYPE_F64 ? 1e-12 : 1e-6);
        both_compare(&norm, STN_DTYPE_F64, shapes[s], 1e-12);
    }
}

static void selections_have_the_cpus_bits(void)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_U8};
    static const both_work work = {"selections", selections};
    for (int s = 0; s < SHAPES; s++)
        both_compare(&work, dtypes[s % 3], shapes[s], 0);
    both_compare(&work, STN_DTYPE_I64, shapes[1], 0);
}

static void nan_is_found(void)
{
    static const both_work work = {"selections among NaN", selections_among_nan};
    for (int s = 0; s < SHAPES; s++)
        both_compare(&work, s % 2 ? STN_DTYPE_F64 : STN_DTYPE_F32, shapes[s], 0);
}

static void ranges_have_the_cpus_bits(void)
{
    static const both_work work = {"ranges", ranges};
    for (int s = 0; s < SHAPES; s++)
        both_compare(&work, STN_DTYPE_F32, shapes[s], 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"reductions_are_the_cpus", reductions_are_the_cpus},
        {"selections_have_the_cpus_bits", selections_have_the_cpus_bits},
        {"nan_is_found", nan_is_found},
        {"ranges_have_the_cpus_bits", ranges_have_the_cpus_bits},
    };
    return TEST_MAIN(argc, argv, cases);
}
