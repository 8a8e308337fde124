/* Rows that are joined band by band, with the next ones prefetched, against the same rows at once: the same bits,
 * and nothing else is written. */
#include "harness.h"

#include "core/device/device.h"
#include "every_isa.h"
#include "ops/elements.h"
#include "ops/reduce/reduce_bands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LANES = 3000, MOST_ROWS = 21, GAP = 40, BYTES = 16 };

static char data[(MOST_LANES + GAP) * MOST_ROWS * BYTES], acc[(MOST_LANES + GAP) * BYTES],
    wanted[(MOST_LANES + GAP) * BYTES];

static const struct stni_reduction_kernels *kernels_of(enum stni_isa isa)
{
    return STNI_ISA_PICK(stni_reduction_kernels, isa);
}

static void draw_elements(stn_dtype dtype, int64_t n, uint64_t *seed)
{
    for (int64_t i = 0; i < n; i++)
        element_set(dtype, data, i, element_draw(dtype, seed));
}

static void compare(stn_dtype dtype, enum stni_reduction op, int64_t acc_size, int followed, uint64_t *seed)
{
    const int64_t rows = draw_below(seed, MOST_ROWS + 1),
                  lanes = 1 + draw_below(seed, draw_below(seed, 2) ? MOST_LANES : 300);
    const int64_t stride = lanes + draw_below(seed, GAP);
    const struct stni_reduction_kernels *kernels = kernels_of(next_isa());
    draw_elements(dtype, rows * stride, seed);
    for (size_t i = 0; i < sizeof acc; i++)
        acc[i] = wanted[i] = (char)(i % 8 == 7 ? 0x3f : i % 5); /* of f32 and f64, numbers near 1 */
    kernels->accumulate[dtype](op, wanted, data, rows, stride, lanes, 1);
    stni_reduce_bands(&(struct stni_reduce_rows){.kernels = kernels,
                                                 .op = op,
                                                 .dtype = dtype,
                                                 .in_size = (int64_t)stn_dtype_size(dtype),
                                                 .acc_size = acc_size,
                                                 .acc = acc,
                                                 .in = data,
                                                 .rows = rows,
                                                 .row_stride = stride,
                                                 .lanes = lanes,
                                                 .followed = followed});
    char what[96];
    snprintf(what, sizeof what, "%s, reduction %d, %lld x %lld of %lld", stn_dtype_name(dtype), (int)op,
             (long long)rows, (long long)lanes, (long long)stride);
    test_check_i64(memcmp(acc, wanted, sizeof acc), 0, __FILE__, __LINE__, what);
}

static void bands_join_as_rows_do(void)
{
    static const struct {
        stn_dtype dtype;
        enum stni_reduction op;
        int64_t acc_size;
    } cases[] = {
        {STN_DTYPE_F32, STNI_REDUCTION_sum, 8},     {STN_DTYPE_F32, STNI_REDUCTION_amax, 4},  {STN_DTYPE_F32, STNI_REDUCTION_squares, 8},
        {STN_DTYPE_F64, STNI_REDUCTION_amin, 8},    {STN_DTYPE_F64, STNI_REDUCTION_prod, 8},  {STN_DTYPE_BF16, STNI_REDUCTION_sum, 8},
        {STN_DTYPE_F16, STNI_REDUCTION_sum, 8},     {STN_DTYPE_BF16, STNI_REDUCTION_amax, 4}, {STN_DTYPE_I32, STNI_REDUCTION_sum, 8},
        {STN_DTYPE_C64, STNI_REDUCTION_sum, 16},    {STN_DTYPE_C128, STNI_REDUCTION_prod, 16}, {STN_DTYPE_F32, STNI_REDUCTION_any, 4},
    };
    uint64_t seed = 5;
    const int n = (int)(sizeof cases / sizeof cases[0]);
    for (int round = 0; round < 50 * n; round++) {
        const int c = round % n;
        compare(cases[c].dtype, cases[c].op, cases[c].acc_size, round / n % 2, &seed);
    }
}

/* Whole numbers, whose sums are exact, of matrices that are large enough for bands: more columns than a strip, with
 * a gap, few in groups. */
static void sum_large(int64_t rows, int64_t lanes, int64_t stride, int followed)
{
    float *x = malloc((size_t)(rows * stride) * sizeof *x), *sum = malloc((size_t)lanes * sizeof *sum);
    for (int64_t i = 0; i < rows * stride; i++)
        x[i] = (float)(i % 13 - 6);
    struct stni_reduce_args args = {.op = STNI_REDUCTION_sum,
                                    .in_dtype = STN_DTYPE_F32,
                                    .out_dtype = STN_DTYPE_F32,
                                    .in = x,
                                    .out = sum,
                                    .n_reduced = 1,
                                    .reduced = {rows},
                                    .reduced_in = {stride},
                                    .n_kept = 1,
                                    .kept = {lanes},
                                    .kept_in = {1},
                                    .kept_out = {1}};
    stn_queue queue = {.isa = next_isa(), .follows_runs = followed};
    CHECK_STATUS(stni_reduce_cpu(&queue, &args), STN_OK);
    int64_t wrong = 0;
    for (int64_t lane = 0; lane < lanes; lane++) {
        double exact = 0;
        for (int64_t row = 0; row < rows; row++)
            exact += x[row * stride + lane];
        wrong += sum[lane] != (float)exact;
    }
    CHECK_I64(wrong, 0);
    free(x);
    free(sum);
}

static void sums_of_large_columns_are_exact(void)
{
    CHECK(stni_reduce_wants_bands(STNI_REDUCTION_sum, STN_DTYPE_F32, STN_DTYPE_F64, 8 << 20));
    for (int followed = 0; followed < 2; followed++) {
        sum_large(431, 5003, 5003, followed);
        sum_large(517, 4500, 4511, followed);
        sum_large(70001, 37, 37, followed);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"bands_join_as_rows_do", bands_join_as_rows_do},
        {"sums_of_large_columns_are_exact", sums_of_large_columns_are_exact},
    };
    return TEST_MAIN(argc, argv, cases);
}
