/* view and transpose on ranks: random layouts against one process, what shares memory, what travels. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <stdlib.h>
#include <string.h>

/* A tensor's shape and another of as many elements: the same prime factors, dealt to dims anew, with dims of 1
 * between. */
struct reshaping {
    struct random_shape from, to;
};

static void deal(uint64_t *state, int n, const int *factors, struct random_shape *out)
{
    out->ndim = 0;
    for (int i = 0; i < n; i++) {
        int opens = out->ndim == 0 || (out->ndim < 5 && world_random(state, 2) == 0);
        if (opens)
            out->shape[out->ndim++] = 1;
        out->shape[out->ndim - 1] *= factors[i];
    }
    for (int ones = (int)world_random(state, 3); ones > 0 && out->ndim < 6; ones--) {
        int at = (int)world_random(state, (uint64_t)out->ndim + 1);
        memmove(out->shape + at + 1, out->shape + at, (size_t)(out->ndim - at) * sizeof out->shape[0]);
        out->shape[at] = 1;
        out->ndim++;
    }
}

static void draw_reshaping(uint64_t *state, struct reshaping *out)
{
    static const int primes[] = {2, 2, 3, 5, 2, 3};
    int n = (int)world_random(state, 6), factors[6];
    for (int i = 0; i < n; i++)
        factors[i] = world_random(state, 60) == 0 ? 0 : primes[world_random(state, 6)];
    deal(state, n, factors, &out->from);
    for (int i = n - 1; i > 0; i--) {
        int j = (int)world_random(state, (uint64_t)i + 1), f = factors[i];
        factors[i] = factors[j];
        factors[j] = f;
    }
    deal(state, n, factors, &out->to);
}

static stn_tensor *call_view(stn_tensor *const *in, const void *arg)
{
    const struct random_shape *shape = arg;
    return stn_view(in[0], shape->ndim, shape->shape);
}

static stn_status random_views_body(stn_context *context, void *arg)
{
    uint64_t state = 29;
    (void)arg;
    for (int i = 0; i < 60; i++) {
        struct reshaping shapes;
        struct against_one_op op = {.call = call_view, .n_in = 1};
        draw_reshaping(&state, &shapes);
        double *values = against_one_draw(&state, against_one_numel(&shapes.from));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shapes.from, values, 1u << STN_SUM};
        op.arg = &shapes.to;
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static const int worlds[] = {1, 2, 3, 5, 6};

static void views_in_every_layout_give_what_one_process_gives(void)
{
    for (int i = 0; i < 5; i++)
        test_ranks(worlds[i], random_views_body, NULL);
}

static stn_tensor *call_transpose(stn_tensor *const *in, const void *arg)
{
    const int *dims = arg;
    return stn_transpose(in[0], dims[0], dims[1]);
}

static stn_status random_transposes_body(stn_context *context, void *arg)
{
    uint64_t state = 31;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        struct against_one_op op = {.call = call_transpose, .n_in = 1};
        struct random_shape shape;
        random_shape(&state, &shape);
        uint64_t ndim = shape.ndim > 0 ? (uint64_t)shape.ndim : 1;
        int dims[2] = {(int)(world_random(&state, 2 * ndim) - ndim), (int)world_random(&state, ndim)};
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, 1u << STN_SUM};
        op.arg = dims;
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void transposes_in_every_layout_give_what_one_process_gives(void)
{
    for (int i = 0; i < 5; i++)
        test_ranks(worlds[i], random_transposes_body, NULL);
}

static stn_tensor *sharded(stn_context *context, const int64_t *sizes, int64_t rows, int64_t columns)
{
    const int64_t shape[] = {rows, columns}, *const cut[] = {sizes, NULL};
    stn_placement shard[] = {stn_shard(0)};
    return test_tensor(context, test_mesh(context, stn_context_size(context), 0), shard, STN_DTYPE_F32, 2, shape,
                       sizes ? cut : NULL, test_value);
}

static stn_status sharing_body(stn_context *context, void *arg)
{
    static const int64_t sizes[] = {4, 0, 8};
    const int64_t split[] = {3, 4, 5}, merged[] = {-1};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = sharded(context, sizes, 12, 5);
    stn_context_stats_reset(context);
    stn_tensor *views[] = {stn_view(x, 3, split), stn_view(x, 1, merged), stn_transpose(x, 0, 1),
                           stn_view(stn_transpose(x, 0, 1), 3, (const int64_t[]){5, 3, 4})};
    for (int i = 0; i < 4; i++) {
        CHECK(stn_tensor_data(views[i]) == stn_tensor_data(x));
        CHECK_I64(stn_spec_local_numel(stn_tensor_spec(views[i])), stn_spec_local_numel(stn_tensor_spec(x)));
    }
    CHECK_I64(test_stats(context).collectives, 0);
    CHECK_I64(test_stats(context).kernels, 0);
    CHECK_I64(test_stats(context).allocations, 0);
    return stn_scope_end(context);
}

static void views_in_place_share_memory_and_move_nothing(void)
{
    test_ranks(3, sharing_body, NULL);
}

/* 3 rows of 90 as 5 of 54, over 2 ranks: rank 0 holds 180 elements and shall hold 4 rows of 54, so 36 elements come
 * from rank 1. */
static stn_status straddling_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {5, 54};
    double got[270];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = sharded(context, NULL, 3, 90);
    stn_view(x, 2, shape); /* the communicator is made on first use */
    stn_context_stats_reset(context);
    stn_tensor *y = stn_view(x, 2, shape);
    stn_stats stats = test_stats(context);
    CHECK_I64(stats.collectives, 1);
    CHECK_I64(stats.bytes_sent, stn_context_rank(context) == 1 ? 36 * 4 : 0);
    CHECK_I64(stats.host_syncs, 0);
    test_read(y, got, 270);
    for (int i = 0; i < 270; i++)
        CHECK_NEAR(got[i], (double)(float)test_value(i), 0);
    return stn_scope_end(context);
}

static void only_rows_that_straddle_travel_in_one_exchange(void)
{
    test_ranks(2, straddling_body, NULL);
}

/* Columns merged into a flat dim: each element goes at most once. */
static stn_status merging_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {4, 6}, flat[] = {24};
    stn_placement columns[] = {stn_shard(1)};
    double got[24];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), columns, STN_DTYPE_F32, 2, shape, NULL, test_value);
    stn_view(x, 1, flat);
    stn_context_stats_reset(context);
    stn_tensor *y = stn_view(x, 1, flat);
    CHECK_I64(test_stats(context).collectives, 1);
    CHECK_I64(test_stats(context).bytes_sent, 6 * 4);
    test_read(y, got, 24);
    for (int i = 0; i < 24; i++)
        CHECK_NEAR(got[i], (double)(float)test_value(i), 0);
    return stn_scope_end(context);
}

static void merging_a_later_dim_is_one_exchange(void)
{
    test_ranks(2, merging_body, NULL);
}

/* (2, 1) repeated to (2, 3) is not six elements in a row. */
static stn_status repeated_body(stn_context *context, void *arg)
{
    const double values[] = {7, 8};
    double got[6];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F64, &(struct random_shape){2, {2, 1}}, values);
    test_read(stn_view(stn_expand(x, 2, (int64_t[]){2, 3}), 1, (int64_t[]){6}), got, 6);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(got[i], values[i / 3], 0);
    return stn_scope_end(context);
}

static void repeated_dims_are_merged_by_copying(void)
{
    test_ranks(1, repeated_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const int64_t wrong[] = {5, 2}, two[] = {-1, -1}, odd[] = {-1, 7}, negative[] = {-2, 6};
    (void)arg;
    stn_tensor *x = sharded(context, NULL, 3, 4);
    CHECK(stn_tensor_is_error(stn_view(x, 2, wrong)));
    CHECK_ERROR(context, STN_ERR_SHAPE, "view: 'shape' got (5, 2), wanted as many elements as input (3, 4) has: 12");
    stn_view(x, 2, two);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "view: 'shape' got -1 at 1, wanted sizes and at most one -1");
    stn_view(x, 2, odd);
    CHECK_ERROR(context, STN_ERR_SHAPE, "view: 'shape' got (-1, 7), wanted as many elements as input (3, 4) has: 12");
    stn_view(x, 2, negative);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "view: 'shape' got -2 at 0, wanted sizes and at most one -1");
    stn_view(x, 9, wrong);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "view: 'ndim' got 9, wanted 0 to 8");
    stn_transpose(x, 0, 2);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "transpose: 'dim1' got 2, wanted -2 <= dim1 < 2");
    stn_tensor_release(&x);
    return STN_OK;
}

static void shapes_that_do_not_fit_are_refused_alike(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"views_in_every_layout_give_what_one_process_gives", views_in_every_layout_give_what_one_process_gives},
        {"transposes_in_every_layout_give_what_one_process_gives",
         transposes_in_every_layout_give_what_one_process_gives},
        {"views_in_place_share_memory_and_move_nothing", views_in_place_share_memory_and_move_nothing},
        {"only_rows_that_straddle_travel_in_one_exchange", only_rows_that_straddle_travel_in_one_exchange},
        {"merging_a_later_dim_is_one_exchange", merging_a_later_dim_is_one_exchange},
        {"repeated_dims_are_merged_by_copying", repeated_dims_are_merged_by_copying},
        {"shapes_that_do_not_fit_are_refused_alike", shapes_that_do_not_fit_are_refused_alike},
    };
    return TEST_MAIN(argc, argv, cases);
}
