/* linear: layouts against one process with second derivatives, specs and bytes, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct random_shape inputs[] = {{1, {5}}, {2, {7, 5}}, {4, {2, 3, 4, 5}}, {2, {0, 5}}, {3, {3, 1, 0}}};
enum { N_INPUTS = sizeof inputs / sizeof *inputs, OUT = 6 };

static stn_tensor *call_linear(stn_tensor *const *in, const void *arg)
{
    return stn_linear(in[0], in[1], *(const int *)arg ? in[2] : NULL);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 5;
    (void)arg;
    for (int round = 0; round < test_draws(8); round++)
        for (int i = 0; i < N_INPUTS; i++) {
            int with_bias = round % 2;
            struct random_shape weight = {2, {OUT, inputs[i].shape[inputs[i].ndim - 1]}}, bias = {1, {OUT}};
            double *v[] = {against_one_draw(&state, against_one_numel(&inputs[i])),
                           against_one_draw(&state, against_one_numel(&weight)), against_one_draw(&state, OUT)};
            struct against_one_op op = {
                .call = call_linear, .arg = &with_bias, .n_in = 2 + with_bias, .tolerance = 1e-12};
            op.in[0] = (struct against_one_input){STN_DTYPE_F64, inputs[i], v[0], 1u << STN_SUM};
            op.in[1] = (struct against_one_input){STN_DTYPE_F64, weight, v[1], 1u << STN_SUM};
            op.in[2] = (struct against_one_input){STN_DTYPE_F64, bias, v[2], 1u << STN_SUM};
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round < 2)
                against_one_differences(context, &state, &op);
            for (int k = 0; k < 3; k++)
                free(v[k]);
        }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

static stn_status specs_body(stn_context *context, void *arg)
{
    const int64_t x[] = {4, 6, 8}, w[] = {10, 8}, b[] = {10};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_placement R = stn_replicate(), P = stn_partial(STN_SUM);
    const struct {
        stn_placement x, w, b, want;
    } cases[] = {
        {R, R, R, R},
        {stn_shard(0), R, R, stn_shard(0)},
        {stn_shard(1), R, R, stn_shard(1)},
        {R, stn_shard(0), stn_shard(0), stn_shard(2)}, /* columns */
        {stn_shard(2), stn_shard(1), R, P},            /* rows: the bias becomes pending */
        {P, R, P, P},
        {R, P, R, P},
    };
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_stats stats = {.size = sizeof stats};
        double got[240];
        stn_scope_begin(context);
        stn_tensor *in[] = {test_tensor(context, mesh, &cases[i].x, STN_DTYPE_F64, 3, x, NULL, test_value),
                            test_tensor(context, mesh, &cases[i].w, STN_DTYPE_F64, 2, w, NULL, test_value),
                            test_tensor(context, mesh, &cases[i].b, STN_DTYPE_F64, 1, b, NULL, test_value)};
        stn_context_stats_reset(context);
        stn_tensor *y = stn_linear(in[0], in[1], in[2]);
        stn_context_stats(context, &stats);
        stn_placement have = stn_spec_placement(stn_tensor_spec(y), 0);
        if (!CHECK(have.kind == cases[i].want.kind && have.dim == cases[i].want.dim))
            fprintf(stderr, "  case %zu\n", i);
        CHECK_I64(stats.bytes_sent, 0);
        test_read(y, got, 240);
        for (int r = 0; r < 24; r++)
            for (int o = 0; o < 10; o++) {
                double want = test_value(o);
                for (int k = 0; k < 8; k++)
                    want += test_value(8 * r + k) * test_value(8 * o + k);
                CHECK_NEAR(got[10 * r + o], want, 1e-13);
            }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void results_are_placed_as_the_header_says_and_nothing_moves(void)
{
    test_ranks(2, specs_body, NULL);
}

/* What the gradient of a weight takes beside itself, where tokens are cut: less than a gradient for each sample. */
static stn_status memory_body(stn_context *context, void *arg)
{
    enum { SAMPLES = 8, WIDTH = 64 };
    const int64_t x_shape[] = {SAMPLES, 4, WIDTH}, w_shape[] = {WIDTH, WIDTH}, bytes = WIDTH * WIDTH * sizeof(double);
    const stn_placement cut = stn_shard(1), whole = stn_replicate();
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_stats before = {.size = sizeof before}, stats = before;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &cut, STN_DTYPE_F64, 3, x_shape, NULL, test_value);
    for (int by_matmul = 0; by_matmul < 2; by_matmul++) {
        stn_tensor *w = test_tensor(context, mesh, &whole, STN_DTYPE_F64, 2, w_shape, NULL, test_value), *gradient;
        CHECK_STATUS(stn_set_requires_grad(w, 1), STN_OK);
        stn_tensor *y = by_matmul ? stn_matmul(x, w) : stn_linear(x, w, NULL);
        stn_tensor *g = stn_ones(context, stn_tensor_spec(y));
        stn_context_stats_reset(context);
        stn_context_stats(context, &before);
        CHECK_STATUS(stn_grad(context, 1, &y, &g, 1, &w, 0, 0, &gradient), STN_OK);
        stn_context_stats(context, &stats);
        CHECK(stats.peak_bytes - before.live_bytes < 3 * bytes); /* pending, and complete */
    }
    return stn_scope_end(context);
}

static void the_gradient_of_a_weight_is_one_sum_over_samples_whose_tokens_are_cut(void)
{
    test_ranks(2, memory_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const struct {
        struct random_shape x, w, b;
        const char *text;
    } cases[] = {
        {{2, {4, 6}},
         {2, {3, 5}},
         {1, {3}},
         "linear: got 'input' of shape (4, 6) and 'weight' of shape (3, 5), whose last dims differ"},
        {{0, {0}},
         {2, {3, 5}},
         {1, {3}},
         "linear: got 'input' of shape () and 'weight' of shape (3, 5), wanted (…, in) and (out, in)"},
        {{2, {4, 5}}, {2, {3, 5}}, {1, {1}}, "linear: 'bias' got shape (1), wanted (3), the rows of 'weight'"},
    };
    double zeros[64] = {0};
    char text[512];
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_scope_begin(context);
        CHECK(stn_tensor_is_error(stn_linear(against_one_local(context, STN_DTYPE_F32, &cases[i].x, zeros),
                                             against_one_local(context, STN_DTYPE_F32, &cases[i].w, zeros),
                                             against_one_local(context, STN_DTYPE_F32, &cases[i].b, zeros))));
        CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
        CHECK_STR(text, cases[i].text);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void shapes_that_do_not_fit_are_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"results_are_placed_as_the_header_says_and_nothing_moves",
         results_are_placed_as_the_header_says_and_nothing_moves},
        {"the_gradient_of_a_weight_is_one_sum_over_samples_whose_tokens_are_cut",
         the_gradient_of_a_weight_is_one_sum_over_samples_whose_tokens_are_cut},
        {"shapes_that_do_not_fit_are_refused", shapes_that_do_not_fit_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
