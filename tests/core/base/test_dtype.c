/* Element types: sizes and names, promotion against rules written out here, 16-bit conversions over all their
 * values. */
#include "harness.h"

#include "core/base/dtype.h"

#include <math.h>

static void sizes_and_names_are_those_of_the_types(void)
{
    static const struct {
        stn_dtype dtype;
        const char *name;
        int64_t size, differentiable;
    } want[] = {
        {STN_DTYPE_F32, "f32", 4, 1},    {STN_DTYPE_F64, "f64", 8, 1},   {STN_DTYPE_BF16, "bf16", 2, 1},
        {STN_DTYPE_F16, "f16", 2, 1},    {STN_DTYPE_I64, "i64", 8, 0},   {STN_DTYPE_I32, "i32", 4, 0},
        {STN_DTYPE_U8, "u8", 1, 0},      {STN_DTYPE_BOOL, "bool", 1, 0}, {STN_DTYPE_C64, "c64", 8, 1},
        {STN_DTYPE_C128, "c128", 16, 1}, {STN_DTYPE_I8, "i8", 1, 0},     {STN_DTYPE_I16, "i16", 2, 0},
    };
    CHECK_I64(sizeof want / sizeof *want, STN_DTYPE_COUNT);
    for (int i = 0; i < STN_DTYPE_COUNT; i++) {
        CHECK_STR(stn_dtype_name(want[i].dtype), want[i].name);
        CHECK_I64((int64_t)stn_dtype_size(want[i].dtype), want[i].size);
        CHECK_I64(stn_dtype_is_differentiable(want[i].dtype), want[i].differentiable);
    }
}

static void values_outside_the_enum_are_told_apart(void)
{
    static const int wrong[] = {-1, STN_DTYPE_COUNT, 1000};
    for (int i = 0; i < 3; i++) {
        stn_dtype dtype = (stn_dtype)wrong[i];
        CHECK_I64((int64_t)stn_dtype_size(dtype), 0);
        CHECK_STR(stn_dtype_name(dtype), "?");
        CHECK_I64(stn_dtype_is_differentiable(dtype), 0);
        CHECK_I64(stn_dtype_promote(dtype, STN_DTYPE_F32), STN_DTYPE_COUNT);
        CHECK_I64(stn_dtype_promote(STN_DTYPE_F32, dtype), STN_DTYPE_COUNT);
    }
}

/* bool, integer, floating, complex: a higher kind wins. */
static int kind(stn_dtype d)
{
    if (d == STN_DTYPE_BOOL)
        return 0;
    return stni_dtype_is_integer(d) ? 1 : stni_dtype_is_floating(d) ? 2 : 3;
}

/* The rules in words: within a kind the wider wins, f16 with bf16 gives f32, i8 with u8 the i16 that holds both; a
 * complex result is as precise as a floating operand. */
static stn_dtype promoted(stn_dtype a, stn_dtype b)
{
    if (kind(a) < kind(b)) {
        stn_dtype swap = a;
        a = b;
        b = swap;
    }
    if (kind(a) == 3)
        return a == STN_DTYPE_C128 || b == STN_DTYPE_C128 || b == STN_DTYPE_F64 ? STN_DTYPE_C128 : STN_DTYPE_C64;
    if (kind(a) > kind(b) || a == b)
        return a;
    if (stn_dtype_size(a) == stn_dtype_size(b))
        return stni_dtype_is_floating(a) ? STN_DTYPE_F32 : STN_DTYPE_I16;
    return stn_dtype_size(a) > stn_dtype_size(b) ? a : b;
}

static void promotion_follows_kind_then_width(void)
{
    for (int a = 0; a < STN_DTYPE_COUNT; a++)
        for (int b = 0; b < STN_DTYPE_COUNT; b++) {
            CHECK_STR(stn_dtype_name(stn_dtype_promote((stn_dtype)a, (stn_dtype)b)),
                      stn_dtype_name(promoted((stn_dtype)a, (stn_dtype)b)));
        }
    CHECK_STR(stn_dtype_name(stn_dtype_promote(STN_DTYPE_I64, STN_DTYPE_F16)), "f16");
    CHECK_STR(stn_dtype_name(stn_dtype_promote(STN_DTYPE_C64, STN_DTYPE_F64)), "c128");
    CHECK_STR(stn_dtype_name(stn_dtype_promote(STN_DTYPE_BF16, STN_DTYPE_F16)), "f32");
    CHECK_STR(stn_dtype_name(stn_dtype_promote(STN_DTYPE_U8, STN_DTYPE_I32)), "i32");
    CHECK_STR(stn_dtype_name(stn_dtype_promote(STN_DTYPE_U8, STN_DTYPE_I8)), "i16");
    CHECK_STR(stn_dtype_name(stn_dtype_promote(STN_DTYPE_BOOL, STN_DTYPE_I8)), "i8");
    CHECK_STR(stn_dtype_name(stn_dtype_promote(STN_DTYPE_I16, STN_DTYPE_F16)), "f16");
}

/* The value of a binary16 by its definition. */
static double f16_value(unsigned h)
{
    int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    double sign = h & 0x8000u ? -1 : 1;
    if (exponent == 31)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa, -24);
    return sign * ldexp(1024 + mantissa, exponent - 25);
}

static void every_f16_has_its_value_and_comes_back(void)
{
    int64_t wrong_values = 0, wrong_bits = 0;
    for (unsigned h = 0; h < 65536; h++) {
        double got = (double)stni_f16_to_f32((uint16_t)h), want = f16_value(h);
        unsigned back = stni_f32_to_f16((float)want);
        if (isnan(want)) {
            wrong_values += !isnan(got);
            wrong_bits += (back & 0x7fffu) <= 0x7c00u;
        } else {
            wrong_values += got != want || (signbit(got) != 0) != (signbit(want) != 0);
            wrong_bits += back != h;
        }
    }
    CHECK_I64(wrong_values, 0);
    CHECK_I64(wrong_bits, 0);
}

/* Between two neighbours: below the middle goes down, above goes up, the middle itself to the even one. */
static void f16_rounds_to_nearest_even_everywhere(void)
{
    int64_t wrong = 0, seen = 0;
    for (unsigned h = 0; h < 0x7c00u; h++) {
        double low = f16_value(h), high = h + 1 == 0x7c00u ? 65536.0 : f16_value(h + 1);
        float middle = (float)((low + high) / 2);
        wrong += stni_f32_to_f16(nextafterf(middle, 0.0f)) != h;
        wrong += stni_f32_to_f16(middle) != (h % 2 ? h + 1 : h);
        wrong += stni_f32_to_f16(nextafterf(middle, INFINITY)) != h + 1;
        wrong += stni_f32_to_f16(-middle) != (0x8000u | (h % 2 ? h + 1 : h));
        seen++;
    }
    CHECK_I64(wrong, 0);
    CHECK_I64(seen, 0x7c00);
    CHECK_I64(stni_f32_to_f16(1e30f), 0x7c00);
    CHECK_I64(stni_f32_to_f16(-INFINITY), 0xfc00);
    CHECK_I64(stni_f32_to_f16(1e-30f), 0);
}

static void every_bf16_comes_back_and_rounds_to_nearest_even(void)
{
    int64_t wrong = 0;
    for (unsigned h = 0; h < 65536; h++) {
        float value = stni_bf16_to_f32((uint16_t)h);
        uint16_t back = stni_f32_to_bf16(value);
        wrong += isnan(value) ? !isnan(stni_bf16_to_f32(back)) : back != h;
    }
    for (unsigned h = 0; h < 0x7f7fu; h++) {
        float low = stni_bf16_to_f32((uint16_t)h), high = stni_bf16_to_f32((uint16_t)(h + 1));
        float middle = (float)(((double)low + (double)high) / 2);
        wrong += stni_f32_to_bf16(middle) != (h % 2 ? h + 1 : h);
        wrong += stni_f32_to_bf16(nextafterf(middle, INFINITY)) != h + 1;
    }
    CHECK_I64(wrong, 0);
    CHECK_I64(stni_f32_to_bf16(1.0f), 0x3f80);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"sizes_and_names_are_those_of_the_types", sizes_and_names_are_those_of_the_types},
        {"values_outside_the_enum_are_told_apart", values_outside_the_enum_are_told_apart},
        {"promotion_follows_kind_then_width", promotion_follows_kind_then_width},
        {"every_f16_has_its_value_and_comes_back", every_f16_has_its_value_and_comes_back},
        {"f16_rounds_to_nearest_even_everywhere", f16_rounds_to_nearest_even_everywhere},
        {"every_bf16_comes_back_and_rounds_to_nearest_even", every_bf16_comes_back_and_rounds_to_nearest_even},
    };
    return TEST_MAIN(argc, argv, cases);
}
