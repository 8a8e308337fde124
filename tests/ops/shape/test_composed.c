/* Ops made of others, and triangles: random layouts against one process, what is left behind, what travels, what is
 * refused. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <stdlib.h>
#include <string.h>

enum { SELECT, STACK, REPEAT, DIFF, SHUFFLE, UNSHUFFLE, TRIU, SPLIT, KINDS };

static stn_tensor *call_composed(stn_tensor *const *in, const void *arg)
{
    static const int64_t repeats[] = {2, 1, 3, 1};
    static const int all[] = {0, 1};
    stn_tensor *two[2] = {NULL};
    switch (*(const int *)arg) {
    case SELECT: return stn_select(in[0], 2, -1);
    case STACK: return stn_stack(2, in, 1);
    case REPEAT: return stn_repeat(in[0], 4, repeats);
    case DIFF: return stn_diff(in[0], 2, 2, in[1], NULL);
    case SHUFFLE: return stn_pixel_shuffle(in[0], 2);
    case UNSHUFFLE: return stn_pixel_unshuffle(in[0], 2);
    case TRIU: return stn_tril(stn_triu(in[0], -2), 1);
    default:
        stn_chunk(in[0], 3, 2, 2, two);
        return stn_squeeze(stn_narrow(two[1], 0, 1, 1), 2, all);
    }
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 3;
    (void)arg;
    for (int i = 0; i < 4 * KINDS; i++) {
        int kind = i % KINDS;
        struct against_one_op op = {
            .call = call_composed, .arg = &kind, .n_in = kind == STACK || kind == DIFF ? 2 : 1, .tolerance = 1e-14};
        struct random_shape shape = {4, {2, 4, 6, 4}};
        double *values[2];
        for (int k = 0; k < op.n_in; k++) {
            values[k] = against_one_draw(&state, against_one_numel(&shape));
            op.in[k] = (struct against_one_input){STN_DTYPE_F64, shape, values[k], 1u << STN_SUM};
        }
        against_one_check(context, &state, random_mesh(&state, context), &op);
        for (int k = 0; k < op.n_in; k++)
            free(values[k]);
    }
    return STN_OK;
}

static void composed_ops_in_every_layout_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

static stn_tensor *cut_rows(stn_context *context, int ndim, const int64_t *shape, int dim)
{
    stn_placement shard[] = {stn_shard(dim)};
    return test_tensor(context, test_mesh(context, stn_context_size(context), 0), shard, STN_DTYPE_F32, ndim, shape,
                       NULL, test_value);
}

/* Outside a scope the caller owns the result, and nothing else. */
static stn_status left_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {1, 8, 6, 4}, repeats[] = {1, 2, 2, 2};
    stn_tensor *x = cut_rows(context, 4, shape, 2), *parts[3];
    (void)arg;
    int64_t before = test_stats(context).live_tensors;
    stn_tensor *made[] = {stn_select(x, 1, 3), stn_pixel_shuffle(x, 2), stn_repeat(x, 4, repeats),
                          stn_diff(x, 1, 3, x, x)};
    CHECK_STATUS(stn_split(x, 1, 3, 3, parts), STN_OK);
    CHECK_I64(test_stats(context).live_tensors, before + 7);
    CHECK_I64(stn_tensor_shape(parts[2])[1], 2);
    for (int i = 0; i < 4; i++)
        stn_tensor_release(&made[i]);
    for (int i = 0; i < 3; i++)
        stn_tensor_release(&parts[i]);
    CHECK_I64(test_stats(context).live_tensors, before);
    stn_tensor *five[5];
    CHECK_STATUS(stn_unbind(x, 3, 5, five), STN_OK);
    CHECK(five[3] != NULL && five[4] == NULL);
    for (int i = 0; i < 4; i++)
        stn_tensor_release(&five[i]);
    stn_tensor_release(&x);
    return STN_OK;
}

static void composed_ops_leave_nothing_behind(void)
{
    test_ranks(2, left_body, NULL);
}

static stn_status bytes_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {1, 8, 6, 4};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = cut_rows(context, 4, shape, 2), *two[] = {x, x};
    stn_diff(x, 1, 2, NULL, NULL); /* the communicator is made on first use */
    stn_context_stats_reset(context);
    stn_pixel_shuffle(x, 2);
    stn_select(x, 1, 0);
    stn_stack(2, two, 0);
    stn_triu(x, 0);
    CHECK_I64(test_stats(context).collectives, 0);
    stn_diff(x, 1, 2, NULL, NULL);
    CHECK(test_stats(context).bytes_sent <= 8 * 4 * 4); /* one row of 8 channels */
    return stn_scope_end(context);
}

static void rearranging_what_a_rank_has_moves_nothing(void)
{
    test_ranks(2, bytes_body, NULL);
}

/* What has to move does so while it is small: a dim of one element that no axis cuts is repeated behind it. Nothing
 * larger than the result is ever held. */
static stn_status repeats_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {2, 1, 3}, repeats[] = {1000, 1, 8, 2}, sizes[] = {0, 1};
    (void)arg;
    stn_scope_begin(context);
    stn_placement shard[] = {stn_shard(1)};
    const int64_t *cuts[] = {NULL, sizes, NULL};
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), shard, STN_DTYPE_F64, 3, shape, cuts, test_value);
    stn_context_stats_reset(context);
    stn_tensor *y = stn_repeat(x, 4, repeats);
    CHECK_I64(stn_tensor_shape(y)[0], 1000);
    CHECK_I64(stn_tensor_shape(y)[2], 8);
    CHECK(test_stats(context).bytes_sent < 1000);
    CHECK(test_stats(context).peak_bytes < stn_spec_local_numel(stn_tensor_spec(y)) * 8 + 10000);
    return stn_scope_end(context);
}

static void what_has_to_move_is_repeated_first(void)
{
    test_ranks(2, repeats_body, NULL);
}

/* A dim repeated no times comes before others that would be large, in the gradient too. */
static stn_status empty_body(stn_context *context, void *arg)
{
    const int64_t large = (int64_t)1 << 40;
    const int64_t shape[] = {2, 3, 1}, repeats[] = {0, 4, 2, large + 1}, again[] = {0, large, 2};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = cut_rows(context, 3, shape, 2), *gradient;
    double largest;
    stn_set_requires_grad(x, 1);
    stn_tensor *y[] = {stn_repeat(x, 4, repeats), stn_repeat(x, 3, again)};
    CHECK_I64(stn_tensor_shape(y[0])[3], large + 1);
    CHECK_I64(stn_tensor_shape(y[1])[1], 3 * large);
    for (int i = 0; i < 2; i++) {
        stn_tensor *sum = stn_sum(y[i], 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, &x, 0, 0, &gradient), STN_OK);
        CHECK_STATUS(stn_item(stn_max(stn_abs(gradient)), &largest), STN_OK);
        CHECK(largest == 0);
    }
    CHECK(test_stats(context).peak_bytes < 10000);
    return stn_scope_end(context);
}

static void no_repeats_need_no_memory(void)
{
    for (int ranks = 1; ranks < 5; ranks++)
        test_ranks(ranks, empty_body, NULL);
}

static double one_then_zero(int64_t i)
{
    return i == 0;
}

static double always_five(int64_t i)
{
    (void)i;
    return 5;
}

/* Of what stands before and behind too, whose dtype may be a wider one; no difference at all looks at neither. */
static stn_status differences_body(stn_context *context, void *arg)
{
    const int64_t two = 2, one = 1;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement shard = stn_shard(0), whole = stn_replicate();
    double got[2];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x =
        stn_cast(test_tensor(context, mesh, &shard, STN_DTYPE_F64, 1, &two, NULL, one_then_zero), STN_DTYPE_BOOL);
    stn_tensor *five =
        stn_cast(test_tensor(context, mesh, &whole, STN_DTYPE_F64, 1, &one, NULL, always_five), STN_DTYPE_I64);
    stn_tensor *y = stn_diff(x, 1, 0, five, NULL);
    CHECK_I64(stn_tensor_dtype(y), STN_DTYPE_I64);
    test_read(stn_cast(y, STN_DTYPE_F64), got, 2);
    CHECK_NEAR(got[0], -4, 0);
    CHECK_NEAR(got[1], -1, 0);
    CHECK_I64(stn_tensor_dtype(stn_diff(x, 1, 0, x, NULL)), STN_DTYPE_BOOL);
    y = stn_diff(x, 0, 0, five, NULL);
    CHECK_I64(stn_tensor_shape(y)[0], 2);
    CHECK_I64(stn_tensor_dtype(y), STN_DTYPE_BOOL);
    return stn_scope_end(context);
}

static void differences_are_pytorchs(void)
{
    test_ranks(2, differences_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {3, 4, 5}, one[] = {1}, empty[] = {0, 6}, sizes[] = {3, 4}, open[] = {-1, -1};
    stn_tensor *parts[2];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = cut_rows(context, 3, shape, 1), *two[] = {x, stn_slice(x, 1, 0, 2, 1)};
    stn_select(x, 1, 4);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "select: 'index' got 4, wanted -4 <= index < 4");
    stn_narrow(x, 1, 3, 2);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "narrow: 'start' got 3 and 'length' 2, wanted a part of 4 elements");
    CHECK_STATUS(stn_split(x, 0, 0, 2, parts), STN_ERR_ARGUMENT);
    CHECK(stn_tensor_is_error(parts[0]));
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "split: 'split_size' got 0 for 3 elements, wanted at least 1");
    stn_stack(2, two, 0);
    CHECK_ERROR(context, STN_ERR_SHAPE, "stack: 'tensor1' got shape (3, 2, 5), wanted that of the first, (3, 4, 5)");
    stn_repeat(x, 1, one);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "repeat: 'repeats' got 1 numbers, wanted at least the 3 dims of 'input'");
    stn_pixel_shuffle(x, 2);
    CHECK_ERROR(context, STN_ERR_SHAPE, "pixel_shuffle: 'input' got 3 channels, wanted a multiple of 4");
    stn_flatten(x, 2, 1);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "flatten: 'end_dim' got 1, wanted one not before start_dim, 2");
    x = cut_rows(context, 2, empty, 1); /* which has elements enough for any shape with a 0 */
    stn_unflatten(x, 1, 2, sizes);
    CHECK_ERROR(context, STN_ERR_SHAPE,
                "unflatten: 'sizes' got (3, 4), wanted sizes whose product is that of dim 1, 6");
    CHECK(stn_tensor_is_error(stn_unflatten(x, 1, 2, open)));
    stn_context_take_error(context, NULL, 0);
    return stn_scope_end(context);
}

static void arguments_that_do_not_fit_are_refused_alike(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"composed_ops_in_every_layout_give_what_one_process_gives",
         composed_ops_in_every_layout_give_what_one_process_gives},
        {"composed_ops_leave_nothing_behind", composed_ops_leave_nothing_behind},
        {"rearranging_what_a_rank_has_moves_nothing", rearranging_what_a_rank_has_moves_nothing},
        {"what_has_to_move_is_repeated_first", what_has_to_move_is_repeated_first},
        {"no_repeats_need_no_memory", no_repeats_need_no_memory},
        {"differences_are_pytorchs", differences_are_pytorchs},
        {"arguments_that_do_not_fit_are_refused_alike", arguments_that_do_not_fit_are_refused_alike},
    };
    return TEST_MAIN(argc, argv, cases);
}
