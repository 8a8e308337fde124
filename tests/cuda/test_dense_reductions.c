/* Reductions over runs that are dense in memory on a CUDA device: wherever a run begins and however long it is, results
 * are the CPU's, and the address of a run does not show in them. */
#include "both.h"

#include "harness.h"

#include <string.h>

enum { ROWS, LENGTH, BEFORE }; /* of a shape: rows, elements of a row, columns before the first one that is read */

/* Lengths around packs, the threads of a block and parts; the largest have parts. */
static const int64_t lengths[] = {1,   3,   4,   7,   16,  17,   31,   33,   63,   64,   65,   100,
                                  127, 128, 129, 511, 513, 1000, 1024, 1027, 2047, 4096, 4099, 9001};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static stn_tensor *rows_of(stn_tensor *x, const int64_t *shape)
{
    stn_tensor *wider = stn_pad(x, 2, (int64_t[]){shape[BEFORE], 3}, STN_PAD_CONSTANT, 2);
    return stn_narrow(wider, 1, shape[BEFORE], shape[LENGTH]);
}

static stn_tensor *input(stn_context *context, stn_dtype dtype, const int64_t *shape, int seed)
{
    return rows_of(both_input(context, dtype, 2, shape, seed), shape);
}

static int numbers(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const int dim = 1;
    stn_tensor *x = input(context, dtype, shape, 1);
    out[0] = stn_sum(x, 1, &dim, 0);
    out[1] = stn_amax(x, 1, &dim, 0);
    out[2] = stn_amin(x, 1, &dim, 0);
    out[3] = stn_sum(x, 0, NULL, 0);
    out[4] = stn_count_nonzero(x, 1, &dim);
    return 5;
}

static int floating(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const int dim = 1;
    stn_tensor *x = input(context, dtype, shape, 2);
    out[0] = stn_mean(x, 1, &dim, 0);
    out[1] = stn_vector_norm(x, 2, 1, &dim, 0);
    out[2] = stn_amax(stn_sqrt(x), 1, &dim, 0); /* NaN */
    out[3] = stn_prod(stn_add_number(stn_mul_number(x, 1e-3), 1), 1, &dim, 0);
    return 4;
}

static int truths(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const int dim = 1;
    stn_tensor *x = both_input(context, STN_DTYPE_F32, 2, shape, 3);
    stn_tensor *some = rows_of(stn_cast(stn_gt_number(x, 3.9), dtype), shape);
    stn_tensor *most = rows_of(stn_cast(stn_lt_number(x, 3.9), dtype), shape);
    out[0] = stn_any(some, 1, &dim, 0);
    out[1] = stn_all(most, 1, &dim, 0);
    out[2] = stn_count_nonzero(some, 1, &dim);
    out[3] = stn_any(some, 0, NULL, 0);
    out[4] = stn_sum(most, 1, &dim, 0);
    return 5;
}

static int complex_numbers(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const int dim = 1;
    stn_tensor *x = both_input(context, dtype, 2, shape, 4);
    out[0] = stn_view_as_real(stn_sum(rows_of(stn_complex(x, stn_square(x)), shape), 1, &dim, 0));
    return 1;
}

/* Of zeros below 0. */
static int zeros(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const int dim = 1;
    stn_tensor *x = stn_mul_number(stn_abs(input(context, dtype, shape, 5)), -0.0);
    out[0] = stn_amax(rows_of(x, shape), 1, &dim, 0);
    out[1] = stn_amin(rows_of(x, shape), 1, &dim, 0);
    return 2;
}

/* Several runs a result: dims 0 and 2 of a tensor whose rows have gaps. */
static int several_runs(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const int dims[] = {0, 2};
    const int64_t box[] = {3, shape[ROWS], shape[LENGTH] + 5};
    stn_tensor *x = stn_narrow(both_input(context, dtype, 3, box, 6), 2, shape[BEFORE], shape[LENGTH]);
    out[0] = stn_sum(x, 2, dims, 0);
    out[1] = stn_amax(x, 2, dims, 0);
    out[2] = stn_sum(x, 0, NULL, 0);
    return 3;
}

/* Columns of matrices, with gaps between their rows and without. */
static int columns(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    static const int dims[] = {0, 1};
    const int64_t width = 8 * (1 + shape[LENGTH] % 37), box[] = {2, shape[LENGTH], width + 8 * shape[ROWS]};
    stn_tensor *x = both_input(context, dtype, 3, box, 8), *rows = stn_narrow(x, 2, 8, width);
    out[0] = stn_sum(x, 1, dims, 0);
    out[1] = stn_sum(rows, 1, dims + 1, 0);
    out[2] = stn_amax(rows, 1, dims + 1, 0);
    out[3] = stn_mean(stn_narrow(x, 2, 1, width), 1, dims + 1, 0);
    out[4] = stn_sum(x, 2, dims, 1);
    return 5;
}

static void compare(const both_work *work, int n, const stn_dtype *dtypes, double tolerance)
{
    for (int i = 0; i < LENGTHS; i++) {
        const int64_t shape[3] = {1 + i % 5, lengths[i], i % 6};
        for (int d = 0; d < n; d++)
            if (both_takes(i + d))
                both_compare(work, dtypes[d], shape, tolerance);
    }
}

static void rows_are_the_cpus(void)
{
    static const both_work of_numbers = {"numbers", numbers}, of_floating = {"floating numbers", floating};
    static const both_work of_truths = {"truths", truths}, of_complex = {"complex numbers", complex_numbers};
    static const both_work of_zeros = {"zeros", zeros};
    static const stn_dtype all[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16, STN_DTYPE_I64,
                                    STN_DTYPE_I32, STN_DTYPE_U8,  STN_DTYPE_I8,   STN_DTYPE_I16};
    static const stn_dtype truth[] = {STN_DTYPE_BOOL, STN_DTYPE_U8, STN_DTYPE_F32};
    compare(&of_numbers, 9, all, 1e-6);
    compare(&of_floating, 4, all, 1e-6);
    compare(&of_truths, 3, truth, 0);
    compare(&of_complex, 2, all, 1e-6);
    compare(&of_zeros, 3, all, 0);
}

static void several_runs_are_the_cpus(void)
{
    static const both_work work = {"several runs", several_runs};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_I32, STN_DTYPE_U8};
    compare(&work, 4, dtypes, 1e-6);
}

static void columns_are_the_cpus(void)
{
    static const both_work work = {"columns", columns};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_F16, STN_DTYPE_F64};
    compare(&work, 4, dtypes, 1e-6);
}

/* Numbers of many sizes and what makes their sum 0: what of it is left tells one order of additions from another. */
static stn_tensor *cancelling(stn_context *context, stn_dtype dtype, int64_t rows, int64_t columns, int dim)
{
    stn_tensor *x = both_input(context, STN_DTYPE_F32, 2, (int64_t[]){rows, columns}, 7);
    stn_tensor *y = stn_cast(stn_exp(stn_mul_number(x, 12)), dtype);
    return stn_cat(2, (stn_tensor *[]){y, stn_neg(stn_flip(y, 1, &dim))}, dim);
}

/* The sum along `dim` where the first element is `before` elements after an address that allows packs. */
static void sum_at(stn_context *context, stn_tensor *x, int dim, int64_t before, float *sums, int64_t n)
{
    const int64_t columns = stn_tensor_shape(x)[1];
    stn_tensor *wider = stn_pad(x, 2, (int64_t[]){before, 16 - before}, STN_PAD_CONSTANT, 2);
    stn_tensor *sum = stn_sum(stn_narrow(wider, 1, before, columns), 1, &dim, 0);
    CHECK_STATUS(stn_to_host(stn_cast(sum, STN_DTYPE_F32), sums, (size_t)n * sizeof *sums), STN_OK);
    CHECK_STATUS(stn_context_status(context), STN_OK);
}

enum { SUMS = 64 };

static void check_addresses(stn_context *context, stn_dtype dtype, int64_t rows, int64_t columns, int dim)
{
    float sums[2][SUMS];
    const int64_t n = dim == 0 ? columns : rows;
    stn_scope_begin(context);
    stn_tensor *x = cancelling(context, dtype, rows, columns, dim);
    for (int before = 0; before < 4; before++) {
        sum_at(context, x, dim, before, sums[before > 0], n);
        CHECK_I64(before > 0 && memcmp(sums[0], sums[1], (size_t)n * sizeof **sums) != 0, 0);
    }
    stn_scope_end(context);
}

static void address_does_not_show(void)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16};
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    for (int i = 0; context && i < LENGTHS; i++)
        for (int d = 0; d < 3; d++) {
            if (!both_takes(i + d))
                continue;
            check_addresses(context, dtypes[d], 3, lengths[i], 1);
            check_addresses(context, dtypes[d], lengths[i], i % 2 ? SUMS : 16, 0);
        }
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"rows_are_the_cpus", rows_are_the_cpus},
        {"several_runs_are_the_cpus", several_runs_are_the_cpus},
        {"columns_are_the_cpus", columns_are_the_cpus},
        {"address_does_not_show", address_does_not_show},
    };
    return TEST_MAIN(argc, argv, cases);
}
