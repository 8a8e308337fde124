/* matmul: one process against plain loops, random layouts against one process, specs, dtypes, refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    struct random_shape a, b;
};

static const struct pair pairs[] = {
    {{2, {5, 7}}, {2, {7, 4}}},
    {{1, {6}}, {1, {6}}},
    {{1, {6}}, {2, {6, 5}}},
    {{2, {5, 6}}, {1, {6}}},
    {{1, {4}}, {3, {3, 4, 5}}},
    {{3, {3, 5, 4}}, {1, {4}}},
    {{3, {4, 5, 6}}, {2, {6, 3}}},
    {{2, {5, 6}}, {3, {4, 6, 3}}},
    {{3, {3, 4, 5}}, {3, {3, 5, 2}}},
    {{4, {2, 1, 4, 3}}, {3, {5, 3, 2}}},
    {{4, {2, 5, 1, 3}}, {4, {1, 5, 3, 4}}},
    {{3, {3, 1, 9}}, {2, {9, 1}}},
    {{2, {31, 33}}, {2, {33, 29}}},
    {{4, {2, 3, 17, 20}}, {4, {2, 3, 20, 16}}},
    {{3, {2, 4, 0}}, {2, {0, 3}}},
    {{3, {0, 4, 3}}, {2, {3, 2}}},
    {{2, {1, 1}}, {2, {1, 1}}},
    /* One row or one column, of a size that a library is asked for. */
    {{2, {1, 48}}, {2, {48, 50}}},
    {{2, {50, 48}}, {1, {48}}},
    {{1, {48}}, {2, {48, 50}}},
    {{3, {3, 1, 48}}, {3, {3, 48, 50}}},
    {{3, {3, 1, 48}}, {2, {48, 50}}},
};
enum { N_PAIRS = sizeof pairs / sizeof *pairs };

static stn_tensor *call_matmul(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_matmul(in[0], in[1]);
}

/* Linear index in an operand of batch index `at` (of the result's batch dims), broadcast. */
static int64_t batch_index(const struct random_shape *s, int n_batch, const int64_t *batch, int64_t at)
{
    int64_t index[STN_MAX_NDIM] = {0}, linear = 0;
    for (int d = n_batch - 1; d >= 0; at /= batch[d], d--)
        index[d] = at % batch[d];
    int own = s->ndim - 2;
    for (int d = 0; d < own; d++)
        linear = linear * s->shape[d] + (s->shape[d] == 1 ? 0 : index[n_batch - own + d]);
    return linear;
}

/* The product by its definition; returns the number of elements of `c`, which has the result's shape. */
static void plain(const struct pair *p, const double *a, const double *b, double *c)
{
    struct random_shape as = p->a, bs = p->b;
    int64_t batch[STN_MAX_NDIM], n_batch = 0;
    if (as.ndim == 1)
        as = (struct random_shape){2, {1, p->a.shape[0]}};
    if (bs.ndim == 1)
        bs = (struct random_shape){2, {p->b.shape[0], 1}};
    int most = as.ndim > bs.ndim ? as.ndim : bs.ndim;
    int64_t m = as.shape[as.ndim - 2], k = as.shape[as.ndim - 1], n = bs.shape[bs.ndim - 1], count = 1;
    for (int d = most; d > 2; d--, n_batch++) {
        int64_t x = d <= as.ndim ? as.shape[as.ndim - d] : 1, y = d <= bs.ndim ? bs.shape[bs.ndim - d] : 1;
        batch[n_batch] = x == 1 ? y : x;
        count *= batch[n_batch];
    }
    for (int64_t i = 0; i < count * m * n; i++) {
        const double *x = a + (batch_index(&as, (int)n_batch, batch, i / (m * n)) * m + i / n % m) * k;
        const double *y = b + batch_index(&bs, (int)n_batch, batch, i / (m * n)) * k * n + i % n;
        c[i] = 0;
        for (int64_t t = 0; t < k; t++)
            c[i] += x[t] * y[t * n];
    }
}

static stn_status loops_body(stn_context *context, void *arg)
{
    uint64_t state = 3;
    (void)arg;
    for (int i = 0; i < N_PAIRS; i++)
        for (int wide = 0; wide < 2; wide++) {
            stn_dtype dtype = wide ? STN_DTYPE_F64 : STN_DTYPE_F32;
            const struct pair *p = &pairs[i];
            double *a = against_one_draw(&state, against_one_numel(&p->a)),
                   *b = against_one_draw(&state, against_one_numel(&p->b));
            stn_scope_begin(context);
            stn_tensor *c =
                stn_matmul(against_one_local(context, dtype, &p->a, a), against_one_local(context, dtype, &p->b, b));
            if (CHECK_STATUS(stn_context_status(context), STN_OK)) {
                double *want = calloc((size_t)stn_spec_numel(stn_tensor_spec(c)) + 1, sizeof *want);
                plain(p, a, b, want);
                against_one_compare(c, want, wide ? 1e-14 : 1e-6);
                free(want);
            }
            CHECK_STATUS(stn_scope_end(context), STN_OK);
            free(a), free(b);
        }
    return STN_OK;
}

static void one_process_gives_what_plain_loops_give(void)
{
    test_ranks(1, loops_body, NULL);
}

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 19;
    (void)arg;
    for (int round = 0; round < test_draws(6); round++)
        for (int i = 0; i < N_PAIRS; i++) {
            stn_dtype dtype = round % 3 ? STN_DTYPE_F64 : STN_DTYPE_F32;
            struct against_one_op op = {.call = call_matmul, .n_in = 2, .tolerance = round % 3 ? 1e-12 : 1e-4};
            double *a = against_one_draw(&state, against_one_numel(&pairs[i].a)),
                   *b = against_one_draw(&state, against_one_numel(&pairs[i].b));
            op.in[0] = (struct against_one_input){dtype, pairs[i].a, a, 1u << STN_SUM};
            op.in[1] = (struct against_one_input){dtype, pairs[i].b, b, 1u << STN_SUM};
            against_one_check(context, &state, random_mesh(&state, context), &op);
            free(a), free(b);
        }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    static const int worlds[] = {1, 2, 3, 5, 6};
    for (int i = 0; i < 5; i++)
        test_ranks(worlds[i], layouts_body, NULL);
}

/* Specs of results */

static int same_placement(stn_placement a, stn_placement b)
{
    return a.kind == b.kind && a.dim == b.dim && a.op == b.op;
}

static stn_status specs_body(stn_context *context, void *arg)
{
    const int64_t a[] = {4, 6, 8}, b[] = {8, 10}, uneven_m[] = {1, 5}, uneven_k[] = {7, 1};
    const int64_t *const m_sizes[] = {NULL, uneven_m, NULL}, *const k_sizes[] = {NULL, NULL, uneven_k};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_placement R = stn_replicate(), P = stn_partial(STN_SUM);
    struct {
        stn_placement a, b, want;
        const int64_t *const *sizes;
        int64_t bytes; /* that all ranks send to one another */
    } cases[] = {
        {R, R, R, NULL, 0},
        {stn_shard(0), R, stn_shard(0), NULL, 0},
        {stn_shard(1), R, stn_shard(1), m_sizes, 0},
        {R, stn_shard(1), stn_shard(2), NULL, 0},
        {stn_shard(2), stn_shard(0), P, NULL, 0},
        {stn_shard(2), R, P, k_sizes, 0},
        {R, stn_shard(0), P, NULL, 0},
        {P, R, P, NULL, 0},
        {R, P, P, NULL, 0},
        {stn_shard(1), stn_shard(1), stn_shard(1), NULL, 80 * 4},  /* the smaller operand is gathered */
        {stn_shard(1), stn_shard(0), stn_shard(1), NULL, 80 * 4},
        {stn_shard(2), stn_shard(1), P, NULL, 40 * 4},             /* … or cut as the larger one wants */
    };
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_stats stats = {.size = sizeof stats};
        stn_scope_begin(context);
        stn_tensor *x = test_tensor(context, mesh, &cases[i].a, STN_DTYPE_F32, 3, a, cases[i].sizes, test_value);
        stn_tensor *y = test_tensor(context, mesh, &cases[i].b, STN_DTYPE_F32, 2, b, NULL, test_value);
        stn_context_stats_reset(context);
        stn_tensor *c = stn_matmul(x, y);
        stn_context_stats(context, &stats);
        if (!CHECK(same_placement(stn_spec_placement(stn_tensor_spec(c), 0), cases[i].want)))
            fprintf(stderr, "  case %zu\n", i);
        CHECK_I64(stats.bytes_sent, cases[i].bytes / 2);
        CHECK_I64(stats.fallbacks, 0);
        if (cases[i].sizes == m_sizes)
            CHECK_I64(stn_spec_local_shape(stn_tensor_spec(c))[1], uneven_m[stn_context_rank(context)]);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void results_are_placed_as_the_header_says(void)
{
    test_ranks(2, specs_body, NULL);
}

/* Two axes: k cut by one and rows by the other, then both by one dim. */
static stn_status two_axes_body(stn_context *context, void *arg)
{
    const int64_t a[] = {7, 11}, b[] = {11, 5};
    const stn_mesh *mesh = test_mesh(context, 2, 3);
    stn_placement rows_and_k[] = {stn_shard(0), stn_shard(1)}, only_k[] = {stn_replicate(), stn_shard(0)},
                  all_k[] = {stn_shard(1), stn_shard(1)};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *c = stn_matmul(test_tensor(context, mesh, rows_and_k, STN_DTYPE_F64, 2, a, NULL, test_value),
                               test_tensor(context, mesh, only_k, STN_DTYPE_F64, 2, b, NULL, test_value));
    CHECK(same_placement(stn_spec_placement(stn_tensor_spec(c), 0), stn_shard(0)));
    CHECK(same_placement(stn_spec_placement(stn_tensor_spec(c), 1), stn_partial(STN_SUM)));
    c = stn_matmul(test_tensor(context, mesh, all_k, STN_DTYPE_F64, 2, a, NULL, test_value),
                   test_tensor(context, mesh, only_k, STN_DTYPE_F64, 2, b, NULL, test_value));
    CHECK(same_placement(stn_spec_placement(stn_tensor_spec(c), 0), stn_partial(STN_SUM)));
    CHECK(same_placement(stn_spec_placement(stn_tensor_spec(c), 1), stn_partial(STN_SUM)));
    double got[35];
    test_read(c, got, 35);
    for (int i = 0; i < 35; i++) {
        double want = 0;
        for (int t = 0; t < 11; t++)
            want += test_value(i / 5 * 11 + t) * test_value(t * 5 + i % 5);
        CHECK_NEAR(got[i], want, 1e-12);
    }
    return stn_scope_end(context);
}

static void two_axes_cut_two_labels_or_one(void)
{
    test_ranks(6, two_axes_body, NULL);
}

/* Other dtypes */

static stn_tensor *from_values(stn_context *context, stn_dtype dtype, int64_t rows, int64_t cols, const void *values)
{
    const int64_t shape[] = {rows, cols};
    const stn_spec *spec;
    CHECK_STATUS(stn_spec_create(context, NULL, NULL, dtype, 2, shape, NULL, &spec), STN_OK);
    stn_tensor *t = stn_from_host(context, spec, values);
    stn_spec_release(&spec);
    return t;
}

static stn_status integers_body(stn_context *context, void *arg)
{
    const int64_t a[] = {1, -2, 3, INT64_MAX, 5, 6}, b[] = {7, 8, 9, 2, -1, 4};
    const int32_t c[] = {1, -2, 3, 4}, d[] = {50000, 60000, 70000, 80000};
    int64_t wide[4];
    int32_t narrow[4];
    (void)arg;
    stn_scope_begin(context);
    CHECK_STATUS(stn_to_host(stn_matmul(from_values(context, STN_DTYPE_I64, 2, 3, a),
                                        from_values(context, STN_DTYPE_I64, 3, 2, b)),
                             wide, sizeof wide),
                 STN_OK);
    CHECK_I64(wide[0], 7 - 18 - 3);
    CHECK_I64(wide[1], 8 - 4 + 12);
    CHECK_I64(wide[3], (int64_t)((uint64_t)INT64_MAX * 8) + 10 + 24); /* wraps */
    CHECK_STATUS(stn_to_host(stn_matmul(from_values(context, STN_DTYPE_I32, 2, 2, c),
                                        from_values(context, STN_DTYPE_I32, 2, 2, d)),
                             narrow, sizeof narrow),
                 STN_OK);
    CHECK_I64(narrow[0], 50000 - 140000);
    CHECK_I64(narrow[3], 180000 + 320000);
    return stn_scope_end(context);
}

static void integers_are_multiplied_and_wrap(void)
{
    test_ranks(1, integers_body, NULL);
}

static stn_status narrow_body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F16, STN_DTYPE_BF16};
    static const double steps[] = {0x1p-11, 0x1p-8};
    uint64_t state = 41;
    (void)arg;
    for (int i = 0; i < N_PAIRS; i++)
        for (int d = 0; d < 2; d++) {
            const struct pair *p = &pairs[i];
            double *a = against_one_draw(&state, against_one_numel(&p->a)),
                   *b = against_one_draw(&state, against_one_numel(&p->b));
            stn_scope_begin(context);
            stn_tensor *x = stn_cast(against_one_local(context, STN_DTYPE_F32, &p->a, a), dtypes[d]);
            stn_tensor *y = stn_cast(against_one_local(context, STN_DTYPE_F32, &p->b, b), dtypes[d]);
            stn_tensor *c = stn_matmul(x, y),
                       *full = stn_matmul(stn_cast(x, STN_DTYPE_F64), stn_cast(y, STN_DTYPE_F64));
            CHECK(stn_tensor_dtype(c) == dtypes[d]);
            int64_t n = stn_spec_numel(stn_tensor_spec(full));
            double *want = calloc((size_t)n + 1, sizeof *want);
            test_read(full, want, n);
            against_one_compare(stn_cast(c, STN_DTYPE_F32), want, 1.01 * steps[d]);
            CHECK_STATUS(stn_scope_end(context), STN_OK);
            free(a), free(b), free(want);
        }
    return STN_OK;
}

static void narrow_floats_are_summed_in_f32_and_rounded_once(void)
{
    test_ranks(1, narrow_body, NULL);
}

/* A transposed view is multiplied where it lies. */
static stn_status views_body(stn_context *context, void *arg)
{
    uint64_t state = 43;
    struct pair p = {{2, {40, 30}}, {2, {40, 50}}};
    double *a = against_one_draw(&state, 1200), *b = against_one_draw(&state, 2000), *want = calloc(1500, sizeof *want);
    (void)arg;
    for (int i = 0; i < 1500; i++)
        for (int t = 0; t < 40; t++)
            want[i] += a[t * 30 + i / 50] * b[t * 50 + i % 50];
    for (int wide = 0; wide < 2; wide++) {
        stn_dtype dtype = wide ? STN_DTYPE_F64 : STN_DTYPE_F32;
        stn_scope_begin(context);
        stn_tensor *x = stn_transpose(against_one_local(context, dtype, &p.a, a), 0, 1),
                   *y = against_one_local(context, dtype, &p.b, b);
        against_one_compare(stn_matmul(x, y), want, wide ? 1e-14 : 1e-6);
        against_one_compare(stn_transpose(stn_matmul(stn_transpose(y, 0, 1), stn_transpose(x, 0, 1)), 0, 1), want,
                            wide ? 1e-14 : 1e-6);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    free(a), free(b), free(want);
    return STN_OK;
}

static void transposed_views_are_multiplied_as_they_lie(void)
{
    test_ranks(1, views_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    struct {
        struct random_shape a, b;
        stn_dtype da, db;
        stn_status want;
        const char *text;
    } cases[] = {
        {{2, {4, 6}}, {2, {5, 3}}, STN_DTYPE_F32, STN_DTYPE_F32, STN_ERR_SHAPE, "(4, 6) and (5, 3)"},
        {{3, {2, 4, 6}}, {3, {3, 6, 3}}, STN_DTYPE_F32, STN_DTYPE_F32, STN_ERR_SHAPE, "batch dims"},
        {{0, {0}}, {2, {6, 3}}, STN_DTYPE_F32, STN_DTYPE_F32, STN_ERR_SHAPE, "at least one dim"},
        {{2, {4, 6}}, {2, {6, 3}}, STN_DTYPE_F32, STN_DTYPE_F64, STN_ERR_DTYPE, "f32 and f64"},
    };
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_placement everywhere = stn_replicate();
        char text[512];
        stn_scope_begin(context);
        stn_tensor *a =
            test_tensor(context, mesh, &everywhere, cases[i].da, cases[i].a.ndim, cases[i].a.shape, NULL, test_value);
        stn_tensor *b =
            test_tensor(context, mesh, &everywhere, cases[i].db, cases[i].b.ndim, cases[i].b.shape, NULL, test_value);
        CHECK(stn_tensor_is_error(stn_matmul(a, b)));
        CHECK_STATUS(stn_context_take_error(context, text, sizeof text), cases[i].want);
        if (!CHECK(strstr(text, cases[i].text) != NULL))
            fprintf(stderr, "  got \"%s\", wanted \"%s\" in it\n", text, cases[i].text);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void what_does_not_fit_is_refused(void)
{
    test_ranks(2, refusals_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"one_process_gives_what_plain_loops_give", one_process_gives_what_plain_loops_give},
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"results_are_placed_as_the_header_says", results_are_placed_as_the_header_says},
        {"two_axes_cut_two_labels_or_one", two_axes_cut_two_labels_or_one},
        {"integers_are_multiplied_and_wrap", integers_are_multiplied_and_wrap},
        {"narrow_floats_are_summed_in_f32_and_rounded_once", narrow_floats_are_summed_in_f32_and_rounded_once},
        {"transposed_views_are_multiplied_as_they_lie", transposed_views_are_multiplied_as_they_lie},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
    };
    return TEST_MAIN(argc, argv, cases);
}
