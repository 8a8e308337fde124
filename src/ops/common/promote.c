#include "ops/common/promote.h"

#include "core/base/dtype.h"

#define UNDEFINED STN_DTYPE_COUNT

enum category { BOOLEAN, INTEGER, FLOATING, COMPLEX };

static enum category category_of(stn_dtype dtype)
{
    if (stni_dtype_is_complex(dtype))
        return COMPLEX;
    if (stni_dtype_is_floating(dtype))
        return FLOATING;
    return dtype == STN_DTYPE_BOOL ? BOOLEAN : INTEGER;
}

int stni_same_category(stn_dtype a, stn_dtype b)
{
    return category_of(a) == category_of(b);
}

static stn_dtype within(stn_dtype a, stn_dtype b)
{
    return a == UNDEFINED ? b : stn_dtype_promote(a, b);
}

/* `high` is of a kind that counts before that of `low`. */
static stn_dtype across(stn_dtype high, stn_dtype low)
{
    if (high == UNDEFINED || low == UNDEFINED)
        return high == UNDEFINED ? low : high;
    if (category_of(low) <= category_of(high))
        return high;
    if (category_of(low) == COMPLEX && category_of(high) == FLOATING)
        return high == STN_DTYPE_F64 ? STN_DTYPE_C128 : STN_DTYPE_C64;
    return low;
}

/* What a number counts as beside tensors of a lower category. */
static stn_dtype number_dtype(const stn_number *number)
{
    static const stn_dtype dtypes[] = {
        [STN_NUMBER_NONE] = UNDEFINED,
        [STN_NUMBER_BOOL] = STN_DTYPE_BOOL,
        [STN_NUMBER_INT] = STN_DTYPE_I64,
        [STN_NUMBER_FLOAT] = STN_DTYPE_F32,
    };
    return dtypes[number->kind];
}

stn_dtype stni_promote(int n, const stn_spec *const *specs, const stn_number *numbers)
{
    stn_dtype with_dims = UNDEFINED, without = UNDEFINED, number = UNDEFINED;
    for (int i = 0; i < n; i++) {
        if (!specs[i]) {
            stn_dtype dtype = numbers ? number_dtype(&numbers[i]) : UNDEFINED;
            number = dtype == UNDEFINED ? number : within(number, dtype);
        } else if (stn_spec_ndim(specs[i]) > 0) {
            with_dims = within(with_dims, stn_spec_dtype(specs[i]));
        } else {
            without = within(without, stn_spec_dtype(specs[i]));
        }
    }
    return across(across(with_dims, without), number);
}

stn_number stni_number(double value)
{
    int whole = value >= -0x1p63 && value < 0x1p63 && value == (double)(int64_t)value;
    return (stn_number){whole ? STN_NUMBER_INT : STN_NUMBER_FLOAT, whole ? (int64_t)value : 0, value};
}

static int is_within_i64(double value)
{
    return value >= -0x1p63 && value < 0x1p63;
}

int64_t stni_number_whole(const stn_number *number)
{
    if (number->kind != STN_NUMBER_FLOAT)
        return number->i;
    return is_within_i64(number->f) ? (int64_t)number->f : 0;
}

int stni_number_fits(const stn_number *number, stn_dtype dtype)
{
    static const int64_t most[STN_DTYPE_COUNT] = {[STN_DTYPE_I64] = INT64_MAX,
                                                  [STN_DTYPE_I32] = INT32_MAX,
                                                  [STN_DTYPE_I16] = INT16_MAX,
                                                  [STN_DTYPE_I8] = INT8_MAX,
                                                  [STN_DTYPE_U8] = UINT8_MAX};
    const int64_t least = dtype == STN_DTYPE_U8 ? -most[dtype] : -most[dtype] - 1;
    if (most[dtype] == 0 || number->kind == STN_NUMBER_NONE)
        return 1;
    if (number->kind == STN_NUMBER_FLOAT && !is_within_i64(number->f))
        return 0;
    const int64_t whole = stni_number_whole(number);
    return whole >= least && whole <= most[dtype];
}
