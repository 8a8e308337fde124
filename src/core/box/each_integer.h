/* Includes TEMPLATE once for each integer dtype as each_float.h does for floating ones; a bool is a u8 that is 0 or
 * 1. */

#define T int64_t
#define ACC int64_t
#define LOAD(x) (x)
#define STORE(x) (x)
#define NAME(f) f##_i64
#include TEMPLATE
#undef T
#undef ACC
#undef LOAD
#undef STORE
#undef NAME

#define T int32_t
#define ACC int32_t
#define LOAD(x) (x)
#define STORE(x) (x)
#define NAME(f) f##_i32
#include TEMPLATE
#undef T
#undef ACC
#undef LOAD
#undef STORE
#undef NAME

#define T uint8_t
#define ACC uint8_t
#define LOAD(x) (x)
#define STORE(x) (x)
#define NAME(f) f##_u8
#include TEMPLATE
#undef T
#undef ACC
#undef LOAD
#undef STORE
#undef NAME
