/* The binary cross entropies, kl_div, the likelihoods of Gauss and Poisson, and losses of margins: against plain loops,
 * layouts against one process with second derivatives, arguments at the ends, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ops/loss/loss_suite.h"
#include "ranks.h"

#include <math.h>

enum kind { BCE, LOGITS, KL, GAUSSIAN, TRIPLET, POISSON, SOFT_MARGIN, HINGE };

struct loss {
    enum kind kind;
    stn_loss_reduction reduction;
    int option; /* log_target, full, swap; of POISSON bit 0 log_input, bit 1 full */
    double p;   /* of distances */
    struct random_shape x, y, z, w; /* z: var, negative; pos_weight is seen as w's last dim */
};

static const struct loss losses[] = {
    {BCE, STN_REDUCE_MEAN, 0, 0, {2, {4, 5}}, {2, {4, 5}}, {0}, {1, {5}}},
    {BCE, STN_REDUCE_NONE, 0, 0, {3, {2, 3, 4}}, {3, {2, 3, 4}}, {0}, {0}},
    {LOGITS, STN_REDUCE_MEAN, 1, 0, {3, {3, 2, 5}}, {3, {3, 2, 5}}, {0}, {2, {1, 5}}},
    {LOGITS, STN_REDUCE_SUM, 0, 0, {1, {9}}, {1, {9}}, {0}, {1, {9}}},
    {KL, STN_REDUCE_BATCHMEAN, 0, 0, {2, {6, 5}}, {2, {6, 5}}, {0}, {0}},
    {KL, STN_REDUCE_MEAN, 1, 0, {2, {6, 5}}, {1, {5}}, {0}, {0}},
    {GAUSSIAN, STN_REDUCE_MEAN, 1, 0, {2, {4, 6}}, {2, {4, 6}}, {1, {4}}, {0}},
    {GAUSSIAN, STN_REDUCE_NONE, 0, 0, {3, {2, 3, 5}}, {3, {2, 3, 5}}, {3, {2, 3, 1}}, {0}},
    {GAUSSIAN, STN_REDUCE_SUM, 0, 0, {2, {3, 4}}, {2, {3, 4}}, {2, {3, 4}}, {0}},
    {TRIPLET, STN_REDUCE_NONE, 0, 2, {2, {7, 4}}, {2, {7, 4}}, {2, {7, 4}}, {0}},
    {TRIPLET, STN_REDUCE_MEAN, 1, 3, {2, {6, 5}}, {2, {1, 5}}, {2, {6, 5}}, {0}},
    {TRIPLET, STN_REDUCE_SUM, 1, 2, {1, {5}}, {1, {5}}, {1, {5}}, {0}},
    {POISSON, STN_REDUCE_MEAN, 3, 0, {2, {5, 4}}, {2, {5, 4}}, {0}, {0}},
    {POISSON, STN_REDUCE_NONE, 2, 0, {2, {3, 4}}, {2, {3, 4}}, {0}, {0}},
    {POISSON, STN_REDUCE_SUM, 0, 0, {1, {7}}, {1, {7}}, {0}, {0}},
    {SOFT_MARGIN, STN_REDUCE_NONE, 0, 0, {2, {3, 4}}, {2, {3, 4}}, {0}, {0}},
    {HINGE, STN_REDUCE_MEAN, 0, 0, {2, {6, 4}}, {2, {6, 4}}, {0}, {0}},
};
enum { N_LOSSES = sizeof losses / sizeof *losses, MARGIN = 2 };
static const double EPS = 0.001, HINGE_MARGIN = 0.3;

static int has_z(const struct loss *l)
{
    return l->kind == GAUSSIAN || l->kind == TRIPLET;
}

static int has_weight(const struct loss *l)
{
    return l->w.ndim > 0;
}

/* What makes any numbers between -1 and 1 operands. */
static stn_tensor *probability(stn_tensor *t)
{
    return stn_add_number(stn_mul_number(t, 0.45), 0.5);
}

static stn_tensor *variance(stn_tensor *t)
{
    return stn_add_number(t, 1.5);
}

static stn_tensor *call_loss(stn_tensor *const *in, const void *arg)
{
    const struct loss *l = arg;
    stn_tensor *last = has_weight(l) ? stn_cast(in[2], STN_DTYPE_F64) : NULL;
    switch (l->kind) {
    case BCE: return stn_binary_cross_entropy(probability(in[0]), probability(in[1]), last, l->reduction);
    case LOGITS:
        return stn_binary_cross_entropy_with_logits(stn_mul_number(in[0], 4), probability(in[1]), last,
                                                    l->option ? last : NULL, l->reduction);
    case KL: return stn_kl_div(in[0], l->option ? in[1] : probability(in[1]), l->reduction, l->option);
    case GAUSSIAN: return stn_gaussian_nll_loss(in[0], in[1], variance(in[2]), l->option, EPS, l->reduction);
    case POISSON:
        return stn_poisson_nll_loss(l->option & 1 ? in[0] : probability(in[0]), stn_mul_number(probability(in[1]), 4),
                                    l->option & 1, l->option & 2, EPS, l->reduction);
    case SOFT_MARGIN: return stn_soft_margin_loss(in[0], in[1], l->reduction);
    case HINGE: return stn_hinge_embedding_loss(in[0], in[1], HINGE_MARGIN, l->reduction);
    case TRIPLET: return stn_triplet_margin_loss(in[0], in[1], in[2], MARGIN, l->p, EPS, l->option, l->reduction);
    }
    return NULL;
}

/* Where element `at` of `whole` is in a tensor that broadcasts to it, or lacks its last dim. */
static double seen(const struct random_shape *s, const double *v, const struct random_shape *whole, int64_t at)
{
    const int lacks_last =
        s->ndim == whole->ndim - 1 && s->ndim > 0 && s->shape[s->ndim - 1] != whole->shape[whole->ndim - 1];
    int64_t index = 0, step = 1;
    if (lacks_last)
        return v[at / whole->shape[whole->ndim - 1]];
    for (int d = whole->ndim - 1; d >= 0; at /= whole->shape[d--]) {
        const int own = d - (whole->ndim - s->ndim);
        if (own < 0)
            continue;
        index += s->shape[own] == 1 ? 0 : at % whole->shape[d] * step;
        step *= s->shape[own];
    }
    return v[index];
}

static double element_loss(const struct loss *l, double *const v[3], int64_t at)
{
    const double x = v[0][at], y = seen(&l->y, v[1], &l->x, at), p = 0.5 + 0.45 * x, q = 0.5 + 0.45 * y,
                 s = 1 / (1 + exp(-4 * x));
    const double w = has_weight(l) ? seen(&l->w, v[2], &l->x, at) : 1,
                 u = has_z(l) ? seen(&l->z, v[2], &l->x, at) + 1.5 : 0;
    switch (l->kind) {
    case BCE: return -w * (q * log(p) + (1 - q) * log(1 - p));
    case LOGITS: return -w * ((l->option ? w : 1) * q * log(s) + (1 - q) * log(1 - s));
    case KL: return l->option ? exp(y) * (y - x) : q * (log(q) - x);
    case GAUSSIAN: return (log(u) + (x - y) * (x - y) / u) / 2 + (l->option ? log(2 * acos(-1)) / 2 : 0);
    case POISSON:
        return (l->option & 1 ? exp(x) - 4 * q * x : p - 4 * q * log(p + EPS)) +
               (l->option & 2 && 4 * q > 1 ? 4 * q * log(4 * q) - 4 * q + log(8 * acos(-1) * q) / 2 : 0);
    case SOFT_MARGIN: return log(1 + exp(-x * y));
    case HINGE: return y > 0 ? x : fmax(HINGE_MARGIN - x, 0);
    case TRIPLET: break;
    }
    return NAN;
}

static double distance(const struct loss *l, const struct random_shape *a, const double *x,
                       const struct random_shape *b, const double *y, int64_t row)
{
    const int64_t cols = l->x.shape[l->x.ndim - 1];
    double sum = 0;
    for (int64_t c = 0; c < cols; c++)
        sum += pow(fabs(seen(a, x, &l->x, row * cols + c) - seen(b, y, &l->x, row * cols + c) + EPS), l->p);
    return pow(sum, 1 / l->p);
}

static double row_loss(const struct loss *l, double *const v[3], int64_t row)
{
    const double near = distance(l, &l->x, v[0], &l->y, v[1], row), far = distance(l, &l->x, v[0], &l->z, v[2], row);
    const double swapped = l->option ? distance(l, &l->y, v[1], &l->z, v[2], row) : far;
    return fmax(near - fmin(far, swapped) + MARGIN, 0);
}

static void expect(int i, double *const v[3], double *out)
{
    const struct loss *l = &losses[i];
    int64_t n = against_one_numel(&l->x);
    double sum = 0;
    if (l->kind == TRIPLET)
        n /= l->x.shape[l->x.ndim - 1];
    for (int64_t at = 0; at < n; at++)
        sum += out[at] = l->kind == TRIPLET ? row_loss(l, v, at) : element_loss(l, v, at);
    if (l->reduction == STN_REDUCE_MEAN)
        out[0] = sum / (double)n;
    else if (l->reduction != STN_REDUCE_NONE)
        out[0] = l->reduction == STN_REDUCE_SUM ? sum : sum / (double)l->x.shape[0];
}

static void draw(int i, uint64_t *state, struct against_one_op *op, double *v[3])
{
    const struct loss *l = &losses[i];
    const struct random_shape *shapes[] = {&l->x, &l->y, has_z(l) ? &l->z : &l->w};
    *op = (struct against_one_op){.call = call_loss, .arg = l, .n_in = 2 + (has_z(l) || has_weight(l)), .tolerance = 1e-11};
    for (int k = 0; k < op->n_in; k++) {
        const int64_t n = against_one_numel(shapes[k]);
        v[k] = against_one_draw(state, n);
        for (int64_t e = 0; e < n && k == 2 && has_weight(l); e++)
            v[k][e] = (double)(1 + e % 3); /* whole, since a weight has no gradient to be compared */
        for (int64_t e = 0; e < n && k == 1 && l->kind == HINGE; e++)
            v[k][e] = v[k][e] > 0 ? 1 : -1;
        const int whole = (k == 2 && has_weight(l)) || (k == 1 && l->kind == HINGE);
        op->in[k] = (struct against_one_input){whole ? STN_DTYPE_I64 : STN_DTYPE_F64, *shapes[k], v[k],
                                               whole ? 0 : 1u << STN_SUM};
    }
}

static const struct loss_suite suite = {.n = N_LOSSES,
                                        .draw = draw,
                                        .expect = expect,
                                        .values_seed = 29,
                                        .layouts_seed = 31,
                                        .tolerance = 1e-12,
                                        .rounds = 4};

static void values_are_those_of_plain_loops_and_derivatives_those_of_differences(void)
{
    loss_suite_check_values(&suite);
}

static void random_layouts_give_what_one_process_gives(void)
{
    loss_suite_check_layouts(&suite);
}

/* Logarithms of 0 count as -100, large logits keep their digits, a target of 0 has no divergence, and a variance below
 * eps counts as eps, its gradient too. In f32, whose functions are the library's own. */
static stn_status ends_body(stn_context *context, void *arg)
{
    static const struct random_shape two = {1, {2}}, one = {1, {1}};
    const double want[][2] = {{100, 0}, {1000, 0}, {0, log(0.5) / 2 + 0.5}};
    double got[2];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *ones = against_one_local(context, STN_DTYPE_F32, &two, (double[]){1, 1}), *grad;
    stn_tensor *sure = against_one_local(context, STN_DTYPE_F32, &two, (double[]){0, 1});
    stn_tensor *large = against_one_local(context, STN_DTYPE_F32, &two, (double[]){-1000, 1000});
    stn_tensor *half = against_one_local(context, STN_DTYPE_F32, &two, (double[]){0, 0.5});
    stn_tensor *minus = against_one_local(context, STN_DTYPE_F32, &two, (double[]){-1, -1});
    stn_tensor *results[] = {stn_binary_cross_entropy(sure, ones, NULL, STN_REDUCE_NONE),
                             stn_binary_cross_entropy_with_logits(large, ones, NULL, NULL, STN_REDUCE_NONE),
                             stn_kl_div(minus, half, STN_REDUCE_NONE, 0)};
    for (int i = 0; i < 3; i++) {
        test_read(results[i], got, 2);
        for (int k = 0; k < 2; k++)
            CHECK_NEAR(got[k], want[i][k], 1e-6 * fabs(want[i][k]));
    }
    stn_tensor *var = against_one_local(context, STN_DTYPE_F32, &one, (double[]){1e-9}),
               *x = against_one_local(context, STN_DTYPE_F32, &one, (double[]){0});
    CHECK_STATUS(stn_set_requires_grad(var, 1), STN_OK);
    stn_tensor *loss = stn_gaussian_nll_loss(x, x, var, 0, 1e-2, STN_REDUCE_MEAN);
    test_read(loss, got, 1);
    CHECK_NEAR(got[0], log(1e-2) / 2, 1e-6);
    CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &var, 0, 0, &grad), STN_OK);
    test_read(grad, got, 1);
    CHECK_NEAR(got[0], 50, 1e-4);
    return stn_scope_end(context);
}

static void ends_are_finite(void)
{
    test_ranks(1, ends_body, NULL);
}

/* What is left out of Poisson's likelihood counts for nothing, infinite as it may be; NaN is no margin that is kept. */
static stn_status left_out_body(stn_context *context, void *arg)
{
    const struct random_shape two = {1, {2}};
    const double want[] = {-1e38, exp(0.5) - 0.5};
    double got[2];
    stn_tensor *grad;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &two, (double[]){1, 0.5}),
               *y = against_one_local(context, STN_DTYPE_F32, &two, (double[]){1e38, 1}),
               *nan = against_one_local(context, STN_DTYPE_F32, &two, (double[]){(double)NAN, 0.25}),
               *minus = against_one_local(context, STN_DTYPE_F32, &two, (double[]){-1, -1});
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    CHECK_STATUS(stn_set_requires_grad(y, 1), STN_OK);
    stn_tensor *loss = stn_poisson_nll_loss(x, y, 1, 0, 1e-8, STN_REDUCE_NONE), *sum = stn_sum(loss, 0, NULL, 0);
    test_read(loss, got, 2);
    for (int k = 0; k < 2; k++)
        CHECK_NEAR(got[k], want[k], 1e-6 * fabs(want[k]));
    CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, &y, 0, 0, &grad), STN_OK);
    test_read(grad, got, 2);
    CHECK(got[0] == -1 && got[1] == -0.5);
    test_read(stn_poisson_nll_loss(x, y, 1, 1, 1e-8, STN_REDUCE_NONE), got, 2);
    CHECK(isinf(got[0]));
    test_read(stn_hinge_embedding_loss(nan, minus, 1, STN_REDUCE_NONE), got, 2);
    CHECK(isnan(got[0]) && got[1] == 0.75);
    return stn_scope_end(context);
}

static void what_is_left_out_counts_for_nothing_and_nan_stays(void)
{
    test_ranks(1, left_out_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const double zeros[8];
    char text[512];
    stn_tensor *grad;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){1, {3}}, zeros);
    stn_tensor *y = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){2, {2, 3}}, zeros);
    CHECK(stn_tensor_is_error(stn_binary_cross_entropy(x, y, NULL, STN_REDUCE_MEAN)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "binary_cross_entropy: 'target' got shape (2, 3), wanted input's (3)");
    CHECK(stn_tensor_is_error(stn_binary_cross_entropy(x, x, NULL, STN_REDUCE_BATCHMEAN)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "binary_cross_entropy: 'reduction' got 3, wanted 0 to 2");
    CHECK(stn_tensor_is_error(stn_gaussian_nll_loss(x, x, x, 0, 0, STN_REDUCE_MEAN)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "gaussian_nll_loss: 'eps' got 0, wanted more than 0");
    CHECK(stn_tensor_is_error(stn_triplet_margin_loss(x, y, x, 1, 2, 1e-6, 0, STN_REDUCE_MEAN)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "triplet_margin_loss: 'positive' got 2 dims, wanted as many as 'anchor', at least 1");
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *loss = stn_kl_div(x, x, STN_REDUCE_SUM, 1);
    for (int order = 0; order < 3; order++) {
        CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 1, 1, &grad), order < 2 ? STN_OK : STN_ERR_UNSUPPORTED);
        loss = order < 2 ? stn_sum(grad, 0, NULL, 0) : loss;
    }
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_UNSUPPORTED);
    CHECK_STR(text, "loss_backward: third derivatives of this loss were asked for, wanted at most second ones");
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"values_are_those_of_plain_loops_and_derivatives_those_of_differences",
         values_are_those_of_plain_loops_and_derivatives_those_of_differences},
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"ends_are_finite", ends_are_finite},
        {"what_is_left_out_counts_for_nothing_and_nan_stays", what_is_left_out_counts_for_nothing_and_nan_stays},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
