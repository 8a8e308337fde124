/* Sums along lines on a CUDA device: wherever a line begins and however long it is, they are the CPU's. */
#include "both.h"

#include "harness.h"

enum { ROWS, LENGTH, BEFORE }; /* of a shape: lines, elements of a line, columns before the first one that is read */

/* Around packs, warps and the elements that a warp or a block takes at once. */
static const int64_t lengths[] = {1,    2,    3,    4,    7,    8,    9,    31,   33,   63,   64,   65,   255,
                                  256,  257,  511,  512,  513,  1000, 1024, 1025, 2047, 2048, 2049, 4095, 4096,
                                  4097, 5000, 8192, 9001};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static stn_tensor *rows_of(stn_context *context, stn_dtype dtype, const int64_t *shape)
{
    stn_tensor *x = both_input(context, dtype, 2, (const int64_t[]){shape[ROWS], shape[LENGTH] + 7}, 1);
    return stn_narrow(x, 1, shape[BEFORE], shape[LENGTH]);
}

static int sums(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = rows_of(context, dtype, shape);
    out[0] = stn_cumsum(x, 1);
    out[1] = stn_cumsum(stn_transpose(x, 0, 1), 0);
    out[2] = stn_cumsum(both_input(context, dtype, 2, (const int64_t[]){shape[LENGTH], shape[ROWS]}, 3), 0);
    return 3;
}

/* Sums from the last element to the first, of numbers that differ from element to element. */
static int gradients(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = stn_detach(both_input(context, dtype, 2, shape, 1));
    stn_set_requires_grad(x, 1);
    stn_backward(stn_sum(stn_mul(stn_cumsum(x, 1), both_input(context, dtype, 2, shape, 2)), 0, NULL, 0));
    return stn_grad_of(x, &out[0]) == STN_OK;
}

static void sums_are_the_cpus(void)
{
    static const both_work work = {"sums", sums};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_I64, STN_DTYPE_U8,  STN_DTYPE_F64,
                                       STN_DTYPE_F16, STN_DTYPE_I32, STN_DTYPE_BOOL, STN_DTYPE_I16, STN_DTYPE_I8};
    for (int i = 0; i < LENGTHS; i++)
        for (int d = 0; d < 10; d++)
            if (both_takes(i + d))
                both_compare(&work, dtypes[d], (const int64_t[]){1 + 5 * i % 23, lengths[i], i % 7}, 1e-6);
    both_compare(&work, STN_DTYPE_F32, (const int64_t[]){0, 9, 1}, 0);
    both_compare(&work, STN_DTYPE_F32, (const int64_t[]){3, 0, 1}, 0);
}

static void gradients_are_the_cpus(void)
{
    static const both_work work = {"gradients", gradients};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64};
    for (int i = 0; i < LENGTHS; i++)
        both_compare(&work, dtypes[i % 2], (const int64_t[]){1 + 5 * i % 23, lengths[i], i % 7}, 1e-5);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"sums_are_the_cpus", sums_are_the_cpus},
        {"gradients_are_the_cpus", gradients_are_the_cpus},
    };
    return TEST_MAIN(argc, argv, cases);
}
