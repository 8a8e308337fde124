/* The tables of convert.h: every pair is a small loop, made by the two template files from what convert_dtypes.h
 * defines per dtype. */
#include "ops/cpu/convert_dtypes.h"
#include "ops/cpu/convert_half.h"
#include "ops/cpu/convert_widened.h"

#define CONVERT_PAIR "ops/cpu/convert_pair_tmpl.h"
#define FROM f32
#include "ops/cpu/convert_from_tmpl.h"
#define FROM f64
#include "ops/cpu/convert_from_tmpl.h"
#define FROM bf16
#include "ops/cpu/convert_from_tmpl.h"
#define FROM f16
#define RUN run_f16_to_f32 /* the first of them */
#include "ops/cpu/convert_from_tmpl.h"
#define FROM i64
#include "ops/cpu/convert_from_tmpl.h"
#define FROM i32
#include "ops/cpu/convert_from_tmpl.h"
#define FROM u8
#include "ops/cpu/convert_from_tmpl.h"
#define FROM bool
#include "ops/cpu/convert_from_tmpl.h"
#define FROM c64
#include "ops/cpu/convert_from_tmpl.h"
#define FROM c128
#include "ops/cpu/convert_from_tmpl.h"
#undef CONVERT_PAIR

/* From a compute type to the narrower dtypes that compute in it. */
#define FROM f32
#define TO bf16
#include "ops/cpu/convert_pair_tmpl.h"
#define TO f16
#define RUN run_f32_to_f16
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM
#define FROM f64
#define TO bf16
#include "ops/cpu/convert_pair_tmpl.h"
#define TO f16
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM
#define FROM i64
#define TO i32
#include "ops/cpu/convert_pair_tmpl.h"
#define TO u8
#include "ops/cpu/convert_pair_tmpl.h"
#define TO i16
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM

/* 16 bits as they are: bf16 where that is what is computed in. */
#define FROM i16
#define TO i16
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM

/* From i8 and i16 by way of i32. */
#define FROM i8
#define TO i32
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM
#define FROM i16
#define TO i32
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM

#define CONVERT_PAIR "ops/cpu/convert_widened_tmpl.h"
#define FROM i8
#include "ops/cpu/convert_from_tmpl.h"
#define FROM i16
#include "ops/cpu/convert_from_tmpl.h"

#define FROM_EVERY(to)                                                                                                 \
    {                                                                                                                  \
        [STN_DTYPE_F32] = f32_to_##to, [STN_DTYPE_F64] = f64_to_##to, [STN_DTYPE_BF16] = bf16_to_##to,                 \
        [STN_DTYPE_F16] = f16_to_##to, [STN_DTYPE_I64] = i64_to_##to, [STN_DTYPE_I32] = i32_to_##to,                   \
        [STN_DTYPE_U8] = u8_to_##to, [STN_DTYPE_BOOL] = bool_to_##to, [STN_DTYPE_C64] = c64_to_##to,                   \
        [STN_DTYPE_C128] = c128_to_##to, [STN_DTYPE_I8] = i8_to_##to, [STN_DTYPE_I16] = i16_to_##to                    \
    }

const struct stni_convert_kernels STNI_ISA_NAME(stni_convert_kernels) = {{
    [STN_DTYPE_F32] = FROM_EVERY(f32),
    [STN_DTYPE_F64] = FROM_EVERY(f64),
    [STN_DTYPE_I64] = FROM_EVERY(i64),
    [STN_DTYPE_BOOL] = FROM_EVERY(bool),
    [STN_DTYPE_C64] = FROM_EVERY(c64),
    [STN_DTYPE_C128] = FROM_EVERY(c128),
    [STN_DTYPE_BF16] = {[STN_DTYPE_F32] = f32_to_bf16, [STN_DTYPE_F64] = f64_to_bf16, [STN_DTYPE_BF16] = i16_to_i16},
    [STN_DTYPE_F16] = {[STN_DTYPE_F32] = f32_to_f16, [STN_DTYPE_F64] = f64_to_f16},
    [STN_DTYPE_I32] = {[STN_DTYPE_I64] = i64_to_i32},
    [STN_DTYPE_U8] = {[STN_DTYPE_I64] = i64_to_u8},
    [STN_DTYPE_I8] = {[STN_DTYPE_I64] = i64_to_u8}, /* the same low bits */
    [STN_DTYPE_I16] = {[STN_DTYPE_I64] = i64_to_i16},
}};
