/* Dropout: the same elements in every layout, forward and backward; how many; the stream of numbers. */
#include "core/box/rng.h"
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

struct dropping {
    stn_context *context;
    double p;
    int channels;
};

/* Every call draws the same numbers. */
static stn_tensor *call_dropout(stn_tensor *const *in, const void *arg)
{
    const struct dropping *d = arg;
    stn_context_set_random_state(d->context, 77, 3);
    return d->channels ? stn_dropout_channels(in[0], d->p, 1) : stn_dropout(in[0], d->p, 1);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 11;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        struct dropping d = {context, i % 5 == 0 ? 1 : 0.3, i & 1};
        struct against_one_op op = {.call = call_dropout, .arg = &d, .n_in = 1};
        struct random_shape shape;
        random_shape(&state, &shape);
        if (shape.ndim < 2)
            shape = (struct random_shape){2, {7, 40}};
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){i % 3 ? STN_DTYPE_F64 : STN_DTYPE_F32, shape, values, 1u << STN_SUM};
        op.tolerance = 1e-6; /* f32: a pending sum is scaled before it is added up */
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void the_same_elements_are_dropped_in_every_layout(void)
{
    test_worlds(layouts_body, NULL);
}

static double one(int64_t i)
{
    (void)i;
    return 1;
}

/* The numbers are those of core/box/rng.h, in row-major order of the whole, whatever the memory order. */
static stn_status numbers_body(stn_context *context, void *arg)
{
    enum { ROWS = 9, COLUMNS = 37 };
    const int64_t shape[] = {ROWS, COLUMNS};
    const int columns_last[] = {1, 0};
    const uint32_t limit = 1288490189; /* 0.3 of 2^32 */
    double got[ROWS * COLUMNS];
    (void)arg;
    stn_scope_begin(context);
    for (int by_channel = 0; by_channel < 2; by_channel++)
        for (int turned = 0; turned < 2; turned++) {
            stn_spec_options options = {.size = sizeof options, .memory_order = turned ? columns_last : NULL};
            const stn_spec *spec;
            stn_placement rows[] = {stn_shard(0)};
            CHECK_STATUS(
                stn_spec_create(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 2, shape, &options, &spec),
                STN_OK);
            stn_tensor *x = stn_redistribute(
                test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 2, shape, NULL, one), spec);
            stn_context_set_random_state(context, 12345678901, 8);
            test_read(by_channel ? stn_dropout_channels(x, 0.3, 1) : stn_dropout(x, 0.3, 1), got, ROWS * COLUMNS);
            int wrong = 0;
            for (uint64_t i = 0; i < ROWS * COLUMNS; i++)
                wrong += (got[i] == 0) != (stni_rng_block(12345678901, UINT64_C(1) << 62 | 8, i / 4).v[i % 4] < limit);
            CHECK_I64(wrong, 0);
            stn_spec_release(&spec);
        }
    return stn_scope_end(context);
}

static void numbers_are_those_of_the_generator(void)
{
    test_ranks(2, numbers_body, NULL);
}

static uint64_t stream_of(stn_context *context)
{
    uint64_t seed, stream;
    stn_context_random_state(context, &seed, &stream);
    return stream;
}

enum { N = 40 * 50 * 11 };

static stn_status fraction_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {40, 50, 11};
    stn_placement rows[] = {stn_shard(1)};
    double *got = malloc(N * sizeof *got);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 3, shape, NULL, one);
    stn_set_requires_grad(x, 1);
    stn_tensor *y = stn_dropout(x, 0.2, 1), *z = stn_dropout_channels(x, 0.2, 1), *grad;
    stn_grad(context, 1, &y, &x, 1, &x, 1, 0, &grad); /* the cotangent is 1: the gradient is the mask itself */
    test_read(y, got, N);
    int kept = 0, strange = 0;
    for (int i = 0; i < N; i++) {
        kept += got[i] != 0;
        strange += got[i] != 0 && got[i] != 1.25;
    }
    CHECK_I64(strange, 0);
    CHECK_NEAR((double)kept / N, 0.8, 0.011); /* four standard deviations */
    double *again = malloc(N * sizeof *again);
    test_read(grad, again, N);
    CHECK_BYTES(again, got, N * sizeof *got);
    test_read(z, got, N);
    int dropped = 0;
    for (int i = 0; i < N; i += 11) {
        dropped += got[i] == 0;
        for (int j = 1; j < 11; j++)
            strange += got[i + j] != got[i];
    }
    CHECK_I64(strange, 0);
    CHECK_NEAR((double)dropped / 2000, 0.2, 0.036);
    free(again);
    free(got);
    return stn_scope_end(context);
}

static void the_fraction_kept_and_the_gradient_are_those_of_the_mask(void)
{
    test_ranks(2, fraction_body, NULL);
}

static stn_status stream_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {9, 9};
    stn_placement rows[] = {stn_shard(0)};
    double first[81], second[81], again[81];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 2, shape, NULL, one);
    CHECK_I64((int64_t)stream_of(context), 0);
    test_read(stn_dropout(x, 0.5, 1), first, 81);
    test_read(stn_dropout(x, 0.5, 1), second, 81);
    CHECK_I64((int64_t)stream_of(context), 2);
    CHECK(memcmp(first, second, sizeof first) != 0);
    CHECK(stn_tensor_data(stn_dropout(x, 0.5, 0)) == stn_tensor_data(x));
    CHECK(stn_tensor_data(stn_dropout(x, 0, 1)) == stn_tensor_data(x));
    stn_attr eval = {"training", STN_ATTR_BOOL, {.i = 0}};
    stn_tensor *same;
    CHECK_STATUS(stn_call(context, "dropout", 1, &x, 1, &eval, 1, &same), STN_OK);
    CHECK(stn_tensor_data(same) == stn_tensor_data(x));
    CHECK_I64((int64_t)stream_of(context), 2);
    uint64_t seed, stream;
    stn_context_random_state(context, &seed, &stream);
    stn_context_set_random_state(context, seed, 1);
    test_read(stn_dropout(x, 0.5, 1), again, 81);
    CHECK_BYTES(again, second, sizeof again);
    return stn_scope_end(context);
}

static void each_draw_takes_a_stream_and_a_stream_can_be_taken_again(void)
{
    test_ranks(2, stream_body, NULL);
}

/* Whatever the seed is by the time of the backward. */
static stn_status reseeded_body(stn_context *context, void *arg)
{
    enum { ELEMENTS = 9 * 9 };
    const int64_t shape[] = {9, 9};
    stn_placement rows[] = {stn_shard(0)};
    double mask[ELEMENTS], got[ELEMENTS];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 2, shape, NULL, one), *grad;
    stn_set_requires_grad(x, 1);
    for (int by_channel = 0; by_channel < 2; by_channel++) {
        stn_context_set_random_state(context, 5, 1);
        stn_tensor *y = by_channel ? stn_dropout_channels(x, 0.5, 1) : stn_dropout(x, 0.5, 1);
        stn_context_set_random_state(context, 6, 1);
        CHECK_STATUS(stn_grad(context, 1, &y, &x, 1, &x, 1, 0, &grad), STN_OK);
        test_read(y, mask, ELEMENTS);
        test_read(grad, got, ELEMENTS);
        CHECK_BYTES(got, mask, sizeof got);
    }
    return stn_scope_end(context);
}

static void a_new_seed_changes_no_gradient_of_what_was_drawn_before(void)
{
    test_ranks(2, reseeded_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {9};
    stn_placement rows[] = {stn_shard(0)};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 1, shape, NULL, one);
    stn_dropout(x, 1.5, 1);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "dropout: 'p' got 1.5, wanted 0 <= p <= 1");
    stn_dropout(x, -1, 0);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "dropout: 'p' got -1, wanted 0 <= p <= 1");
    stn_dropout_channels(x, 0.5, 1);
    CHECK_ERROR(context, STN_ERR_SHAPE,
                "dropout_channels: 'input' got 1 dims, wanted a batch, channels and any others");
    stn_dropout(stn_cast(x, STN_DTYPE_I64), 0.5, 1);
    CHECK_ERROR(context, STN_ERR_DTYPE, "dropout: 'input' got i64, wanted a floating dtype");
    return stn_scope_end(context);
}

static void arguments_that_do_not_fit_are_refused_alike(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"the_same_elements_are_dropped_in_every_layout", the_same_elements_are_dropped_in_every_layout},
        {"the_fraction_kept_and_the_gradient_are_those_of_the_mask",
         the_fraction_kept_and_the_gradient_are_those_of_the_mask},
        {"numbers_are_those_of_the_generator", numbers_are_those_of_the_generator},
        {"each_draw_takes_a_stream_and_a_stream_can_be_taken_again",
         each_draw_takes_a_stream_and_a_stream_can_be_taken_again},
        {"a_new_seed_changes_no_gradient_of_what_was_drawn_before",
         a_new_seed_changes_no_gradient_of_what_was_drawn_before},
        {"arguments_that_do_not_fit_are_refused_alike", arguments_that_do_not_fit_are_refused_alike},
    };
    return TEST_MAIN(argc, argv, cases);
}
