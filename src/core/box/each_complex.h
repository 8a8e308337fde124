/* Includes TEMPLATE once for each complex dtype as each_float.h does for floating ones. */

#define T float _Complex
#define ACC float _Complex
#define LOAD(x) (x)
#define STORE(x) (x)
#define NAME(f) f##_c64
#include TEMPLATE
#undef T
#undef ACC
#undef LOAD
#undef STORE
#undef NAME

#define T double _Complex
#define ACC double _Complex
#define LOAD(x) (x)
#define STORE(x) (x)
#define NAME(f) f##_c128
#include TEMPLATE
#undef T
#undef ACC
#undef LOAD
#undef STORE
#undef NAME
