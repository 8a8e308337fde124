/* Pointwise ops, triangles and reductions on a CUDA device against the CPU's: runs around the sizes of packs and
 * blocks, in every dtype that has kernels of its own, with numbers and operands that repeat along dims, at addresses
 * that allow no packs, and in place. */
#include "both.h"

#include "harness.h"

#include <shardtensor/shardtensor.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40001 }; /* sums of it have parts */

/* What is computed of x and y, runs of n elements, and s, which has one. */
static stn_tensor *two_runs(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    (void)s;
    return stn_add_scaled(x, y, 0.75);
}

static stn_tensor *three_runs(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    (void)s;
    return stn_addcmul(x, y, x, -1.5);
}

static stn_tensor *a_number(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    (void)y, (void)s;
    return stn_mul_number(x, 1.375);
}

static stn_tensor *a_repeated_element(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    (void)y;
    return stn_mul(x, s);
}

static stn_tensor *no_packs(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    const int64_t n = stn_spec_local_numel(stn_tensor_spec(x));
    (void)s;
    return n < 2 ? stn_add(x, y) : stn_add(stn_narrow(x, 0, 1, n - 1), stn_narrow(y, 0, 0, n - 1));
}

static stn_tensor *every_other(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    (void)s;
    return stn_maximum(stn_slice(x, 0, 0, MOST, 2), stn_slice(y, 0, 0, MOST, 2));
}

static stn_tensor *in_place(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    (void)s;
    return stn_add_(stn_mul_number(x, 2), y, 1);
}

static stn_tensor *another_dtype(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    (void)s;
    return stn_cast(stn_gt(x, y), STN_DTYPE_F32);
}

static stn_tensor *between_halves(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    (void)s;
    return stn_cast(stn_add(stn_cast(stn_cast(x, STN_DTYPE_F16), STN_DTYPE_BF16), stn_cast(y, STN_DTYPE_BF16)),
                    STN_DTYPE_F16);
}

static stn_tensor *a_sum(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    (void)y, (void)s;
    return stn_sum(x, 0, NULL, 0);
}

static stn_tensor *a_squared_difference(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    (void)s;
    return stn_mse_loss(x, y, NULL, STN_REDUCE_MEAN);
}

static stn_tensor *losses_of_differences(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    (void)s;
    return stn_add(stn_add(stn_l1_loss(x, y, NULL, STN_REDUCE_SUM), stn_huber_loss(x, y, NULL, STN_REDUCE_SUM, 1)),
                   stn_smooth_l1_loss(x, y, STN_REDUCE_MEAN, 2));
}

/* Of a number, whose cotangent is one element. */
static stn_tensor *gradient_of(stn_tensor *loss, stn_tensor *x)
{
    stn_tensor *grad = NULL;
    CHECK_STATUS(stn_grad(stn_tensor_context(x), 1, &loss, NULL, 1, &x, 0, 0, &grad), STN_OK);
    return grad;
}

static stn_tensor *slopes_of_losses(stn_tensor *x, stn_tensor *y, stn_tensor *s)
{
    (void)s;
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *mean = gradient_of(stn_mse_loss(x, y, NULL, STN_REDUCE_MEAN), x);
    stn_tensor *sum = gradient_of(stn_huber_loss(x, y, NULL, STN_REDUCE_SUM, 1), x);
    return stn_add(mean, stn_add(sum, gradient_of(stn_l1_loss(x, y, NULL, STN_REDUCE_SUM), x)));
}

typedef stn_tensor *(*function)(stn_tensor *x, stn_tensor *y, stn_tensor *s);

/* Multiples of 1/4 below 16: exact in every dtype, so that sums agree whatever their order. */
static void fill(char *data, stn_dtype dtype, int64_t n, int seed)
{
    for (int64_t i = 0; i < n; i++) {
        const float value = (float)((i * 37 + seed * 11) % 121 - 60) / 4;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (dtype == STN_DTYPE_F32)
            memcpy(data + 4 * i, &value, 4);
        else if (dtype == STN_DTYPE_BF16)
            memcpy(data + 2 * i, (char *)&bits + 2, 2);
        else
            memcpy(data + 2 * i, &(uint16_t){(uint16_t)(i * (7 + 4 * seed) % 1024 + 0x3c00)}, 2); /* 1 to 2 in f16 */
    }
}

/* Runs `f` on the device; bytes of the result. */
static size_t run(stn_context *context, function f, stn_dtype dtype, int64_t n, char *result)
{
    static char data[2][MOST * 4];
    stn_tensor *in[2], *out;
    const stn_spec *spec;
    size_t bytes = 0;
    if (!CHECK_STATUS(stn_spec_create(context, NULL, NULL, dtype, 1, &n, NULL, &spec), STN_OK))
        return 0;
    stn_scope_begin(context);
    for (int i = 0; i < 2; i++) {
        fill(data[i], dtype, n, i);
        in[i] = stn_from_host(context, spec, data[i]);
    }
    out = f(in[0], in[1], stn_sum(stn_narrow(in[1], 0, 0, 1), 0, NULL, 0));
    if (stn_context_status(context) == STN_OK) {
        bytes =
            (size_t)stn_spec_local_numel(stn_tensor_spec(out)) * stn_dtype_size(stn_spec_dtype(stn_tensor_spec(out)));
        CHECK_STATUS(stn_to_host(out, result, bytes), STN_OK);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_spec_release(&spec);
    return bytes;
}

static void kernels_of_runs_agree_with_the_cpu(void)
{
    static const int64_t sizes[] = {1, 3, 7, 8, 9, 31, 2047, 2048, 2049, MOST};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_F16};
    static const function functions[] = {
        two_runs, three_runs,    a_number, a_repeated_element,   no_packs,              every_other,
        in_place, another_dtype, between_halves, a_sum, a_squared_difference, losses_of_differences,
        slopes_of_losses,
    };
    static char by_cpu[MOST * 4], by_cuda[MOST * 4];
    stn_context *cpu = both_open((stn_context_options){.device = "cpu"}),
                *cuda = both_open((stn_context_options){.device = "cuda"});
    for (size_t f = 0; cpu && cuda && f < sizeof functions / sizeof functions[0]; f++)
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
            for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
                const size_t bytes = run(cpu, functions[f], dtypes[d], sizes[n], by_cpu);
                CHECK_I64((int64_t)run(cuda, functions[f], dtypes[d], sizes[n], by_cuda), (int64_t)bytes);
                if (!CHECK_BYTES(by_cuda, by_cpu, bytes))
                    fprintf(stderr, "function %d, %s, %d elements\n", (int)f, stn_dtype_name(dtypes[d]), (int)sizes[n]);
            }
    stn_context_destroy(&cpu);
    stn_context_destroy(&cuda);
}

/* Operands that repeat or lie apart, of x, which is (2, rows, columns). */
static stn_tensor *part_of_row(stn_tensor *x, int64_t first, int64_t n)
{
    return stn_narrow(stn_select(stn_select(x, 0, 1), 0, 0), 0, first, n);
}

static stn_tensor *column_of(stn_tensor *x)
{
    return stn_add_number(stn_narrow(x, 2, 0, 1), 3);
}

static stn_tensor *a_row(stn_tensor *x, int64_t columns)
{
    return stn_add_scaled(x, part_of_row(x, 0, columns), 0.75);
}

static stn_tensor *a_column(stn_tensor *x, int64_t columns)
{
    (void)columns;
    return stn_sub(column_of(x), x);
}

static stn_tensor *a_row_and_a_column(stn_tensor *x, int64_t columns)
{
    return stn_mul(part_of_row(x, 0, columns), column_of(x));
}

static stn_tensor *a_row_each_of_two(stn_tensor *x, int64_t columns)
{
    (void)columns;
    return stn_maximum(x, stn_narrow(x, 1, 0, 1));
}

static stn_tensor *a_matrix_of_two(stn_tensor *x, int64_t columns)
{
    (void)columns;
    return stn_minimum(x, stn_narrow(x, 0, 1, 1));
}

static stn_tensor *lines_apart(stn_tensor *x, int64_t columns)
{
    return stn_add(stn_narrow(x, 2, 1, columns - 1), stn_narrow(x, 2, 0, columns - 1));
}

static stn_tensor *a_row_at_any_address(stn_tensor *x, int64_t columns)
{
    return stn_sub(stn_add_number(stn_narrow(x, 2, 0, columns - 1), 0), part_of_row(x, 1, columns - 1));
}

static stn_tensor *a_number_and_lines_apart(stn_tensor *x, int64_t columns)
{
    return stn_mul_number(stn_narrow(x, 2, columns / 2, columns - columns / 2), 1.375);
}

static stn_tensor *quotients_by_a_column(stn_tensor *x, int64_t columns)
{
    (void)columns;
    return stn_div(x, stn_add_number(stn_abs(column_of(x)), 1));
}

static stn_tensor *a_row_in_place(stn_tensor *x, int64_t columns)
{
    return stn_add_(stn_mul_number(x, 2), part_of_row(x, 0, columns), 1);
}

static stn_tensor *a_copied_row(stn_tensor *x, int64_t columns)
{
    return stn_copy_(stn_mul_number(x, 2), part_of_row(x, 0, columns));
}

static stn_tensor *into_lines_apart(stn_tensor *x, int64_t columns)
{
    stn_tensor *y = stn_mul_number(x, 2);
    stn_add_(stn_narrow(y, 2, 1, columns - 1), part_of_row(x, 0, columns - 1), 1);
    return y;
}

static stn_tensor *triangles(stn_tensor *x, int64_t columns)
{
    return stn_sub(stn_triu(x, -1), stn_tril(x, (int)columns / 2));
}

static stn_tensor *triangles_far_off(stn_tensor *x, int64_t columns)
{
    stn_tensor *all = stn_add(stn_tril(x, (int)columns), stn_triu(x, -300));
    return stn_sub(all, stn_add(stn_tril(x, -300), stn_triu(x, (int)columns)));
}

static stn_tensor *triangles_of_lines_apart(stn_tensor *x, int64_t columns)
{
    stn_tensor *lower = stn_tril(stn_narrow(x, 2, columns / 2, columns - columns / 2), 0);
    return stn_add(lower, stn_transpose(stn_triu(stn_transpose(lower, 1, 2), 1), 1, 2));
}

/* Thirds, which every narrower dtype rounds. */
static stn_tensor *thirds_of(stn_tensor *x)
{
    return stn_mul_number(stn_cast(x, STN_DTYPE_F32), 1.0 / 3);
}

static stn_tensor *both_roundings(stn_tensor *y)
{
    return stn_sub(stn_cast(stn_cast(y, STN_DTYPE_BF16), STN_DTYPE_F32),
                   stn_cast(stn_cast(y, STN_DTYPE_F16), STN_DTYPE_F32));
}

static stn_tensor *a_rounded_run(stn_tensor *x, int64_t columns)
{
    (void)columns;
    return both_roundings(thirds_of(x));
}

static stn_tensor *rounded_lines_apart(stn_tensor *x, int64_t columns)
{
    const int64_t first = columns / 2 / 8 * 8; /* where packs may begin */
    return both_roundings(stn_narrow(thirds_of(x), 2, first, columns - first));
}

static stn_tensor *rounded_columns(stn_tensor *x, int64_t columns)
{
    (void)columns;
    return both_roundings(stn_transpose(thirds_of(x), 1, 2));
}

static stn_tensor *a_copy_that_rounds(stn_tensor *x, int64_t columns)
{
    stn_tensor *wide = thirds_of(x), *narrow = stn_cast(wide, STN_DTYPE_BF16);
    stn_copy_(stn_narrow(narrow, 2, 1, columns - 1), stn_narrow(wide, 2, 0, columns - 1));
    return stn_copy_(wide, stn_mul_number(narrow, 2));
}

/* Gradients of variances: statistics of f32 beside elements of 16 bits, which repeat along `dims`. */
static stn_tensor *deviations(stn_tensor *x, int n_dims, const int *dims)
{
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *var = stn_var(x, n_dims, dims, 0, 1);
    return gradient_of(stn_sum(stn_mul(var, stn_add_number(stn_detach(var), 0.5)), 0, NULL, 0), x);
}

static stn_tensor *deviations_of_rows(stn_tensor *x, int64_t columns)
{
    (void)columns;
    return deviations(x, 1, (int[]){2});
}

static stn_tensor *deviations_of_columns(stn_tensor *x, int64_t columns)
{
    (void)columns;
    return deviations(x, 2, (int[]){0, 1});
}

static stn_tensor *deviations_of_all(stn_tensor *x, int64_t columns)
{
    (void)columns;
    return deviations(x, 0, NULL);
}

typedef stn_tensor *(*broadcast)(stn_tensor *x, int64_t columns);

/* Runs `f` on the device of f32, converted to `dtype`; bytes of the result, which is f32 again. */
static size_t run_broadcast(stn_context *context, broadcast f, stn_dtype dtype, const int64_t *shape, char *result)
{
    static char data[MOST * 4];
    const stn_spec *spec;
    size_t bytes = 0;
    if (!CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 3, shape, NULL, &spec), STN_OK))
        return 0;
    fill(data, STN_DTYPE_F32, shape[0] * shape[1] * shape[2], 0);
    stn_scope_begin(context);
    stn_tensor *out = stn_cast(f(stn_cast(stn_from_host(context, spec, data), dtype), shape[2]), STN_DTYPE_F32);
    if (stn_context_status(context) == STN_OK) {
        bytes = (size_t)stn_spec_local_numel(stn_tensor_spec(out)) * sizeof(float);
        CHECK_STATUS(stn_to_host(out, result, bytes), STN_OK);
    }
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_spec_release(&spec);
    return bytes;
}

static int wants_floats(broadcast f)
{
    return f == a_row || f == a_number_and_lines_apart || f == quotients_by_a_column || f == deviations_of_rows ||
           f == deviations_of_columns || f == deviations_of_all;
}

static void operands_that_repeat_agree_with_the_cpu(void)
{
    static const int64_t shapes[][3] = {{2, 1, 2},   {2, 5, 3},    {2, 3, 8},   {2, 130, 9},
                                        {2, 31, 64}, {2, 2, 1025}, {2, 2, 1240}};
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_BF16, STN_DTYPE_F16, STN_DTYPE_F64, STN_DTYPE_I32};
    static const broadcast functions[] = {
        a_row,         a_column,         a_row_and_a_column,   a_row_each_of_two,
        a_copied_row,  a_matrix_of_two,  lines_apart,          a_number_and_lines_apart,
        a_row_in_place, into_lines_apart, a_row_at_any_address, quotients_by_a_column,
        triangles,      triangles_far_off, triangles_of_lines_apart,
        a_rounded_run,  rounded_lines_apart, rounded_columns, a_copy_that_rounds,
        deviations_of_rows, deviations_of_columns, deviations_of_all,
    };
    static char by_cpu[MOST * 4], by_cuda[MOST * 4];
    stn_context *cpu = both_open((stn_context_options){.device = "cpu"});
    stn_context *cuda = both_open((stn_context_options){.device = "cuda"});
    for (size_t f = 0; cpu && cuda && f < sizeof functions / sizeof functions[0]; f++)
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
            for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
                if (dtypes[d] == STN_DTYPE_I32 && wants_floats(functions[f]))
                    continue;
                const size_t bytes = run_broadcast(cpu, functions[f], dtypes[d], shapes[s], by_cpu);
                CHECK(bytes > 0);
                CHECK_I64((int64_t)run_broadcast(cuda, functions[f], dtypes[d], shapes[s], by_cuda), (int64_t)bytes);
                if (!CHECK_BYTES(by_cuda, by_cpu, bytes))
                    fprintf(stderr, "function %d, %s, shape %d\n", (int)f, stn_dtype_name(dtypes[d]), (int)s);
            }
    stn_context_destroy(&cpu);
    stn_context_destroy(&cuda);
}

enum { EVERY_BF16 = 1 << 16 };

typedef stn_tensor *(*unary)(stn_tensor *x);

static stn_tensor *gelu_of(stn_tensor *x)
{
    return stn_gelu(x, STN_GELU_ERF);
}

static stn_tensor *slope_of_silu(stn_tensor *x)
{
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    return gradient_of(stn_sum(stn_silu(x), 0, NULL, 0), x);
}

/* `f` of every element of bf16, from a dense run or from every other element of a longer one. */
static void of_every_bf16(stn_context *context, unary f, int strided, uint16_t *result)
{
    static uint16_t x[2 * EVERY_BF16];
    const int64_t n = strided ? 2 * EVERY_BF16 : EVERY_BF16;
    const stn_spec *spec;
    for (int64_t i = 0; i < n; i++)
        x[i] = (uint16_t)(strided ? i / 2 : i);
    if (!CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_BF16, 1, &n, NULL, &spec), STN_OK))
        return;
    stn_scope_begin(context);
    stn_tensor *in = stn_from_host(context, spec, x);
    stn_tensor *out = f(strided ? stn_slice(in, 0, 0, n, 2) : in);
    CHECK_STATUS(stn_to_host(out, result, EVERY_BF16 * sizeof *result), STN_OK);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_spec_release(&spec);
}

static int is_nan_bf16(uint16_t bits)
{
    return (bits & 0x7fff) > 0x7f80;
}

/* Of one sign, so that patterns count units in the last place. */
static int are_neighbours(uint16_t a, uint16_t b)
{
    return is_nan_bf16(a) && is_nan_bf16(b) ? 1 : (a ^ b) < 0x8000 && abs((int)a - (int)b) <= 1;
}

static void compare_every_bf16(stn_context *cpu, stn_context *cuda, unary f)
{
    static uint16_t by_cpu[EVERY_BF16], by_cuda[EVERY_BF16], strided[EVERY_BF16];
    int64_t far = 0, different = 0, by_layout = 0;
    of_every_bf16(cpu, f, 0, by_cpu);
    of_every_bf16(cuda, f, 0, by_cuda);
    of_every_bf16(cuda, f, 1, strided);
    for (int i = 0; i < EVERY_BF16; i++) {
        far += !are_neighbours(by_cpu[i], by_cuda[i]);
        different += by_cpu[i] != by_cuda[i] && !is_nan_bf16(by_cpu[i]);
        by_layout += by_cuda[i] != strided[i] && !(is_nan_bf16(by_cuda[i]) && is_nan_bf16(strided[i]));
    }
    CHECK_I64(far, 0);
    CHECK(different < EVERY_BF16 / 1000);
    CHECK_I64(by_layout, 0);
}

static void functions_of_every_bf16_are_the_cpus_within_a_unit(void)
{
    static const unary functions[] = {gelu_of, stn_exp, stn_sigmoid, stn_silu, slope_of_silu};
    stn_context *cpu = both_open((stn_context_options){.device = "cpu"});
    stn_context *cuda = both_open((stn_context_options){.device = "cuda"});
    for (size_t f = 0; cpu && cuda && f < sizeof functions / sizeof functions[0]; f++)
        compare_every_bf16(cpu, cuda, functions[f]);
    stn_context_destroy(&cpu);
    stn_context_destroy(&cuda);
}

/* log(i / 16), i = 1, 2, …, by the C library on the CPU. */
enum { LOGS = 1000 };

static void find_logs(const char *device, double logs[LOGS])
{
    const int64_t n = LOGS;
    const stn_spec *spec = NULL;
    double x[LOGS];
    for (int i = 0; i < LOGS; i++)
        x[i] = (i + 1) / 16.0;
    stn_context *context = both_open((stn_context_options){.device = device});
    if (!context)
        return;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    CHECK_STATUS(stn_to_host(stn_log(stn_from_host(context, spec, x)), logs, LOGS * sizeof *logs), STN_OK);
    stn_spec_release(&spec);
    stn_scope_end(context);
    stn_context_destroy(&context);
}

/* The stand-in's own are not the C library's: a test that wants the bits of these fails there too. */
static void functions_of_the_device_are_its_own(void)
{
    static double by_cpu[LOGS], by_cuda[LOGS];
    int different = 0;
    find_logs("cpu", by_cpu);
    find_logs("cuda", by_cuda);
    for (int i = 0; i < LOGS; i++) {
        different += by_cuda[i] != by_cpu[i];
        CHECK(fabs(by_cuda[i] - by_cpu[i]) <= 2 * DBL_EPSILON * fabs(by_cpu[i]));
    }
    CHECK(different > LOGS / 4 || !both_on_standin());
}

static void integers_divided_by_zero_are_reported(void)
{
    const int64_t n = 3, x[] = {7, 5, -9}, y[] = {2, 0, 3};
    int64_t quotient[3] = {1, 1, 1};
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    const stn_spec *spec;
    if (!context || !CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I64, 1, &n, NULL, &spec), STN_OK))
        return;
    stn_scope_begin(context);
    CHECK_STATUS(stn_to_host(stn_floor_divide(stn_from_host(context, spec, x), stn_from_host(context, spec, y)),
                             quotient, sizeof quotient),
                 STN_OK);
    CHECK_I64(quotient[0], 3);
    CHECK_I64(quotient[1], 0);
    CHECK_I64(quotient[2], -3);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
    CHECK_STR(stn_context_error_text(context), "floor_divide: an integer is divided by 0");
    stn_scope_end(context);
    stn_spec_release(&spec);
    stn_context_destroy(&context);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"kernels_of_runs_agree_with_the_cpu", kernels_of_runs_agree_with_the_cpu},
        {"operands_that_repeat_agree_with_the_cpu", operands_that_repeat_agree_with_the_cpu},
        {"functions_of_every_bf16_are_the_cpus_within_a_unit", functions_of_every_bf16_are_the_cpus_within_a_unit},
        {"functions_of_the_device_are_its_own", functions_of_the_device_are_its_own},
        {"integers_divided_by_zero_are_reported", integers_divided_by_zero_are_reported},
    };
    return TEST_MAIN(argc, argv, cases);
}
