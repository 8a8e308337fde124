/* pad, roll and flip on ranks: random layouts against one process, a plain loop, differences, what travels, what is
 * refused. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int worlds[] = {1, 2, 3, 6};

struct padding {
    int n;
    int64_t pad[STN_MAX_NDIM];
    stn_pad_mode mode;
    double value;
};

static stn_tensor *call_pad(stn_tensor *const *in, const void *arg)
{
    const struct padding *p = arg;
    return stn_pad(in[0], p->n, p->pad, p->mode, p->value);
}

/* Margins as wide as the mode allows, and cuts. */
static void draw_padding(uint64_t *state, const struct random_shape *shape, struct padding *p)
{
    *p = (struct padding){.mode = (stn_pad_mode)world_random(state, 4), .value = world_random(state, 2) ? 0 : 1.5};
    p->n = 2 * (int)world_random(state, (uint64_t)shape->ndim + 1);
    for (int i = 0; i < p->n; i++) {
        int64_t n = shape->shape[shape->ndim - 1 - i / 2],
                most = p->mode == STN_PAD_CONSTANT || p->mode == STN_PAD_REPLICATE ? 7 : n - 1;
        most = p->mode == STN_PAD_REFLECT ? n - 2 : most;
        most = most < 0 || (n == 0 && p->mode != STN_PAD_CONSTANT) ? 0 : most;
        p->pad[i] = (int64_t)world_random(state, (uint64_t)most + 1);
        if (n > 2 && world_random(state, 3) == 0)
            p->pad[i] = -1;
    }
}

static stn_status pads_body(stn_context *context, void *arg)
{
    uint64_t state = 91;
    (void)arg;
    for (int i = 0; i < 60; i++) {
        struct padding p;
        struct against_one_op op = {.call = call_pad, .arg = &p, .n_in = 1, .tolerance = 1e-14};
        struct random_shape shape;
        random_shape(&state, &shape);
        draw_padding(&state, &shape, &p);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, 1u << STN_SUM};
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void pads_in_every_layout_give_what_one_process_gives(void)
{
    for (int i = 0; i < 4; i++)
        test_ranks(worlds[i], pads_body, NULL);
}

static stn_status differences_body(stn_context *context, void *arg)
{
    uint64_t state = 7;
    (void)arg;
    for (int i = 0; i < 40; i++) {
        struct padding p;
        struct against_one_op op = {.call = call_pad, .arg = &p, .n_in = 1};
        struct random_shape shape;
        random_shape(&state, &shape);
        draw_padding(&state, &shape, &p);
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, 0};
        against_one_differences(context, &state, &op);
        free(values);
    }
    return STN_OK;
}

static void gradients_of_pads_are_those_of_differences(void)
{
    test_ranks(1, differences_body, NULL);
}

struct moving {
    int n, dims[4], flips, flat;
    int64_t shifts[4];
};

static stn_tensor *call_move(stn_tensor *const *in, const void *arg)
{
    const struct moving *m = arg;
    if (m->flips)
        return stn_flip(in[0], m->n, m->dims);
    return stn_roll(in[0], m->flat ? 1 : m->n, m->shifts, m->flat ? NULL : m->dims);
}

static stn_status moves_body(stn_context *context, void *arg)
{
    uint64_t state = 37;
    (void)arg;
    for (int i = 0; i < 50; i++) {
        struct moving m = {.flips = i % 3 == 0, .flat = i % 7 == 1};
        struct against_one_op op = {.call = call_move, .arg = &m, .n_in = 1};
        struct random_shape shape;
        random_shape(&state, &shape);
        if (shape.ndim == 0)
            shape = (struct random_shape){1, {9}};
        m.n = 1 + (int)world_random(&state, (uint64_t)shape.ndim);
        for (int k = 0; k < m.n; k++) {
            m.dims[k] = k - (int)world_random(&state, 2) * shape.ndim;
            m.shifts[k] = (int64_t)world_random(&state, 30) - 15;
        }
        double *values = against_one_draw(&state, against_one_numel(&shape));
        op.in[0] = (struct against_one_input){STN_DTYPE_F64, shape, values, 1u << STN_SUM};
        against_one_check(context, &state, random_mesh(&state, context), &op);
        free(values);
    }
    return STN_OK;
}

static void rolls_and_flips_in_every_layout_give_what_one_process_gives(void)
{
    for (int i = 0; i < 4; i++)
        test_ranks(worlds[i], moves_body, NULL);
}

/* Position p of a padded line of n elements. -1: a constant. */
static int64_t element_at(stn_pad_mode mode, int64_t n, int64_t p)
{
    if (p >= 0 && p < n)
        return p;
    if (mode == STN_PAD_CONSTANT)
        return -1;
    if (mode == STN_PAD_REPLICATE)
        return p < 0 ? 0 : n - 1;
    if (mode == STN_PAD_CIRCULAR)
        return (p + n) % n;
    return p < 0 ? -p : 2 * (n - 1) - p;
}

static stn_status plain_body(stn_context *context, void *arg)
{
    enum { N = 7, BELOW = 5, ABOVE = 4, OUT = N + BELOW + ABOVE };
    const int64_t shape[] = {N}, padding[] = {BELOW, ABOVE};
    stn_placement rows[] = {stn_shard(0)};
    double got[OUT];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 3, 0), rows, STN_DTYPE_F64, 1, shape, NULL, test_value);
    for (int mode = 0; mode < 4; mode++) {
        test_read(stn_pad(x, 2, padding, (stn_pad_mode)mode, -3), got, OUT);
        for (int64_t i = 0; i < OUT; i++) {
            int64_t from = element_at((stn_pad_mode)mode, N, i - BELOW);
            CHECK_NEAR(got[i], from < 0 ? -3 : test_value(from), 0);
        }
    }
    return stn_scope_end(context);
}

static void margins_are_those_of_a_plain_loop(void)
{
    test_ranks(3, plain_body, NULL);
}

/* 8 x 5 on 2 ranks: a shift of one row moves one row from each; a pad of columns none. */
static stn_status bytes_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {8, 5}, shift[] = {1}, columns[] = {2, 2};
    const int dims[] = {0}, other[] = {1};
    stn_placement rows[] = {stn_shard(0)};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 2, shape, NULL, test_value);
    stn_roll(x, 1, shift, dims); /* the communicator is made on first use */
    stn_context_stats_reset(context);
    stn_roll(x, 1, shift, dims);
    CHECK_I64(test_stats(context).bytes_sent, 5 * 4);
    CHECK_I64(test_stats(context).collectives, 1);
    stn_context_stats_reset(context);
    stn_roll(x, 1, shift, other);
    stn_flip(x, 1, other);
    stn_pad(x, 2, columns, STN_PAD_CIRCULAR, 0);
    CHECK_I64(test_stats(context).collectives, 0);
    CHECK_I64(test_stats(context).allocations, 3);
    return stn_scope_end(context);
}

static void only_what_changes_ranks_travels(void)
{
    test_ranks(2, bytes_body, NULL);
}

/* 300 ones on the last element, added up in f32: in bf16 they would stop at 256. */
static stn_status halves_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {3}, padding[] = {0, 300};
    stn_placement rows[] = {stn_shard(0)};
    double got[3];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = stn_detach(
        stn_cast(test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 1, shape, NULL, test_value),
                 STN_DTYPE_BF16));
    stn_set_requires_grad(x, 1);
    stn_tensor *y = stn_pad(x, 2, padding, STN_PAD_REPLICATE, 0), *grad;
    stn_tensor *ones = stn_add_number(stn_mul_number(stn_detach(y), 0), 1);
    CHECK_STATUS(stn_grad(context, 1, &y, &ones, 1, &x, 0, 0, &grad), STN_OK);
    CHECK_I64(stn_tensor_dtype(grad), STN_DTYPE_BF16);
    test_read(stn_cast(grad, STN_DTYPE_F32), got, 3);
    CHECK_NEAR(got[0], 1, 0);
    CHECK_NEAR(got[2], 300, 0.007); /* 301, rounded to bf16 */
    return stn_scope_end(context);
}

static void sums_of_halves_are_taken_in_f32(void)
{
    test_ranks(2, halves_body, NULL);
}

/* A roll of all elements in one line is no view of what was rolled. */
static stn_status flat_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {2, 3}, one = 1;
    stn_placement rows[] = {stn_shard(0)};
    double got[6];
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    stn_tensor *x = test_tensor(context, mesh, rows, STN_DTYPE_F64, 2, shape, NULL, test_value);
    stn_tensor *y = stn_roll(x, 1, &one, NULL);
    CHECK(!stn_tensor_is_view(y));
    test_read(stn_mul_number_(y, 2), got, 6);
    CHECK_STATUS(stn_context_status(context), STN_OK);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(got[i], 2 * test_value((i + 5) % 6), 0);
    return stn_scope_end(context);
}

static void a_flat_roll_may_be_changed_in_place(void)
{
    test_ranks(1, flat_body, NULL);
    test_ranks(2, flat_body, NULL);
}

/* INT64_MIN is 1 modulo 3. */
static stn_status far_body(stn_context *context, void *arg)
{
    const int64_t n = 3, shift = INT64_MIN;
    const int dim = 0;
    stn_placement rows[] = {stn_shard(0)};
    double got[3];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F64, 1, &n, NULL, test_value);
    stn_tensor *cotangent = stn_detach(x), *grad;
    stn_set_requires_grad(x, 1);
    for (int flat = 0; flat < 2; flat++) {
        stn_tensor *y = stn_roll(x, 1, &shift, flat ? NULL : &dim);
        test_read(y, got, 3);
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(got[i], test_value((i + 2) % 3), 0);
        CHECK_STATUS(stn_grad(context, 1, &y, &cotangent, 1, &x, 0, 0, &grad), STN_OK);
        test_read(grad, got, 3);
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(got[i], test_value((i + 1) % 3), 0);
    }
    return stn_scope_end(context);
}

static void the_gradient_of_any_shift_is_rolled_back(void)
{
    test_ranks(2, far_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {4}, three[] = {1, 1, 1}, four[] = {4, 0}, cut[] = {-3, -2}, shift[] = {1};
    const int dims[] = {1};
    stn_placement rows[] = {stn_shard(0)};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 2, 0), rows, STN_DTYPE_F32, 1, shape, NULL, test_value);
    stn_pad(x, 3, three, STN_PAD_CONSTANT, 0);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "pad: 'pad' got 3 numbers, wanted two for each of up to 1 dims");
    stn_pad(x, 2, four, STN_PAD_REFLECT, 0);
    CHECK_ERROR(context, STN_ERR_SHAPE,
                "pad: 'pad' got 4 for dim 0 of 4 elements, wanted at most 3 for mode 'reflect'");
    stn_pad(x, 2, cut, STN_PAD_CONSTANT, 0);
    CHECK_ERROR(context, STN_ERR_SHAPE,
                "pad: 'pad' got -3 and -2 for dim 0 of 4 elements, wanted a size of at least 0");
    stn_pad(stn_cast(x, STN_DTYPE_I32), 2, cut, STN_PAD_CONSTANT, (double)NAN);
    CHECK_ERROR(context, STN_ERR_DTYPE, "pad: 'value' got nan, wanted a number that i32 has");
    stn_roll(x, 1, shift, dims);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "roll: 'dims' got 1, wanted -1 <= dims < 1");
    stn_flip(x, 1, dims);
    CHECK_ERROR(context, STN_ERR_ARGUMENT, "flip: 'dims' got 1, wanted -1 <= dims < 1");
    return stn_scope_end(context);
}

static void arguments_that_do_not_fit_are_refused_alike(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"pads_in_every_layout_give_what_one_process_gives", pads_in_every_layout_give_what_one_process_gives},
        {"gradients_of_pads_are_those_of_differences", gradients_of_pads_are_those_of_differences},
        {"rolls_and_flips_in_every_layout_give_what_one_process_gives",
         rolls_and_flips_in_every_layout_give_what_one_process_gives},
        {"margins_are_those_of_a_plain_loop", margins_are_those_of_a_plain_loop},
        {"only_what_changes_ranks_travels", only_what_changes_ranks_travels},
        {"sums_of_halves_are_taken_in_f32", sums_of_halves_are_taken_in_f32},
        {"a_flat_roll_may_be_changed_in_place", a_flat_roll_may_be_changed_in_place},
        {"the_gradient_of_any_shift_is_rolled_back", the_gradient_of_any_shift_is_rolled_back},
        {"arguments_that_do_not_fit_are_refused_alike", arguments_that_do_not_fit_are_refused_alike},
    };
    return TEST_MAIN(argc, argv, cases);
}
