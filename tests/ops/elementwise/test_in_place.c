/* sub_, div_ and lerp_ on every layout, and what pointwise ops refuse. */
#include "harness.h"
#include "ops/layouts.h"
#include "ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct elements drawn(stn_dtype dtype, int ndim, const int64_t *shape, uint64_t seed)
{
    struct elements e;
    elements_draw(&e, dtype, ndim, shape, &seed);
    return e;
}

static stn_status in_place(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    struct elements x = drawn(STN_DTYPE_F32, 2, (int64_t[]){6, 4}, 3), row = drawn(STN_DTYPE_F32, 1, (int64_t[]){4}, 4),
                    less = x, half = x, mean = x;
    uint64_t seed = 9;
    for (int64_t i = 0; i < x.n; i++) {
        less.v[i] = x.v[i] - 2 * row.v[i % 4];
        half.v[i] = less.v[i] / 2;
        mean.v[i] = half.v[i] + 0.25 * (row.v[i % 4] - half.v[i]);
    }
    for (int round = 0; round < test_draws(40); round++) {
        stn_scope_begin(context);
        stn_tensor *t = layout_tensor_drawn(context, mesh, &x, &seed),
                   *r = layout_tensor_drawn(context, mesh, &row, &seed);
        const stn_spec *spec = stn_tensor_spec(t);
        CHECK(stn_sub_(t, r, 2) == t);
        layout_check(t, &less, "sub_");
        CHECK(stn_div_number_(t, 2) == t);
        layout_check(t, &half, "div_");
        CHECK(stn_lerp_number_(t, r, 0.25) == t);
        layout_check(t, &mean, "lerp_");
        CHECK(stn_tensor_spec(t) == spec);
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void in_place_ops_keep_handle_and_spec_on_every_layout(void)
{
    test_ranks(3, in_place, NULL);
}

/* Views of a tensor may live on one rank alone: what is refused there for them has sent nothing. */
static stn_status refused(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    struct elements e = drawn(STN_DTYPE_F32, 2, (int64_t[]){6, 4}, 8);
    const stn_placement rows = stn_shard(0);
    stn_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    stn_scope_begin(context);
    stn_tensor *x = layout_tensor_placed(context, mesh, &e, &rows);
    stn_tensor *sums = stn_sum(x, 1, (int[]){0}, 0); /* pending, so that it is reduced before it is added */
    const stn_tensor *view = stn_context_rank(context) == 1 ? stn_view(x, 1, (int64_t[]){24}) : NULL;
    char text[300] = "";
    if (view) {
        stn_context_stats(context, &before);
        CHECK(stn_tensor_is_error(stn_add_(x, sums, 1)));
        stn_context_stats(context, &after);
        CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_STATE);
        CHECK_I64(after.collectives - before.collectives, 0);
        stn_allow_stale_views_begin(context);
    }
    CHECK(stn_add_(x, sums, 1) == x);
    if (view)
        stn_allow_stale_views_end(context);
    for (int64_t k = 0; k < 4; k++) {
        double sum = 0;
        for (int64_t i = k; i < e.n; i += 4)
            sum += creal(e.v[i]);
        for (int64_t i = k; i < e.n; i += 4)
            e.v[i] += sum;
    }
    layout_check(x, &e, "add_");
    return stn_scope_end(context);
}

static void what_is_refused_has_sent_nothing(void)
{
    test_ranks(3, refused, NULL);
}

/* Running means stay as they are where weight is 0, and end where it is 1, also where the difference is too large to
 * be exact. */
static stn_status ends_of_lerp(stn_context *context, void *arg)
{
    (void)arg;
    const int64_t n = 3;
    struct elements x = {.dtype = STN_DTYPE_F32, .ndim = 1, .shape = {n}, .n = n, .v = {1e30, 1, -3}}, y = x;
    y.v[0] = 1, y.v[1] = 1e-30, y.v[2] = 7;
    stn_scope_begin(context);
    stn_tensor *a = layout_tensor_placed(context, NULL, &x, NULL), *b = layout_tensor_placed(context, NULL, &y, NULL);
    for (int i = 0; i < n; i++)
        y.v[i] = (float)creal(y.v[i]), x.v[i] = (float)creal(x.v[i]);
    layout_check(stn_lerp_number(a, b, 0), &x, "weight 0");
    layout_check(stn_lerp_number(a, b, 1), &y, "weight 1");
    return stn_scope_end(context);
}

static void lerp_is_exact_at_both_ends(void)
{
    test_ranks(1, ends_of_lerp, NULL);
}

static stn_status errors(stn_context *context, void *arg)
{
    (void)arg;
    struct elements f = drawn(STN_DTYPE_F32, 1, (int64_t[]){4}, 1), i = drawn(STN_DTYPE_I64, 1, (int64_t[]){4}, 2),
                    b = drawn(STN_DTYPE_BOOL, 1, (int64_t[]){4}, 3), c = drawn(STN_DTYPE_C64, 1, (int64_t[]){4}, 4),
                    m = drawn(STN_DTYPE_F32, 2, (int64_t[]){2, 4}, 5);
    stn_scope_begin(context);
    stn_tensor *tf = layout_tensor_placed(context, NULL, &f, NULL), *ti = layout_tensor_placed(context, NULL, &i, NULL),
               *tb = layout_tensor_placed(context, NULL, &b, NULL), *tc = layout_tensor_placed(context, NULL, &c, NULL),
               *tm = layout_tensor_placed(context, NULL, &m, NULL);
    CHECK_REFUSED(context, stn_div_(ti, ti), STN_ERR_DTYPE,
                  "div_: 'input' is i64 and is changed in place, wanted the result's dtype f32");
    CHECK_REFUSED(context, stn_lerp_(tf, tm, tf), STN_ERR_SHAPE,
                  "lerp_: 'input' has shape (4) and is changed in place, wanted the result's shape (2, 4)");
    CHECK_REFUSED(context, stn_sub(tb, tb), STN_ERR_DTYPE,
                  "sub: got dtype bool, wanted f32 f64 bf16 f16 i64 i32 u8 c64 c128 i8 or i16");
    CHECK_REFUSED(context, stn_where(ti, tf, tf), STN_ERR_DTYPE, "where: 'condition' is i64, wanted bool");
    CHECK_REFUSED(context, stn_masked_fill(ti, tb, 2.5), STN_ERR_DTYPE,
                  "masked_fill: got the number 2.5 for operands of i64, wanted a whole number");
    CHECK_REFUSED(context, stn_clamp(tf, -INFINITY, INFINITY), STN_ERR_ARGUMENT,
                  "clamp: 'min' is missing, wanted a tensor or a number");
    CHECK_REFUSED(context, stn_lt(tc, tf), STN_ERR_DTYPE,
                  "lt: got dtype c64, wanted f32 f64 bf16 f16 i64 i32 u8 bool i8 or i16");
    CHECK_REFUSED(context, stn_silu(ti), STN_ERR_DTYPE, "silu: 'input' got i64, wanted f32 f64 bf16 or f16");
    CHECK_REFUSED(context, stn_div_rounded(tf, tf, (stn_rounding)3), STN_ERR_ARGUMENT,
                  "div: rounding got 3, wanted an stn_rounding");
    CHECK_REFUSED(context, stn_div_rounded(tc, tf, STN_ROUND_FLOOR), STN_ERR_DTYPE,
                  "div: got dtype c64, wanted f32 f64 bf16 f16 i64 i32 u8 i8 or i16");
    CHECK_REFUSED(context, stn_complex(ti, ti), STN_ERR_DTYPE, "complex: got dtype i64, wanted f32 or f64");
    CHECK_REFUSED(context, stn_complex(tc, tc), STN_ERR_DTYPE, "complex: got dtype c64, wanted f32 or f64");
    CHECK_REFUSED(context, stn_complex(tf, tc), STN_ERR_DTYPE, "complex: got dtype c64, wanted f32 or f64");
    CHECK_REFUSED(context, stn_polar(tc, tf), STN_ERR_DTYPE, "polar: got dtype c64, wanted f32 or f64");
    CHECK_REFUSED(context, stn_prelu(tm, stn_slice(tf, 0, 0, 3, 1)), STN_ERR_SHAPE,
                  "prelu: 'weight' got shape (3), wanted (1) or (4), one for each channel of 'input'");
    CHECK_REFUSED(context, stn_glu(stn_slice(tf, 0, 0, 3, 1), 0), STN_ERR_SHAPE,
                  "glu: 'input' got size 3 along dim 0, wanted an even one");
    CHECK_REFUSED(context, stn_imag(tf), STN_ERR_DTYPE, "imag: 'input' got f32, wanted c64 or c128");
    return stn_scope_end(context);
}

static void what_is_not_defined_is_refused_with_its_reason(void)
{
    test_ranks(1, errors, NULL);
}

/* What each element of x becomes, and of the gradients of the sum of the results, those of x and y. */
static void narrowed(stn_context *context, const stn_mesh *mesh, stn_dtype dtype, stn_dtype wide)
{
    static const char *const names[] = {"add_", "sub_", "mul_", "div_", "pow_", "addcmul_"};
    struct elements x = drawn(dtype, 2, (int64_t[]){5, 4}, 3), y = drawn(wide, 1, (int64_t[]){4}, 4);
    const int floating = stn_dtype_is_differentiable(dtype);
    for (int64_t i = 0; i < x.n && floating; i++)
        x.v[i] = 0.5 + (double)(i % 7) / 8; /* of which each is a power */
    for (int64_t i = 0; i < y.n; i++)
        y.v[i] = floating ? 1 + (y.v[i] - 0.3) / 1024 : 300 + (double)i;
    for (int k = 0; k < (int)(sizeof names / sizeof *names); k++) {
        char name[16];
        if (!floating && (k == 3 || k == 4))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strlen(names[k]) - 1, names[k]);
        stn_tensor *in[2][3] = {{0}}, *out[2], *grad[2][2] = {{0}};
        stn_scope_begin(context);
        for (int apart = 0; apart < 2; apart++) {
            const stn_placement rows = stn_shard(0), of_y = k % 2 ? stn_shard(0) : stn_replicate();
            stn_tensor *leaf[] = {layout_tensor_placed(context, mesh, &x, &rows),
                                  layout_tensor_placed(context, mesh, &y, &of_y)};
            for (int i = 0; i < 2 && floating; i++)
                CHECK_STATUS(stn_set_requires_grad(leaf[i], 1), STN_OK);
            in[apart][0] = floating ? stn_mul_number(leaf[0], 1) : leaf[0];
            in[apart][1] = in[apart][2] = leaf[1];
            const int n = k == 5 ? 3 : 2;
            CHECK_STATUS(stn_call(context, apart ? name : names[k], n, in[apart], 0, NULL, 1, &out[apart]), STN_OK);
            out[apart] = apart ? stn_cast(out[apart], dtype) : out[apart];
            stn_tensor *loss = stn_sum(stn_cast(out[apart], STN_DTYPE_F64), 0, NULL, 0);
            if (floating)
                CHECK_STATUS(stn_grad(context, 1, &loss, NULL, 2, leaf, 0, 0, grad[apart]), STN_OK);
        }
        CHECK(out[0] == in[0][0]);
        CHECK_I64(stn_tensor_dtype(out[0]), dtype);
        for (int i = 0; i < (floating ? 3 : 1); i++) {
            double difference = 1;
            stn_tensor *got = i ? grad[0][i - 1] : out[0], *want = i ? grad[1][i - 1] : out[1];
            got = stn_abs(stn_sub(stn_cast(got, STN_DTYPE_F64), stn_cast(want, STN_DTYPE_F64)));
            CHECK_STATUS(stn_item(stn_amax(got, 0, NULL, 0), &difference), STN_OK);
            CHECK(difference <= (i == 0 ? 0 : stn_dtype_size(dtype) == 2 ? 4e-2 : 2e-6));
        }
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
}

static stn_status narrowed_body(stn_context *context, void *arg)
{
    static const stn_dtype pairs[][2] = {{STN_DTYPE_F32, STN_DTYPE_F64},  {STN_DTYPE_F16, STN_DTYPE_F32},
                                         {STN_DTYPE_BF16, STN_DTYPE_F16}, {STN_DTYPE_F16, STN_DTYPE_F64},
                                         {STN_DTYPE_I32, STN_DTYPE_I64},  {STN_DTYPE_U8, STN_DTYPE_I16},
                                         {STN_DTYPE_I8, STN_DTYPE_U8}};
    const stn_mesh *mesh = test_mesh(context, stn_context_size(context), 0);
    (void)arg;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        narrowed(context, mesh, pairs[i][0], pairs[i][1]);
    return STN_OK;
}

static void what_is_computed_in_a_wider_dtype_is_rounded_once(void)
{
    test_ranks(1, narrowed_body, NULL);
    test_ranks(3, narrowed_body, NULL);
}

/* Complex parts, which loops above do not compare; and what is of a lower category. */
static stn_status categories_body(stn_context *context, void *arg)
{
    struct elements f = drawn(STN_DTYPE_F32, 1, (int64_t[]){4}, 1), i = drawn(STN_DTYPE_I32, 1, (int64_t[]){4}, 2),
                    b = drawn(STN_DTYPE_BOOL, 1, (int64_t[]){4}, 3), c = drawn(STN_DTYPE_C64, 1, (int64_t[]){4}, 4),
                    d = c, sum = c;
    (void)arg;
    d.dtype = STN_DTYPE_C128;
    for (int k = 0; k < 4; k++)
        sum.v[k] = c.v[k] + d.v[k];
    stn_scope_begin(context);
    stn_tensor *tf = layout_tensor_placed(context, NULL, &f, NULL), *ti = layout_tensor_placed(context, NULL, &i, NULL),
               *tb = layout_tensor_placed(context, NULL, &b, NULL), *tc = layout_tensor_placed(context, NULL, &c, NULL),
               *td = layout_tensor_placed(context, NULL, &d, NULL);
    CHECK_REFUSED(context, stn_add_(ti, tf, 1), STN_ERR_DTYPE,
                  "add_: 'input' is i32 and is changed in place, wanted the result's dtype f32");
    CHECK_REFUSED(context, stn_mul_(tb, ti), STN_ERR_DTYPE,
                  "mul_: 'input' is bool and is changed in place, wanted the result's dtype i32");
    CHECK_REFUSED(context, stn_mul_(tf, tc), STN_ERR_DTYPE,
                  "mul_: 'input' is f32 and is changed in place, wanted the result's dtype c64");
    CHECK_REFUSED(context, stn_abs_(tc), STN_ERR_DTYPE,
                  "abs_: 'input' is c64 and is changed in place, wanted the result's dtype f32");
    CHECK(stn_add_(tc, td, 1) == tc);
    layout_check(tc, &sum, "add_ of c64 and c128");
    return stn_scope_end(context);
}

static void categories_are_not_left_in_place(void)
{
    test_ranks(1, categories_body, NULL);
}

/* One rank's zero is known to all at the agreement; the results are 0 there, and right elsewhere. */
static stn_status zero_divisor(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    stn_placement shard = stn_shard(0);
    struct elements x = {.dtype = STN_DTYPE_I64, .ndim = 1, .shape = {4}, .n = 4, .v = {7, -7, 9, 5}}, y = x,
                    quotient = x, rest = x;
    const double divisors[] = {2, 2, 0, -2}, quotients[] = {3, -4, 0, -3}, rests[] = {1, 1, 0, -1};
    for (int i = 0; i < 4; i++)
        y.v[i] = divisors[i], quotient.v[i] = quotients[i], rest.v[i] = rests[i];
    char text[256];
    stn_scope_begin(context);
    stn_tensor *a = layout_tensor_placed(context, mesh, &x, &shard),
               *b = layout_tensor_placed(context, mesh, &y, &shard);
    stn_tensor *whole = stn_floor_divide(a, b), *left = stn_remainder(a, b);
    layout_check(whole, &quotient, "floor_divide");
    layout_check(left, &rest, "remainder");
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_ERR_VALUE);
    CHECK_STATUS(stn_context_take_error(context, text, sizeof text), STN_ERR_VALUE);
    CHECK(strstr(text, "floor_divide: an integer is divided by 0") != NULL);
    stn_div(a, b); /* not of integers: infinite */
    CHECK_STATUS(stn_agree(context, STN_OK, NULL), STN_OK);
    return stn_scope_end(context);
}

static void an_integer_divided_by_zero_is_a_value_error(void)
{
    test_ranks(3, zero_divisor, NULL);
}

static int kind_of(const stn_tensor *t)
{
    return stn_spec_placement(stn_tensor_spec(t), 0).kind;
}

static stn_status pending(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    struct elements e = drawn(STN_DTYPE_F32, 1, (int64_t[]){5}, 6), z = drawn(STN_DTYPE_C64, 1, (int64_t[]){5}, 7);
    stn_placement replicate = stn_replicate(), partial = stn_partial(STN_SUM);
    stn_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    stn_scope_begin(context);
    stn_tensor *r = layout_tensor_placed(context, mesh, &e, &replicate),
               *p = layout_tensor_placed(context, mesh, &e, &partial);
    stn_tensor *pz = layout_tensor_placed(context, mesh, &z, &partial), *mask = stn_gt_number(r, 0);
    stn_context_stats(context, &before);
    CHECK_I64(kind_of(stn_sub(p, p)), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_neg(p)), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_div_number(p, 3)), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_div(p, r)), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_lerp_number(p, p, 0.3)), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_addcmul(p, r, p, 2)), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_where(mask, p, p)), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_masked_fill(p, mask, 0)), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_real(pz)), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_imag(pz)), STN_PLACE_PARTIAL);
    CHECK_I64(kind_of(stn_complex(p, p)), STN_PLACE_PARTIAL);
    stn_context_stats(context, &after);
    CHECK_I64(after.bytes_sent - before.bytes_sent, 0);
    CHECK_I64(kind_of(stn_div(r, p)), STN_PLACE_REPLICATE);
    CHECK_I64(kind_of(stn_div_rounded(p, r, STN_ROUND_FLOOR)), STN_PLACE_REPLICATE);
    CHECK_I64(kind_of(stn_masked_fill(p, mask, 1)), STN_PLACE_REPLICATE);
    CHECK_I64(kind_of(stn_where(mask, p, r)), STN_PLACE_REPLICATE);
    CHECK_I64(kind_of(stn_exp(p)), STN_PLACE_REPLICATE);
    return stn_scope_end(context);
}

static void sums_stay_pending_where_the_op_is_linear(void)
{
    test_ranks(3, pending, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"what_is_refused_has_sent_nothing", what_is_refused_has_sent_nothing},
        {"what_is_computed_in_a_wider_dtype_is_rounded_once", what_is_computed_in_a_wider_dtype_is_rounded_once},
        {"categories_are_not_left_in_place", categories_are_not_left_in_place},
        {"in_place_ops_keep_handle_and_spec_on_every_layout", in_place_ops_keep_handle_and_spec_on_every_layout},
        {"lerp_is_exact_at_both_ends", lerp_is_exact_at_both_ends},
        {"what_is_not_defined_is_refused_with_its_reason", what_is_not_defined_is_refused_with_its_reason},
        {"an_integer_divided_by_zero_is_a_value_error", an_integer_divided_by_zero_is_a_value_error},
        {"sums_stay_pending_where_the_op_is_linear", sums_stay_pending_where_the_op_is_linear},
    };
    return TEST_MAIN(argc, argv, cases);
}
