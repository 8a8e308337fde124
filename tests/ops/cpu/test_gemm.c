/* Matrix products of our own against plain loops: every dtype, odd sizes, blocks that end in the middle of a tile,
 * any strides. */
#include "harness.h"

#include "every_isa.h"

#include "ops/cpu/gemm.h"

#include <complex.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1du;
}

static double draw_real(void)
{
    return (double)(draw() >> 11) / 4503599627370496.0 - 1;
}

static double complex get(stn_dtype dtype, const void *x, int64_t at)
{
    switch ((int)dtype) {
    case STN_DTYPE_F32: return ((const float *)x)[at];
    case STN_DTYPE_F64: return ((const double *)x)[at];
    case STN_DTYPE_C64: return ((const float complex *)x)[at];
    case STN_DTYPE_C128: return ((const double complex *)x)[at];
    case STN_DTYPE_I64: return (double)((const int64_t *)x)[at];
    default: return ((const int32_t *)x)[at];
    }
}

static void set(stn_dtype dtype, void *x, int64_t at)
{
    double re = draw_real(), im = draw_real();
    int32_t whole = (int32_t)(re * 1000);
    switch ((int)dtype) {
    case STN_DTYPE_F32: ((float *)x)[at] = (float)re; break;
    case STN_DTYPE_F64: ((double *)x)[at] = re; break;
    case STN_DTYPE_C64: ((float complex *)x)[at] = (float complex)(re + im * I); break;
    case STN_DTYPE_C128: ((double complex *)x)[at] = re + im * I; break;
    case STN_DTYPE_I64: ((int64_t *)x)[at] = whole; break;
    default: ((int32_t *)x)[at] = whole; break;
    }
}

static void *filled(stn_dtype dtype, int64_t n)
{
    void *x = malloc((size_t)n * stn_dtype_size(dtype) + 1);
    for (int64_t i = 0; i < n; i++)
        set(dtype, x, i);
    return x;
}

/* Row-major where `turned` is 0, else column-major; every other element of memory where `gaps`. */
static void strides(int64_t rows, int64_t cols, int turned, int gaps, int64_t *row, int64_t *col)
{
    int64_t unit = gaps ? 2 : 1;
    *row = turned ? unit : unit * cols;
    *col = turned ? unit * rows : unit;
}

/* Largest error of C against the sums of products, relative to the sums of their sizes. */
static double worst_error(const struct stni_gemm *g, const void *before)
{
    double worst = 0;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            int64_t at = i * g->c_row + j * g->c_col;
            double complex want = g->accumulate ? get(g->dtype, before, at) : 0;
            double scale = cabs(want) + 1e-300;
            for (int64_t q = 0; q < g->k; q++) {
                double complex t =
                    get(g->dtype, g->a, i * g->a_row + q * g->a_col) * get(g->dtype, g->b, q * g->b_row + j * g->b_col);
                want += t;
                scale += cabs(t);
            }
            double error = cabs(get(g->dtype, g->c, at) - want) / scale;
            worst = error <= worst ? worst : error;
        }
    return worst;
}

/* Bits of `form`: accumulate, A turned, B turned, C turned, gaps. */
static void compare(stn_dtype dtype, int64_t m, int64_t n, int64_t k, int form)
{
    struct stni_gemm g = {.dtype = dtype, .accumulate = form & 1, .m = m, .n = n, .k = k};
    int gaps = form >> 4 & 1;
    strides(m, k, form >> 1 & 1, gaps, &g.a_row, &g.a_col);
    strides(k, n, form >> 2 & 1, gaps, &g.b_row, &g.b_col);
    strides(m, n, form >> 3 & 1, gaps, &g.c_row, &g.c_col);
    void *a = filled(dtype, 2 * m * k), *b = filled(dtype, 2 * k * n), *c = filled(dtype, 2 * m * n);
    size_t element = stn_dtype_size(dtype), bytes = (size_t)(2 * m * n) * element;
    char *before = malloc(bytes + 1);
    memcpy(before, c, bytes);
    void *workspace = aligned_alloc(64, stni_gemm_workspace(dtype, m, n, k) + 64);
    g.a = a, g.b = b, g.c = c;
    stni_gemm_now(next_isa(), &g, workspace);
    double worst = worst_error(&g, before);
    CHECK(worst <= (dtype == STN_DTYPE_F32 || dtype == STN_DTYPE_C64 ? 1e-6 : 1e-15));
    /* Memory between the elements of C is left alone. */
    int64_t changed = 0;
    for (int64_t at = 1; gaps && at < 2 * m * n; at += 2)
        changed += memcmp((char *)c + (size_t)at * element, before + (size_t)at * element, element) != 0;
    CHECK_I64(changed, 0);
    free(a), free(b), free(c), free(before), free(workspace);
}

static const stn_dtype dtypes[] = {STN_DTYPE_F32,  STN_DTYPE_F64, STN_DTYPE_C64,
                                   STN_DTYPE_C128, STN_DTYPE_I64, STN_DTYPE_I32};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

static void products_match_plain_loops_in_every_form(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1},   {1, 7, 3},    {5, 1, 9},   {4, 4, 4},
                                       {13, 33, 7}, {12, 32, 16}, {29, 17, 41}};
    state = 11;
    for (int d = 0; d < N_DTYPES; d++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int form = 0; form < 32; form++)
                compare(dtypes[d], sizes[s][0], sizes[s][1], sizes[s][2], form);
}

static void products_with_a_vector_match_plain_loops(void)
{
    static const int64_t sizes[][3] = {{1, 1, 128}, {1, 1, 1003}, {37, 1, 300}, {1, 21, 131}};
    state = 14;
    for (int d = 0; d < N_DTYPES; d++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int form = 0; form < 32; form++)
                compare(dtypes[d], sizes[s][0], sizes[s][1], sizes[s][2], form);
}

static void products_larger_than_a_block_match_plain_loops(void)
{
    state = 12;
    for (int d = 0; d < N_DTYPES; d++) {
        compare(dtypes[d], 97, 515, 259, 0);
        compare(dtypes[d], 193, 31, 513, 1 | 2 | 8);
    }
}

static void sums_of_nothing_are_zero_or_keep_what_is_there(void)
{
    state = 13;
    for (int d = 0; d < N_DTYPES; d++)
        for (int form = 0; form < 2; form++) {
            compare(dtypes[d], 3, 2, 0, form);
            compare(dtypes[d], 0, 2, 5, form);
        }
}

static void integers_wrap(void)
{
    int64_t a = INT64_MAX, b = 2, c = 0;
    struct stni_gemm g = {.dtype = STN_DTYPE_I64,
                          .m = 1,
                          .n = 1,
                          .k = 1,
                          .a = &a,
                          .a_row = 1,
                          .a_col = 1,
                          .b = &b,
                          .b_row = 1,
                          .b_col = 1,
                          .c = &c,
                          .c_row = 1,
                          .c_col = 1};
    void *workspace = aligned_alloc(64, stni_gemm_workspace(STN_DTYPE_I64, 1, 1, 1));
    stni_gemm_now(stni_isa_best(), &g, workspace);
    CHECK_I64(c, -2);
    free(workspace);
}

static void other_dtypes_are_not_served(void)
{
    CHECK(!stni_gemm_serves(STN_DTYPE_BF16));
    CHECK(!stni_gemm_serves(STN_DTYPE_BOOL));
    CHECK_I64((int64_t)stni_gemm_workspace(STN_DTYPE_U8, 4, 4, 4), 0);
    CHECK(stni_gemm_serves(STN_DTYPE_C128));
}

/* A million products of one sign: chains of them all would err by a thousandth. */
static void long_sums_with_a_vector_err_as_sums_do(void)
{
    enum { K = 1 << 20 };
    static float a[3 * K], x[3 * K], c[3];
    static const int64_t forms[][5] = {
        /* rows, a_row, a_col, x_step, accumulate */
        {1, K, 1, 1, 0}, {1, K, 1, 3, 0}, {1, K, 3, 1, 0}, {1, 1, 3, 3, 1},
        {3, K, 1, 1, 1}, {3, 1, 3, 1, 0}, {3, 1, 3, 2, 1}, {3, K, 1, 2, 0},
    };
    for (int64_t i = 0; i < 3 * K; i++) {
        a[i] = 0.1f + 1e-8f * (float)(i % 7);
        x[i] = 0.1f + 1e-8f * (float)(i % 5);
    }
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int row = 0; row < 2; row++) {
            const int64_t m = forms[f][0], a_row = forms[f][1], a_col = forms[f][2], step = forms[f][3];
            struct stni_gemm g = {.dtype = STN_DTYPE_F32,
                                  .accumulate = (int)forms[f][4],
                                  .m = m,
                                  .n = 1,
                                  .k = K,
                                  .a = a,
                                  .b = x,
                                  .c = c,
                                  .a_row = a_row,
                                  .a_col = a_col,
                                  .b_row = step,
                                  .b_col = 1,
                                  .c_row = 1,
                                  .c_col = 1};
            if (row)
                g = (struct stni_gemm){.dtype = STN_DTYPE_F32,
                                       .accumulate = g.accumulate,
                                       .m = 1,
                                       .n = m,
                                       .k = K,
                                       .a = x,
                                       .b = a,
                                       .c = c,
                                       .a_row = 1,
                                       .a_col = step,
                                       .b_row = a_col,
                                       .b_col = a_row,
                                       .c_row = 1,
                                       .c_col = 1};
            c[0] = c[1] = c[2] = 5;
            stni_gemm_now(next_isa(), &g, NULL);
            for (int64_t i = 0; i < m; i++) {
                double want = g.accumulate ? 5 : 0;
                for (int64_t t = 0; t < K; t++)
                    want += (double)a[i * a_row + t * a_col] * (double)x[t * step];
                CHECK_NEAR(c[i], want, 2e-7);
            }
        }
}

static void the_workspace_of_a_product_is_enough_for_smaller_ones(void)
{
    static const int64_t sizes[] = {1, 2, 13, 64, 127, 128, 129, 300, 1000};
    enum { N = sizeof sizes / sizeof *sizes };
    for (int large = 0; large < N * N * N; large++)
        for (int small = 0; small < N * N * N; small++) {
            const int64_t m = sizes[large % N], n = sizes[large / N % N], k = sizes[large / N / N];
            const int64_t rows = sizes[small % N], columns = sizes[small / N % N], terms = sizes[small / N / N];
            if (rows <= m && columns <= n && terms <= k)
                CHECK(stni_gemm_workspace(STN_DTYPE_F32, rows, columns, terms) <=
                      stni_gemm_workspace(STN_DTYPE_F32, m, n, k));
        }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"products_match_plain_loops_in_every_form", products_match_plain_loops_in_every_form},
        {"products_with_a_vector_match_plain_loops", products_with_a_vector_match_plain_loops},
        {"products_larger_than_a_block_match_plain_loops", products_larger_than_a_block_match_plain_loops},
        {"sums_of_nothing_are_zero_or_keep_what_is_there", sums_of_nothing_are_zero_or_keep_what_is_there},
        {"integers_wrap", integers_wrap},
        {"other_dtypes_are_not_served", other_dtypes_are_not_served},
        {"long_sums_with_a_vector_err_as_sums_do", long_sums_with_a_vector_err_as_sums_do},
        {"the_workspace_of_a_product_is_enough_for_smaller_ones",
         the_workspace_of_a_product_is_enough_for_smaller_ones},
    };
    return TEST_MAIN(argc, argv, cases);
}
