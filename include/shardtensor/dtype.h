/* Element types. */
#ifndef SHARDTENSOR_DTYPE_H
#define SHARDTENSOR_DTYPE_H

#include <shardtensor/export.h>

#include <stddef.h>
#include <stdint.h>

STN_BEGIN_DECLS

typedef enum stn_dtype {
    STN_DTYPE_F32,
    STN_DTYPE_F64,
    STN_DTYPE_BF16,
    STN_DTYPE_F16,
    STN_DTYPE_I64,
    STN_DTYPE_I32,
    STN_DTYPE_U8,
    STN_DTYPE_BOOL,
    STN_DTYPE_C64,  /* two f32: real, imaginary */
    STN_DTYPE_C128, /* two f64 */
    STN_DTYPE_I8,
    STN_DTYPE_I16,
    STN_DTYPE_COUNT
} stn_dtype;

/** Bytes of one element; 0 for a value outside the enum. Local. */
STN_API size_t stn_dtype_size(stn_dtype dtype);

/** "f32", "i64", …; "?" for a value outside the enum. Local. */
STN_API const char *stn_dtype_name(stn_dtype dtype);

/** 1 where gradients exist: f32 f64 bf16 f16 c64 c128. Local. */
STN_API int stn_dtype_is_differentiable(stn_dtype dtype);

/** The dtype of an operation between tensors of two dtypes (both with at least one dim, or both 0-d), as
 *  PyTorch's users expect: complex over floating over integer over bool, then the wider; f16 with bf16 gives f32,
 *  i8 with u8 i16.
 *  STN_DTYPE_COUNT for a value outside the enum. Local. */
STN_API stn_dtype stn_dtype_promote(stn_dtype a, stn_dtype b);

STN_END_DECLS
#endif
