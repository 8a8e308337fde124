/* As each_float.h without f16, for kernels that convert f16 to f32 some elements at a time: conversions inside of
 * their loops are two fifths of what the compiler has to do, for the dtype that is used least. */
#include "core/base/dtype.h"

#include "core/box/as_f32.h"
#include TEMPLATE
#undef T
#undef ACC
#undef LOAD
#undef STORE
#undef NAME
#undef MATH
#undef HALF

#define T double
#define ACC double
#define LOAD(x) (x)
#define STORE(x) (x)
#define NAME(f) f##_f64
#define MATH(f) stni_##f##_f64
#define HALF 0
#include TEMPLATE
#undef T
#undef ACC
#undef LOAD
#undef STORE
#undef NAME
#undef MATH
#undef HALF

#define T uint16_t
#define ACC float
#define LOAD(x) stni_bf16_to_f32(x)
#define STORE(x) stni_f32_to_bf16(x)
#define NAME(f) f##_bf16
#define MATH(f) stni_##f##_f32
#define HALF 1
#include TEMPLATE
#undef T
#undef ACC
#undef LOAD
#undef STORE
#undef NAME
#undef MATH
#undef HALF
