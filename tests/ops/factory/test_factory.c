/* Factories: every layout has what one process has, by the definition; moments of random numbers; what is refused. */
#include "core/box/rng.h"
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum what { FULL, ARANGE, LINSPACE, EYE, RAND, RANDN, TRUNCATED, FAR_END, RANDINT, XAVIER, KAIMING, ALL };

struct factory {
    enum what what;
    stn_dtype dtype;
    struct random_shape shape;
};

static const struct factory factories[] = {
    {FULL, STN_DTYPE_F64, {3, {3, 4, 5}}},  {FULL, STN_DTYPE_F32, {0, {0}}},         {ARANGE, STN_DTYPE_I64, {1, {9}}},
    {LINSPACE, STN_DTYPE_F64, {1, {7}}},    {LINSPACE, STN_DTYPE_F32, {1, {1}}},     {EYE, STN_DTYPE_F32, {2, {5, 7}}},
    {RAND, STN_DTYPE_F32, {2, {5, 7}}},     {RAND, STN_DTYPE_F64, {3, {3, 2, 5}}},   {RANDN, STN_DTYPE_F32, {1, {11}}},
    {RANDN, STN_DTYPE_F64, {2, {0, 3}}},    {TRUNCATED, STN_DTYPE_F64, {2, {6, 5}}}, {RANDINT, STN_DTYPE_I64, {2, {7, 4}}},
    {XAVIER, STN_DTYPE_F32, {3, {4, 3, 2}}}, {KAIMING, STN_DTYPE_F64, {2, {6, 4}}},
};
enum { N_FACTORIES = sizeof factories / sizeof *factories };

static stn_tensor *make(stn_context *context, enum what what, const stn_spec *spec)
{
    switch (what) {
    case FULL: return stn_full(context, spec, 2.5);
    case ARANGE: return stn_arange(context, spec, -3, 2);
    case LINSPACE: return stn_linspace(context, spec, 0.1, 0.7);
    case EYE: return stn_eye(context, spec);
    case RAND: return stn_rand(context, spec);
    case RANDN: return stn_randn(context, spec);
    case TRUNCATED: return stn_trunc_normal(context, spec, 1, 2, 2, 4);
    case FAR_END: return stn_trunc_normal(context, spec, 1, 2, -59, -39); /* 20 to 30 standard deviations off */
    case RANDINT: return stn_randint(context, spec, -2, 5);
    case XAVIER: return stn_xavier_uniform(context, spec, 1);
    case KAIMING: return stn_kaiming_normal(context, spec, stn_gain(STN_GAIN_RELU, 0), STN_FAN_OUT);
    case ALL: break;
    }
    return NULL;
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 29;
    (void)arg;
    for (int i = 0; i < 6 * N_FACTORIES; i++) {
        const struct factory *f = &factories[i % N_FACTORIES];
        const int64_t n = against_one_numel(&f->shape);
        const stn_mesh *mesh = random_mesh(&state, context);
        const uint32_t ops = f->dtype == STN_DTYPE_I64 ? 0 : 1u << STN_SUM | 1u << STN_MAX;
        const stn_spec *spec = random_spec(&state, context, mesh, &f->shape, f->dtype, ops), *local;
        double *want = calloc((size_t)n + 1, sizeof *want);
        stn_scope_begin(context);
        CHECK_STATUS(stn_spec_create(context, NULL, NULL, f->dtype, f->shape.ndim, f->shape.shape, NULL, &local),
                     STN_OK);
        stn_context_set_random_state(context, 5, (uint64_t)i);
        test_read(make(context, f->what, local), want, n);
        stn_context_set_random_state(context, 5, (uint64_t)i);
        stn_tensor *made = make(context, f->what, spec);
        CHECK(stn_tensor_spec(made) == spec);
        against_one_compare(made, want, 0);
        stn_spec_release(&local);
        stn_spec_release(&spec);
        free(want);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void every_layout_has_what_one_process_has(void)
{
    test_worlds(layouts_body, NULL);
}

static stn_tensor *make_local(stn_context *context, enum what what, stn_dtype dtype, int64_t rows, int64_t cols,
                              double *v)
{
    const int64_t shape[] = {rows, cols};
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, dtype, cols ? 2 : 1, shape, NULL, &spec), STN_OK);
    stn_tensor *made = make(context, what, spec);
    stn_spec_release(&spec);
    test_read(made, v, rows * (cols ? cols : 1));
    return made;
}

static stn_status values_body(stn_context *context, void *arg)
{
    double v[24];
    uint64_t seed, before, after;
    (void)arg;
    stn_scope_begin(context);
    stn_context_random_state(context, &seed, &before);
    make_local(context, ARANGE, STN_DTYPE_I64, 5, 0, v);
    for (int i = 0; i < 5; i++)
        CHECK_NEAR(v[i], 2 * i - 3, 0);
    make_local(context, LINSPACE, STN_DTYPE_F64, 4, 0, v);
    CHECK(v[0] == 0.1 && v[3] == 0.7);
    CHECK_NEAR(v[1], 0.3, 1e-15);
    make_local(context, EYE, STN_DTYPE_F32, 3, 4, v);
    for (int i = 0; i < 12; i++)
        CHECK_NEAR(v[i], i % 5 == 0, 0);
    stn_context_random_state(context, &seed, &after);
    CHECK_I64((int64_t)(after - before), 0);
    make_local(context, RAND, STN_DTYPE_F32, 6, 0, v);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(v[i], stni_rng_uniform(stni_rng_block(seed, before, (uint64_t)i / 4).v[i % 4], 24), 0);
    stn_context_random_state(context, &seed, &after);
    CHECK_I64((int64_t)(after - before), 1);
    return stn_scope_end(context);
}

static void values_are_those_of_the_definition(void)
{
    test_ranks(1, values_body, NULL);
}

/* Mean and variance of many numbers, within five standard errors, and their ends. */
static stn_status moments_body(stn_context *context, void *arg)
{
    enum { ROWS = 250, COLS = 160, N = ROWS * COLS };
    static const struct { enum what what; double mean, variance, low, high; } wanted[] = {
        {RAND, 0.5, 1.0 / 12, 0, 1},
        {RANDN, 0, 1, -6, 6},
        {RANDINT, 1, 4, -2, 4},
        {TRUNCATED, 1 + 2 * 0.9206446, 4 * 0.0769421, 2, 4},
        {FAR_END, 1 - 2 * 20.0497530, 4 * 0.00246291, -59, -39},
        {XAVIER, 0, 2.0 / (ROWS + COLS), -0.121, 0.121},
        {KAIMING, 0, 2.0 / ROWS, -0.6, 0.6},
    };
    double *v = malloc(N * sizeof *v);
    (void)arg;
    stn_scope_begin(context);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        double mean = 0, square = 0, low = INFINITY, high = -INFINITY;
        make_local(context, wanted[i].what, wanted[i].what == RANDINT ? STN_DTYPE_I64 : STN_DTYPE_F32, ROWS, COLS, v);
        for (int j = 0; j < N; j++) {
            mean += v[j] / N;
            square += (v[j] - wanted[i].mean) * (v[j] - wanted[i].mean) / N;
            low = fmin(low, v[j]);
            high = fmax(high, v[j]);
        }
        CHECK(fabs(mean - wanted[i].mean) <= 5 * sqrt(wanted[i].variance / N));
        CHECK_NEAR(square, wanted[i].variance, 0.04);
        CHECK(low >= wanted[i].low && high <= wanted[i].high);
    }
    free(v);
    return stn_scope_end(context);
}

static void random_numbers_have_their_moments(void)
{
    test_ranks(1, moments_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const int64_t shape[] = {3, 4};
    const stn_spec *one, *whole;
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_F32, 1, shape, NULL, &one), STN_OK);
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, STN_DTYPE_I32, 2, shape, NULL, &whole), STN_OK);
    CHECK_REFUSED(context, stn_eye(context, one), STN_ERR_SHAPE, "eye: 'spec' got 1 dims, wanted 2");
    CHECK_REFUSED(context, stn_rand(context, whole), STN_ERR_DTYPE, "uniform: 'spec' got i32, wanted a floating dtype");
    CHECK_REFUSED(context, stn_normal(context, one, 0, -1), STN_ERR_ARGUMENT,
                  "normal: 'std' got -1, wanted at least 0");
    CHECK_REFUSED(context, stn_randint(context, whole, 3, 3), STN_ERR_ARGUMENT,
                  "randint: got 3 to 3, wanted low < high, neither beyond 2^52");
    CHECK_REFUSED(context, stn_xavier_normal(context, one, 1), STN_ERR_SHAPE,
                  "xavier_normal: 'spec' got 1 dims, wanted at least 2: outputs, inputs");
    CHECK_REFUSED(context, stn_zeros(context, NULL), STN_ERR_ARGUMENT,
                  "full: 'spec' got NULL, wanted one of the context");
    stn_spec_release(&one);
    stn_spec_release(&whole);
    return stn_scope_end(context);
}

static void what_does_not_fit_is_refused(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_layout_has_what_one_process_has", every_layout_has_what_one_process_has},
        {"values_are_those_of_the_definition", values_are_those_of_the_definition},
        {"random_numbers_have_their_moments", random_numbers_have_their_moments},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
