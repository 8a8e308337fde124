/* logsumexp: every dtype and instruction set, lines long and short, side by side and with steps, against sums in
 * f64; infinities, NaN and ranks without elements; how much memory it takes. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

struct sums {
    struct random_shape shape;
    int n, dims[2];
    int from, to; /* dims that are exchanged before */
};

static const struct sums list[] = {
    {{1, {1}}, 1, {0}, 0, 0},         {{1, {17}}, 0, {0}, 0, 0},           {{1, {5003}}, 1, {0}, 0, 0},
    {{2, {9, 50}}, 1, {1}, 0, 0},     {{2, {70, 300}}, 1, {0}, 0, 0},      {{2, {3, 1025}}, 1, {1}, 0, 0},
    {{3, {40, 37, 3}}, 1, {1}, 0, 0}, {{3, {6, 19, 33}}, 2, {0, 2}, 0, 0}, {{3, {6, 19, 33}}, 2, {0, 1}, 0, 2},
    {{2, {300, 5}}, 1, {1}, 0, 1},    {{3, {2, 300, 4}}, 1, {2}, 1, 2},    {{2, {300, 20}}, 1, {0}, 0, 1},
};

enum { MOST = 1 << 14 };

static int is_reduced(const struct sums *s, int dim)
{
    return s->n == 0 || s->dims[0] == dim || (s->n == 2 && s->dims[1] == dim);
}

/* Of the dims as they are after the exchange, in row-major order; returns how many results there are. */
static int64_t expected(const struct sums *s, const double *values, double *out)
{
    int64_t shape[STN_MAX_NDIM] = {1, 1, 1}, step[STN_MAX_NDIM] = {0}, count = 1;
    for (int64_t d = s->shape.ndim - 1, n = 1; d >= 0; n *= s->shape.shape[d--]) {
        const int64_t at = d == s->from ? s->to : d == s->to ? s->from : d;
        shape[at] = s->shape.shape[d];
        step[at] = n;
    }
    for (int64_t k = 0; k < MOST; k++)
        out[k] = 0;
    for (int64_t i = 0; i < shape[0]; i++)
        for (int64_t j = 0; j < shape[1]; j++)
            for (int64_t k = 0; k < shape[2]; k++) {
                int64_t at = 0;
                const int64_t index[] = {i, j, k};
                for (int d = 0; d < s->shape.ndim; d++)
                    at = is_reduced(s, d) ? at : at * shape[d] + index[d];
                out[at] += exp(values[i * step[0] + j * step[1] + k * step[2]]);
                count = at + 1 > count ? at + 1 : count;
            }
    for (int64_t k = 0; k < count; k++)
        out[k] = log(out[k]);
    return count;
}

static void check_sums(stn_context *context, const struct sums *s, stn_dtype dtype, double tolerance)
{
    static double want[MOST], got[MOST];
    const int64_t n = against_one_numel(&s->shape);
    uint64_t state = 3;
    double *values = against_one_draw(&state, n);
    for (int64_t i = 0; i < n; i++)
        values[i] *= 8;
    stn_tensor *x = stn_cast(against_one_local(context, STN_DTYPE_F64, &s->shape, values), dtype);
    test_read(stn_cast(x, STN_DTYPE_F64), values, n); /* as the dtype holds them */
    const int64_t count = expected(s, values, want);
    stn_tensor *y = stn_logsumexp(stn_transpose(x, s->from, s->to), s->n, s->dims, 0);
    CHECK_I64(stn_tensor_dtype(y), dtype);
    test_read(stn_cast(y, STN_DTYPE_F64), got, count);
    for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(got[i], want[i], tolerance * fmax(1, fabs(want[i])));
    free(values);
}

static stn_status values_body(stn_context *context, void *arg)
{
    static const struct { stn_dtype dtype; double tolerance; } dtypes[] = {
        {STN_DTYPE_F32, 4e-7}, {STN_DTYPE_F64, 1e-15}, {STN_DTYPE_BF16, 4e-3}, {STN_DTYPE_F16, 5e-4}};
    (void)arg;
    for (int d = 0; d < 4; d++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
            stn_scope_begin(context);
            check_sums(context, &list[i], dtypes[d].dtype, dtypes[d].tolerance);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
        }
    return STN_OK;
}

static void sums_are_those_of_f64_for_every_dtype_and_stride(void)
{
    test_ranks(1, values_body, NULL);
}

/* Lines of four columns, of which two ranks have two rows each and a third none. */
enum { COLUMNS = 6 };
static const double lines[4][COLUMNS] = {
    {-INFINITY, INFINITY, 1, -INFINITY, 1e30, -1e30},
    {-INFINITY, 2, NAN, 3, 1, -1e30},
    {-INFINITY, -INFINITY, 2, -INFINITY, 1e30, -1e30},
    {-INFINITY, INFINITY, 3, 4, 2, -1e30},
};

static double of_lines(int64_t i)
{
    return lines[i / COLUMNS][i % COLUMNS];
}

static stn_status special_body(stn_context *context, void *arg)
{
    static const int64_t shape[] = {4, COLUMNS}, three[] = {2, 2, 0}, two[] = {1, 3}, one[] = {4};
    const int size = stn_context_size(context);
    const int64_t *sizes[] = {size == 1 ? one : size == 2 ? two : three, NULL};
    const stn_placement rows = stn_shard(0);
    double got[COLUMNS];
    for (int d = 0; d < 2; d++) {
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, test_mesh(context, size, 0), &rows, d ? STN_DTYPE_F64 : STN_DTYPE_F32, 2,
                                    shape, sizes, of_lines);
        test_read(stn_logsumexp(x, 1, (int[]){0}, 0), got, COLUMNS);
        CHECK(got[0] == -INFINITY);
        CHECK(got[1] == INFINITY);
        CHECK(isnan(got[2]));
        CHECK_NEAR(got[3], 4 + log1p(exp(-1)), 1e-6);
        CHECK_NEAR(got[4], 1e30, 1e24);
        CHECK_NEAR(got[5], -1e30, 1e24);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    (void)arg;
    return STN_OK;
}

static void infinities_and_nan_are_those_of_the_exact_sum_on_any_ranks(void)
{
    for (int n = 1; n <= 3; n++)
        test_ranks(n, special_body, NULL);
}

/* Nothing to add up: log 0, and a gradient without elements. */
static stn_status nothing_body(stn_context *context, void *arg)
{
    const struct random_shape shape = {2, {0, 3}};
    double got[3];
    stn_tensor *grad;
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &shape, got);
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *y = stn_logsumexp(x, 1, (int[]){0}, 0), *sum = stn_sum(y, 0, NULL, 0);
    test_read(y, got, 3);
    for (int i = 0; i < 3; i++)
        CHECK(got[i] == -INFINITY);
    CHECK_STATUS(stn_grad(context, 1, &sum, NULL, 1, &x, 0, 0, &grad), STN_OK);
    CHECK_I64(stn_spec_shape(stn_tensor_spec(grad))[0], 0);
    return stn_scope_end(context);
}

static void no_elements_give_minus_infinity(void)
{
    test_ranks(1, nothing_body, NULL);
}

/* exp(x - y) with a y of few digits would be off by as much as y is. */
static stn_status digits_body(stn_context *context, void *arg)
{
    enum { N = 64 };
    const struct random_shape shape = {1, {N}};
    double values[N], got[N];
    stn_tensor *grad;
    (void)arg;
    stn_scope_begin(context);
    for (int i = 0; i < N; i++)
        values[i] = 200;
    stn_tensor *x = stn_detach(stn_cast(against_one_local(context, STN_DTYPE_F64, &shape, values), STN_DTYPE_BF16));
    CHECK_STATUS(stn_set_requires_grad(x, 1), STN_OK);
    stn_tensor *y = stn_logsumexp(x, 0, NULL, 0);
    CHECK_STATUS(stn_grad(context, 1, &y, NULL, 1, &x, 0, 0, &grad), STN_OK);
    CHECK_I64(stn_tensor_dtype(grad), STN_DTYPE_BF16);
    test_read(stn_cast(grad, STN_DTYPE_F64), got, N);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], 1.0 / N, 1e-4 / N);
    return stn_scope_end(context);
}

static void gradients_of_16_bits_have_the_digits_of_f32(void)
{
    test_ranks(1, digits_body, NULL);
}

static stn_status memory_body(stn_context *context, void *arg)
{
    enum { ROWS = 64, COLS = 4096 };
    const int64_t shape[] = {ROWS, COLS}, size = (int64_t)ROWS * COLS * (int64_t)sizeof(float);
    const stn_placement rows = stn_shard(0);
    stn_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *x = test_tensor(context, test_mesh(context, stn_context_size(context), 0), &rows, STN_DTYPE_F32, 2,
                                shape, NULL, test_value),
               *y;
    for (int dim = 0; dim < 2; dim++) {
        stn_context_stats_reset(context);
        stn_context_stats(context, &before);
        y = stn_logsumexp(x, 1, &dim, 0);
        stn_context_stats(context, &after);
        CHECK(!stn_tensor_is_error(y));
        CHECK(after.peak_bytes > before.live_bytes);
        CHECK(after.peak_bytes - before.live_bytes < size / stn_context_size(context) / 2);
    }
    return stn_scope_end(context);
}

static void no_temporary_has_the_size_of_the_input(void)
{
    test_ranks(1, memory_body, NULL);
    test_ranks(2, memory_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const struct random_shape shape = {2, {2, 3}};
    const double values[6] = {0};
    (void)arg;
    stn_tensor *x = against_one_local(context, STN_DTYPE_F32, &shape, values),
               *i = against_one_local(context, STN_DTYPE_I64, &shape, values);
    CHECK_REFUSED(context, stn_logsumexp(x, 1, (int[]){2}, 0), STN_ERR_ARGUMENT,
                  "logsumexp: 'dim' got 2, wanted -2 <= dim < 2");
    CHECK_REFUSED(context, stn_logsumexp(i, 1, (int[]){0}, 0), STN_ERR_DTYPE,
                  "logsumexp: 'input' got i64, wanted a floating dtype");
    stn_tensor_release(&x);
    stn_tensor_release(&i);
    return STN_OK;
}

static void refusals_name_the_op_that_was_called(void)
{
    test_ranks(1, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"sums_are_those_of_f64_for_every_dtype_and_stride", sums_are_those_of_f64_for_every_dtype_and_stride},
        {"infinities_and_nan_are_those_of_the_exact_sum_on_any_ranks",
         infinities_and_nan_are_those_of_the_exact_sum_on_any_ranks},
        {"no_elements_give_minus_infinity", no_elements_give_minus_infinity},
        {"gradients_of_16_bits_have_the_digits_of_f32", gradients_of_16_bits_have_the_digits_of_f32},
        {"no_temporary_has_the_size_of_the_input", no_temporary_has_the_size_of_the_input},
        {"refusals_name_the_op_that_was_called", refusals_name_the_op_that_was_called},
    };
    return TEST_MAIN(argc, argv, cases);
}
