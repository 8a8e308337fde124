/* Includes TEMPLATE once for each floating dtype, with
 *   T             as stored                 ACC      computed in: f32 for the halves
 *   LOAD, STORE   between them              NAME(f)  f of this dtype
 *   MATH(f)       stni_f of ACC             HALF     1 where T is not ACC
 * defined around it. No guard: a file includes this once for each of its templates. */
#include "core/box/each_float_but_f16.h"

#define T uint16_t
#define ACC float
#define LOAD(x) stni_f16_to_f32(x)
#define STORE(x) stni_f32_to_f16(x)
#define NAME(f) f##_f16
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
