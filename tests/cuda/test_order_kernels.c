/* Ops by index, and those that put elements in order, on a CUDA device against the CPU's, bit by bit: few and many
 * elements, so that they are sorted by comparisons and by digits, with many equal ones among them, numbers that are
 * none and zeros of both signs; along dims that are strided and along the last. And indices out of range. */
#include "both.h"

#include "harness.h"

#include <shardtensor/shardtensor.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 4099, WIDTH = 3, TABLE = 700 };

static stn_tensor *tensor_of(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape, const void *data)
{
    const stn_spec *spec;
    if (stn_spec_create(context, NULL, NULL, dtype, ndim, shape, NULL, &spec) != STN_OK)
        return NULL;
    stn_tensor *tensor = stn_from_host(context, spec, data);
    stn_spec_release(&spec);
    return tensor;
}

/* Numbers of which many are equal; every 97th is none, and zeros have both signs. In i64 whole numbers. */
static stn_tensor *numbers(stn_context *context, stn_dtype dtype, int64_t rows, int64_t columns)
{
    static float data[MOST * WIDTH];
    const int64_t shape[] = {rows, columns};
    for (int64_t i = 0; i < rows * columns; i++) {
        const int64_t drawn = i * 7919 % 1013 - 506;
        data[i] = (float)drawn / 7;
        if (drawn % 50 == 0)
            data[i] = drawn % 100 ? 0.0f : -0.0f;
        if (dtype == STN_DTYPE_F32 && i % 97 == 96)
            data[i] = NAN;
    }
    stn_tensor *f32 = tensor_of(context, STN_DTYPE_F32, 2, shape, data);
    return dtype == STN_DTYPE_F32 ? f32 : stn_cast(f32, dtype);
}

static stn_tensor *indices(stn_context *context, int ndim, const int64_t *shape, int64_t below)
{
    static int64_t data[MOST * WIDTH];
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= shape[d];
    for (int64_t i = 0; i < n; i++)
        data[i] = (i * 104729 + i / 3 + 3) % below;
    return tensor_of(context, STN_DTYPE_I64, ndim, shape, data);
}

static stn_tensor *reads(stn_context *context, stn_dtype dtype, int64_t n)
{
    const int64_t shape[] = {n, WIDTH};
    stn_tensor *table = numbers(context, dtype, TABLE, WIDTH);
    return stn_add(stn_index_select(table, 0, indices(context, 1, shape, TABLE)),
                   stn_gather(table, 0, indices(context, 2, shape, TABLE)));
}

static stn_tensor *sums_of_slices(stn_context *context, stn_dtype dtype, int64_t n)
{
    return stn_index_add(numbers(context, dtype, TABLE, WIDTH), 0, indices(context, 1, &n, TABLE),
                         numbers(context, dtype, n, WIDTH), 2);
}

/* Slices of which a thread has several elements, added and copied. */
static stn_tensor *long_slices(stn_context *context, stn_dtype dtype, int64_t n)
{
    enum { ROWS = 5, LONG = 1100, PICKED = 9 };
    const int64_t picked = n < PICKED ? n : PICKED;
    stn_tensor *table = numbers(context, dtype, ROWS, LONG), *values = numbers(context, dtype, picked, LONG);
    stn_tensor *index = indices(context, 1, &picked, ROWS);
    return stn_index_copy(stn_index_add(table, 0, index, values, 2), 0, stn_slice(index, 0, 0, 1, 1),
                          stn_slice(values, 0, 0, 1, 1));
}

/* Rows of a table, each of `width` elements; the first begins `skipped` elements behind where memory does. */
static stn_tensor *rows_of(stn_context *context, stn_dtype dtype, int64_t n, int64_t width, int64_t skipped)
{
    stn_tensor *flat = stn_reshape(numbers(context, dtype, MOST, WIDTH), 1, (const int64_t[]){MOST * WIDTH});
    const int64_t rows = MOST * WIDTH / width - 1, picked = n < rows ? n : rows;
    stn_tensor *behind = stn_slice(flat, 0, skipped, skipped + rows * width, 1);
    stn_tensor *table = stn_reshape(behind, 2, (const int64_t[]){rows, width});
    return stn_index_select(table, 0, indices(context, 1, &picked, rows));
}

/* Rows of which each is a few units of 16 bytes, or of fewer bytes, or none of these; long ones have several teams. */
static stn_tensor *reads_of_rows(stn_context *context, stn_dtype dtype, int64_t n)
{
    static const struct {
        int64_t width, skipped;
    } rows[] = {{1, 0}, {2, 0}, {7, 0}, {16, 0}, {16, 2}, {16, 1}, {48, 4}, {1025, 0}, {2064, 8}, {4112, 0}, {4112, 3}};
    stn_tensor *sum = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        stn_tensor *read = rows_of(context, dtype, 2, rows[i].width, rows[i].skipped);
        stn_tensor *wide = stn_cast(stn_nan_to_num(read, 5, NULL, NULL), STN_DTYPE_F64);
        stn_tensor *total = stn_sum(wide, 2, (const int[]){0, 1}, 0);
        sum = sum ? stn_add(stn_add(sum, sum), total) : total;
    }
    return stn_add(rows_of(context, dtype, n, n % 16 == 1 ? 7 : 8, 0), stn_cast(sum, dtype));
}

static stn_tensor *sums_across(stn_context *context, stn_dtype dtype, int64_t n)
{
    stn_tensor *table = stn_transpose(numbers(context, dtype, TABLE, WIDTH), 0, 1);
    return stn_index_add(table, 1, indices(context, 1, &n, 5), stn_transpose(numbers(context, dtype, n, WIDTH), 0, 1),
                         1);
}

static stn_tensor *copies_of_slices(stn_context *context, stn_dtype dtype, int64_t n)
{
    return stn_index_copy(numbers(context, dtype, TABLE, WIDTH), 0, indices(context, 1, &n, 11),
                          numbers(context, dtype, n, WIDTH));
}

static stn_tensor *sums_of_elements(stn_context *context, stn_dtype dtype, int64_t n)
{
    const int64_t shape[] = {n, WIDTH};
    return stn_scatter_add(numbers(context, dtype, TABLE, WIDTH), 0, indices(context, 2, shape, TABLE),
                           numbers(context, dtype, n, WIDTH));
}

static stn_tensor *products_of_elements(stn_context *context, stn_dtype dtype, int64_t n)
{
    const int64_t shape[] = {n, WIDTH};
    return stn_scatter_reduce(numbers(context, dtype, TABLE, WIDTH), 0, indices(context, 2, shape, TABLE),
                              numbers(context, dtype, n, WIDTH), STN_SCATTER_PROD, 0);
}

static stn_tensor *largest_elements(stn_context *context, stn_dtype dtype, int64_t n)
{
    const int64_t shape[] = {n, WIDTH};
    return stn_scatter_reduce(numbers(context, dtype, TABLE, WIDTH), 0, indices(context, 2, shape, TABLE),
                              numbers(context, dtype, n, WIDTH), STN_SCATTER_AMAX, 1);
}

static stn_tensor *sums_by_two_indices(stn_context *context, stn_dtype dtype, int64_t n)
{
    stn_tensor *both[] = {indices(context, 1, &n, TABLE), indices(context, 1, &n, WIDTH)};
    return stn_index_put(numbers(context, dtype, TABLE, WIDTH), 2, both,
                         stn_select(numbers(context, dtype, n, WIDTH), 1, 1), 1);
}

static stn_tensor *repeated(stn_context *context, stn_dtype dtype, int64_t n)
{
    const int dim = 0;
    stn_tensor *counts = indices(context, 1, &n, 4);
    int64_t all = 0;
    for (int64_t i = 0; i < n; i++)
        all += (i * 104729 + i / 3 + 3) % 4;
    return stn_repeat_interleave_each(numbers(context, dtype, n, 2), counts, &dim, all);
}

typedef stn_tensor *(*function)(stn_context *context, stn_dtype dtype, int64_t n);

/* Every f32 that is no number gets the same bits: which one comes of two is the compiler's choice, and what a
 * conversion gives is the device's. */
static void join_nans(char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(float)) {
        float x;
        memcpy(&x, data + i, sizeof x);
        if (x != x)
            memcpy(data + i, &(float){NAN}, sizeof x);
    }
}

static void join_bf16_nans(char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(uint16_t)) {
        uint16_t bits;
        memcpy(&bits, data + i, sizeof bits);
        if ((bits & 0x7fff) > 0x7f80)
            memcpy(data + i, &(uint16_t){0x7fc0}, sizeof bits);
    }
}

static void join_f64_nans(char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(double)) {
        double x;
        memcpy(&x, data + i, sizeof x);
        if (x != x)
            memcpy(data + i, &(double){NAN}, sizeof x);
    }
}

static size_t run(stn_context *context, function f, stn_dtype dtype, int64_t n, char *result, size_t size)
{
    size_t bytes = 0;
    stn_scope_begin(context);
    stn_tensor *out = f(context, dtype, n);
    if (CHECK_STATUS(stn_context_status(context), STN_OK)) {
        bytes =
            (size_t)stn_spec_local_numel(stn_tensor_spec(out)) * stn_dtype_size(stn_spec_dtype(stn_tensor_spec(out)));
        CHECK_I64((int64_t)(bytes <= size), 1);
        CHECK_STATUS(stn_to_host(out, result, bytes), STN_OK);
        if (stn_spec_dtype(stn_tensor_spec(out)) == STN_DTYPE_F32)
            join_nans(result, bytes);
        if (stn_spec_dtype(stn_tensor_spec(out)) == STN_DTYPE_BF16)
            join_bf16_nans(result, bytes);
        if (stn_spec_dtype(stn_tensor_spec(out)) == STN_DTYPE_F64)
            join_f64_nans(result, bytes);
    } else {
        fprintf(stderr, "%s\n", stn_context_error_text(context));
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    return bytes;
}

/* Sanitized, the stand-in's grids take ten times as long: more than few elements then come with one dtype for each
 * function, and many with every fourth. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MANY = 1025, EVERY = 4 };
#else
enum { MANY = MOST, EVERY = 1 };
#endif

static void compare(const function *functions, size_t n_functions)
{
    static const int64_t sizes[] = {1, 33, 1025, MOST};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_I64, STN_DTYPE_U8};
    static char by_cpu[MOST * WIDTH * 16], by_cuda[MOST * WIDTH * 16];
    stn_context *cpu = both_open((stn_context_options){.device = "cpu"}),
                *cuda = both_open((stn_context_options){.device = "cuda"});
    for (size_t f = 0; cpu && cuda && f < n_functions; f++)
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
            for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
                if (sizes[n] >= MANY && d != f % (sizeof dtypes / sizeof dtypes[0]))
                    continue; /* of many elements one dtype each time */
                if (sizes[n] == MOST && f % EVERY != 0)
                    continue;
                const size_t bytes = run(cpu, functions[f], dtypes[d], sizes[n], by_cpu, sizeof by_cpu);
                CHECK_I64((int64_t)run(cuda, functions[f], dtypes[d], sizes[n], by_cuda, sizeof by_cuda),
                          (int64_t)bytes);
                if (!CHECK_BYTES(by_cuda, by_cpu, bytes))
                    fprintf(stderr, "function %d, %s, %d elements\n", (int)f, stn_dtype_name(dtypes[d]), (int)sizes[n]);
            }
    stn_context_destroy(&cpu);
    stn_context_destroy(&cuda);
}

static void accesses_by_index_agree_with_the_cpu(void)
{
    static const function functions[] = {reads,            sums_of_slices,       sums_across,      copies_of_slices,
                                         reads_of_rows,    long_slices,
                                         sums_of_elements, products_of_elements, largest_elements, sums_by_two_indices,
                                         repeated};
    compare(functions, sizeof functions / sizeof functions[0]);
}

/* Writes of elements along lines that a block has in shared memory: longer than a round of it, several lines at once,
 * and lines beside each other or one behind the other. Of a shape: positions of a line, lines, elements to write to. */
static int lines_of_writes(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    for (int dim = 0; dim < 2; dim++) {
        const int64_t places[] = {shape[dim], shape[1 - dim]};
        const int64_t table[] = {dim ? shape[1] : shape[2], dim ? shape[2] : shape[1]};
        stn_tensor *from_0 = stn_add_number(both_input(context, STN_DTYPE_F32, 2, places, 1), 4);
        stn_tensor *drawn = stn_mul_number(from_0, 1 / 8.01);
        stn_tensor *index = stn_cast(stn_mul_number(drawn, (double)shape[2]), STN_DTYPE_I64);
        stn_tensor *into = both_input(context, dtype, 2, table, 2), *values = both_input(context, dtype, 2, places, 3);
        out[3 * dim] = stn_scatter_add(into, dim, index, values);
        out[3 * dim + 1] = stn_scatter_from(into, dim, index, values);
        out[3 * dim + 2] = stn_scatter_reduce(into, dim, stn_cast(index, STN_DTYPE_I32), values, STN_SCATTER_AMAX, 0);
    }
    return 6;
}

static void writes_along_lines_agree_with_the_cpu(void)
{
    static const both_work work = {"writes along lines", lines_of_writes};
    static const int64_t shapes[][3] = {{2047, 70, 300}, {2048, 64, 5}, {4096, 65, 4000}, {4097, 64, 8192},
                                        {5000, 64, 30}, {700, 769, 40}};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_F16};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (both_takes((int)i))
            both_compare(&work, dtypes[i % 3], shapes[i], 0);
}

/* Many lines beside each other, of which a block has several at once. */
static int lines_beside(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    const int64_t table[] = {shape[2], shape[1]};
    stn_tensor *from_0 = stn_add_number(both_input(context, STN_DTYPE_F32, 2, shape, 1), 4);
    stn_tensor *index = stn_cast(stn_mul_number(from_0, (double)shape[2] / 8.01), STN_DTYPE_I64);
    stn_tensor *into = both_input(context, dtype, 2, table, 2), *values = both_input(context, dtype, 2, shape, 3);
    out[0] = stn_scatter_add(into, 0, index, values);
    out[1] = stn_scatter_from(into, 0, index, values);
    return 2;
}

static void lines_that_share_rounds_agree_with_the_cpu(void)
{
    static const both_work work = {"lines that share rounds", lines_beside};
    both_compare(&work, STN_DTYPE_BF16, (const int64_t[]){2100, 515, 7}, 0);
}

/* Elements of a table of so many rows that blocks go down strips of its columns, of which the last one may be narrower.
 * Of a shape: lines of positions, and columns. */
static int reads_in_strips(stn_context *context, stn_dtype dtype, const int64_t *shape, stn_tensor **out)
{
    enum { ROWS = 1500 };
    const int64_t table[] = {ROWS, shape[1]}, places[] = {shape[0], shape[1]};
    stn_tensor *x = both_input(context, dtype, 2, table, 4);
    stn_tensor *from_0 = stn_add_number(both_input(context, STN_DTYPE_F32, 2, places, 5), 4);
    out[0] = stn_gather(x, 0, stn_cast(stn_mul_number(from_0, ROWS / 8.01), STN_DTYPE_I64));
    return 1;
}

static void reads_in_strips_agree_with_the_cpu(void)
{
    static const both_work work = {"reads in strips", reads_in_strips};
    static const int64_t shapes[][2] = {{5, 5 * 512}, {4, 5 * 512 + 100}, {1, 1025}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        both_compare(&work, STN_DTYPE_F32, shapes[i], 0);
        both_compare(&work, STN_DTYPE_F64, shapes[i], 0);
    }
}

/* Both of the results: values behind indices. */
static stn_tensor *both(stn_tensor *values, stn_tensor *indices)
{
    stn_tensor *two[] = {stn_cast(indices, STN_DTYPE_F64), stn_cast(values, STN_DTYPE_F64)};
    return stn_stack(2, two, 0);
}

static stn_tensor *sorted_columns(stn_context *context, stn_dtype dtype, int64_t n)
{
    stn_tensor *places, *values = stn_sort(numbers(context, dtype, n, WIDTH), 0, 0, &places);
    return both(values, places);
}

static stn_tensor *sorted_backwards(stn_context *context, stn_dtype dtype, int64_t n)
{
    stn_tensor *places, *values = stn_sort(stn_transpose(numbers(context, dtype, n, WIDTH), 0, 1), 1, 1, &places);
    return both(values, places);
}

static stn_tensor *first_few(stn_context *context, stn_dtype dtype, int64_t n)
{
    stn_tensor *places, *values = stn_topk(numbers(context, dtype, n, WIDTH), n < 70 ? 1 : 70, 0, 1, &places);
    return both(values, places);
}

static stn_tensor *largest(stn_context *context, stn_dtype dtype, int64_t n)
{
    stn_tensor *places, *values = stn_max_dim(numbers(context, dtype, n, WIDTH), 0, 0, &places);
    return both(values, places);
}

static stn_tensor *first_many(stn_context *context, stn_dtype dtype, int64_t n)
{
    stn_tensor *places, *values = stn_topk(numbers(context, dtype, n, WIDTH), n - n / 3, 0, 0, &places);
    return both(values, places);
}

static stn_tensor *medians(stn_context *context, stn_dtype dtype, int64_t n)
{
    stn_tensor *places, *values = stn_kthvalue(numbers(context, dtype, n, WIDTH), n - n / 4, 0, 0, &places);
    stn_tensor *of_all = stn_expand(stn_median(numbers(context, dtype, n, WIDTH)), 1, (const int64_t[]){WIDTH});
    return stn_add(both(values, places), stn_cast(of_all, STN_DTYPE_F64));
}

static stn_tensor *places_in_a_sequence(stn_context *context, stn_dtype dtype, int64_t n)
{
    stn_tensor *sequence = stn_sort(stn_select(numbers(context, dtype, n, 1), 1, 0), 0, 0, NULL);
    return stn_add(stn_bucketize(numbers(context, dtype, TABLE, WIDTH), sequence, 0),
                   stn_bucketize(numbers(context, dtype, TABLE, WIDTH), sequence, 1));
}

/* Counts of bytes are refused. */
static stn_dtype counted(stn_dtype dtype)
{
    return dtype == STN_DTYPE_U8 ? STN_DTYPE_I32 : dtype == STN_DTYPE_F32 ? STN_DTYPE_F64 : dtype;
}

static stn_tensor *bins(stn_context *context, stn_dtype dtype, int64_t n)
{
    return stn_histc(stn_cast(numbers(context, dtype, n, WIDTH), counted(dtype)), 37, -40, 41.5);
}

static stn_tensor *many_bins(stn_context *context, stn_dtype dtype, int64_t n)
{
    return stn_histc(stn_cast(numbers(context, dtype, n, WIDTH), counted(dtype)), 1300, -70, 70);
}

static stn_tensor *bins_of_all(stn_context *context, stn_dtype dtype, int64_t n)
{
    return stn_histc(stn_cast(stn_nan_to_num(numbers(context, dtype, n, WIDTH), 0, NULL, NULL), counted(dtype)), 5, 0,
                     0);
}

static void orders_agree_with_the_cpu(void)
{
    static const function functions[] = {sorted_columns, sorted_backwards, first_few,            largest, first_many,
                                         medians,        places_in_a_sequence, bins, many_bins,  bins_of_all};
    compare(functions, sizeof functions / sizeof functions[0]);
}

/* Runs `f` on values that it cannot use; the message. */
static void check_report(function f, const char *message)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    stn_scope_begin(context);
    f(context, STN_DTYPE_F32, 1);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
    CHECK_STR(stn_context_error_text(context), message);
    stn_scope_end(context);
    stn_context_destroy(&context);
}

static stn_tensor *a_slice_out_of_range(stn_context *context, stn_dtype dtype, int64_t n)
{
    const int64_t index[] = {0, 2, 7, 1}, count = 4 * n;
    return stn_index_select(numbers(context, dtype, 3, 5), 0, tensor_of(context, STN_DTYPE_I64, 1, &count, index));
}

static stn_tensor *an_element_out_of_range(stn_context *context, stn_dtype dtype, int64_t n)
{
    const int64_t index[] = {0, 2, -4, 1}, shape[] = {2 * n, 2};
    return stn_scatter_add(numbers(context, dtype, 3, 5), 0, tensor_of(context, STN_DTYPE_I64, 2, shape, index),
                           numbers(context, dtype, 2, 2));
}

static stn_tensor *one_of_two_out_of_range(stn_context *context, stn_dtype dtype, int64_t n)
{
    const int64_t first[] = {0, 2, 1}, second[] = {4, 5, 0}, count = 3 * n;
    stn_tensor *both[] = {tensor_of(context, STN_DTYPE_I64, 1, &count, first),
                          tensor_of(context, STN_DTYPE_I64, 1, &count, second)};
    return stn_index_put(numbers(context, dtype, 3, 5), 2, both, stn_select(numbers(context, dtype, 3, 1), 1, 0), 0);
}

static stn_tensor *one_of_a_line_out_of_range(stn_context *context, stn_dtype dtype, int64_t n)
{
    static int64_t index[4096 * 64];
    const int64_t shape[] = {4096, 64 * n};
    index[64 * 5 + 7] = 9;
    stn_tensor *zeros = stn_cast(tensor_of(context, STN_DTYPE_I64, 2, shape, index), dtype);
    return stn_scatter_add(stn_narrow(zeros, 0, 0, 3), 0, tensor_of(context, STN_DTYPE_I64, 2, shape, index), zeros);
}

static void values_that_cannot_be_used_are_reported(void)
{
    check_report(a_slice_out_of_range, "index_select: index 7 at (2) is outside 0 … 2");
    check_report(an_element_out_of_range, "scatter_add: index -4 at (1, 0) is outside 0 … 2");
    check_report(one_of_a_line_out_of_range, "scatter_add: index 9 at (5, 7) is outside 0 … 2");
    check_report(one_of_two_out_of_range, "index_put: index 5 of 'indices1' at (1) is outside -5 … 4");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"accesses_by_index_agree_with_the_cpu", accesses_by_index_agree_with_the_cpu},
        {"writes_along_lines_agree_with_the_cpu", writes_along_lines_agree_with_the_cpu},
        {"lines_that_share_rounds_agree_with_the_cpu", lines_that_share_rounds_agree_with_the_cpu},
        {"reads_in_strips_agree_with_the_cpu", reads_in_strips_agree_with_the_cpu},
        {"orders_agree_with_the_cpu", orders_agree_with_the_cpu},
        {"values_that_cannot_be_used_are_reported", values_that_cannot_be_used_are_reported}};
    return TEST_MAIN(argc, argv, cases);
}
