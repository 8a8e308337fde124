/* i8 and i16 on a CUDA device: what is read, joined and written there has the CPU's bits. */
#include "both.h"

#include "harness.h"

static const stn_dtype dtypes[] = {STN_DTYPE_I8, STN_DTYPE_I16};
static const int64_t shapes[][3] = {{3, 5, 7}, {1, 2, 2100}, {4, 1, 1}};
enum { DTYPES = 2, SHAPES = sizeof shapes / sizeof *shapes };

/* Over the whole range of the dtype. */
static stn_tensor *wide_input(stn_context *context, stn_dtype dtype, const int64_t *shape, int seed)
{
    const double factor = dtype == STN_DTYPE_I8 ? 32 : 8192;
    return stn_cast(stn_mul_number(both_input(context, STN_DTYPE_F32, 3, shape, seed), factor), dtype);
}

static int casts(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const stn_dtype to[] = {STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_I64, STN_DTYPE_U8, STN_DTYPE_BOOL};
    stn_tensor *x = wide_input(context, dtype, shape, 1);
    for (int i = 0; i < 5; i++)
        out[i] = stn_cast(x, to[i]);
    out[5] = stn_cast(x, dtype == STN_DTYPE_I8 ? STN_DTYPE_I16 : STN_DTYPE_I8);
    out[6] = stn_cast(stn_mul_number(both_input(context, STN_DTYPE_F64, 3, shape, 2), 1e6), dtype);
    return 7;
}

static int arithmetic(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = wide_input(context, dtype, shape, 3), *y = wide_input(context, dtype, shape, 4);
    out[0] = stn_add(x, y);
    out[1] = stn_mul(x, y);
    out[2] = stn_floor_divide_number(x, 7);
    out[3] = stn_maximum(x, y);
    out[4] = stn_lt(x, y);
    out[5] = stn_where(stn_gt_number(y, 0), x, y);
    out[6] = stn_add(x, stn_full(context, stn_tensor_spec(x), -100));
    out[7] = stn_pad(x, 2, (int64_t[]){1, 2}, STN_PAD_CONSTANT, -3);
    return 8;
}

static int reductions(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int dim = 2;
    stn_tensor *x = wide_input(context, dtype, shape, 5);
    out[0] = stn_sum(x, 1, &dim, 0);
    out[1] = stn_prod(stn_slice(x, 2, 0, 5, 1), 1, &dim, 0);
    out[2] = stn_amax(x, 1, &dim, 0);
    out[3] = stn_amin(x, 0, NULL, 0);
    out[4] = stn_any(x, 1, &dim, 0);
    out[5] = stn_all(x, 1, &dim, 0);
    out[6] = stn_count_nonzero(x, 1, &dim);
    return 7;
}

static int orders(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = wide_input(context, dtype, shape, 6);
    out[0] = stn_sort(x, 2, 1, &out[1]);
    out[2] = stn_max_dim(x, 0, 0, &out[3]);
    out[4] = stn_median(x);
    out[5] = stn_searchsorted(stn_sort(x, 2, 0, NULL), x, 1, NULL);
    out[6] = stn_cummin(x, 2, NULL);
    out[7] = stn_cumsum(x, 2);
    return 8;
}

/* Of every slice as many elements as there are slices name each other. */
static int accesses(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = wide_input(context, dtype, shape, 7), *y = wide_input(context, dtype, shape, 8);
    stn_tensor *k = stn_remainder_number(
        stn_cast(stn_mul_number(both_input(context, STN_DTYPE_F32, 3, shape, 9), 100), STN_DTYPE_I64),
        (double)shape[0]);
    out[0] = stn_gather(x, 0, k);
    out[1] = stn_scatter_add(x, 0, k, y);
    out[2] = stn_scatter_reduce(x, 0, k, y, STN_SCATTER_PROD, 1);
    out[3] = stn_scatter_reduce(x, 0, k, y, STN_SCATTER_AMAX, 0);
    out[4] = stn_scatter_reduce(x, 0, k, y, STN_SCATTER_AMIN, 0);
    out[5] = stn_scatter_number(x, 0, k, -7);
    return 6;
}

static void compare(both_work work)
{
    for (int d = 0; d < DTYPES; d++)
        for (int s = 0; s < SHAPES; s++)
            both_compare(&work, dtypes[d], shapes[s], 0);
}

static void casts_have_the_cpus_bits(void)
{
    compare((both_work){"casts", casts});
}

static void arithmetic_has_the_cpus_bits(void)
{
    compare((both_work){"arithmetic", arithmetic});
}

static void reductions_have_the_cpus_bits(void)
{
    compare((both_work){"reductions", reductions});
}

static void orders_have_the_cpus_bits(void)
{
    compare((both_work){"orders", orders});
}

static void accesses_have_the_cpus_bits(void)
{
    compare((both_work){"accesses", accesses});
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"casts_have_the_cpus_bits", casts_have_the_cpus_bits},
        {"arithmetic_has_the_cpus_bits", arithmetic_has_the_cpus_bits},
        {"reductions_have_the_cpus_bits", reductions_have_the_cpus_bits},
        {"orders_have_the_cpus_bits", orders_have_the_cpus_bits},
        {"accesses_have_the_cpus_bits", accesses_have_the_cpus_bits},
    };
    return TEST_MAIN(argc, argv, cases);
}
