/* Includes TEMPLATE once for each floating type in which is computed, with
 *   ACC        the type
 *   NAME(f)    f of it
 * defined around it. No guard, as each_float.h, whose halves are computed in f32. */
#define ACC float
#define NAME(f) f##_f32
#include TEMPLATE
#undef ACC
#undef NAME

#define ACC double
#define NAME(f) f##_f64
#include TEMPLATE
#undef ACC
#undef NAME
