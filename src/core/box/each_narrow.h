/* Includes TEMPLATE once for each signed integer dtype narrower than those of each_integer.h, and as that does. */

#define T int8_t
#define ACC int8_t
#define LOAD(x) (x)
#define STORE(x) (x)
#define NAME(f) f##_i8
#include TEMPLATE
#undef T
#undef ACC
#undef LOAD
#undef STORE
#undef NAME

#define T int16_t
#define ACC int16_t
#define LOAD(x) (x)
#define STORE(x) (x)
#define NAME(f) f##_i16
#include TEMPLATE
#undef T
#undef ACC
#undef LOAD
#undef STORE
#undef NAME
