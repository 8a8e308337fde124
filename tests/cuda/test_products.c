/* Products by cuBLASLt on a CUDA device: against f64 on the host, how often the library ran, and that our own kernel
 * serves where it refuses. */
#include "both.h"

#include "harness.h"

#include "core/tensor/tensor.h"

#include <shardtensor/shardtensor.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A (batch of a, m, k) or its transpose in memory; likewise B, whose batch is broadcast to A's. */
struct product {
    int64_t batch, b_batch, m, n, k;
    int a_transposed, b_transposed;
    int runs; /* of the library; of dtypes other than f32, whose long sums are no spans, `other_runs` */
    int other_runs;
};

static const struct product products[] = {
    {1, 1, 5, 7, 3, 0, 0, 1, 1},       {1, 1, 5, 7, 3, 1, 0, 1, 1},        {1, 1, 5, 7, 3, 0, 1, 1, 1},   {1, 1, 17, 33, 65, 1, 1, 1, 1},
    {1, 1, 1, 9, 4, 0, 0, 1, 1},       {1, 1, 9, 1, 4, 0, 1, 1, 1},        {1, 1, 1, 1, 1, 0, 0, 1, 1},   {6, 6, 4, 5, 3, 0, 1, 1, 1},
    {6, 1, 4, 5, 3, 1, 0, 1, 1},       {1, 1, 2, 3, 40000, 0, 0, 3, 1},    {1, 1, 2, 2, 16385, 1, 1, 2, 1}, {1, 1, 2, 2, 16384, 0, 0, 1, 1},
};
enum { N_PRODUCTS = sizeof products / sizeof *products };

static uint64_t state = 5;

static double draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)((state >> 40) % 33) / 16 - 1; /* exact in every dtype */
}

static stn_tensor *random_tensor(stn_context *context, stn_dtype dtype, int64_t batch, int64_t rows, int64_t cols,
                                 double **values)
{
    const int64_t shape[3] = {batch, rows, cols};
    const stn_spec *spec = NULL;
    *values = malloc((size_t)(batch * rows * cols) * sizeof **values);
    for (int64_t i = 0; i < batch * rows * cols; i++)
        (*values)[i] = draw();
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F64, 3, shape, &spec), STN_OK);
    return stn_cast(stn_from_host(context, spec, *values), dtype);
}

/* The largest error relative to what the result's dtype and a chain of sums in f32 allow. */
static double worst_error(const struct product *p, stn_dtype dtype, const double *a, const double *b, const double *got)
{
    const double digits = dtype == STN_DTYPE_F64   ? 0x1p-52
                          : dtype == STN_DTYPE_F32 ? 0x1p-23
                          : dtype == STN_DTYPE_F16 ? 0x1p-10
                                                   : 0x1p-7;
    double worst = 0;
    for (int64_t i = 0; i < p->batch * p->m * p->n; i++) {
        const int64_t z = i / (p->m * p->n), r = i / p->n % p->m, c = i % p->n, bz = z % p->b_batch;
        double sum = 0, size = 0;
        for (int64_t t = 0; t < p->k; t++) {
            const double x = a[p->a_transposed ? (z * p->k + t) * p->m + r : (z * p->m + r) * p->k + t];
            const double y = b[p->b_transposed ? (bz * p->n + c) * p->k + t : (bz * p->k + t) * p->n + c];
            sum += x * y;
            size += x * y < 0 ? -x * y : x * y;
        }
        const double error = (got[i] > sum ? got[i] - sum : sum - got[i]) / (digits * (1 + size));
        worst = test_worst(worst, error);
    }
    return worst;
}

/* How often the library was run; the product is right in any case. */
static int64_t multiply(stn_context *context, const struct product *p, stn_dtype dtype, struct stni_refusals refusals)
{
    enum { MANY = 1000 };
    double *a, *b, *got = malloc((size_t)(p->batch * p->m * p->n) * sizeof *got);
    struct stni_refusals *injected = &context->foreign.refusals[STNI_LIBRARY_CUBLASLT];
    stn_scope_begin(context);
    stn_tensor *x =
        random_tensor(context, dtype, p->batch, p->a_transposed ? p->k : p->m, p->a_transposed ? p->m : p->k, &a);
    stn_tensor *y =
        random_tensor(context, dtype, p->b_batch, p->b_transposed ? p->n : p->k, p->b_transposed ? p->k : p->n, &b);
    *injected = refusals;
    if (injected->run == 0)
        injected->run = MANY;
    const int64_t before = injected->run;
    stn_tensor *z =
        stn_matmul(p->a_transposed ? stn_transpose(x, 1, 2) : x, p->b_transposed ? stn_transpose(y, 1, 2) : y);
    const int64_t runs = before - injected->run;
    memset(injected, 0, sizeof *injected);
    CHECK_STATUS(stn_to_host(stn_cast(z, STN_DTYPE_F64), got, (size_t)(p->batch * p->m * p->n) * sizeof *got), STN_OK);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    if (!CHECK(worst_error(p, dtype, a, b, got) < 1))
        fprintf(stderr, "  product %d, dtype %d\n", (int)(p - products), (int)dtype);
    free(a);
    free(b);
    free(got);
    return runs;
}

static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64, STN_DTYPE_BF16, STN_DTYPE_F16};

static void on_all(const char *without, struct stni_refusals refusals, int library_runs)
{
    enum { SHORT = 1000 };
    stn_context *context = both_open((stn_context_options){.device = "cuda", .without = without});
    if (!context)
        return;
    for (int i = 0; i < N_PRODUCTS; i++)
        for (int d = 0; d < 4; d++) {
            if (!library_runs && products[i].k > SHORT && (d > 0 || products[i].runs != 2)) /* the stand-in runs our own kernel slowly */
                continue;
            const int64_t runs = multiply(context, &products[i], dtypes[d], refusals);
            if (refusals.run == 0)
                CHECK_I64(runs, !library_runs ? 0 : d == 0 ? products[i].runs : products[i].other_runs);
        }
    stn_context_destroy(&context);
}

static void products_are_right_and_the_librarys(void)
{
    on_all(NULL, (struct stni_refusals){0}, 1);
}

static void a_context_does_without_the_library(void)
{
    on_all("cublaslt", (struct stni_refusals){0}, 0);
}

static void every_question_may_be_refused(void)
{
    on_all(NULL, (struct stni_refusals){.question = -1}, 0);
}

/* The second of a long sum's spans is refused, for which nobody then has a workspace: the first is not begun. */
static void a_span_that_is_refused_refuses_all(void)
{
    const struct product *const long_sum = &products[9];
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    CHECK_I64(long_sum->runs, 3);
    CHECK_I64(multiply(context, long_sum, STN_DTYPE_F32, (struct stni_refusals){.question = 2}), 0);
    stn_context_destroy(&context);
}

/* One run or each: what the library has written by then is written anew. */
static void every_run_may_be_refused(void)
{
    for (int n = -1; n <= 3; n++)
        if (n != 0)
            on_all(NULL, (struct stni_refusals){.run = n}, 0);
}

/* One question of a problem is answered once. */
static void plans_are_kept(void)
{
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    if (!context)
        return;
    CHECK_I64(multiply(context, &products[0], STN_DTYPE_F32, (struct stni_refusals){0}), 1);
    CHECK_I64(multiply(context, &products[0], STN_DTYPE_F32, (struct stni_refusals){.question = -1}), 1);
    CHECK_I64(multiply(context, &products[0], STN_DTYPE_F64, (struct stni_refusals){.question = -1}), 0);
    CHECK_I64(multiply(context, &products[0], STN_DTYPE_F64, (struct stni_refusals){0}), 0); /* a refusal is kept too */
    stn_context_destroy(&context);
}

/* Matrices within larger ones, and strides that are none of the library's. */
static void strides_are_the_librarys_or_our_kernels(void)
{
    static const struct {
        int64_t step;
        int64_t runs;
    } cases[] = {{1, 1}, {2, 0}};
    stn_context *context = both_open((stn_context_options){.device = "cuda"});
    for (int i = 0; context && i < 2; i++) {
        const struct product p = {1, 1, 4, 5, 6, 0, 0, 0, 0};
        double *a, *b, got[20];
        stn_scope_begin(context);
        stn_tensor *wide = random_tensor(context, STN_DTYPE_F64, 1, p.m, p.k * cases[i].step + 3, &a);
        stn_tensor *x = stn_slice(wide, 2, 1, 1 + p.k * cases[i].step, cases[i].step);
        stn_tensor *y = random_tensor(context, STN_DTYPE_F64, 1, p.k, p.n, &b);
        for (int64_t r = 0; r < p.m; r++)
            for (int64_t t = 0; t < p.k; t++)
                a[r * p.k + t] = a[r * (p.k * cases[i].step + 3) + 1 + t * cases[i].step];
        context->foreign.refusals[STNI_LIBRARY_CUBLASLT].run = 10;
        stn_tensor *z = stn_matmul(x, y);
        CHECK_I64(10 - context->foreign.refusals[STNI_LIBRARY_CUBLASLT].run, cases[i].runs);
        context->foreign.refusals[STNI_LIBRARY_CUBLASLT].run = 0;
        CHECK_STATUS(stn_to_host(z, got, sizeof got), STN_OK);
        CHECK(worst_error(&p, STN_DTYPE_F64, a, b, got) < 1);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        free(a);
        free(b);
    }
    stn_context_destroy(&context);
}

/* TF32 has 10 bits of fraction, so that 1 + 2^-12 is 1. GPUs may take another algorithm; the stand-in does what it is
 * allowed. */
static void check_tf32(int allow_tf32, const char *without, stn_dtype dtype, int is_rounded)
{
    enum { TERMS = 4 };
    const float factors[2 * TERMS] = {1 + 0x1p-12f, 1 + 0x1p-12f, 1 + 0x1p-12f, 1 + 0x1p-12f, 1, 1, 1, 1};
    const double exact = TERMS * (1 + 0x1p-12);
    const int64_t row[] = {1, TERMS}, column[] = {TERMS, 1};
    const stn_spec *rows = NULL, *columns = NULL;
    double got = 0;
    stn_context *context =
        both_open((stn_context_options){.device = "cuda", .without = without, .allow_tf32 = allow_tf32});
    if (!context)
        return;
    stn_scope_begin(context);
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, 2, row, &rows), STN_OK);
    CHECK_STATUS(stni_spec_local(context, STN_DTYPE_F32, 2, column, &columns), STN_OK);
    stn_tensor *a = stn_cast(stn_from_host(context, rows, factors), dtype);
    stn_tensor *b = stn_cast(stn_from_host(context, columns, factors + TERMS), dtype);
    CHECK_STATUS(stn_item(stn_cast(stn_matmul(a, b), STN_DTYPE_F64), &got), STN_OK);
    if (!is_rounded || got != exact || both_on_standin())
        CHECK_NEAR(got, is_rounded ? TERMS : exact, 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    stn_context_destroy(&context);
}

static void only_where_it_is_allowed_f32_is_rounded_to_tf32(void)
{
    check_tf32(0, NULL, STN_DTYPE_F32, 0);
    check_tf32(1, NULL, STN_DTYPE_F32, 1);
    check_tf32(1, NULL, STN_DTYPE_F64, 0);
    check_tf32(1, "cublaslt", STN_DTYPE_F32, 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"products_are_right_and_the_librarys", products_are_right_and_the_librarys},
        {"a_context_does_without_the_library", a_context_does_without_the_library},
        {"every_question_may_be_refused", every_question_may_be_refused},
        {"a_span_that_is_refused_refuses_all", a_span_that_is_refused_refuses_all},
        {"every_run_may_be_refused", every_run_may_be_refused},
        {"plans_are_kept", plans_are_kept},
        {"strides_are_the_librarys_or_our_kernels", strides_are_the_librarys_or_our_kernels},
        {"only_where_it_is_allowed_f32_is_rounded_to_tf32", only_where_it_is_allowed_f32_is_rounded_to_tf32},
    };
    return TEST_MAIN(argc, argv, cases);
}
