/* Scores of fields: plain loops, layouts against one process with second derivatives, what moves, 16 bits, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>

enum kind { RMSE, LP, CORRELATION, CRPS, ENERGY, SPECTRUM };

struct score {
    enum kind kind;
    int n_in;
    struct random_shape in[4]; /* the last one is the weight where `weighted` */
    int weighted, n, dims[3], keepdim;
    int dim, flag; /* of the members, or of the line; fair, or relative */
    double p;
};

static const struct score scores[] = {
    {RMSE, 3, {{3, {3, 5, 4}}, {3, {3, 5, 4}}, {2, {5, 1}}}, 1, 2, {1, 2}, 0, 0, 0, 0},
    {RMSE, 2, {{2, {6, 7}}, {1, {7}}}, 0, 1, {-1}, 1, 0, 0, 0},
    {RMSE, 3, {{2, {6, 7}}, {2, {6, 7}}, {1, {7}}}, 1, 0, {0}, 0, 0, 0, 0},
    {LP, 3, {{3, {3, 5, 4}}, {2, {5, 4}}, {2, {5, 1}}}, 1, 2, {-2, -1}, 0, 0, 0, 2},
    {LP, 3, {{3, {3, 5, 4}}, {2, {5, 4}}, {2, {5, 1}}}, 1, 2, {-2, -1}, 1, 0, 1, 2},
    {LP, 2, {{2, {6, 7}}, {2, {6, 7}}}, 0, 1, {0}, 0, 0, 1, 3},
    {LP, 3, {{2, {6, 7}}, {2, {6, 7}}, {2, {6, 1}}}, 1, 0, {0}, 0, 0, 1, 1},
    {CORRELATION, 4, {{3, {3, 5, 4}}, {3, {3, 5, 4}}, {2, {5, 4}}, {2, {5, 1}}}, 1, 2, {1, 2}, 0, 0, 0, 0},
    {CORRELATION, 3, {{2, {6, 7}}, {1, {7}}, {2, {6, 1}}}, 0, 1, {1}, 1, 0, 0, 0},
    {CRPS, 2, {{3, {5, 4, 3}}, {2, {4, 3}}}, 0, 0, {0}, 0, 0, 0, 0},
    {CRPS, 2, {{3, {4, 6, 3}}, {2, {4, 3}}}, 0, 0, {0}, 0, 1, 1, 0},
    {CRPS, 2, {{1, {7}}, {0}}, 0, 0, {0}, 0, -1, 1, 0},
    {ENERGY, 3, {{4, {2, 4, 3, 5}}, {3, {2, 3, 5}}, {2, {3, 1}}}, 1, 2, {2, 3}, 0, 1, 1, 0},
    {ENERGY, 2, {{2, {6, 4}}, {1, {4}}}, 0, 0, {0}, 0, 0, 0, 0},
    {ENERGY, 3, {{3, {3, 4, 5}}, {2, {3, 4}}, {2, {3, 1}}}, 1, 1, {0}, 0, 2, 1, 0},
    {SPECTRUM, 1, {{3, {3, 8, 2}}}, 0, 0, {0}, 0, 1, 0, 0},
    {SPECTRUM, 1, {{2, {4, 7}}}, 0, 0, {0}, 0, -1, 0, 0},
};
enum { N_SCORES = sizeof scores / sizeof *scores };

static stn_tensor *call_score(stn_tensor *const *in, const void *arg)
{
    const struct score *s = arg;
    stn_tensor *weight = s->weighted ? in[s->n_in - 1] : NULL;
    switch (s->kind) {
    case RMSE: return stn_rmse(in[0], in[1], weight, s->n, s->dims, s->keepdim);
    case LP: return stn_lp_loss(in[0], in[1], weight, s->p, s->flag, s->n, s->dims, s->keepdim);
    case CORRELATION: return stn_anomaly_correlation(in[0], in[1], in[2], weight, s->n, s->dims, s->keepdim);
    case CRPS: return stn_crps_ensemble(in[0], in[1], s->dim, s->flag);
    case ENERGY: return stn_energy_score(in[0], in[1], weight, s->dim, s->n, s->dims, s->flag);
    case SPECTRUM: return stn_power_spectrum(in[0], s->dim);
    }
    return NULL;
}

/* Weights of both signs whose sums stay above 0; for norms of pairs, of which one may be of a single element, positive
 * ones. */
static double *draw(uint64_t *state, const struct score *s, int k)
{
    const int64_t n = against_one_numel(&s->in[k]);
    double *values = against_one_draw(state, n);
    for (int64_t i = 0; s->weighted && k == s->n_in - 1 && i < n; i++)
        values[i] = i == 1 && s->kind != ENERGY ? -0.1 : 1 + values[i] / 2;
    return values;
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 29;
    (void)arg;
    for (int round = 0; round < test_draws(4); round++)
        for (int i = 0; i < N_SCORES; i++) {
            const struct score *s = &scores[i];
            struct against_one_op op = {.call = call_score, .arg = s, .n_in = s->n_in, .tolerance = 1e-10};
            double *v[4];
            for (int k = 0; k < op.n_in; k++) {
                v[k] = draw(&state, s, k);
                op.in[k] = (struct against_one_input){STN_DTYPE_F64, s->in[k], v[k], 1u << STN_SUM};
            }
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round == 0)
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

/* Fields of ROWS x COLS, and MEMBERS of them, as formulas have them. */
enum { MEMBERS = 4, ROWS = 5, COLS = 3, N = ROWS * COLS };

static double forecast(int64_t i)
{
    return test_value(i);
}

static double outcome(int64_t i)
{
    return test_value(i + 1000);
}

static double climate(int64_t i)
{
    return test_value(i + 2000) / 3;
}

static double area(int64_t row)
{
    return row == 1 ? -0.125 : 0.5 + 0.25 * (double)row;
}

/* Rows over two ranks and columns over three, uneven, one of them without elements. */
static stn_tensor *field(stn_context *context, int ndim, int64_t columns, double (*value)(int64_t))
{
    const int64_t row_sizes[] = {4, 1}, column_sizes[] = {2, 0, 1}, shape[] = {MEMBERS, ROWS, columns};
    const int64_t *const sizes[] = {NULL, row_sizes, columns == COLS ? column_sizes : NULL};
    const stn_placement placements[] = {stn_shard(ndim - 2), columns == COLS ? stn_shard(ndim - 1) : stn_replicate()};
    return test_tensor(context, test_mesh(context, 2, 3), placements, STN_DTYPE_F64, ndim, shape + 3 - ndim,
                       sizes + 3 - ndim, value);
}

static double weighted_sum(double (*term)(int64_t))
{
    double sum = 0;
    for (int64_t i = 0; i < N; i++)
        sum += area(i / COLS) * term(i);
    return sum;
}

static double plain_sum(double (*term)(int64_t))
{
    double sum = 0;
    for (int64_t i = 0; i < N; i++)
        sum += term(i);
    return sum;
}

static double one(int64_t i)
{
    (void)i;
    return 1;
}

static double squared_error(int64_t i)
{
    return pow(forecast(i) - outcome(i), 2);
}

static double cubed_error(int64_t i)
{
    return pow(fabs(forecast(i) - outcome(i)), 3);
}

static double cubed_outcome(int64_t i)
{
    return pow(fabs(outcome(i)), 3);
}

static double anomalies(int64_t i)
{
    return (forecast(i) - climate(i)) * (outcome(i) - climate(i));
}

static double forecast_anomaly(int64_t i)
{
    return pow(forecast(i) - climate(i), 2);
}

static double outcome_anomaly(int64_t i)
{
    return pow(outcome(i) - climate(i), 2);
}

/* One collective each. */
static void check_number(stn_context *context, stn_tensor *score, double want)
{
    stn_stats stats = {.size = sizeof stats};
    double got;
    stn_context_stats(context, &stats);
    CHECK_I64(stats.collectives, 1);
    test_read(score, &got, 1);
    CHECK_NEAR(got, want, 1e-12);
    stn_context_stats_reset(context);
}

static stn_status formulas_body(stn_context *context, void *arg)
{
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = field(context, 2, COLS, forecast), *y = field(context, 2, COLS, outcome),
               *c = field(context, 2, COLS, climate);
    stn_tensor *w = field(context, 2, 1, area);
    stn_context_stats_reset(context);
    check_number(context, stn_rmse(x, y, w, 0, NULL, 0), sqrt(weighted_sum(squared_error) / weighted_sum(one)));
    check_number(context, stn_rmse(x, y, NULL, 0, NULL, 0), sqrt(plain_sum(squared_error) / N));
    check_number(context, stn_lp_loss(x, y, NULL, 3, 0, 0, NULL, 0), cbrt(plain_sum(cubed_error)));
    check_number(context, stn_lp_loss(x, y, w, 3, 1, 0, NULL, 0),
                 cbrt(weighted_sum(cubed_error) / weighted_sum(cubed_outcome)));
    check_number(context, stn_anomaly_correlation(x, y, c, w, 0, NULL, 0),
                 weighted_sum(anomalies) / sqrt(weighted_sum(forecast_anomaly) * weighted_sum(outcome_anomaly)));
    return stn_scope_end(context);
}

static void scores_are_what_their_formulas_say_by_one_collective(void)
{
    test_ranks(6, formulas_body, NULL);
}

/* However often a score reads it. */
static stn_status pending_body(stn_context *context, void *arg)
{
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    const stn_placement pending = stn_partial(STN_SUM), whole = stn_replicate();
    const int64_t shape[] = {ROWS, COLS};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, mesh, &pending, STN_DTYPE_F64, 2, shape, NULL, forecast),
               *y = test_tensor(context, mesh, &whole, STN_DTYPE_F64, 2, shape, NULL, outcome);
    stn_context_stats_reset(context);
    stn_lp_loss(y, x, NULL, 3, 1, 0, NULL, 0);
    CHECK_I64(test_stats_reset(context).collectives, 1);
    stn_anomaly_correlation(x, y, NULL, NULL, 0, NULL, 0);
    CHECK_I64(test_stats_reset(context).collectives, 1);
    stn_anomaly_correlation(y, y, x, NULL, 0, NULL, 0);
    CHECK_I64(test_stats_reset(context).collectives, 1);
    stn_power_spectrum(x, 0);
    CHECK_I64(test_stats_reset(context).collectives, 1);
    stn_degree_power(stn_complex(x, x));
    CHECK_I64(test_stats_reset(context).collectives, 1);
    return stn_scope_end(context);
}

static void what_is_pending_is_reduced_once(void)
{
    test_ranks(2, pending_body, NULL);
}

static double distance(int64_t a, int64_t b)
{
    double sum = 0;
    for (int64_t i = 0; i < N; i++)
        sum += area(i / COLS) * pow(forecast(a * N + i) - (b < 0 ? outcome(i) : forecast(b * N + i)), 2);
    return sqrt(sum);
}

static double crps(int64_t i, int fair)
{
    double sum = 0, pairs = 0;
    for (int64_t a = 0; a < MEMBERS; a++) {
        sum += fabs(forecast(a * N + i) - outcome(i));
        for (int64_t b = 0; b < MEMBERS; b++)
            pairs += fabs(forecast(a * N + i) - forecast(b * N + i));
    }
    return sum / MEMBERS - pairs / (2 * MEMBERS * (fair ? MEMBERS - 1 : MEMBERS));
}

static double energy(int fair)
{
    double sum = 0, pairs = 0;
    for (int64_t a = 0; a < MEMBERS; a++) {
        sum += distance(a, -1);
        for (int64_t b = 0; b < MEMBERS; b++)
            pairs += distance(a, b);
    }
    return sum / MEMBERS - pairs / (2 * MEMBERS * (fair ? MEMBERS - 1 : MEMBERS));
}

static stn_status ensembles_body(stn_context *context, void *arg)
{
    double got[N];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = field(context, 3, COLS, forecast), *y = field(context, 2, COLS, outcome),
               *w = field(context, 2, 1, area);
    for (int fair = 0; fair < 2; fair++) {
        stn_stats stats = {.size = sizeof stats};
        stn_context_stats_reset(context);
        stn_tensor *score = stn_crps_ensemble(x, y, 0, fair);
        stn_context_stats(context, &stats);
        CHECK_I64(stats.collectives + stats.redistributions, 0);
        test_read(score, got, N);
        for (int64_t i = 0; i < N; i++)
            CHECK_NEAR(got[i], crps(i, fair), 1e-12);
        stn_context_stats_reset(context);
        check_number(context, stn_energy_score(x, y, w, 0, 0, NULL, fair), energy(fair));
    }
    return stn_scope_end(context);
}

static void ensembles_are_scored_as_by_all_pairs(void)
{
    test_ranks(6, ensembles_body, NULL);
}

/* 40 members: more than the ops that join tensors take at once. */
static stn_status many_body(stn_context *context, void *arg)
{
    const int64_t members[] = {40, 3};
    const stn_placement rows = stn_shard(0);
    double got, want = 0;
    (void)arg;
    stn_scope_begin(context);
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_tensor *x = test_tensor(context, mesh, &rows, STN_DTYPE_F64, 2, members, NULL, forecast);
    stn_tensor *zero = stn_mul_number(stn_select(x, 0, 0), 0);
    for (int a = 0; a < 40; a++)
        for (int b = -1; b < 40; b++) {
            double square = 0;
            for (int i = 0; i < 3; i++)
                square += pow(forecast(3 * a + i) - (b < 0 ? 0 : forecast(3 * b + i)), 2);
            want += b < 0 ? sqrt(square) / 40 : -sqrt(square) / (2 * 40 * 39);
        }
    test_read(stn_energy_score(x, zero, NULL, 0, 0, NULL, 1), &got, 1);
    CHECK_NEAR(got, want, 1e-12);
    return stn_scope_end(context);
}

static void many_members_are_scored_together(void)
{
    test_ranks(2, many_body, NULL);
}

/* A wave of number 2 and amplitude 3 has power 9 / 2; the mean stands alone at 0, and n / 2 is counted once. */
static double wave(int64_t i)
{
    return 1 + 3 * cos(2 * 3.14159265358979323846 * 2 * (double)i / 8) + (i % 2 ? -0.5 : 0.5);
}

static stn_status spectrum_body(stn_context *context, void *arg)
{
    const int64_t n = 8;
    const stn_placement along = stn_shard(0);
    const double want[] = {1, 0, 4.5, 0, 0.25};
    double got[5];
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, 3, 0), &along, STN_DTYPE_F64, 1, &n, NULL, wave);
    test_read(stn_power_spectrum(x, 0), got, 5);
    for (int k = 0; k < 5; k++)
        CHECK(fabs(got[k] - want[k]) < 1e-14);
    return stn_scope_end(context);
}

static void the_power_of_a_wave_is_half_its_squared_amplitude(void)
{
    test_ranks(3, spectrum_body, NULL);
}

/* A perfect forecast has gradient 0, not NaN; 16-bit floats are computed in f32: 4000 squares of 16 overflow f16. A
 * large offset common to members and target cancels before they are compared. */
static stn_status edges_body(stn_context *context, void *arg)
{
    static const struct random_shape line = {1, {4000}}, pair = {2, {2, 1}}, single = {1, {1}};
    static double fours[4000], zeros[4000];
    const double far[] = {100000.25, 100000.75}, between[] = {100000.5};
    double got[4000];
    stn_tensor *grad;
    (void)arg;
    for (int i = 0; i < 4000; i++)
        fours[i] = 4;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F64, &line, fours),
               *y = against_one_local(context, STN_DTYPE_F64, &line, fours);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    for (int k = 0; k < 2; k++) {
        stn_tensor *score = k == 0 ? stn_rmse(x, y, NULL, 0, NULL, 0) : stn_lp_loss(x, y, NULL, 2, 1, 0, NULL, 0);
        CHECK_STATUS(stn_grad(context, 1, &score, NULL, 1, &x, 0, 0, &grad), STN_OK);
        test_read(grad, got, 4000);
        for (int i = 0; i < 4000; i++)
            CHECK_NEAR(got[i], 0, 0);
    }
    stn_tensor *half = stn_cast(stn_detach(x), STN_DTYPE_F16),
               *zero = stn_cast(against_one_local(context, STN_DTYPE_F64, &line, zeros), STN_DTYPE_F16);
    stn_tensor *score = stn_rmse(half, zero, NULL, 0, NULL, 0);
    CHECK_I64(stn_tensor_dtype(score), STN_DTYPE_F16);
    test_read(stn_cast(score, STN_DTYPE_F64), got, 1);
    CHECK_NEAR(got[0], 4, 0);
    stn_tensor *members = against_one_local(context, STN_DTYPE_F32, &pair, far),
               *target = against_one_local(context, STN_DTYPE_F32, &single, between);
    test_read(stn_crps_ensemble(members, target, 0, 0), got, 1);
    CHECK_NEAR(got[0], 0.125, 0);
    return stn_scope_end(context);
}

static void zeros_offsets_and_narrow_floats_are_scored(void)
{
    test_ranks(1, edges_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    static const double zeros[12];
    const int field_dim = 0;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){2, {3, 4}}, zeros),
               *i = stn_cast(x, STN_DTYPE_I64);
    stn_tensor *y = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){1, {4}}, zeros),
               *wide = stn_cast(x, STN_DTYPE_F64);
    stn_tensor *w = against_one_local(context, STN_DTYPE_F32, &(struct random_shape){1, {3}}, zeros),
               *number = stn_select(y, 0, 0);
    CHECK_REFUSED(context, stn_rmse(i, x, NULL, 0, NULL, 0), STN_ERR_DTYPE,
                  "rmse: 'input' got i64, wanted a floating dtype");
    CHECK_REFUSED(context, stn_rmse(x, wide, NULL, 0, NULL, 0), STN_ERR_DTYPE,
                  "rmse: 'target' got f64, wanted that of 'input', f32");
    CHECK_REFUSED(context, stn_rmse(x, x, w, 0, NULL, 0), STN_ERR_SHAPE,
                  "rmse: 'weight' got shape (3), wanted one that broadcasts to that of 'input', (3, 4)");
    CHECK_REFUSED(context, stn_lp_loss(x, x, NULL, 0, 0, 0, NULL, 0), STN_ERR_ARGUMENT,
                  "lp_loss: 'p' got 0, wanted a finite number above 0");
    CHECK_REFUSED(context, stn_lp_loss(x, x, NULL, INFINITY, 0, 0, NULL, 0), STN_ERR_ARGUMENT,
                  "lp_loss: 'p' got inf, wanted a finite number above 0");
    CHECK_REFUSED(context, stn_anomaly_correlation(x, x, NULL, NULL, 1, (int[]){2}, 0), STN_ERR_ARGUMENT,
                  "anomaly_correlation: 'dim' got 2, wanted -2 <= dim < 2");
    CHECK_REFUSED(context, stn_crps_ensemble(x, w, 0, 0), STN_ERR_SHAPE,
                  "crps_ensemble: 'target' got shape (3), wanted that of a member, (4)");
    CHECK_REFUSED(context, stn_crps_ensemble(stn_slice(x, 0, 0, 1, 1), y, 0, 1), STN_ERR_SHAPE,
                  "crps_ensemble: 'input' got 1 members along dim 0, wanted at least 2");
    CHECK_REFUSED(context, stn_crps_ensemble(number, y, 0, 1), STN_ERR_SHAPE,
                  "crps_ensemble: 'input' got no dims, wanted one for the members");
    CHECK_REFUSED(context, stn_energy_score(x, y, NULL, 0, 1, &field_dim, 0), STN_ERR_ARGUMENT,
                  "energy_score: 'field_dim' got 0, wanted dims other than that of the members");
    CHECK_REFUSED(context, stn_energy_score(x, y, w, 0, 0, NULL, 0), STN_ERR_SHAPE,
                  "energy_score: 'weight' got shape (3), wanted one that broadcasts to that of 'target', (4)");
    CHECK_REFUSED(context, stn_energy_score(y, number, NULL, 0, 0, NULL, 0), STN_ERR_SHAPE,
                  "energy_score: 'input' got 1 dims, wanted one for the members and one of a field");
    CHECK_REFUSED(context, stn_power_spectrum(number, 0), STN_ERR_SHAPE,
                  "power_spectrum: 'input' got no dims, wanted at least 1");
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"scores_are_what_their_formulas_say_by_one_collective", scores_are_what_their_formulas_say_by_one_collective},
        {"what_is_pending_is_reduced_once", what_is_pending_is_reduced_once},
        {"ensembles_are_scored_as_by_all_pairs", ensembles_are_scored_as_by_all_pairs},
        {"many_members_are_scored_together", many_members_are_scored_together},
        {"the_power_of_a_wave_is_half_its_squared_amplitude", the_power_of_a_wave_is_half_its_squared_amplitude},
        {"zeros_offsets_and_narrow_floats_are_scored", zeros_offsets_and_narrow_floats_are_scored},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
