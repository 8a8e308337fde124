/* Lines that fit a block, in order on a CUDA device: values and indices are the CPU's, bit by bit, of lengths around
 * those at which another kernel takes over, along dims that are dense and that are strided, wherever a line begins. */
#include "both.h"

#include "harness.h"

enum { ROWS, LENGTH, BEFORE }; /* of a shape: lines, elements of a line, columns before the first one that is read */

/* Short lines share a block; the longest has none to itself. */
static const int64_t lengths[] = {1,   2,   3,   5,    8,    31,   32,   33,   100,  255,  256,  257,  300,
                                  511, 512, 513, 1023, 1024, 1025, 2047, 2049, 4095, 4096, 4097, 8192, 8193};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* Many equal numbers, zeros of both signs, and of floating ones infinities and NaN. */
static stn_tensor *input(stn_context *context, stn_dtype dtype, int64_t rows, int64_t columns)
{
    const int64_t shape[] = {rows, columns};
    stn_tensor *x = stn_trunc(stn_mul_number(both_input(context, STN_DTYPE_F32, 2, shape, 1), 30));
    if (dtype == STN_DTYPE_F32 || dtype == STN_DTYPE_F64 || dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F16)
        x = stn_div(x, stn_trunc(stn_mul_number(both_input(context, STN_DTYPE_F32, 2, shape, 2), 4)));
    return stn_cast(dtype == STN_DTYPE_U8 || dtype == STN_DTYPE_BOOL ? stn_abs(x) : x, dtype);
}

static stn_tensor *rows_of(stn_context *context, stn_dtype dtype, const int64_t *shape)
{
    return stn_narrow(input(context, dtype, shape[ROWS], shape[LENGTH] + 7), 1, shape[BEFORE], shape[LENGTH]);
}

static int sorted_rows(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    stn_tensor *x = rows_of(context, dtype, shape);
    out[0] = stn_sort(x, 1, 0, &out[1]);
    out[2] = stn_sort(x, 1, 1, &out[3]);
    return 4;
}

static int sorted_columns(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    out[0] = stn_sort(input(context, dtype, shape[LENGTH], shape[ROWS]), 0, 0, &out[1]);
    out[2] = stn_sort(stn_transpose(rows_of(context, dtype, shape), 0, 1), 0, 1, &out[3]);
    return 4;
}

static int first_ones(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int64_t n = shape[LENGTH];
    stn_tensor *x = rows_of(context, dtype, shape);
    out[0] = stn_topk(x, n < 9 ? n : 9, 1, 1, &out[1]);
    out[2] = stn_topk(x, n - n / 3, 1, 0, &out[3]);
    out[4] = stn_topk(stn_transpose(x, 0, 1), n / 2 + 1, 0, 0, &out[5]);
    return 6;
}

static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_I64,  STN_DTYPE_U8,  STN_DTYPE_F16,
                                   STN_DTYPE_I16, STN_DTYPE_F64,  STN_DTYPE_BOOL, STN_DTYPE_I32, STN_DTYPE_I8};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* Each length with every step-th of the dtypes, long ones with fewer: a block's threads take their time here. */
static void compare(const both_work *work, int step)
{
    for (int i = 0; i < LENGTHS; i++)
        for (int d = i % step; d < DTYPES; d += lengths[i] > 600 ? step + 3 : step) {
            const int64_t shape[] = {lengths[i] > 300 ? 2 : 1 + 5 * i, lengths[i], i % 7};
            if (both_takes(i + d))
                both_compare(work, dtypes[d], shape, 0);
        }
}

static void rows_are_in_the_cpus_order(void)
{
    static const both_work work = {"sorted rows", sorted_rows};
    compare(&work, 1);
}

static void columns_are_in_the_cpus_order(void)
{
    static const both_work work = {"sorted columns", sorted_columns};
    compare(&work, 4);
}

static void first_ones_are_the_cpus(void)
{
    static const both_work work = {"the first ones", first_ones};
    compare(&work, 4);
}

/* Lines of a tensor of which no two dims are one. */
static int boxes(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int64_t box[] = {3, 4, 5, shape[LENGTH] + 2}, starts[] = {0, 1, 2, 1};
    stn_tensor *x = stn_reshape(input(context, dtype, 60, shape[LENGTH] + 2), 4, box);
    for (int d = 1; d < 4; d++)
        x = stn_narrow(x, d, starts[d], box[d] - 2);
    out[0] = stn_sort(x, 3, 0, &out[1]);
    out[2] = stn_sort(stn_select(x, 0, 1), 2, 1, &out[3]);
    out[4] = stn_sort(stn_transpose(x, 1, 3), 1, 0, &out[5]);
    return 6;
}

static void lines_of_boxes_are_in_the_cpus_order(void)
{
    static const both_work work = {"lines of boxes", boxes};
    for (int d = 0; d < DTYPES; d++)
        if (both_takes(d))
            both_compare(&work, dtypes[d], (const int64_t[]){1, 7 + 130 * d, 0}, 0);
}

/* No lines, and lines of nothing. */
static void empty_tensors_have_no_order(void)
{
    static const both_work rows = {"sorted rows", sorted_rows}, columns = {"sorted columns", sorted_columns};
    both_compare(&rows, STN_DTYPE_F32, (const int64_t[]){0, 300, 1}, 0);
    both_compare(&columns, STN_DTYPE_BF16, (const int64_t[]){0, 5, 0}, 0);
    both_compare(&rows, STN_DTYPE_I64, (const int64_t[]){3, 0, 1}, 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"rows_are_in_the_cpus_order", rows_are_in_the_cpus_order},
        {"columns_are_in_the_cpus_order", columns_are_in_the_cpus_order},
        {"first_ones_are_the_cpus", first_ones_are_the_cpus},
        {"lines_of_boxes_are_in_the_cpus_order", lines_of_boxes_are_in_the_cpus_order},
        {"empty_tensors_have_no_order", empty_tensors_have_no_order},
    };
    return TEST_MAIN(argc, argv, cases);
}
