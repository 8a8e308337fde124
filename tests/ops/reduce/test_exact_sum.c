/* exact_sum: against sums by expansions, whose result is the nearest number to the exact one, and to the bit over
 * layouts and numbers of ranks. */
#include "expansion.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static stn_tensor *line(stn_context *context, stn_dtype dtype, int n, const double *v)
{
    const struct random_shape shape = {1, {n}};
    return against_one_local(context, dtype, &shape, v);
}

static double exact(stn_tensor *x)
{
    double sum = 0;
    CHECK_STATUS(stn_item(stn_exact_sum(x, 0, NULL, 0), &sum), STN_OK);
    return sum;
}

static stn_status nearest_body(stn_context *context, void *arg)
{
    enum { MOST = 300, TRIES = 400 };
    uint64_t state = 0x5eed;
    double v[MOST];
    (void)arg;
    for (int t = 0; t < TRIES; t++) {
        const int n = 1 + (int)(expansion_next(&state) % MOST), most = t % 3 == 0 ? 1000 : t % 3 == 1 ? -900 : 60;
        for (int i = 0; i < n; i++)
            v[i] = t % 3 == 2 ? ldexp((double)(int64_t)expansion_next(&state), -(int)(expansion_next(&state) % 130))
                              : expansion_wide(&state, most);
        if (t % 2) /* the large ones cancel */
            for (int i = n / 2; i < n; i++)
                v[i] = i % 4 ? -v[i - n / 2] : v[i];
        const double want = expansion_sum(n, v);
        stn_scope_begin(context);
        const double got = exact(line(context, STN_DTYPE_F64, n, v));
        CHECK_BYTES(&got, &want, sizeof got);
        stn_scope_end(context);
    }
    return STN_OK;
}

/* Of many elements, which go another way: with and without one that is not finite. */
static stn_status many_body(stn_context *context, void *arg)
{
    enum { N = 20011 };
    static const stn_dtype dtypes[] = {STN_DTYPE_F64, STN_DTYPE_F32};
    double *v = malloc(N * sizeof *v);
    uint64_t state = 0xfeed;
    (void)arg;
    for (int t = 0; t < 12; t++) {
        const int is_f32 = t % 2;
        for (int i = 0; i < N; i++)
            v[i] = is_f32 ? (double)(float)ldexp((double)(int64_t)expansion_next(&state),
                                                 -(int)(expansion_next(&state) % 212))
                          : expansion_wide(&state, t % 3 ? 900 : -950);
        for (int i = 0; t % 4 < 2 && i < N / 2; i++) /* nearly nothing is left */
            v[N - 1 - i] = -v[i] * (i % 1000 ? 1 : 0.5);
        const double sum = expansion_sum(N, v), want = is_f32 ? (double)(float)sum : sum;
        stn_scope_begin(context);
        const double got = exact(stn_cast(line(context, STN_DTYPE_F64, N, v), dtypes[is_f32]));
        CHECK_BYTES(&got, &want, sizeof got);
        v[N / 2] = -INFINITY;
        CHECK(exact(stn_cast(line(context, STN_DTYPE_F64, N, v), dtypes[is_f32])) == -INFINITY);
        v[3] = NAN;
        CHECK(isnan(exact(stn_cast(line(context, STN_DTYPE_F64, N, v), dtypes[is_f32]))));
        stn_scope_end(context);
    }
    free(v);
    return STN_OK;
}

static void sums_are_the_nearest_number(void)
{
    test_ranks(1, nearest_body, NULL);
    test_ranks(1, many_body, NULL);
}

struct example {
    stn_dtype dtype;
    int n;
    double v[5], sum;
};

static stn_status examples_body(stn_context *context, void *arg)
{
    static const struct example examples[] = {
        {STN_DTYPE_F64, 3, {1e308, 1, -1e308}, 1},
        {STN_DTYPE_F64, 3, {1e308, 1e308, -1e308}, 1e308},
        {STN_DTYPE_F64, 2, {1.7e308, 1.7e308}, INFINITY},
        {STN_DTYPE_F64, 2, {-0x1.fffffffffffffp1023, -0x1p970}, -INFINITY}, /* half a unit above the largest */
        {STN_DTYPE_F64, 2, {0x1.fffffffffffffp1023, 0x1.8p969}, 0x1.fffffffffffffp1023},
        {STN_DTYPE_F64, 2, {1, 0x1p-53}, 1},
        {STN_DTYPE_F64, 3, {1, 0x1p-53, 0x1p-1074}, 0x1.0000000000001p0},
        {STN_DTYPE_F64, 3, {-1, -0x1p-53, 0x1p-1074}, -1},
        {STN_DTYPE_F64, 2, {0x1p-1074, 0x1p-1074}, 0x1p-1073},
        {STN_DTYPE_F64, 2, {-0.0, -0.0}, 0},
        {STN_DTYPE_F64, 3, {5, -3, -2}, 0},
        {STN_DTYPE_F64, 2, {INFINITY, -1e308}, INFINITY},
        {STN_DTYPE_F64, 3, {1, -INFINITY, -INFINITY}, -INFINITY},
        {STN_DTYPE_F64, 3, {INFINITY, 1, -INFINITY}, NAN},
        {STN_DTYPE_F64, 3, {INFINITY, NAN, 1}, NAN},
        {STN_DTYPE_F32, 2, {1, 0x1p-24}, 1},
        {STN_DTYPE_F32, 3, {1, 0x1p-24, 0x1p-149}, 0x1.000002p0},
        {STN_DTYPE_F32, 3, {3e38, 3e38, -3e38}, 3e38},
        {STN_DTYPE_F32, 2, {3e38, 3e38}, INFINITY},
        {STN_DTYPE_F32, 2, {0x1p-149, 0x1p-149}, 0x1p-148},
        {STN_DTYPE_F32, 3, {NAN, 1, 2}, NAN},
        {STN_DTYPE_BF16, 4, {256, 1, 1, -256}, 2},
        {STN_DTYPE_F16, 4, {2048, 1, 1, -2048}, 2},
        {STN_DTYPE_F16, 2, {60000, 60000}, INFINITY},
    };
    (void)arg;
    for (size_t e = 0; e < sizeof examples / sizeof *examples; e++) {
        const struct example *x = &examples[e];
        stn_scope_begin(context);
        stn_tensor *sum = stn_exact_sum(stn_cast(line(context, STN_DTYPE_F64, x->n, x->v), x->dtype), 0, NULL, 0);
        double got = 0, want = 0;
        CHECK(stn_tensor_dtype(sum) == x->dtype);
        CHECK_STATUS(stn_item(sum, &got), STN_OK);
        CHECK_STATUS(stn_item(stn_cast(line(context, STN_DTYPE_F64, 1, &x->sum), x->dtype), &want), STN_OK);
        if (!CHECK(isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want)))
            fprintf(stderr, "example %d: got %a, wanted %a\n", (int)e, got, want);
        stn_scope_end(context);
    }
    return STN_OK;
}

static void special_values_are_those_of_the_exact_sum(void)
{
    test_ranks(1, examples_body, NULL);
}

static const struct {
    int n, dims[3];
} reduced[] = {{0, {0}}, {1, {0}}, {1, {-1}}, {2, {0, 2}}, {3, {2, 1, 0}}};
enum { REDUCED = sizeof reduced / sizeof *reduced };

static stn_tensor *call(stn_tensor *const *in, const void *arg)
{
    const int which = *(const int *)arg;
    return stn_exact_sum(in[0], reduced[which].n, reduced[which].dims, which % 2);
}

/* Tolerance 0: layouts cannot be seen, also where values differ by hundreds of binades. */
static stn_status layouts_body(stn_context *context, void *arg)
{
    const int *rows_columns = arg;
    const struct random_shape shapes[] = {{3, {7, 5, 3}}, {3, {1, 9, 4}}, {3, {3, 0, 2}}};
    uint64_t state = 41;
    for (int t = 0; t < 3 * REDUCED; t++) {
        const struct random_shape *shape = &shapes[t / REDUCED];
        const int64_t n = against_one_numel(shape);
        const int which = t % REDUCED;
        double *v = malloc(((size_t)n + 1) * sizeof *v);
        for (int64_t i = 0; i < n; i++)
            v[i] = expansion_wide(&state, 300);
        const struct against_one_op op = {
            .call = call, .arg = &which, .n_in = 1, .in = {{STN_DTYPE_F64, *shape, v, 0}}};
        stn_scope_begin(context);
        against_one_check(context, &state, test_mesh(context, rows_columns[0], rows_columns[1]), &op);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
        free(v);
    }
    return STN_OK;
}

static void layouts_give_the_same_bits(void)
{
    int grids[][2] = {{1, 0}, {2, 0}, {3, 0}, {5, 0}, {2, 3}};
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++)
        test_ranks(grids[g][0] * (grids[g][1] ? grids[g][1] : 1), layouts_body, grids[g]);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    char text[256];
    const double v[] = {1, 2};
    (void)arg;
    stn_scope_begin(context);
    CHECK(stn_tensor_is_error(stn_exact_sum(stn_cast(line(context, STN_DTYPE_F64, 2, v), STN_DTYPE_I64), 0, NULL, 0)));
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_DTYPE);
    CHECK(strstr(text, "'input' got i64, wanted a floating dtype") != NULL);
    return stn_scope_end(context);
}

static void integers_are_refused(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"sums_are_the_nearest_number", sums_are_the_nearest_number},
        {"special_values_are_those_of_the_exact_sum", special_values_are_those_of_the_exact_sum},
        {"layouts_give_the_same_bits", layouts_give_the_same_bits},
        {"integers_are_refused", integers_are_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
