/* Promotion, numbers, and what is refused: by name, on local tensors. */
#include "harness.h"
#include "ops/layouts.h"
#include "ops/common/promote.h"
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define F32 STN_DTYPE_F32
#define F64 STN_DTYPE_F64
#define B16 STN_DTYPE_BF16
#define F16 STN_DTYPE_F16
#define I64 STN_DTYPE_I64
#define I32 STN_DTYPE_I32
#define U8 STN_DTYPE_U8
#define BOOL STN_DTYPE_BOOL
#define C64 STN_DTYPE_C64
#define C128 STN_DTYPE_C128

static stn_tensor *ones(stn_context *context, stn_dtype dtype, int ndim)
{
    struct elements e = {.dtype = dtype, .ndim = ndim, .shape = {3, 3}, .n = ndim ? 3 : 1};
    for (int i = 0; i < 3; i++)
        e.v[i] = 1;
    return layout_tensor_placed(context, NULL, &e, NULL);
}

/* A tensor of dtype `a` with `a_ndim` dims and one of `b`, as PyTorch promotes them. */
static const struct {
    stn_dtype a;
    int a_ndim;
    stn_dtype b;
    int b_ndim;
    stn_dtype wanted;
} pairs[] = {
    {F32, 1, F64, 1, F64},  {F32, 1, F64, 0, F32},  {F32, 0, F64, 1, F64},  {F64, 0, F32, 0, F64},   {B16, 1, F16, 1, F32},
    {B16, 1, F32, 0, B16},  {I64, 1, F32, 1, F32},  {I64, 1, B16, 0, B16},  {I32, 1, I64, 1, I64},   {I32, 1, I64, 0, I32},
    {U8, 1, I32, 1, I32},   {BOOL, 1, I64, 0, I64}, {BOOL, 1, U8, 1, U8},   {BOOL, 1, BOOL, 0, BOOL}, {F32, 1, C64, 1, C64},
    {F64, 1, C64, 0, C128}, {F32, 1, C128, 0, C64}, {F64, 1, C64, 1, C128}, {C64, 1, F64, 0, C64},   {C64, 1, F64, 1, C128},
    {I64, 1, C64, 0, C64},  {F16, 0, I64, 1, F16},
};

static stn_status promote_pairs(stn_context *context, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        stn_scope_begin(context);
        stn_tensor *a = ones(context, pairs[i].a, pairs[i].a_ndim), *b = ones(context, pairs[i].b, pairs[i].b_ndim);
        CHECK_STR(stn_dtype_name(stn_tensor_dtype(stn_add(a, b))), stn_dtype_name(pairs[i].wanted));
        CHECK_STR(stn_dtype_name(stn_tensor_dtype(stn_mul(b, a))), stn_dtype_name(pairs[i].wanted));
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    return STN_OK;
}

static void tensors_without_dims_widen_only_across_categories(void)
{
    test_ranks(1, promote_pairs, NULL);
}

static const struct {
    stn_dtype dtype;
    double number;
    stn_dtype wanted;
} numbers[] = {
    {F32, 2, F32}, {F32, 2.5, F32}, {F64, 2.5, F64}, {B16, 2.5, B16}, {I64, 2, I64},    {I64, 2.5, F32},
    {U8, 2, U8},   {I32, -3, I32},  {BOOL, 1, I64},  {BOOL, 0.5, F32}, {C64, 2.5, C64}, {C128, 1, C128},
};

static stn_status promote_numbers(stn_context *context, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct elements wanted = {.dtype = numbers[i].wanted, .ndim = 1, .shape = {3}, .n = 3};
        for (int k = 0; k < 3; k++)
            wanted.v[k] = numbers[i].wanted == U8 ? 3 : 1 + numbers[i].number;
        stn_scope_begin(context);
        stn_tensor *x = ones(context, numbers[i].dtype, 1);
        layout_check(stn_add_number(x, numbers[i].number), &wanted, stn_dtype_name(numbers[i].dtype));
        for (int k = 0; k < 3; k++)
            wanted.v[k] = numbers[i].number;
        layout_check(stn_mul_number(x, numbers[i].number), &wanted, stn_dtype_name(numbers[i].dtype));
        CHECK_STATUS(stn_scope_end(context), STN_OK);
    }
    CHECK_I64(stni_number(1e300).kind, STN_NUMBER_FLOAT);
    CHECK_I64(stni_number(-7).i, -7);
    return STN_OK;
}

static void whole_numbers_keep_integers_integers(void)
{
    test_ranks(1, promote_numbers, NULL);
}

/* Bool: add is "or", alpha included, mul is "and". */
static stn_status booleans(stn_context *context, void *arg)
{
    (void)arg;
    struct elements x = {.dtype = BOOL, .ndim = 1, .shape = {4}, .n = 4, .v = {0, 0, 1, 1}}, y = x, or = x, and = x;
    for (int i = 0; i < 4; i++) {
        y.v[i] = i % 2;
        or.v[i] = x.v[i] != 0 || y.v[i] != 0;
        and.v[i] = x.v[i] != 0 && y.v[i] != 0;
    }
    stn_scope_begin(context);
    stn_tensor *a = layout_tensor_placed(context, NULL, &x, NULL), *b = layout_tensor_placed(context, NULL, &y, NULL);
    layout_check(stn_add(a, b), &or, "or");
    layout_check(stn_add_scaled(a, b, 3), &or, "or, scaled");
    layout_check(stn_add_scaled(a, b, 0), &x, "or, scaled by 0");
    layout_check(stn_mul(a, b), &and, "and");
    return stn_scope_end(context);
}

static void sum_of_bool_is_or_and_product_is_and(void)
{
    test_ranks(1, booleans, NULL);
}

/* cast, to and fro */
static stn_status casts(stn_context *context, void *arg)
{
    (void)arg;
    struct elements e = {.dtype = C128, .ndim = 1, .shape = {3}, .n = 3, .v = {1.5 + 2 * I, -2.5 + I, 3 * I}};
    stn_scope_begin(context);
    stn_tensor *z = layout_tensor_placed(context, NULL, &e, NULL);
    for (int d = 0; d < STN_DTYPE_COUNT; d++) {
        struct elements wanted = e;
        wanted.dtype = (stn_dtype)d;
        for (int i = 0; i < 3; i++) {
            double re = creal(e.v[i]);
            wanted.v[i] = stni_dtype_is_complex((stn_dtype)d) ? e.v[i] : d == BOOL ? 1 : d == U8 ? (uint8_t)(int)re
                          : stni_dtype_is_floating((stn_dtype)d) ? re : (double)(int)re;
        }
        layout_check(stn_cast(z, (stn_dtype)d), &wanted, stn_dtype_name((stn_dtype)d));
        /* The names of the attribute are in the order of the enum. */
        stn_attr attr = {"dtype", STN_ATTR_STRING, {.s = stn_dtype_name((stn_dtype)d)}};
        stn_tensor *named = NULL;
        CHECK_STATUS(stn_call(context, "cast", 1, &z, 1, &attr, 1, &named), STN_OK);
        CHECK_STR(stn_dtype_name(stn_tensor_dtype(named)), stn_dtype_name((stn_dtype)d));
    }
    CHECK(stn_cast(z, C128) == z);
    return stn_scope_end(context);
}

static void cast_reaches_every_dtype_by_type_and_by_name(void)
{
    test_ranks(1, casts, NULL);
}

static stn_status by_name(stn_context *context, void *arg)
{
    (void)arg;
    struct elements x = {.dtype = I64, .ndim = 1, .shape = {3}, .n = 3, .v = {1, 2, 3}}, wanted = x;
    stn_attr attrs[2] = {{"other", STN_ATTR_INT, {.i = 5}}, {"alpha", STN_ATTR_INT, {.i = 2}}};
    stn_scope_begin(context);
    stn_tensor *a = layout_tensor_placed(context, NULL, &x, NULL), *out = NULL;
    for (int i = 0; i < 3; i++)
        wanted.v[i] = x.v[i] + 10;
    CHECK_STATUS(stn_call(context, "add", 1, &a, 2, attrs, 1, &out), STN_OK);
    layout_check(out, &wanted, "add by name");
    for (int i = 0; i < 3; i++)
        wanted.v[i] = 5 * x.v[i];
    CHECK_STATUS(stn_call(context, "mul_", 1, &a, 1, attrs, 1, &out), STN_OK);
    CHECK(out == a);
    layout_check(a, &wanted, "mul_ by name");
    return stn_scope_end(context);
}

static void numbers_stand_for_the_second_operand_by_name(void)
{
    test_ranks(1, by_name, NULL);
}

static stn_status errors(stn_context *context, void *arg)
{
    (void)arg;
    struct elements wide = {.dtype = F32, .ndim = 2, .shape = {2, 4}, .n = 8};
    stn_tensor *three = ones(context, F32, 1), *whole = ones(context, I64, 1),
               *four = layout_tensor_placed(context, NULL, &wide, NULL);
    stn_tensor *out = NULL, *both[2] = {three, three};
    stn_attr number = {"other", STN_ATTR_FLOAT, {.f = 2}}, half = {"alpha", STN_ATTR_FLOAT, {.f = 0.5}};
    CHECK_REFUSED(context, stn_add(four, three), STN_ERR_SHAPE,
                  "add: 'other' got shape (3), wanted one that broadcasts with (2, 4)");
    CHECK_REFUSED(context, stn_add_(three, four, 1), STN_ERR_SHAPE,
                  "add_: 'other' got shape (2, 4), wanted one that broadcasts with (3)");
    stn_tensor *rows = stn_expand(three, 2, (int64_t[]){5, 3}), *one = ones(context, F32, 1);
    CHECK_REFUSED(context, stn_mul_(one, rows), STN_ERR_SHAPE,
                "mul_: 'input' has shape (3) and is changed in place, wanted the result's shape (5, 3)");
    CHECK_REFUSED(context, stn_mul_(whole, three), STN_ERR_DTYPE,
                "mul_: 'input' is i64 and is changed in place, wanted the result's dtype f32");
    CHECK_REFUSED(context, stn_mul_number_(whole, 2.5), STN_ERR_DTYPE,
                "mul_: 'input' is i64 and is changed in place, wanted the result's dtype f32");
    CHECK_STATUS(stn_call(context, "add", 1, &three, 0, NULL, 1, &out), STN_ERR_ARGUMENT);
    CHECK_REFUSED(context, out, STN_ERR_ARGUMENT, "add: 'other' is missing, wanted a tensor or a number");
    CHECK_STATUS(stn_call(context, "mul", 2, both, 1, &number, 1, &out), STN_ERR_ARGUMENT);
    CHECK_REFUSED(context, out, STN_ERR_ARGUMENT, "mul: 'other' got a tensor and a number, wanted one of them");
    both[0] = both[1] = whole;
    CHECK_STATUS(stn_call(context, "add", 2, both, 1, &half, 1, &out), STN_ERR_DTYPE);
    CHECK_REFUSED(context, out, STN_ERR_DTYPE, "add: got the number 0.5 for operands of i64, wanted a whole number");
    CHECK_REFUSED(context, stn_cast(three, (stn_dtype)77), STN_ERR_ARGUMENT,
                  "cast: 'dtype' got 77, wanted an stn_dtype");
    CHECK_REFUSED(context, stn_softshrink(three, -0.5), STN_ERR_ARGUMENT,
                  "softshrink: 'lambd' got -0.5, wanted a finite number of 0 or more");
    CHECK_REFUSED(context, stn_softshrink_(three, (double)INFINITY), STN_ERR_ARGUMENT,
                  "softshrink_: 'lambd' got inf, wanted a finite number of 0 or more");
    CHECK_REFUSED(context, stn_threshold(whole, 0.5, 1), STN_ERR_DTYPE,
                  "threshold: got the number 0.5 for operands of i64, wanted a whole number");
    CHECK(stn_add(NULL, NULL) == NULL);
    CHECK_REFUSED(context, stn_add(three, NULL), STN_ERR_ARGUMENT,
                  "add: 'other' is missing, wanted a tensor or a number");
    stn_tensor *all[] = {three, whole, four, rows, one};
    for (int i = 0; i < 5; i++)
        stn_tensor_release(&all[i]);
    return STN_OK;
}

static void errors_name_argument_got_and_wanted(void)
{
    test_ranks(1, errors, NULL);
}

static stn_status partial_in_place(stn_context *context, void *arg)
{
    (void)arg;
    const stn_mesh *mesh = test_mesh(context, 2, 0);
    struct elements e = {.dtype = F32, .ndim = 1, .shape = {3}, .n = 3, .v = {1, 2, 3}};
    stn_placement partial = stn_partial(STN_SUM);
    stn_attr five = {"other", STN_ATTR_INT, {.i = 5}};
    stn_tensor *p = layout_tensor_placed(context, mesh, &e, &partial), *out = NULL;
    CHECK_STATUS(stn_call(context, "add_", 1, &p, 1, &five, 1, &out), STN_ERR_PARTIAL);
    CHECK_REFUSED(
        context, out, STN_ERR_PARTIAL,
        "add_: 'input' has a reduction pending on mesh axis 'y', and this changes it in place: wanted a reduced one");
    stn_tensor_release(&p);
    return STN_OK;
}

static void pending_reduction_is_not_changed_in_place_by_what_is_not_linear(void)
{
    test_ranks(2, partial_in_place, NULL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"tensors_without_dims_widen_only_across_categories", tensors_without_dims_widen_only_across_categories},
        {"whole_numbers_keep_integers_integers", whole_numbers_keep_integers_integers},
        {"sum_of_bool_is_or_and_product_is_and", sum_of_bool_is_or_and_product_is_and},
        {"cast_reaches_every_dtype_by_type_and_by_name", cast_reaches_every_dtype_by_type_and_by_name},
        {"numbers_stand_for_the_second_operand_by_name", numbers_stand_for_the_second_operand_by_name},
        {"errors_name_argument_got_and_wanted", errors_name_argument_got_and_wanted},
        {"pending_reduction_is_not_changed_in_place_by_what_is_not_linear",
         pending_reduction_is_not_changed_in_place_by_what_is_not_linear},
    };
    return TEST_MAIN(argc, argv, cases);
}
