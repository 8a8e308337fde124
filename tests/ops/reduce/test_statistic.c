/* var, std, weighted_mean, weighted_var: layouts against one process with second derivatives, what moves, precision,
 * refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

enum kind { VAR, STD, WEIGHTED_MEAN, WEIGHTED_VAR };

struct statistic {
    enum kind kind;
    struct random_shape x, w;
    int n, dims[3], keepdim;
    double correction;
};

static const struct statistic statistics[] = {
    {VAR, {3, {5, 6, 4}}, {0}, 1, {1}, 0, 1},
    {VAR, {2, {9, 8}}, {0}, 0, {0}, 0, 0},
    {VAR, {4, {3, 2, 4, 5}}, {0}, 2, {-1, 0}, 1, 2},
    {STD, {3, {4, 5, 6}}, {0}, 2, {0, 2}, 0, 1},
    {STD, {1, {7}}, {0}, 0, {0}, 1, 0},
    {WEIGHTED_MEAN, {3, {4, 5, 6}}, {3, {1, 5, 1}}, 0, {0}, 0, 0},
    {WEIGHTED_MEAN, {3, {4, 5, 6}}, {2, {5, 6}}, 2, {1, 2}, 1, 0},
    {WEIGHTED_MEAN, {2, {6, 7}}, {1, {7}}, 1, {1}, 0, 0},
    {WEIGHTED_VAR, {3, {4, 5, 6}}, {2, {5, 1}}, 2, {1, 2}, 0, 0},
    {WEIGHTED_VAR, {2, {8, 3}}, {2, {8, 3}}, 1, {0}, 1, 0},
};
enum { N_STATISTICS = sizeof statistics / sizeof *statistics };

static stn_tensor *call_statistic(stn_tensor *const *in, const void *arg)
{
    const struct statistic *s = arg;
    switch (s->kind) {
    case VAR: return stn_var(in[0], s->n, s->dims, s->correction, s->keepdim);
    case STD: return stn_std(in[0], s->n, s->dims, s->correction, s->keepdim);
    case WEIGHTED_MEAN: return stn_weighted_mean(in[0], in[1], s->n, s->dims, s->keepdim);
    case WEIGHTED_VAR: return stn_weighted_var(in[0], in[1], s->n, s->dims, s->keepdim);
    }
    return NULL;
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 13;
    (void)arg;
    for (int round = 0; round < test_draws(6); round++)
        for (int i = 0; i < N_STATISTICS; i++) {
            const struct statistic *s = &statistics[i];
            int64_t n[] = {against_one_numel(&s->x), against_one_numel(&s->w)};
            double *x = against_one_draw(&state, n[0]), *w = against_one_draw(&state, n[1]);
            struct against_one_op op = {
                .call = call_statistic, .arg = s, .n_in = s->w.ndim > 0 ? 2 : 1, .tolerance = 1e-11};
            for (int64_t k = 0; k < n[1]; k++)
                w[k] += 1.5;
            op.in[0] = (struct against_one_input){STN_DTYPE_F64, s->x, x, 1u << STN_SUM};
            op.in[1] = (struct against_one_input){STN_DTYPE_F64, s->w, w, 1u << STN_SUM};
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round == 0)
                against_one_differences(context, &state, &op);
            free(x), free(w);
        }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

/* By the definitions, over cut rows with an empty chunk: one collective each. The numbers lie about 3000, where
 * squares in f32 would not tell them apart. */
static stn_status moves_body(stn_context *context, void *arg)
{
    enum { ROWS = 7, COLS = 3 };
    const int64_t x[] = {ROWS, COLS}, w[] = {ROWS, 1}, sizes[] = {5, 0, 2}, *const uneven[] = {sizes, NULL};
    const stn_placement rows = stn_shard(0);
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *input =
        stn_add_number(test_tensor(context, mesh, &rows, STN_DTYPE_F32, 2, x, uneven, test_value), 3000);
    stn_tensor *weight = stn_square(test_tensor(context, mesh, &rows, STN_DTYPE_F32, 2, w, uneven, test_value));
    double v[ROWS * COLS], by[ROWS], got[COLS];
    test_read(input, v, ROWS * COLS);
    test_read(weight, by, ROWS);
    for (int kind = VAR; kind <= WEIGHTED_VAR; kind++) {
        const struct statistic s = {.kind = (enum kind)kind, .n = 1, .dims = {0}, .correction = 1};
        stn_stats stats = {.size = sizeof stats};
        stn_context_stats_reset(context);
        stn_tensor *y = call_statistic((stn_tensor *[]){input, weight}, &s);
        stn_context_stats(context, &stats);
        CHECK_I64(stats.collectives, 1);
        CHECK_I64(stats.bytes_sent, 2 * (kind < WEIGHTED_MEAN ? 3 : 4) * 8 * COLS);
        CHECK_I64(stn_spec_placement(stn_tensor_spec(y), 0).kind, STN_PLACE_REPLICATE);
        test_read(y, got, COLS);
        for (int c = 0; c < COLS; c++) {
            double total = 0, mean = 0, square = 0;
            for (int r = 0; r < ROWS; r++)
                total += kind < WEIGHTED_MEAN ? 1 : by[r];
            for (int r = 0; r < ROWS; r++)
                mean += v[r * COLS + c] * (kind < WEIGHTED_MEAN ? 1 : by[r]) / total;
            for (int r = 0; r < ROWS; r++)
                square += (v[r * COLS + c] - mean) * (v[r * COLS + c] - mean) * (kind < WEIGHTED_MEAN ? 1 : by[r]);
            const double want[] = {square / (total - 1), sqrt(square / (total - 1)), mean, square / total};
            CHECK_NEAR(got[c], want[kind], 2e-7 * want[kind]);
        }
    }
    return stn_scope_end(context);
}

static void ranks_join_their_moments_in_one_collective(void)
{
    test_ranks(3, moves_body, NULL);
}

/* By the definitions, in one sum after the other. */
static void check_weighted(stn_context *context, const stn_mesh *mesh, int64_t n, const double *x, const double *w)
{
    const stn_placement rows = stn_shard(0);
    const stn_spec *spec;
    double total = 0, mean = 0, var = 0, got;
    for (int64_t i = 0; i < n; i++)
        total += w[i];
    for (int64_t i = 0; i < n; i++)
        mean += w[i] * x[i] / total;
    for (int64_t i = 0; i < n; i++)
        var += w[i] * (x[i] - mean) * (x[i] - mean) / total;
    CHECK_STATUS(stn_spec_create(context, mesh, &rows, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    stn_tensor *tx = against_one_tensor(context, spec, x), *tw = against_one_tensor(context, spec, w);
    test_read(stn_weighted_mean(tx, tw, 0, NULL, 0), &got, 1);
    CHECK_NEAR(got, total == 0 ? (double)NAN : mean, 1e-12);
    test_read(stn_weighted_var(tx, tw, 0, NULL, 0), &got, 1);
    CHECK_NEAR(got, total == 0 ? (double)NAN : var, 1e-12);
    stn_spec_release(&spec);
}

/* Ranks whose weights add up to 0; totals below 0; what has no weight and lies far away, in front too. */
static stn_status signs_body(stn_context *context, void *arg)
{
    static const double x[] = {1, 2, 3, 5, 8, 13}, weights[][6] = {{1, -1, 1, 1, 0, 0},   {1, -3, 2, -1, 0, 0},   {-1, -1, -2, -1, -1, -3},
                                                                   {2, -2, 1, -1, 4, -4}, {0, 0, 1, -1, 5, 1},    {1, -1, 0, 0, 0, 0},
                                                                   {0, 0, 0, 0, 0, 0},    {-1, 2, -0.5, 1, 3, 2}};
    static const double marked[] = {1e30, 1e30, 3.5, 1e30, 4.25, -2}, marks[] = {0, 0, 2, 0, 1, 3};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    stn_scope_begin(context);
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        for (int64_t n = 4; n <= 6; n += 2)
            check_weighted(context, mesh, n, x, weights[i]);
    check_weighted(context, mesh, 6, marked, marks);
    return stn_scope_end(context);
}

static void weights_of_both_signs_count_on_every_rank(void)
{
    for (int ranks = 1; ranks <= 4; ranks++)
        test_ranks(ranks, signs_body, NULL);
}

/* Numbers whose squares f64 does not have: equal ones have none to add up, others too much; an infinity has no
 * deviation. */
static stn_status large_body(stn_context *context, void *arg)
{
    enum { N = 4 };
    static const double x[][N] = {
        {1e200, 1e200, 1e200, 1e200}, {1e200, -1e200, 1e200, 1e200}, {1e200, 1, 1e200, INFINITY}};
    static const double want[] = {0, INFINITY, (double)NAN};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    const stn_placement rows = stn_shard(0);
    const int64_t n = N;
    const stn_spec *spec;
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, mesh, &rows, STN_DTYPE_F64, 1, &n, NULL, &spec), STN_OK);
    for (int k = 0; k < 3; k++) {
        stn_tensor *t = against_one_tensor(context, spec, x[k]);
        test_compare(stn_var(t, 0, NULL, 1, 0), &want[k], 1, 0);
        test_compare(stn_std(t, 0, NULL, 1, 0), &want[k], 1, 0);
    }
    stn_spec_release(&spec);
    return stn_scope_end(context);
}

static void squares_without_room_make_an_infinite_variance(void)
{
    for (int ranks = 1; ranks <= 6; ranks++)
        test_ranks(ranks, large_body, NULL);
}

/* Numbers about 1000, of which f16 knows halves and bf16 multiples of 4: a mean rounded to these would be no mean. */
static stn_status narrow_body(stn_context *context, void *arg)
{
    enum { N = 6 };
    static const double x[N] = {1000, 1004, 1012, 1000, 1016, 1004}, w[N] = {1, 2, 0.5, 4, 1, 3};
    static const stn_dtype dtypes[] = {STN_DTYPE_F16, STN_DTYPE_BF16};
    const struct random_shape shape = {1, {N}};
    (void)arg;
    stn_scope_begin(context);
    for (int kind = VAR; kind <= WEIGHTED_VAR; kind++)
        for (int d = 0; d < 2; d++) {
            const struct statistic s = {.kind = (enum kind)kind, .correction = 1};
            double got[2][2][N];
            for (int narrow = 0; narrow < 2; narrow++) {
                const stn_dtype dtype = narrow ? dtypes[d] : STN_DTYPE_F64;
                stn_tensor *in[] = {stn_detach(stn_cast(against_one_local(context, STN_DTYPE_F64, &shape, x), dtype)),
                                    stn_detach(stn_cast(against_one_local(context, STN_DTYPE_F64, &shape, w), dtype))},
                           *grads[2];
                for (int k = 0; k < 2; k++)
                    CHECK_STATUS(stn_set_requires_grad(in[k], 1), STN_OK);
                stn_tensor *y = call_statistic(in, &s);
                CHECK_STATUS(stn_grad(context, 1, &y, NULL, kind < WEIGHTED_MEAN ? 1 : 2, in, 0, 0, grads), STN_OK);
                for (int k = 0; k < (kind < WEIGHTED_MEAN ? 1 : 2); k++)
                    test_read(stn_cast(grads[k], STN_DTYPE_F64), got[narrow][k], N);
            }
            for (int k = 0; k < (kind < WEIGHTED_MEAN ? 1 : 2); k++)
                for (int i = 0; i < N; i++)
                    CHECK_NEAR(got[1][k][i], got[0][k][i], d == 0 ? 3e-3 : 2e-2);
        }
    return stn_scope_end(context);
}

static void gradients_of_16_bit_floats_use_means_in_f32(void)
{
    test_ranks(1, narrow_body, NULL);
}

/* Columns of which the second one has the deviation 0: neither its gradient nor what is derived from it is NaN. */
static stn_status flat_body(stn_context *context, void *arg)
{
    enum { ROWS = 5, COLS = 3 };
    const int64_t shape[] = {ROWS, COLS}, sizes[] = {3, 0, 2}, *const uneven[] = {sizes, NULL};
    const stn_placement rows = stn_shard(0);
    const int whole = stn_context_size(context) == 1;
    const stn_mesh *mesh = whole ? NULL : test_mesh(context, 3, 0);
    static const stn_dtype dtypes[] = {STN_DTYPE_F64, STN_DTYPE_F32, STN_DTYPE_F16};
    (void)arg;
    for (int d = 0; d < 3; d++) {
        double first[ROWS * COLS], second[ROWS * COLS];
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, mesh, whole ? NULL : &rows, STN_DTYPE_F64, 2, shape, whole ? NULL : uneven,
                                    test_value),
                   *g, *h;
        stn_tensor *flat = stn_add_number(stn_mul_number(stn_narrow(x, 1, 1, 1), 0), 0.5);
        x = stn_cat(3, (stn_tensor *[]){stn_narrow(x, 1, 0, 1), flat, stn_narrow(x, 1, 2, 1)}, 1);
        x = stn_detach(stn_cast(x, dtypes[d]));
        CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
        stn_tensor *y = stn_sum(stn_std(x, 1, (const int[]){0}, 1, 0), 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &y, NULL, 1, &x, 0, 1, &g), STN_OK);
        stn_tensor *z = stn_sum(stn_square(g), 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &z, NULL, 1, &x, 0, 0, &h), STN_OK);
        test_read(stn_cast(g, STN_DTYPE_F64), first, ROWS * COLS);
        test_read(stn_cast(h, STN_DTYPE_F64), second, ROWS * COLS);
        for (int i = 0; i < ROWS * COLS; i++) {
            CHECK(isfinite(first[i]) && isfinite(second[i]));
            CHECK((first[i] != 0) == (i % COLS != 1));
            if (i % COLS == 1)
                CHECK_NEAR(second[i], 0, 0);
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void where_the_deviation_is_0_so_is_its_gradient(void)
{
    test_ranks(1, flat_body, NULL);
    test_ranks(3, flat_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const double zeros[16];
    char text[512];
    double got;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){2, {3, 4}}, zeros);
    stn_tensor *one = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){1, {1}}, zeros);
    test_read(stn_var(one, 0, NULL, 1, 0), &got, 1);
    CHECK(isnan(got)); /* of one number no sample's variance is known */
    CHECK(stn_tensor_is_error(stn_var(stn_cast(x, STN_DTYPE_I32), 0, NULL, 1, 0)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_DTYPE);
    CHECK_STR(text, "var: 'input' got i32, wanted a floating dtype");
    CHECK(stn_tensor_is_error(stn_weighted_mean(one, x, 0, NULL, 0)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_SHAPE);
    CHECK_STR(text, "weighted_mean: 'weight' got shape (3, 4), wanted one that broadcasts to input's (1)");
    CHECK(stn_tensor_is_error(stn_weighted_var(x, stn_cast(x, STN_DTYPE_F64), 0, NULL, 0)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_DTYPE);
    CHECK_STR(text, "weighted_var: 'weight' got f64, wanted input's f32");
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"ranks_join_their_moments_in_one_collective", ranks_join_their_moments_in_one_collective},
        {"weights_of_both_signs_count_on_every_rank", weights_of_both_signs_count_on_every_rank},
        {"squares_without_room_make_an_infinite_variance", squares_without_room_make_an_infinite_variance},
        {"gradients_of_16_bit_floats_use_means_in_f32", gradients_of_16_bit_floats_use_means_in_f32},
        {"where_the_deviation_is_0_so_is_its_gradient", where_the_deviation_is_0_so_is_its_gradient},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
