/* The CPU's softmax kernels on raw memory, for every instruction set that this processor has. */
#include "core/base/dtype.h"
#include "core/base/isa.h"
#include "core/box/nontemporal.h"
#include "core/device/device.h"
#include "harness.h"
#include "ops/softmax/softmax_kernel.h"
#include "ops/cpu/exp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static stn_queue queue;

struct kernels {
    stn_kernel_fn forward, max, sum, scale, backward, dot, apply;
};

#define ALL(of) {of(stni_softmax_forward), of(stni_softmax_max), of(stni_softmax_sum), of(stni_softmax_scale), of(stni_softmax_backward), \
                 of(stni_softmax_dot), of(stni_softmax_apply)}

static const struct kernels *table(enum stni_isa isa)
{
    static const struct kernels tables[STNI_ISA_COUNT] = {ALL(STNI_ISA_BASE_OF), ALL(STNI_ISA_AVX2_OF),
                                                          ALL(STNI_ISA_AVX512_OF)};
    return &tables[isa];
}

static uint64_t seed;

static double draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 40) / 16777216.0 * 8 - 4;
}

static double get(const void *data, stn_dtype dtype, int64_t i)
{
    switch (dtype) {
    case STN_DTYPE_F64: return ((const double *)data)[i];
    case STN_DTYPE_BF16: return (double)stni_bf16_to_f32(((const uint16_t *)data)[i]);
    case STN_DTYPE_F16: return (double)stni_f16_to_f32(((const uint16_t *)data)[i]);
    default: return (double)((const float *)data)[i];
    }
}

static void set(void *data, stn_dtype dtype, int64_t i, double value)
{
    switch (dtype) {
    case STN_DTYPE_F64: ((double *)data)[i] = value; break;
    case STN_DTYPE_BF16: ((uint16_t *)data)[i] = stni_f32_to_bf16((float)value); break;
    case STN_DTYPE_F16: ((uint16_t *)data)[i] = stni_f32_to_f16((float)value); break;
    default: ((float *)data)[i] = (float)value; break;
    }
}

/* Largest error of a result below 1, absolutely. */
static const double tolerance[] = {5e-7, 1e-15, 4e-3, 5e-4};

/* A (outer, n, inner) tensor; x, y and out may differ in memory order. */
struct problem {
    stn_dtype dtype;
    int64_t shape[3], strides[3][3];
    void *data[3];
    double *want, *want_backward;
};

static int64_t at(const struct problem *p, int t, int64_t o, int64_t i, int64_t c)
{
    return o * p->strides[t][0] + i * p->strides[t][1] + c * p->strides[t][2];
}

static void problem_lay_out(struct problem *p, int t, const int *order)
{
    int64_t stride = 1;
    for (int k = 2; k >= 0; k--) {
        p->strides[t][order[k]] = stride;
        stride *= p->shape[order[k]];
    }
}

static void expect_line(struct problem *p, int64_t o, int64_t c)
{
    int64_t n = p->shape[1];
    double max = -INFINITY, sum = 0, dot = 0;
    double *want = p->want + (o * p->shape[2] + c) * n, *back = p->want_backward + (o * p->shape[2] + c) * n;
    for (int64_t i = 0; i < n; i++)
        max = fmax(max, get(p->data[0], p->dtype, at(p, 0, o, i, c)));
    for (int64_t i = 0; i < n; i++)
        sum += want[i] = exp(get(p->data[0], p->dtype, at(p, 0, o, i, c)) - max);
    for (int64_t i = 0; i < n; i++) {
        want[i] /= sum;
        dot += get(p->data[0], p->dtype, at(p, 0, o, i, c)) * get(p->data[1], p->dtype, at(p, 1, o, i, c));
    }
    for (int64_t i = 0; i < n; i++)
        back[i] = get(p->data[1], p->dtype, at(p, 1, o, i, c)) * (get(p->data[0], p->dtype, at(p, 0, o, i, c)) - dot);
}

static void problem_init(struct problem *p, stn_dtype dtype, const int64_t *shape, const int *order_in,
                         const int *order_out)
{
    int64_t numel = shape[0] * shape[1] * shape[2];
    *p = (struct problem){.dtype = dtype};
    memcpy(p->shape, shape, sizeof p->shape);
    for (int t = 0; t < 3; t++) {
        problem_lay_out(p, t, t == 2 ? order_out : order_in);
        p->data[t] = calloc((size_t)numel + 1, 8);
    }
    p->want = calloc((size_t)numel + 1, sizeof(double));
    p->want_backward = calloc((size_t)numel + 1, sizeof(double));
    for (int64_t i = 0; i < numel; i++) {
        set(p->data[0], dtype, i, draw());
        set(p->data[1], dtype, i, (draw() + 4) / 8 / (double)(shape[1] + 1));
    }
    for (int64_t o = 0; o < shape[0]; o++)
        for (int64_t c = 0; c < shape[2]; c++)
            expect_line(p, o, c);
}

static void problem_fini(struct problem *p)
{
    for (int t = 0; t < 3; t++)
        free(p->data[t]);
    free(p->want);
    free(p->want_backward);
}

static void check_out(const struct problem *p, const double *want)
{
    double worst = 0;
    for (int64_t o = 0; o < p->shape[0]; o++)
        for (int64_t i = 0; i < p->shape[1]; i++)
            for (int64_t c = 0; c < p->shape[2]; c++) {
                double got = get(p->data[2], p->dtype, at(p, 2, o, i, c));
                double error = fabs(got - want[(o * p->shape[2] + c) * p->shape[1] + i]);
                worst = error > worst || isnan(error) ? error : worst;
            }
    if (!CHECK(worst <= tolerance[p->dtype]))
        CHECK_NEAR(worst, tolerance[p->dtype], 0);
}

/* Rows first to last of the dim only, as one rank of several sees them. */
static struct stni_softmax_args args_of(const struct problem *p, int64_t first, int64_t last)
{
    uint8_t order[] = {0, 1, 2};
    int64_t shape[] = {p->shape[0], last - first, p->shape[2]};
    const int64_t *strides[] = {p->strides[0], p->strides[1], p->strides[2]};
    struct stni_softmax_args args = {.dtype = p->dtype};
    size_t size = stn_dtype_size(p->dtype);
    args.x = (char *)p->data[0] + (size_t)(first * p->strides[0][1]) * size;
    args.y = (char *)p->data[1] + (size_t)(first * p->strides[1][1]) * size;
    args.out = (char *)p->data[2] + (size_t)(first * p->strides[2][1]) * size;
    stni_lines_make(&args.lines, 1, 3, shape, order, strides);
    return args;
}

static const int64_t shapes[][3] = {{1, 1, 1}, {2, 179, 1}, {3, 5, 1}, {40, 7, 1}, {2, 21, 5}, {3, 6, 37}, {1, 40, 3},
                                    {2, 16, 16}, {3, 64, 1}, {1, 2085, 1}, {2, 9, 300}};
static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}};

enum { N_SHAPES = sizeof shapes / sizeof *shapes, N_ORDERS = 3, N_DTYPES = 4 };

static void for_problems(void (*run)(struct problem *p, const struct kernels *kernels))
{
    seed = 1;
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (int dtype = 0; dtype < N_DTYPES; dtype++)
            for (int s = 0; s < N_SHAPES; s++)
                for (int o = 0; o < N_ORDERS * N_ORDERS; o++) {
                    struct problem p;
                    problem_init(&p, (stn_dtype)dtype, shapes[s], orders[o / N_ORDERS], orders[o % N_ORDERS]);
                    run(&p, table((enum stni_isa)isa));
                    problem_fini(&p);
                }
}

static void run_whole(struct problem *p, const struct kernels *kernels)
{
    struct stni_softmax_args args = args_of(p, 0, p->shape[1]);
    kernels->forward(&queue, &args);
    check_out(p, p->want);
    kernels->backward(&queue, &args);
    check_out(p, p->want_backward);
}

static void forward_and_backward_match_the_formula(void)
{
    for_problems(run_whole);
}

static void combine(const struct problem *p, void *into, const void *from, int64_t n, int is_max)
{
    for (int64_t i = 0; i < n; i++) {
        stn_dtype dtype = p->dtype == STN_DTYPE_F64 ? STN_DTYPE_F64 : STN_DTYPE_F32;
        double a = get(into, dtype, i), b = get(from, dtype, i);
        set(into, dtype, i, is_max ? fmax(a, b) : a + b);
    }
}

/* Four ranks: uneven chunks, one of them empty; what the all-reduces would do is done here. */
static void run_in_pieces(struct problem *p, const struct kernels *kernels)
{
    int64_t n = p->shape[1], lines = p->shape[0] * p->shape[2], cut[] = {0, n / 3, n / 3, n - n / 4, n};
    double *stat = calloc((size_t)lines, 8), *total = calloc((size_t)lines, 8), *own = calloc((size_t)lines, 8);
    struct stni_softmax_args args[4];
    for (int r = 0; r < 4; r++) {
        args[r] = args_of(p, cut[r], cut[r + 1]);
        CHECK_I64(stni_lines_count(&args[r].lines), lines);
        args[r].stat = r ? own : stat;
        kernels->max(&queue, &args[r]);
        if (r)
            combine(p, stat, own, lines, 1);
    }
    for (int r = 0; r < 4; r++) {
        args[r].stat = stat;
        args[r].total = r ? own : total;
        kernels->sum(&queue, &args[r]);
        if (r)
            combine(p, total, own, lines, 0);
    }
    for (int r = 0; r < 4; r++) {
        args[r].total = total;
        kernels->scale(&queue, &args[r]);
    }
    check_out(p, p->want);

    for (int r = 0; r < 4; r++) {
        args[r].stat = r ? own : stat;
        kernels->dot(&queue, &args[r]);
        if (r)
            combine(p, stat, own, lines, 0);
    }
    for (int r = 0; r < 4; r++) {
        args[r].stat = stat;
        kernels->apply(&queue, &args[r]);
    }
    check_out(p, p->want_backward);
    free(stat);
    free(total);
    free(own);
}

static void lines_shared_by_four_ranks_match_the_formula(void)
{
    for_problems(run_in_pieces);
}

/* But for the exponential, whose polynomial the base set works out without fused multiply-adds. */
static void instruction_sets_give_the_same_values(void)
{
    seed = 5;
    for (int s = 0; s < N_SHAPES; s++) {
        struct problem p;
        problem_init(&p, STN_DTYPE_F32, shapes[s], orders[0], orders[0]);
        size_t bytes = (size_t)(p.shape[0] * p.shape[1] * p.shape[2]) * sizeof(float);
        float *base = malloc(bytes);
        struct stni_softmax_args args = args_of(&p, 0, p.shape[1]);
        table(STNI_ISA_BASE)->forward(&queue, &args);
        memcpy(base, p.data[2], bytes);
        table(stni_isa_best())->forward(&queue, &args);
        for (size_t i = 0; i < bytes / sizeof(float); i++)
            CHECK_NEAR((double)((const float *)p.data[2])[i], (double)base[i], 1e-6);
        free(base);
        problem_fini(&p);
    }
}

/* Four lines, again and again. */
static void special_lines(const struct kernels *kernels, int64_t n, int64_t lines)
{
    float *x = calloc((size_t)(lines * n), sizeof *x), *y = calloc((size_t)(lines * n), sizeof *y);
    for (int64_t i = 0; i < lines * n; i++) {
        const int64_t first = i % n == 0, last = i % n == n - 1;
        const float element[] = {-INFINITY, last ? 3 : -INFINITY, first ? NAN : 1, first ? 90 : -90};
        x[i] = element[i / n % 4];
    }
    uint8_t order[] = {0, 1};
    int64_t shape[] = {lines, n}, step[] = {n, 1};
    const int64_t *strides[] = {step, NULL, step};
    struct stni_softmax_args args = {.dtype = STN_DTYPE_F32, .x = x, .out = y};
    stni_lines_make(&args.lines, 1, 2, shape, order, strides);
    kernels->forward(&queue, &args);
    for (int64_t i = 0; i < lines * n; i++) {
        const int64_t kind = i / n % 4, hot = kind == 1 ? n - 1 : 0;
        if (kind % 2 == 0)
            CHECK(isnan(y[i]));
        else
            CHECK_NEAR((double)y[i], i % n == hot ? 1.0 : 0.0, 0);
    }
    free(x);
    free(y);
}

static void lines_without_a_finite_element_are_nan_and_others_are_not(void)
{
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++) {
        special_lines(table((enum stni_isa)isa), 5, 4);
        special_lines(table((enum stni_isa)isa), 35, 4);
        special_lines(table((enum stni_isa)isa), 5, 37);
        special_lines(table((enum stni_isa)isa), 35, 37);
        special_lines(table((enum stni_isa)isa), 135, 9);
    }
}

/* Of a gradient, x is the cotangent and the result. */
static struct stni_softmax_args dense_args(stn_dtype dtype, int logarithm, int64_t lines, int64_t n, const void *x,
                                           void *out)
{
    uint8_t order[] = {0, 1};
    int64_t shape[] = {lines, n}, step[] = {n, 1};
    const int64_t *strides[] = {step, step, step};
    struct stni_softmax_args args = {.dtype = dtype, .logarithm = logarithm, .x = x, .y = x, .out = out};
    stni_lines_make(&args.lines, 1, 2, shape, order, strides);
    return args;
}

/* Logarithms of a line whose elements are near `far` and one apart, against long doubles. */
static void check_digits(const struct kernels *kernels, stn_dtype dtype, double far, int64_t lines, int64_t n,
                         int across)
{
    const double eps = dtype == STN_DTYPE_F64 ? 0x1p-52 : 0x1p-23;
    char *x = calloc((size_t)(lines * n), 8), *out = calloc((size_t)(lines * n), 8);
    struct stni_softmax_args args = dense_args(dtype, 1, lines, n, x, out);
    const uint8_t order[] = {0, 1};
    const int64_t shape[] = {lines, n},
                  step[] = {across ? 1 : n, across ? lines : 1}, *const strides[] = {step, NULL, step};
    double worst = 0;
    stni_lines_make(&args.lines, 1, 2, shape, order, strides);
    for (int64_t i = 0; i < lines * n; i++)
        set(x, dtype, i, far + (double)(i * 7 % 5));
    kernels->forward(&queue, &args);
    for (int64_t l = 0; l < lines; l++) {
        long double total = 0, max = -INFINITY;
        for (int64_t i = 0; i < n; i++)
            max = fmaxl(max, (long double)get(x, dtype, l * step[0] + i * step[1]));
        for (int64_t i = 0; i < n; i++)
            total += expl((long double)get(x, dtype, l * step[0] + i * step[1]) - max);
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = l * step[0] + i * step[1];
            const double want = (double)((long double)get(x, dtype, at) - max - logl(total));
            worst = test_worst(worst, fabs(get(out, dtype, at) - want) / fmax(fabs(want), 1));
        }
    }
    /* Kernels that are not vectorised, as in sanitized builds, add up a line in one chain. */
    const double most = 4 + (double)n / 1000;
    if (!CHECK(worst <= most * eps))
        CHECK_NEAR(worst / eps, most, 0);
    free(x);
    free(out);
}

/* Lines that are transposed, short, long, and those side by side. */
static void logarithms_far_from_0_keep_their_digits(void)
{
    static const int64_t sizes[][2] = {{1, 1}, {1, 4}, {3, 40}, {40, 4}, {37, 100}, {5, 300}, {2, 2000}, {1, 5000}};
    static const double far[] = {0, -700, 1e4, -1e6};
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (size_t i = 0; i < 4 * sizeof sizes / sizeof *sizes; i++)
            for (int across = 0; across < 2; across++) {
                check_digits(table((enum stni_isa)isa), STN_DTYPE_F32, far[i % 4], sizes[i / 4][0], sizes[i / 4][1],
                             across);
                check_digits(table((enum stni_isa)isa), STN_DTYPE_F64, far[i % 4] * 1e8, sizes[i / 4][0],
                             sizes[i / 4][1], across);
            }
}

/* Elements that leave no digits for the logarithm of the sum. */
static void logarithms_of_equal_elements_do_not_depend_on_them(void)
{
    static const double equal[] = {1, -1e6, 3e38, -3e38};
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++)
        for (int64_t lines = 1; lines <= 32; lines += 31)
            for (int i = 0; i < 4; i++) {
                float x[64], out[64];
                for (int64_t k = 0; k < 2 * lines; k++)
                    x[k] = (float)equal[i];
                const struct stni_softmax_args args = dense_args(STN_DTYPE_F32, 1, lines, 2, x, out);
                table((enum stni_isa)isa)->forward(&queue, &args);
                for (int64_t k = 0; k < 2 * lines; k++)
                    CHECK_NEAR((double)out[k], -log(2), 1e-7);
            }
}

/* A large result at once, and in two parts that are not large, from the middle of a cache line. */
static void check_large_by(stn_kernel_fn kernel, stn_dtype dtype, int logarithm, int64_t n)
{
    enum { TOGETHER = 16 };
    const size_t size = stn_dtype_size(dtype), line = (size_t)n * size, pad = 3 * size;
    const int64_t lines = STNI_STREAMING_RESULT / (int64_t)line + 5, half = lines / 2 / TOGETHER * TOGETHER;
    char *x = malloc((size_t)lines * line), *whole = malloc((size_t)lines * line + 2 * pad),
         *parts = malloc((size_t)lines * line + 2 * pad);
    for (int64_t i = 0; i < lines * n; i++)
        set(x, dtype, i, draw());
    memset(whole, 42, (size_t)lines * line + 2 * pad);
    memset(parts, 42, (size_t)lines * line + 2 * pad);
    const struct stni_softmax_args all = dense_args(dtype, logarithm, lines, n, x, whole + pad);
    const struct stni_softmax_args first = dense_args(dtype, logarithm, half, n, x, parts + pad);
    const struct stni_softmax_args second =
        dense_args(dtype, logarithm, lines - half, n, x + (size_t)half * line, parts + pad + (size_t)half * line);
    queue.follows_runs = 0;
    kernel(&queue, &all);
    queue.follows_runs = 1; /* not prefetched: the same bits */
    kernel(&queue, &first);
    kernel(&queue, &second);
    CHECK(memcmp(whole, parts, (size_t)lines * line + 2 * pad) == 0);
    free(x);
    free(whole);
    free(parts);
}

static void check_large(const struct kernels *kernels, stn_dtype dtype, int logarithm, int64_t n)
{
    check_large_by(kernels->forward, dtype, logarithm, n);
    check_large_by(kernels->backward, dtype, logarithm, n);
}

static void results_past_the_caches_are_those_that_stay(void)
{
    for (int isa = 0; isa <= (int)stni_isa_best(); isa++) {
        check_large(table((enum stni_isa)isa), STN_DTYPE_F32, 0, 50);
        check_large(table((enum stni_isa)isa), STN_DTYPE_BF16, 1, 51);
        check_large(table((enum stni_isa)isa), STN_DTYPE_F32, 1, 1023);
        check_large(table((enum stni_isa)isa), STN_DTYPE_F64, 0, 7);
    }
}

static void exp_matches_the_c_library(void)
{
    double worst_f32 = 0, worst_f64 = 0;
    for (double x = -87; x < 88; x += 0.00731) {
        double got = (double)stni_exp_f32((float)x), want = exp((double)(float)x);
        worst_f32 = test_worst(worst_f32, fabs(got - want) / want);
        worst_f64 = test_worst(worst_f64, fabs(stni_exp_f64(8 * x) - exp(8 * x)) / exp(8 * x));
    }
    CHECK(worst_f32 < 1.5e-7);
    CHECK(worst_f64 < 4e-16);
    CHECK_NEAR((double)stni_exp_f32(-100), exp(-100), 2e-2); /* subnormal */
    CHECK_NEAR(stni_exp_f64(-740), exp(-740), 2e-2);
    CHECK_NEAR((double)stni_exp_f32(0), 1, 0);
    CHECK_NEAR((double)stni_exp_f32(-INFINITY), 0, 0);
    CHECK_NEAR(stni_exp_f64(-INFINITY), 0, 0);
    CHECK(isinf(stni_exp_f32(INFINITY)) && isinf(stni_exp_f64(INFINITY)));
    CHECK(isnan(stni_exp_f32(NAN)) && isnan(stni_exp_f64(NAN)));
}

/* Down to where results are 0, each on the side that it is rounded to; addends are 0 or as exp's. */
static void small_exponentials_match_the_c_library(void)
{
    int64_t wrong = 0;
    for (float x = -84; x > -110; x -= 0x1p-10f) {
        const double want = exp((double)x), near = 1.5e-7 * want + 0x1p-149;
        const float addend = stni_exp_addend_f32(x);
        wrong += fabs((double)stni_exp_f32(x) - want) > near;
        wrong += stni_exp_negative_f32(x) != stni_exp_f32(x);
        wrong += addend != (want < 0x1p-125 ? 0 : stni_exp_f32(x)) && fabs(want * 0x1p125 - 1) > 0.5;
    }
    for (double x = -700; x > -752; x -= 0x1p-9) {
        const double want = exp(x), addend = stni_exp_addend_f64(x);
        wrong += fabs(stni_exp_f64(x) - want) > 4e-16 * want + 0x1p-1074;
        wrong += stni_exp_negative_f64(x) != stni_exp_f64(x);
        wrong += addend != (want < 0x1p-1021 ? 0 : stni_exp_f64(x)) && fabs(want * 0x1p1021 - 1) > 0.5;
    }
    CHECK_I64(wrong, 0);
    CHECK(stni_exp_f32(-103.9f) == 0x1p-149f && stni_exp_f32(-104) == 0);
    CHECK(stni_exp_f64(-745.1) == 0x1p-1074 && stni_exp_f64(-745.2) == 0);
    CHECK(stni_exp_addend_f32(-INFINITY) == 0 && stni_exp_addend_f64(-INFINITY) == 0);
    CHECK(stni_exp_addend_f32(0) == 1 && stni_exp_addend_f64(0) == 1);
    CHECK(isnan(stni_exp_addend_f32(NAN)) && isnan(stni_exp_addend_f64(NAN)));
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"forward_and_backward_match_the_formula", forward_and_backward_match_the_formula},
        {"lines_shared_by_four_ranks_match_the_formula", lines_shared_by_four_ranks_match_the_formula},
        {"instruction_sets_give_the_same_values", instruction_sets_give_the_same_values},
        {"lines_without_a_finite_element_are_nan_and_others_are_not",
         lines_without_a_finite_element_are_nan_and_others_are_not},
        {"logarithms_far_from_0_keep_their_digits", logarithms_far_from_0_keep_their_digits},
        {"logarithms_of_equal_elements_do_not_depend_on_them", logarithms_of_equal_elements_do_not_depend_on_them},
        {"results_past_the_caches_are_those_that_stay", results_past_the_caches_are_those_that_stay},
        {"exp_matches_the_c_library", exp_matches_the_c_library},
        {"small_exponentials_match_the_c_library", small_exponentials_match_the_c_library},
    };
    return TEST_MAIN(argc, argv, cases);
}
