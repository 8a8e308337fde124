/* mean: layouts against one process with second derivatives, what moves, dtypes, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>

struct reduction {
    struct random_shape shape;
    int n, dims[3], keepdim;
};

static const struct reduction reductions[] = {
    {{3, {5, 6, 4}}, 1, {1}, 0}, {{3, {7, 1, 5}}, 2, {-1, 0}, 1}, {{2, {9, 8}}, 0, {0}, 0},
    {{1, {5}}, 1, {0}, 1},       {{3, {0, 5, 3}}, 1, {1}, 0},     {{4, {3, 2, 4, 5}}, 3, {0, 2, 3}, 0},
};

static stn_tensor *call_mean(stn_tensor *const *in, const void *arg)
{
    const struct reduction *r = arg;
    return stn_mean(in[0], r->n, r->dims, r->keepdim);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 7;
    (void)arg;
    for (int round = 0; round < test_draws(8); round++)
        for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) {
            double *x = against_one_draw(&state, against_one_numel(&reductions[i].shape));
            struct against_one_op op = {.call = call_mean, .arg = &reductions[i], .n_in = 1, .tolerance = 1e-13};
            op.in[0] = (struct against_one_input){STN_DTYPE_F64, reductions[i].shape, x, 1u << STN_SUM};
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round == 0)
                against_one_differences(context, &state, &op);
            free(x);
        }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

static stn_status moves_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {7, 4}, sizes[] = {5, 0, 2}, *const uneven[] = {sizes, NULL};
    const stn_placement rows = stn_shard(0);
    stn_stats stats = {.size = sizeof stats};
    double got[4];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 3, 0), &rows, STN_DTYPE_F64, 2, shape, uneven, test_value);
    stn_context_stats_reset(context);
    stn_tensor *y = stn_mean(x, 1, (int[]){0}, 0);
    stn_context_stats(context, &stats);
    CHECK_I64(stats.bytes_sent, 0);
    CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_PARTIAL);
    test_read(y, got, 4);
    for (int j = 0; j < 4; j++) {
        double want = 0;
        for (int i = 0; i < 7; i++)
            want += test_value(4 * i + j) / 7;
        CHECK_NEAR(got[j], want, 1e-14);
    }
    return stn_scope_end(context);
}

static void a_sharded_dim_leaves_sums_divided_by_the_whole_count_and_moves_nothing(void)
{
    test_ranks(3, moves_body, NULL);
}

/* 4096 times 1 and 4096 times 1 + 2^-6: an accumulator of 8 or 11 bits would stop growing long before. */
static stn_status narrow_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {8192};
    double values[8192], got;
    (void)arg;
    for (int i = 0; i < 8192; i++)
        values[i] = i % 2 ? 1 : 1 + 0x1p-6;
    stn_scope_begin(context);
    struct random_shape s = {1, {shape[0]}};
    for (int k = 0; k < 2; k++) {
        stn_tensor *x =
            stn_cast(against_one_local(context, STN_DTYPE_F32, &s, values), k ? STN_DTYPE_BF16 : STN_DTYPE_F16);
        stn_tensor *y = stn_mean(x, 0, NULL, 0);
        CHECK_I64(stn_tensor_dtype(y), stn_tensor_dtype(x));
        test_read(stn_cast(y, STN_DTYPE_F64), &got, 1);
        CHECK_NEAR(got, 1 + 0x1p-7, 0);
    }
    test_read(stn_mean(against_one_local(context, STN_DTYPE_F32, &(struct random_shape){1, {0}}, values), 0, NULL, 0),
              &got, 1);
    CHECK(isnan(got));
    return stn_scope_end(context);
}

static void narrow_floats_are_summed_wide_and_of_nothing_the_mean_is_nan(void)
{
    test_ranks(1, narrow_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    char text[512];
    const double values[] = {1, 2};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_I64, &(struct random_shape){1, {2}}, values);
    CHECK(stn_tensor_is_error(stn_mean(x, 0, NULL, 0)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_DTYPE);
    CHECK_STR(text, "mean: 'input' got i64, wanted a floating or complex dtype");
    CHECK(stn_tensor_is_error(stn_mean(stn_cast(x, STN_DTYPE_F32), 1, (int[]){1}, 0)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_ARGUMENT);
    CHECK_STR(text, "mean: 'dim' got 1, wanted -1 <= dim < 1");
    return stn_scope_end(context);
}

static void integers_and_bad_dims_are_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

/* What reaches a sum over a sharded dim may be pending: that is added up before it is repeated, not behind. */
static stn_status centred_body(stn_context *context, void *arg)
{
    enum { ROWS = 600, COLUMNS = 4 };
    const int64_t shape[] = {ROWS, COLUMNS};
    const stn_placement rows = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const int dim = 0;
    (void)arg;
    for (int k = 0; k < 2; k++) {
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, shape, NULL, test_value);
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        stn_tensor *y = stn_sub(x, k == 0 ? stn_mean(x, 1, &dim, 1) : stn_sum(x, 1, &dim, 1));
        stn_tensor *cotangent = stn_ones(context, stn_tensor_spec(y)), *grad;
        test_stats_reset(context);
        CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 1, &x, 0, 0, &grad), STN_OK);
        const stn_stats stats = test_stats(context);
        CHECK_I64(stats.collectives, 2); /* the agreement and the sum */
        CHECK(stats.bytes_sent < ROWS * COLUMNS);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void a_pending_cotangent_is_added_up_while_it_is_short(void)
{
    test_ranks(2, centred_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"a_sharded_dim_leaves_sums_divided_by_the_whole_count_and_moves_nothing",
         a_sharded_dim_leaves_sums_divided_by_the_whole_count_and_moves_nothing},
        {"narrow_floats_are_summed_wide_and_of_nothing_the_mean_is_nan",
         narrow_floats_are_summed_wide_and_of_nothing_the_mean_is_nan},
        {"a_pending_cotangent_is_added_up_while_it_is_short", a_pending_cotangent_is_added_up_while_it_is_short},
        {"integers_and_bad_dims_are_refused", integers_and_bad_dims_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
