/* Losses: layouts against one process with second derivatives, what moves, 16 bits, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

struct loss {
    int kind; /* 0 mse, 1 huber, 2 smooth l1 */
    stn_loss_reduction reduction;
    struct random_shape x, y, w;
};

static const struct loss losses[] = {
    {0, STN_REDUCE_MEAN, {3, {4, 5, 3}}, {3, {4, 5, 3}}, {3, {1, 5, 1}}},  {0, STN_REDUCE_MEAN, {2, {7, 6}}, {2, {7, 6}}, {0}},
    {0, STN_REDUCE_NONE, {2, {3, 5}}, {3, {2, 1, 5}}, {1, {5}}},           {0, STN_REDUCE_SUM, {1, {9}}, {2, {4, 9}}, {0}},
    {0, STN_REDUCE_MEAN, {4, {2, 3, 1, 4}}, {3, {3, 5, 1}}, {2, {5, 4}}},  {1, STN_REDUCE_MEAN, {2, {6, 7}}, {2, {6, 7}}, {1, {7}}},
    {2, STN_REDUCE_SUM, {2, {6, 7}}, {2, {6, 7}}, {0}},                    {0, STN_REDUCE_SUM, {2, {0, 7}}, {2, {0, 7}}, {0}},
};
enum { N_LOSSES = sizeof losses / sizeof *losses };

static int has_weight(const struct loss *l)
{
    return l->w.ndim > 0;
}

static stn_tensor *call_loss(stn_tensor *const *in, const void *arg)
{
    const struct loss *l = arg;
    stn_tensor *w = has_weight(l) ? stn_cast(in[2], STN_DTYPE_F64) : NULL;
    if (l->kind == 0)
        return stn_mse_loss(in[0], in[1], w, l->reduction);
    return l->kind == 1 ? stn_huber_loss(in[0], in[1], w, l->reduction, 0.5)
                        : stn_smooth_l1_loss(in[0], in[1], l->reduction, 0.5);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 3;
    (void)arg;
    for (int round = 0; round < test_draws(6); round++)
        for (int i = 0; i < N_LOSSES; i++) {
            const struct loss *l = &losses[i];
            const struct random_shape *shapes[] = {&l->x, &l->y, &l->w};
            struct against_one_op op = {.call = call_loss, .arg = l, .n_in = 2 + has_weight(l), .tolerance = 1e-12};
            double *v[3];
            for (int k = 0; k < op.n_in; k++) {
                int64_t n = against_one_numel(shapes[k]);
                v[k] = against_one_draw(&state, n);
                for (int64_t e = 0; k == 2 && e < n; e++)
                    v[k][e] = (double)(1 + e % 3); /* whole, since a weight has no gradient */
                op.in[k] = (struct against_one_input){k == 2 ? STN_DTYPE_I64 : STN_DTYPE_F64, *shapes[k], v[k],
                                                      k == 2 ? 0 : 1u << STN_SUM};
            }
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round == 0 && l->kind == 0)
                against_one_differences(context, &state, &op);
            for (int k = 0; k < op.n_in; k++)
                free(v[k]);
        }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

/* A mean is pending and has moved nothing; a weighted one has all-reduced two numbers, and is what its definition
 * says. */
static stn_status moves_body(stn_context *context, void *arg)
{
    enum { ROWS = 7, COLS = 4 };
    const int64_t x[] = {ROWS, COLS}, w[] = {ROWS, 1}, sizes[] = {5, 0, 2}, *const uneven[] = {sizes, NULL};
    const stn_placement rows = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    double got, want[2] = {0, 0};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *input = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, x, uneven, test_value);
    stn_tensor *zero = stn_mul_number(input, 0),
               *weight = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, w, uneven, test_value);
    for (int weighted = 0; weighted < 2; weighted++) {
        stn_stats stats = {.size = sizeof stats};
        stn_context_stats_reset(context);
        stn_tensor *loss = stn_mse_loss(input, zero, weighted ? weight : NULL, STN_REDUCE_MEAN);
        stn_context_stats(context, &stats);
        CHECK_I64(stats.collectives, weighted);
        CHECK_I64(stn_spec_placement(stn_tensor_spec(loss), 0).kind,
                  weighted ? STN_PLACE_REPLICATE : STN_PLACE_PARTIAL);
        want[0] = want[1] = 0;
        for (int i = 0; i < ROWS * COLS; i++) {
            double by = weighted ? test_value(i / COLS) : 1;
            want[0] += by * test_value(i) * test_value(i);
            want[1] += by;
        }
        test_read(loss, &got, 1);
        CHECK_NEAR(got, want[0] / want[1], 1e-13 * fabs(want[0] / want[1]));
    }
    return stn_scope_end(context);
}

static void a_mean_stays_pending_and_a_weighted_one_costs_one_collective_of_two_numbers(void)
{
    test_ranks(3, moves_body, NULL);
}

/* In memory orders that differ, and in 16 bits: 4000 ones are summed beyond what either format can count. */
static stn_status forms_body(stn_context *context, void *arg)
{
    static const struct random_shape shape = {4, {2, 40, 25, 2}};
    double ones[4000], zeros[4000] = {0}, got;
    (void)arg;
    for (int i = 0; i < 4000; i++)
        ones[i] = 1;
    stn_scope_begin(context);
    for (int k = 0; k < 3; k++) {
        stn_dtype dtype = k == 0 ? STN_DTYPE_F32 : k == 1 ? STN_DTYPE_BF16 : STN_DTYPE_F16;
        stn_tensor *x = stn_transpose(stn_cast(against_one_local(context, STN_DTYPE_F32, &shape, ones), dtype), 1, 3);
        struct random_shape turned = {4, {2, 2, 25, 40}};
        stn_tensor *loss = stn_mse_loss(x, stn_cast(against_one_local(context, STN_DTYPE_F32, &turned, zeros), dtype),
                                        NULL, STN_REDUCE_SUM);
        CHECK_I64(stn_tensor_dtype(loss), dtype);
        test_read(stn_cast(loss, STN_DTYPE_F64), &got, 1);
        CHECK_NEAR(got, 4000, 0);
    }
    return stn_scope_end(context);
}

static void operands_are_read_as_they_lie_and_summed_wide(void)
{
    test_ranks(1, forms_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const double zeros[8];
    char text[512];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){1, {3}}, zeros);
    stn_tensor *y = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){1, {4}}, zeros),
               *i = stn_cast(x, STN_DTYPE_I64);
    CHECK(stn_tensor_is_error(stn_mse_loss(x, y, NULL, STN_REDUCE_MEAN)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "mse_loss: 'target' got shape (4), wanted one that broadcasts with (3)");
    CHECK(stn_tensor_is_error(stn_l1_loss(i, i, NULL, STN_REDUCE_MEAN)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_DTYPE);
    CHECK_STR(text, "l1_loss: 'input' and 'target' got i64 and i64, wanted a floating dtype");
    CHECK(stn_tensor_is_error(stn_huber_loss(x, x, NULL, (stn_loss_reduction)7, 1)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "huber_loss: 'reduction' got 7, wanted an stn_loss_reduction");
    CHECK_REFUSED(context, stn_huber_loss(x, x, NULL, STN_REDUCE_MEAN, 0), STN_ERR_ARGUMENT,
                  "huber_loss: 'delta' got 0, wanted more than 0");
    CHECK_REFUSED(context, stn_smooth_l1_loss(x, x, STN_REDUCE_MEAN, -1), STN_ERR_ARGUMENT,
                  "smooth_l1_loss: 'beta' got -1, wanted at least 0");
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

/* The gradients of the two losses that change their form are NaN at NaN, and those of the absolute value 0, as in
 * PyTorch; at infinities they are the slopes there. */
static stn_status nan_body(stn_context *context, void *arg)
{
    const struct random_shape shape = {1, {4}};
    static const double x[] = {(double)NAN, INFINITY, -3, 0.25},
                        want[][3] = {{0.5, -0.5, 0.25}, {1, -1, 0.5}, {1, -1, 1}};
    (void)arg;
    for (int d = 0; d < 2; d++)
        for (int kind = 0; kind < 3; kind++) {
            double got[4];
            stn_scope_begin(context);
            stn_tensor *in = against_one_local(context, d ? STN_DTYPE_F64 : STN_DTYPE_F32, &shape, x), *grad;
            stn_tensor *zero = stn_mul_number(stn_ne_number(in, 12345), 0);
            zero = stn_cast(zero, d ? STN_DTYPE_F64 : STN_DTYPE_F32);
            CHECK_STATUS(stn_set_requires_grad(in, 1), STN_OK);
            stn_tensor *y = kind == 0 ? stn_huber_loss(in, zero, NULL, STN_REDUCE_SUM, 0.5)
                                      : stn_smooth_l1_loss(in, zero, STN_REDUCE_SUM, kind == 1 ? 0.5 : 0);
            CHECK_STATUS(stn_grad(context, 1, &y, NULL, 1, &in, 0, 0, &grad), STN_OK);
            test_read(grad, got, 4);
            CHECK(kind == 2 ? got[0] == 0 : isnan(got[0]));
            for (int k = 0; k < 3; k++)
                CHECK(got[k + 1] == want[kind][k]);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void gradients_at_nan_are_those_of_pytorch(void)
{
    test_ranks(1, nan_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"a_mean_stays_pending_and_a_weighted_one_costs_one_collective_of_two_numbers",
         a_mean_stays_pending_and_a_weighted_one_costs_one_collective_of_two_numbers},
        {"operands_are_read_as_they_lie_and_summed_wide", operands_are_read_as_they_lie_and_summed_wide},
        {"gradients_at_nan_are_those_of_pytorch", gradients_at_nan_are_those_of_pytorch},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
