/* Norms of long lines and of large tensors beside the formula in f64: blocks of a line and what is left over,
 * numbers that f32 has no room to square, results past the caches. */
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

/* y = (x - mean) / sqrt(var + eps) * weight + bias over `n_groups` runs of `length`; element i of a run of group g
 * has parameter (g length + i) / inner % params. `slack` per group: what the rounding of its mean and of the result
 * may cost. */
struct norm_case {
    struct random_shape shape;
    int64_t n_groups, length, inner, params;
    double eps;
};

static void want_norm(const struct norm_case *c, const float *x, const double *weight, const double *bias, double *y,
                      double *slack)
{
    for (int64_t g = 0; g < c->n_groups; g++) {
        const float *v = x + g * c->length;
        double mean = 0, square = 0;
        for (int64_t i = 0; i < c->length; i++)
            mean += v[i] / (double)c->length;
        for (int64_t i = 0; i < c->length; i++)
            square += (v[i] - mean) * (v[i] - mean) / (double)c->length;
        double rstd = 1 / sqrt(square + c->eps);
        slack[g] = 0x1p-24 * fabs(mean) * rstd;
        for (int64_t i = 0; i < c->length; i++) {
            int64_t at = g * c->length + i, p = at / c->inner % c->params;
            y[at] = (v[i] - mean) * rstd * (weight ? weight[p] : 1) + (bias ? bias[p] : 0);
        }
    }
}

static int64_t count_wrong(const struct norm_case *c, const double *got, const double *want, const double *slack)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < c->n_groups * c->length; i++)
        wrong += isnan(want[i])
                     ? !isnan(got[i])
                     : !(fabs(got[i] - want[i]) <= 2 * slack[i / c->length] + 0x1p-20 * (fabs(want[i]) + 0.5));
    return wrong;
}

/* How the elements of a line go. */
enum kind { FAR, OUTLIERS, STEP, PERIOD, LARGE, TINY, CONSTANT, NAN_LAST, INFINITE, KINDS };

static float line_value(enum kind kind, int64_t i, int64_t n)
{
    double r = test_value(i * 7 + kind);
    switch (kind) {
    case FAR: return (float)(3000 + r);
    case OUTLIERS: return (float)(i < 9 ? 1e6 : r);
    case STEP: return (float)(i < n / 2 ? r : 500 + r);
    case PERIOD: return (float)(i % 32);
    case LARGE: return (float)(1e25 * r);
    case TINY: return (float)(1e-22 * r);
    case CONSTANT: return 0.7f;
    case NAN_LAST: return i == n - 1 ? NAN : (float)r;
    case INFINITE: return i == n / 3 ? INFINITY : (float)r;
    case KINDS: break;
    }
    return 0;
}

static void check_lines(stn_context *context, int64_t n)
{
    double *x = malloc((size_t)n * KINDS * sizeof *x), *want = malloc((size_t)n * KINDS * sizeof *want), slack[KINDS];
    float *f = malloc((size_t)n * KINDS * sizeof *f);
    const struct norm_case c = {
        .shape = {2, {KINDS, n}}, .n_groups = KINDS, .length = n, .inner = 1, .params = n, .eps = 1e-60};
    for (int k = 0; k < KINDS; k++)
        for (int64_t i = 0; i < n; i++)
            x[k * n + i] = f[k * n + i] = line_value((enum kind)k, i, n);
    stn_scope_begin(context);
    stn_tensor *y = stn_layer_norm(against_one_local(context, STN_DTYPE_F32, &c.shape, x), 1, &n, NULL, NULL, c.eps);
    test_read(y, x, n * KINDS);
    want_norm(&c, f, NULL, NULL, want, slack);
    for (int64_t i = 0; i < n; i++) { /* nothing varies: rounding is all there is to see */
        CHECK(x[CONSTANT * n + i] == 0);
        x[CONSTANT * n + i] = want[CONSTANT * n + i];
    }
    CHECK_I64(count_wrong(&c, x, want, slack), 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    free(x), free(want), free(f);
}

static stn_status lines_body(stn_context *context, void *arg)
{
    static const int64_t sizes[] = {50, 255, 256, 257, 1024, 2048, 2049, 2303, 2304, 5000};
    (void)arg;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_lines(context, sizes[i]);
    return STN_OK;
}

static void lines_of_any_length_and_range_are_normalised_as_in_f64(void)
{
    test_ranks(1, lines_body, NULL);
}

/* Over 8 MiB of f32 each. `last`: dims of layer_norm; 0: groups. */
static const struct large {
    struct norm_case c;
    int last, channels_last;
} larges[] = {
    {{{2, {4001, 529}}, 4001, 529, 1, 529, 0.1}, 1, 0},           {{{2, {70001, 31}}, 70001, 31, 1, 31, 0.1}, 1, 0},
    {{{2, {3, 700003}}, 3, 700003, 1, 700003, 0.1}, 1, 0},        {{{4, {2, 16, 300, 250}}, 8, 300000, 75000, 16, 0.1}, 0, 0},
    {{{4, {2, 16, 300, 250}}, 8, 300000, 75000, 16, 0.1}, 0, 1},  {{{3, {300, 64, 125}}, 9600, 250, 125, 64, 0.1}, 0, 0},
    {{{3, {1, 64, 40000}}, 32, 80000, 40000, 64, 0.1}, 0, 0},
};

static stn_tensor *call_large(stn_context *context, const struct large *l, const float *values, stn_tensor *weight,
                              stn_tensor *bias)
{
    static const int order[] = {0, 2, 3, 1};
    const struct random_shape *s = &l->c.shape;
    const stn_spec_options options = {.size = sizeof options, .memory_order = order};
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, s->ndim, s->shape,
                                 l->channels_last ? &options : NULL, &spec),
                 STN_OK);
    stn_tensor *x = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    return l->last ? stn_layer_norm(x, l->last, s->shape + s->ndim - l->last, weight, bias, l->c.eps)
                   : stn_group_norm(x, l->c.n_groups / s->shape[0], weight, bias, l->c.eps);
}

enum { WEIGHT = 1, BIAS = 2 };

static void check_large(stn_context *context, const struct large *l, int params_given)
{
    const int64_t n = against_one_numel(&l->c.shape);
    const struct random_shape params = {1, {l->c.params}};
    double *x = malloc((size_t)n * sizeof *x), *want = malloc((size_t)n * sizeof *want),
           *slack = malloc((size_t)l->c.n_groups * sizeof *slack);
    double *w = malloc((size_t)l->c.params * sizeof *w);
    float *f = malloc((size_t)n * sizeof *f);
    for (int64_t i = 0; i < n; i++)
        f[i] = (float)(test_value(i) + (double)(i % 911) / 300);
    for (int64_t i = 0; i < l->c.params; i++)
        w[i] = 1 + (double)(i % 13) / 16;
    stn_scope_begin(context);
    stn_tensor *p = params_given ? against_one_local(context, STN_DTYPE_F32, &params, w) : NULL;
    test_read(call_large(context, l, f, params_given & WEIGHT ? p : NULL, params_given & BIAS ? p : NULL), x, n);
    want_norm(&l->c, f, params_given & WEIGHT ? w : NULL, params_given & BIAS ? w : NULL, want, slack);
    CHECK_I64(count_wrong(&l->c, x, want, slack), 0);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
    free(x), free(want), free(slack), free(w), free(f);
}

static stn_status large_body(stn_context *context, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < sizeof larges / sizeof *larges; i++)
        check_large(context, &larges[i], i % 2 == 0 ? WEIGHT | BIAS : 0);
    check_large(context, &larges[0], WEIGHT);
    check_large(context, &larges[1], BIAS);
    check_large(context, &larges[3], WEIGHT | BIAS);
    check_large(context, &larges[5], WEIGHT | BIAS);
    return STN_OK;
}

static void results_past_the_caches_are_whole(void)
{
    test_ranks(1, large_body, NULL);
}

/* Gradients of x, written past the caches, are to the bit those of halves, which are not. */
static stn_status gradients_body(stn_context *context, void *arg)
{
    enum { ROWS = 2050, COLS = 1024, HALF = ROWS / 2 };
    const struct random_shape shape = {2, {ROWS, COLS}}, line = {1, {COLS}};
    double *values = against_one_draw(&(uint64_t){7}, ROWS * COLS), *whole = malloc(sizeof(double) * ROWS * COLS);
    double *half = malloc(sizeof(double) * HALF * COLS);
    const int64_t width[] = {COLS};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &shape, values);
    stn_tensor *w = against_one_local(context, STN_DTYPE_F32, &line, values), *grad = NULL, *y;
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    y = stn_layer_norm(x, 1, width, w, NULL, 1e-5);
    stn_tensor *cotangents = stn_square(stn_detach(x));
    CHECK_STATUS(stn_grad(context, 1, &y, &cotangents, 1, &x, 1, 0, &grad), STN_OK);
    test_read(grad, whole, ROWS * COLS);
    for (int i = 0; i < 2; i++) {
        stn_tensor *rows = stn_slice(stn_detach(x), 0, i * HALF, (i + 1) * HALF, 1), *of_part = NULL;
        stn_tensor *part = stn_detach(stn_add_number(rows, 0)), *cotangent = stn_square(rows);
        CHECK_STATUS(stn_set_requires_grad(part, 1), STN_OK);
        y = stn_layer_norm(part, 1, width, w, NULL, 1e-5);
        CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 1, &part, 1, 0, &of_part), STN_OK);
        test_read(of_part, half, HALF * COLS);
        CHECK_BYTES(half, whole + i * HALF * COLS, sizeof(double) * HALF * COLS);
    }
    free(half);
    free(whole);
    free(values);
    return stn_scope_end(context);
}

static void gradients_past_the_caches_are_whole(void)
{
    test_ranks(1, gradients_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"lines_of_any_length_and_range_are_normalised_as_in_f64",
         lines_of_any_length_and_range_are_normalised_as_in_f64},
        {"results_past_the_caches_are_whole", results_past_the_caches_are_whole},
        {"gradients_past_the_caches_are_whole", gradients_past_the_caches_are_whole},
    };
    return TEST_MAIN(argc, argv, cases);
}
