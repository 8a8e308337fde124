/* sub_, div_ and lerp_ on every layout, and what pointwise ops refuse. */
#include "harness.h"
#include "ops/layouts.h"
#include "ranks.h"

#include <math.h>
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
    struct elements x = drawn(STN_DTYPE_F32, 2, (int64_t[]){6, 4}, 3), row = drawn(STN_DTYPE_F32, 1, (int64_t[]){4}, 4), less = x, half = x, mean = x;
    uint64_t seed = 9;
    for (int64_t i = 0; i < x.n; i++) {
        less.v[i] = x.v[i] - 2 * row.v[i % 4];
        half.v[i] = less.v[i] / 2;
        mean.v[i] = half.v[i] + 0.25 * (row.v[i % 4] - half.v[i]);
    }
    for (int round = 0; round < test_draws(40); round++) {
        stn_scope_begin(context);
        stn_tensor *t = layout_tensor_drawn(context, mesh, &x, &seed), *r = layout_tensor_drawn(context, mesh, &row, &seed);
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
    CHECK_REFUSED(context, stn_div_(ti, ti), STN_ERR_DTYPE, "div_: 'input' is i64 and is changed in place, wanted the result's dtype f32");
    CHECK_REFUSED(context, stn_lerp_(tf, tm, tf), STN_ERR_SHAPE,
            "lerp_: 'input' has shape (4) and is changed in place, wanted the result's shape (2, 4)");
    CHECK_REFUSED(context, stn_sub(tb, tb), STN_ERR_DTYPE, "sub: not defined for bool");
    CHECK_REFUSED(context, stn_where(ti, tf, tf), STN_ERR_DTYPE, "where: 'condition' is i64, wanted bool");
    CHECK_REFUSED(context, stn_masked_fill(ti, tb, 2.5), STN_ERR_DTYPE, "masked_fill: got the number 2.5 for operands of i64, wanted a whole number");
    CHECK_REFUSED(context, stn_clamp(tf, -INFINITY, INFINITY), STN_ERR_ARGUMENT, "clamp: 'min' is missing, wanted a tensor or a number");
    CHECK_REFUSED(context, stn_lt(tc, tf), STN_ERR_DTYPE, "lt: not defined for c64");
    CHECK_REFUSED(context, stn_silu(ti), STN_ERR_DTYPE, "silu: not defined for i64");
    CHECK_REFUSED(context, stn_div_rounded(tf, tf, (stn_rounding)3), STN_ERR_ARGUMENT, "div: rounding got 3, wanted an stn_rounding");
    CHECK_REFUSED(context, stn_div_rounded(tc, tf, STN_ROUND_FLOOR), STN_ERR_DTYPE, "div: not defined for c64");
    CHECK_REFUSED(context, stn_complex(ti, ti), STN_ERR_DTYPE, "complex: not defined for i64");
    CHECK_REFUSED(context, stn_prelu(tm, stn_slice(tf, 0, 0, 3, 1)), STN_ERR_SHAPE,
            "prelu: 'weight' got shape (3), wanted (1) or (4), one for each channel of 'input'");
    CHECK_REFUSED(context, stn_glu(stn_slice(tf, 0, 0, 3, 1), 0), STN_ERR_SHAPE, "glu: 'input' got size 3 along dim 0, wanted an even one");
    CHECK_REFUSED(context, stn_imag(tf), STN_ERR_DTYPE, "imag: not defined for f32");
    return stn_scope_end(context);
}

static void what_is_not_defined_is_refused_with_its_reason(void)
{
    test_ranks(1, errors, NULL);
}

/* One rank's zero is known to all at the agreement; the results are 0 there, and right elsewhere. */
static stn_status zero_divisor(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 3, 0);
    stn_placement shard = stn_shard(0);
    struct elements x = {.dtype = STN_DTYPE_I64, .ndim = 1, .shape = {4}, .n = 4, .v = {7, -7, 9, 5}}, y = x, quotient = x, rest = x;
    const double divisors[] = {2, 2, 0, -2}, quotients[] = {3, -4, 0, -3}, rests[] = {1, 1, 0, -1};
    for (int i = 0; i < 4; i++)
        y.v[i] = divisors[i], quotient.v[i] = quotients[i], rest.v[i] = rests[i];
    char text[256];
    stn_scope_begin(context);
    stn_tensor *a = layout_tensor_placed(context, mesh, &x, &shard), *b = layout_tensor_placed(context, mesh, &y, &shard);
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
    stn_tensor *r = layout_tensor_placed(context, mesh, &e, &replicate), *p = layout_tensor_placed(context, mesh, &e, &partial);
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
        {"in_place_ops_keep_handle_and_spec_on_every_layout", in_place_ops_keep_handle_and_spec_on_every_layout},
        {"lerp_is_exact_at_both_ends", lerp_is_exact_at_both_ends},
        {"what_is_not_defined_is_refused_with_its_reason", what_is_not_defined_is_refused_with_its_reason},
        {"an_integer_divided_by_zero_is_a_value_error", an_integer_divided_by_zero_is_a_value_error},
        {"sums_stay_pending_where_the_op_is_linear", sums_stay_pending_where_the_op_is_linear},
    };
    return TEST_MAIN(argc, argv, cases);
}
