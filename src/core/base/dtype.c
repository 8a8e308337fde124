/* Element types: sizes, names and promotion, each a table. */
#include "core/base/dtype.h"

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
#define I8 STN_DTYPE_I8
#define I16 STN_DTYPE_I16

static const struct {
    const char *name;
    uint8_t size; /* bytes */
    uint8_t differentiable;
    /* With which dtype an operation of this one and another is done, in the enum's order of the other. */
    uint8_t promoted[STN_DTYPE_COUNT];
} dtypes[STN_DTYPE_COUNT] = {
    [F32] = {"f32", 4, 1, {F32, F64, F32, F32, F32, F32, F32, F32, C64, C128, F32, F32}},
    [F64] = {"f64", 8, 1, {F64, F64, F64, F64, F64, F64, F64, F64, C128, C128, F64, F64}},
    [B16] = {"bf16", 2, 1, {F32, F64, B16, F32, B16, B16, B16, B16, C64, C128, B16, B16}},
    [F16] = {"f16", 2, 1, {F32, F64, F32, F16, F16, F16, F16, F16, C64, C128, F16, F16}},
    [I64] = {"i64", 8, 0, {F32, F64, B16, F16, I64, I64, I64, I64, C64, C128, I64, I64}},
    [I32] = {"i32", 4, 0, {F32, F64, B16, F16, I64, I32, I32, I32, C64, C128, I32, I32}},
    [U8] = {"u8", 1, 0, {F32, F64, B16, F16, I64, I32, U8, U8, C64, C128, I16, I16}},
    [BOOL] = {"bool", 1, 0, {F32, F64, B16, F16, I64, I32, U8, BOOL, C64, C128, I8, I16}},
    [C64] = {"c64", 8, 1, {C64, C128, C64, C64, C64, C64, C64, C64, C64, C128, C64, C64}},
    [C128] = {"c128", 16, 1, {C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128}},
    [I8] = {"i8", 1, 0, {F32, F64, B16, F16, I64, I32, I16, I8, C64, C128, I8, I16}},
    [I16] = {"i16", 2, 0, {F32, F64, B16, F16, I64, I32, I16, I16, C64, C128, I16, I16}},
};

static int known(stn_dtype dtype)
{
    return (unsigned)dtype < STN_DTYPE_COUNT;
}

size_t stn_dtype_size(stn_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].size : 0;
}

const char *stn_dtype_name(stn_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].name : "?";
}

int stn_dtype_is_differentiable(stn_dtype dtype)
{
    return known(dtype) && dtypes[dtype].differentiable;
}

stn_dtype stn_dtype_promote(stn_dtype a, stn_dtype b)
{
    return known(a) && known(b) ? (stn_dtype)dtypes[a].promoted[b] : STN_DTYPE_COUNT;
}
