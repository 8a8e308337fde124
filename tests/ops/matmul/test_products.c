/* mm, bmm, mv, dot, outer, addmm, baddbmm: layouts against one process with second derivatives, what moves,
 * refusals. */
#include "core/shard/world.h"
#include "ops/against_one.h"
#include "ranks.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>

static stn_tensor *call_mm(stn_tensor *const *in, const void *arg) { (void)arg; return stn_mm(in[0], in[1]); }
static stn_tensor *call_bmm(stn_tensor *const *in, const void *arg) { (void)arg; return stn_bmm(in[0], in[1]); }
static stn_tensor *call_mv(stn_tensor *const *in, const void *arg) { (void)arg; return stn_mv(in[0], in[1]); }
static stn_tensor *call_dot(stn_tensor *const *in, const void *arg) { (void)arg; return stn_dot(in[0], in[1]); }
static stn_tensor *call_outer(stn_tensor *const *in, const void *arg) { (void)arg; return stn_outer(in[0], in[1]); }
static stn_tensor *call_addmm(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_addmm(in[0], in[1], in[2], -0.5, 3);
}
static stn_tensor *call_addmm_plain(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_addmm(in[0], in[1], in[2], 1, 1);
}
static stn_tensor *call_baddbmm(stn_tensor *const *in, const void *arg)
{
    (void)arg;
    return stn_baddbmm(in[0], in[1], in[2], 2, 0.25);
}

static const struct {
    stn_tensor *(*call)(stn_tensor *const *, const void *);
    int n_in;
    struct random_shape in[3];
} products[] = {
    {call_mm, 2, {{2, {7, 5}}, {2, {5, 4}}}},
    {call_mm, 2, {{2, {1, 3}}, {2, {3, 1}}}},
    {call_bmm, 2, {{3, {3, 4, 5}}, {3, {3, 5, 2}}}},
    {call_mv, 2, {{2, {6, 5}}, {1, {5}}}},
    {call_dot, 2, {{1, {7}}, {1, {7}}}},
    {call_outer, 2, {{1, {5}}, {1, {7}}}},
    {call_addmm, 3, {{2, {1, 4}}, {2, {7, 5}}, {2, {5, 4}}}},
    {call_addmm, 3, {{0, {0}}, {2, {7, 5}}, {2, {5, 4}}}},
    {call_addmm_plain, 3, {{2, {7, 1}}, {2, {7, 5}}, {2, {5, 4}}}},
    {call_baddbmm, 3, {{3, {3, 1, 2}}, {3, {3, 4, 5}}, {3, {3, 5, 2}}}},
    {call_baddbmm, 3, {{2, {4, 2}}, {3, {3, 4, 0}}, {3, {3, 0, 2}}}},
};
enum { N_PRODUCTS = sizeof products / sizeof *products };

static stn_status layouts_body(stn_context *context, void *arg)
{
    uint64_t state = 11;
    (void)arg;
    for (int round = 0; round < test_draws(4); round++)
        for (int i = 0; i < N_PRODUCTS; i++) {
            struct against_one_op op = {.call = products[i].call, .n_in = products[i].n_in, .tolerance = 1e-12};
            double *v[3] = {NULL};
            for (int k = 0; k < op.n_in; k++) {
                v[k] = against_one_draw(&state, against_one_numel(&products[i].in[k]));
                op.in[k] = (struct against_one_input){STN_DTYPE_F64, products[i].in[k], v[k], 1u << STN_SUM};
            }
            against_one_check(context, &state, random_mesh(&state, context), &op);
            if (stn_context_size(context) == 1 && round == 0)
                against_one_differences(context, &state, &op);
            for (int k = 0; k < 3; k++)
                free(v[k]);
        }
    return STN_OK;
}

static void random_layouts_give_what_one_process_gives(void)
{
    test_worlds(layouts_body, NULL);
}

static stn_status moves_body(stn_context *context, void *arg)
{
    const int64_t c[] = {4, 10}, a[] = {4, 6}, b[] = {6, 10};
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    stn_placement R = stn_replicate(), P = stn_partial(STN_SUM);
    const struct {
        stn_placement input, a, b, want;
    } cases[] = {
        {R, R, R, R},
        {stn_shard(0), stn_shard(0), R, stn_shard(0)},
        {R, R, stn_shard(1), stn_shard(1)},
        {R, stn_shard(1), stn_shard(0), P}, /* the added term becomes pending */
        {P, stn_shard(1), stn_shard(0), P},
        {R, P, R, P},
    };
    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stn_stats stats = {.size = sizeof stats};
        double got[40];
        stn_scope_begin(context);
        stn_tensor *in[] = {test_tensor(context, mesh, &cases[i].input, STN_DTYPE_F64, 2, c, NULL, test_value),
                            test_tensor(context, mesh, &cases[i].a, STN_DTYPE_F64, 2, a, NULL, test_value),
                            test_tensor(context, mesh, &cases[i].b, STN_DTYPE_F64, 2, b, NULL, test_value)};
        stn_context_stats_reset(context);
        stn_tensor *y = stn_addmm(in[0], in[1], in[2], 0.5, 2);
        stn_context_stats(context, &stats);
        stn_placement have = stn_spec_placement(stn_tensor_spec(y), 0);
        CHECK(have.kind == cases[i].want.kind && have.dim == cases[i].want.dim);
        CHECK_I64(stats.bytes_sent, 0);
        test_read(y, got, 40);
        for (int r = 0; r < 4; r++)
            for (int o = 0; o < 10; o++) {
                double want = 0.5 * test_value(10 * r + o);
                for (int k = 0; k < 6; k++)
                    want += 2 * test_value(6 * r + k) * test_value(10 * k + o);
                CHECK_NEAR(got[10 * r + o], want, 1e-13);
            }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void addmm_is_placed_as_the_product_and_nothing_moves(void)
{
    test_ranks(2, moves_body, NULL);
}

static stn_status beta_body(stn_context *context, void *arg)
{
    const struct random_shape shape = {2, {2, 2}};
    const double nan[] = {NAN, NAN, NAN, NAN}, one[] = {1, 2, 3, 4}, want[] = {14, 20, 30, 44};
    (void)arg;
    stn_scope_begin(context);
    stn_tensor *a = against_one_local(context, STN_DTYPE_F64, &shape, one);
    against_one_compare(stn_addmm(against_one_local(context, STN_DTYPE_F64, &shape, nan), a, a, 0, 2), want, 0);
    return stn_scope_end(context);
}

static void an_input_times_zero_is_not_read(void)
{
    test_ranks(1, beta_body, NULL);
}

static stn_status refusals_body(stn_context *context, void *arg)
{
    const struct random_shape m23 = {2, {2, 3}}, m24 = {2, {2, 4}}, v3 = {1, {3}}, m32 = {2, {3, 2}},
                              b = {3, {2, 2, 3}}, c = {3, {3, 3, 2}};
    double zeros[64] = {0};
    char text[512];
    (void)arg;
    stn_tensor *t[8];
    stn_scope_begin(context);
    t[0] = against_one_local(context, STN_DTYPE_F32, &m23, zeros);
    t[1] = against_one_local(context, STN_DTYPE_F32, &m24, zeros);
    t[2] = against_one_local(context, STN_DTYPE_F32, &v3, zeros);
    t[3] = against_one_local(context, STN_DTYPE_F32, &m32, zeros);
    t[4] = against_one_local(context, STN_DTYPE_F64, &m32, zeros);
    t[5] = against_one_local(context, STN_DTYPE_F32, &b, zeros);
    t[6] = against_one_local(context, STN_DTYPE_F32, &c, zeros);
#define REFUSED(expression, status, message)                                     \
    CHECK(stn_tensor_is_error(expression));                                      \
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), status);    \
    CHECK_STR(text, message)
    REFUSED(stn_mm(t[0], t[1]), STN_ERR_SHAPE, "mm: got shapes (2, 3) and (2, 4), wanted (m, k) and (k, n)");
    REFUSED(stn_mm(t[0], t[2]), STN_ERR_SHAPE, "mm: got shapes (2, 3) and (3), wanted (m, k) and (k, n)");
    REFUSED(stn_bmm(t[5], t[6]), STN_ERR_SHAPE,
            "bmm: got shapes (2, 2, 3) and (3, 3, 2), wanted (b, m, k) and (b, k, n)");
    REFUSED(stn_dot(t[0], t[2]), STN_ERR_SHAPE, "dot: got shapes (2, 3) and (3), wanted two vectors of one length");
    REFUSED(stn_mm(t[0], t[4]), STN_ERR_DTYPE, "mm: 'mat2' got f64, wanted input's f32");
    REFUSED(stn_outer(t[0], t[2]), STN_ERR_SHAPE, "outer: 'input' got shape (2, 3), wanted a vector");
    REFUSED(stn_addmm(t[2], t[0], t[3], 1, 1), STN_ERR_SHAPE,
            "addmm: 'input' got shape (3), wanted one that broadcasts to (2, 2)");
    REFUSED(stn_addmm(t[1], t[0], t[1], 1, 1), STN_ERR_SHAPE,
            "addmm: got factors of shapes (2, 3) and (2, 4), wanted (m, k) and (k, n)");
    const struct random_shape square = {2, {2, 2}};
    t[7] = against_one_local(context, STN_DTYPE_I64, &square, zeros);
    REFUSED(stn_addmm(t[7], t[7], t[7], 0.5, 1), STN_ERR_ARGUMENT,
            "addmm: 'beta' got 0.5 for tensors of i64, wanted a whole number");
    return stn_scope_end(context);
}

static void bad_arguments_are_named(void)
{
    test_ranks(1, refusals_body, NULL);
}

/* Sums of a million products of one sign, which a chain in f32 gets wrong in the second digit. */

static stn_tensor *constant(stn_context *context, stn_dtype dtype, int ndim, const int64_t *shape, double value)
{
    const stn_spec *spec;
    CHECK_STATUS(
        stn_spec_create(context, NULL, NULL, dtype == STN_DTYPE_C64 ? STN_DTYPE_F32 : dtype, ndim, shape, NULL, &spec),
        STN_OK);
    stn_tensor *t = stn_full(context, spec, value);
    stn_spec_release(&spec);
    return dtype == STN_DTYPE_C64 ? stn_complex(t, t) : t;
}

/* Every element of the result is k times value^2; of complex numbers the imaginary part twice that. */
static void check_long(stn_context *context, stn_dtype dtype, int64_t k, stn_tensor *y, double value)
{
    static const double tolerance[STN_DTYPE_COUNT] = {
        [STN_DTYPE_F32] = 2e-6, [STN_DTYPE_C64] = 8e-6, [STN_DTYPE_BF16] = 0x1p-8, [STN_DTYPE_F16] = 0x1p-11};
    if (!CHECK_STATUS(stn_context_status(context), STN_OK))
        return;
    const int64_t n = stn_spec_numel(stn_tensor_spec(y));
    double *got = calloc((size_t)n, sizeof *got);
    test_read(stn_cast(dtype == STN_DTYPE_C64 ? stn_imag(y) : y, STN_DTYPE_F64), got, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(got[i], (dtype == STN_DTYPE_C64 ? 2 : 1) * value * value * (double)k, tolerance[dtype]);
    free(got);
}

static stn_status long_body(stn_context *context, void *arg)
{
    enum { K = 1000000, FEWER = 100000 };
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_C64, STN_DTYPE_BF16, STN_DTYPE_F16};
    const int64_t k = K, a[] = {3, K}, b[] = {K, 2}, batch_a[] = {2, 20, FEWER}, batch_b[] = {2, FEWER, 18};
    (void)arg;
    for (int d = 0; d < 4; d++) {
        const stn_dtype dtype = dtypes[d];
        const double value = dtype == STN_DTYPE_F16 ? 0.125 : dtype == STN_DTYPE_BF16 ? 0.10009765625 : (double)0.1f;
        stn_scope_begin(context);
        stn_tensor *x = constant(context, dtype, 1, &k, value), *m = constant(context, dtype, 2, a, value),
                   *n = constant(context, dtype, 2, b, value);
        stn_tensor *equation[] = {x, x};
        check_long(context, dtype, K, stn_dot(x, x), value);
        check_long(context, dtype, K, stn_einsum("i,i->", 2, equation), value);
        check_long(context, dtype, K, stn_mv(m, x), value);
        check_long(context, dtype, K, stn_matmul(x, n), value);
        check_long(context, dtype, K, stn_mv(stn_transpose(n, 0, 1), x), value);
        check_long(context, dtype, K, stn_matmul(m, n), value);
        check_long(context, dtype, K, stn_linear(m, stn_transpose(n, 0, 1), NULL), value);
        check_long(context, dtype, K, stn_matmul(stn_transpose(n, 0, 1), stn_transpose(m, 0, 1)), value);
        check_long(context, dtype, FEWER,
                   stn_matmul(constant(context, dtype, 3, batch_a, value), constant(context, dtype, 3, batch_b, value)),
                   value);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void long_sums_err_as_sums_do(void)
{
    static const char *const without[] = {NULL, "onednn"};
    for (int i = 0; i < 2; i++) {
        const stn_context_options options = {.size = sizeof options, .without = without[i]};
        CHECK_STATUS(test_launch(1, &options, long_body, NULL), STN_OK);
    }
}

/* What a solver's step is made of reads its vectors and its matrix once, where they are: nothing is packed. */
static stn_status in_place_body(stn_context *context, void *arg)
{
    static const stn_dtype dtypes[] = {STN_DTYPE_F32, STN_DTYPE_F64};
    const int64_t line[] = {4096}, square[] = {64, 4096};
    (void)arg;
    for (int d = 0; d < 2; d++) {
        stn_scope_begin(context);
        const stn_mesh *mesh = test_mesh(context, 1, 0);
        stn_tensor *x = stn_ones(context, stn_spec_of(mesh, dtypes[d], "R", 1, line));
        stn_tensor *a = stn_ones(context, stn_spec_of(mesh, dtypes[d], "R", 2, square));
        stn_context_stats_reset(context);
        const int64_t before = test_stats(context).live_bytes;
        stn_dot(x, x);
        stn_mv(a, x);
        CHECK(test_stats(context).peak_bytes - before < 1000);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void products_with_a_vector_need_no_workspace(void)
{
    test_ranks(1, in_place_body, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"random_layouts_give_what_one_process_gives", random_layouts_give_what_one_process_gives},
        {"addmm_is_placed_as_the_product_and_nothing_moves", addmm_is_placed_as_the_product_and_nothing_moves},
        {"an_input_times_zero_is_not_read", an_input_times_zero_is_not_read},
        {"bad_arguments_are_named", bad_arguments_are_named},
        {"long_sums_err_as_sums_do", long_sums_err_as_sums_do},
        {"products_with_a_vector_need_no_workspace", products_with_a_vector_need_no_workspace},
    };
    return TEST_MAIN(argc, argv, cases);
}
