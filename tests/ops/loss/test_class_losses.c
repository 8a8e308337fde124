/* nll_loss and cross_entropy: against plain loops, layouts against one process with second derivatives, what moves,
 * memory, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ops/loss/loss_suite.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>

/* n samples of c classes at k positions: (n, c, k), or (c) where n is 0. */
struct loss {
    int kind; /* 0 nll_loss, 1 cross_entropy, 2 that of probabilities */
    int64_t n, c, k;
    int weighted;
    int64_t ignore_index;
    stn_loss_reduction reduction;
    double smoothing;
};

static const struct loss losses[] = {
    {0, 5, 6, 3, 1, 2, STN_REDUCE_MEAN, 0},      {0, 4, 7, 1, 0, -100, STN_REDUCE_NONE, 0},    {0, 6, 3, 2, 1, 0, STN_REDUCE_SUM, 0},
    {0, 0, 5, 1, 1, -100, STN_REDUCE_MEAN, 0},   {1, 7, 5, 2, 1, 1, STN_REDUCE_MEAN, 0.3},     {1, 5, 4, 3, 1, 3, STN_REDUCE_NONE, 0.1},
    {1, 9, 4, 1, 0, -100, STN_REDUCE_SUM, 1},    {1, 0, 6, 1, 1, -100, STN_REDUCE_NONE, 0.2},  {2, 4, 6, 3, 1, -100, STN_REDUCE_MEAN, 0.25},
    {2, 3, 5, 2, 1, -100, STN_REDUCE_NONE, 0},   {2, 0, 7, 1, 0, -100, STN_REDUCE_MEAN, 0.1},  {2, 5, 3, 1, 0, -100, STN_REDUCE_SUM, 0},
    {0, 0, 4, 1, 0, -100, STN_REDUCE_NONE, 0},   {1, 3, 2, 4, 0, -100, STN_REDUCE_MEAN, 0.5},
    {1, 3, 4, 0, 1, -100, STN_REDUCE_SUM, 0.1},  {2, 3, 4, 0, 0, -100, STN_REDUCE_NONE, 0},    {0, 2, 5, 0, 0, -100, STN_REDUCE_NONE, 0},
};
enum { N_LOSSES = sizeof losses / sizeof *losses };

static struct random_shape input_shape(const struct loss *l)
{
    return l->n == 0   ? (struct random_shape){1, {l->c}}
           : l->k == 1 ? (struct random_shape){2, {l->n, l->c}}
                       : (struct random_shape){3, {l->n, l->c, l->k}};
}

static struct random_shape target_shape(const struct loss *l)
{
    if (l->kind == 2)
        return input_shape(l);
    return l->n == 0   ? (struct random_shape){0}
           : l->k == 1 ? (struct random_shape){1, {l->n}}
                       : (struct random_shape){2, {l->n, l->k}};
}

/* Weights are whole, since they have no gradient to be compared. */
static stn_tensor *call_loss(stn_tensor *const *in, const void *arg)
{
    const struct loss *l = arg;
    stn_tensor *weight = l->weighted ? stn_cast(in[2], stn_tensor_dtype(in[0])) : NULL;
    if (l->kind == 0)
        return stn_nll_loss(in[0], in[1], weight, l->ignore_index, l->reduction);
    return stn_cross_entropy(in[0], in[1], weight, l->ignore_index, l->reduction, l->smoothing);
}

static int64_t targets_of(const struct loss *l)
{
    return (l->n > 0 ? l->n : 1) * l->k;
}

/* Element (i, c, k) of the input is at (i C + c) K + k, target (i, k) at i K + k. */
static double log_p(const struct loss *l, const double *x, int64_t i, int64_t c, int64_t k)
{
    double total = 0;
    if (l->kind == 0)
        return x[(i * l->c + c) * l->k + k];
    for (int64_t j = 0; j < l->c; j++)
        total += exp(x[(i * l->c + j) * l->k + k]);
    return x[(i * l->c + c) * l->k + k] - log(total);
}

static double one_loss(const struct loss *l, double *const v[3], int64_t at, double *counted)
{
    const int64_t i = at / l->k, k = at % l->k;
    const double spread = l->smoothing / (double)l->c;
    double loss = 0;
    for (int64_t c = 0; c < l->c; c++) {
        double w = l->weighted ? v[2][c] : 1,
               p = l->kind == 2 ? v[1][(i * l->c + c) * l->k + k] : (double)(v[1][at] == (double)c);
        if (l->kind != 2 && v[1][at] == (double)l->ignore_index)
            continue;
        *counted += l->kind == 2 ? 1 / (double)l->c : p * w;
        loss -= w * (p * (1 - l->smoothing) + spread) * log_p(l, v[0], i, c, k);
    }
    return loss;
}

static void expect(int i, double *const v[3], double *out)
{
    const struct loss *l = &losses[i];
    double sum = 0, counted = 0;
    for (int64_t at = 0; at < targets_of(l); at++) {
        out[at] = one_loss(l, v, at, &counted);
        sum += out[at];
    }
    if (l->reduction != STN_REDUCE_NONE)
        out[0] = l->reduction == STN_REDUCE_SUM ? sum : sum / counted;
}

static void draw(int i, uint64_t *state, struct against_one_op *op, double *v[3])
{
    const struct loss *l = &losses[i];
    const struct random_shape shapes[] = {input_shape(l), target_shape(l), {1, {l->c}}};
    *op = (struct against_one_op){.call = call_loss, .arg = l, .n_in = 2 + l->weighted, .tolerance = 1e-12};
    for (int k = 0; k < op->n_in; k++) {
        const int whole = k == 2 || (k == 1 && l->kind != 2);
        const int64_t n = against_one_numel(&shapes[k]);
        v[k] = against_one_draw(state, n);
        for (int64_t e = 0; e < n && whole; e++)
            v[k][e] = k == 2 ? (double)(1 + e % 3) : (double)world_random(state, (uint64_t)l->c);
        op->in[k] = (struct against_one_input){whole ? STN_DTYPE_I64 : STN_DTYPE_F64, shapes[k], v[k],
                                               whole ? 0 : 1u << STN_SUM};
    }
}

static const struct loss_suite suite = {.n = N_LOSSES,
                                        .draw = draw,
                                        .expect = expect,
                                        .values_seed = 7,
                                        .layouts_seed = 3,
                                        .tolerance = 1e-13,
                                        .rounds = 5};

static void values_are_those_of_plain_loops_and_derivatives_those_of_differences(void)
{
    loss_suite_check_values(&suite);
}

static void random_layouts_give_what_one_process_gives(void)
{
    loss_suite_check_layouts(&suite);
}

static double class_of(int64_t i)
{
    return (double)(i * 7 % 11);
}

/* Classes cut over 3 ranks: a sum moves nothing and is pending, a mean all-reduces two numbers; the gradient lies as
 * the input. cross_entropy has log_softmax's two all-reduces of a number per target besides, and makes nothing
 * larger than a chunk. */
static stn_status moves_body(stn_context *context, void *arg)
{
    enum { N = 40, C = 11 };
    const int64_t x_shape[] = {N, C}, t_shape[] = {N}, sizes[] = {4, 0, 7}, *const uneven[] = {NULL, sizes};
    const stn_placement classes = stn_shard(1), everywhere = stn_replicate();
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &classes, STN_DTYPE_F32, 2, x_shape, uneven, test_value), *grad;
    stn_tensor *t =
        stn_cast(test_tensor(context, mesh, &everywhere, STN_DTYPE_F32, 1, t_shape, NULL, class_of), STN_DTYPE_I64);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    for (int mean = 0; mean < 2; mean++) {
        stn_context_stats_reset(context);
        stn_tensor *loss = stn_nll_loss(x, t, NULL, -100, mean ? STN_REDUCE_MEAN : STN_REDUCE_SUM);
        CHECK_I64(test_stats(context).collectives, mean);
        CHECK_I64(test_stats(context).redistributions, 0);
        CHECK_I64(stn_spec_placement(stn_tensor_spec(loss), 0).kind, mean ? STN_PLACE_REPLICATE : STN_PLACE_PARTIAL);
        CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 1, &x, 1, 0, &grad), STN_OK);
        CHECK(stn_tensor_spec(grad) == stn_tensor_spec(x));
        CHECK_I64(test_stats(context).redistributions, 0);
    }
    stn_cross_entropy(x, t, NULL, -100, STN_REDUCE_MEAN, 0.1);
    const int64_t before = test_stats(context).live_bytes, chunk = stn_spec_local_numel(stn_tensor_spec(x)) * 4;
    stn_context_stats_reset(context);
    stn_tensor *loss = stn_cross_entropy(x, t, NULL, -100, STN_REDUCE_MEAN, 0.1);
    CHECK_I64(test_stats(context).collectives, 3);
    CHECK(test_stats(context).peak_bytes - before <= chunk + 2 * N * 4 + 1024);
    CHECK(!stn_tensor_is_error(loss));
    return stn_scope_end(context);
}

static void cut_classes_stay_cut(void)
{
    test_ranks(3, moves_body, NULL);
}

/* Halves are summed in f32: 3000 times 1 / 4 and a mean of it. Targets of fewer bytes. */
static stn_status halves_body(stn_context *context, void *arg)
{
    static const struct random_shape x_shape = {2, {3000, 2}}, t_shape = {1, {3000}};
    static const stn_dtype dtypes[] = {STN_DTYPE_BF16, STN_DTYPE_F16}, whole[] = {STN_DTYPE_I32, STN_DTYPE_U8};
    static double x[6000], t[3000];
    double got;
    (void)arg;
    for (int i = 0; i < 6000; i++)
        x[i] = -0.25;
    stn_scope_begin(context);
    for (int i = 0; i < 2; i++) {
        stn_tensor *input = stn_cast(against_one_local(context, STN_DTYPE_F32, &x_shape, x), dtypes[i]);
        stn_tensor *target = stn_cast(against_one_local(context, STN_DTYPE_I64, &t_shape, t), whole[i]);
        stn_tensor *sum = stn_nll_loss(input, target, NULL, -100, STN_REDUCE_SUM),
                   *mean = stn_nll_loss(input, target, NULL, -100, STN_REDUCE_MEAN);
        CHECK_I64(stn_tensor_dtype(sum), dtypes[i]);
        test_read(stn_cast(sum, STN_DTYPE_F64), &got, 1);
        CHECK_NEAR(got, 750, 2);
        test_read(stn_cast(mean, STN_DTYPE_F64), &got, 1);
        CHECK_NEAR(got, 0.25, 0);
    }
    return stn_scope_end(context);
}

static void halves_are_summed_wide(void)
{
    test_ranks(1, halves_body, NULL);
}

/* A target that is no class counts as ignored, and all ranks are told of it. */
static stn_status bad_target_body(stn_context *context, void *arg)
{
    const int64_t x_shape[] = {4, 5}, t_shape[] = {4};
    const stn_placement rows = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    double got;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, x_shape, NULL, test_value);
    stn_tensor *t = stn_cast(test_tensor(context, mesh, &rows, STN_DTYPE_F64, 1, t_shape, NULL, class_of), STN_DTYPE_I64); /* 0 7 3 10 */
    test_read(stn_nll_loss(x, t, NULL, -100, STN_REDUCE_MEAN), &got, 1);
    CHECK_NEAR(got, -(test_value(0) + test_value(2 * 5 + 3)) / 2, 1e-15);
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
    char text[512];
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_VALUE);
    CHECK_STR(text, "rank 0: nll_loss: target 7 at (1) is outside 0 … 4");
    return stn_scope_end(context);
}

enum { FAR_N = 3, FAR_C = 5 };

/* In f64 and relative to `far`, from which all numbers are small. */
static double far_loss(const double *x, const int64_t *target, double far, double *gradient)
{
    double loss = 0;
    for (int i = 0; i < FAR_N; i++) {
        double sum = 0;
        for (int c = 0; c < FAR_C; c++)
            sum += exp(x[FAR_C * i + c] - far);
        loss += log(sum) - (x[FAR_C * i + target[i]] - far);
        for (int c = 0; c < FAR_C; c++)
            gradient[FAR_C * i + c] = exp(x[FAR_C * i + c] - far) / sum - (c == target[i]);
    }
    return loss;
}

static void check_far(stn_context *context, stn_dtype dtype, stn_placement placement, double far)
{
    static const int64_t shape[] = {FAR_N, FAR_C}, target[FAR_N] = {1, 4, 0};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement whole = stn_replicate();
    const double eps = dtype == STN_DTYPE_F64 ? 0x1p-52 : 0x1p-23;
    const stn_spec *wide, *index;
    double x[FAR_N * FAR_C], gradient[FAR_N * FAR_C], got[FAR_N * FAR_C], loss;
    stn_tensor *g;
    for (int i = 0; i < FAR_N * FAR_C; i++)
        x[i] = far + (i * 7 % 5) * 0.25; /* exact in f32 */
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, mesh, &placement, STN_DTYPE_F64, 2, shape, NULL, &wide), STN_OK);
    CHECK_STATUS(stn_spec_create(context, mesh, &whole, STN_DTYPE_I64, 1, shape, NULL, &index), STN_OK);
    stn_tensor *in = stn_detach(stn_cast(stn_from_host_global(context, wide, x), dtype));
    CHECK_STATUS(stn_set_requires_grad(in, 1), STN_OK);
    stn_tensor *y = stn_cross_entropy(in, stn_from_host_global(context, index, target), NULL, -100, STN_REDUCE_SUM, 0);
    CHECK_STATUS(stn_backward(y), STN_OK);
    CHECK_STATUS(stn_grad_of(in, &g), STN_OK);
    stn_item(stn_cast(stn_detach(y), STN_DTYPE_F64), &loss);
    CHECK_NEAR(loss, far_loss(x, target, far, gradient), 4 * eps);
    test_read(stn_cast(g, STN_DTYPE_F64), got, FAR_N * FAR_C);
    for (int i = 0; i < FAR_N * FAR_C; i++)
        CHECK_NEAR(2 + got[i], 2 + gradient[i], 4 * eps); /* within 4 eps of a number below 1 */
    stn_spec_release(&wide);
    stn_spec_release(&index);
    CHECK_STATUS(stn_scope_end(context), STN_OK);
}

static stn_status far_body(stn_context *context, void *arg)
{
    static const double far[] = {1e3, -1e4, 1e6};
    (void)arg;
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < 2; d++)
            for (int cut = 0; cut < 3; cut++)
                check_far(context, d ? STN_DTYPE_F64 : STN_DTYPE_F32, cut ? stn_shard(cut - 1) : stn_replicate(),
                          far[i]);
    return STN_OK;
}

static void losses_and_gradients_far_from_0_keep_their_digits(void)
{
    test_worlds(far_body, NULL);
}

static void a_target_that_is_no_class_is_a_value_error(void)
{
    test_ranks(2, bad_target_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const double zeros[16];
    char text[512];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){2, {3, 4}}, zeros);
    stn_tensor *t = against_one_local(context, STN_DTYPE_I64, &(struct random_shape){1, {3}}, zeros);
    stn_tensor *w = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){1, {3}}, zeros);
    CHECK(stn_tensor_is_error(stn_nll_loss(x, w, NULL, -100, STN_REDUCE_MEAN)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_DTYPE);
    CHECK_STR(text, "nll_loss: 'target' got f32, wanted i64, i32 or u8");
    CHECK(stn_tensor_is_error(stn_nll_loss(x, stn_unsqueeze(t, 1), NULL, -100, STN_REDUCE_MEAN)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "nll_loss: 'target' got shape (3, 1), wanted (3), input's without the classes");
    CHECK(stn_tensor_is_error(stn_cross_entropy(x, t, w, -100, STN_REDUCE_MEAN, 0)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "cross_entropy: 'weight' got shape (3), wanted (4)");
    CHECK(stn_tensor_is_error(stn_cross_entropy(x, t, NULL, -100, STN_REDUCE_MEAN, 1.5)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "cross_entropy: 'label_smoothing' got 1.5, wanted 0 to 1");
    CHECK(stn_tensor_is_error(stn_nll_loss(x, t, NULL, -100, STN_REDUCE_BATCHMEAN)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "nll_loss: 'reduction' got 3, wanted mean, none or sum");
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
        {"cut_classes_stay_cut", cut_classes_stay_cut},
        {"losses_and_gradients_far_from_0_keep_their_digits", losses_and_gradients_far_from_0_keep_their_digits},
        {"halves_are_summed_wide", halves_are_summed_wide},
        {"a_target_that_is_no_class_is_a_value_error", a_target_that_is_no_class_is_a_value_error},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
