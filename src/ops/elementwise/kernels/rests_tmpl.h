/* Rests of divisions, and what is made of them, as loops over dense runs of one type, where the quotient is near: an
 * integer of the type. Included once per type with
 *   T, R        the type                   NAME(f)       f of it
 *   LIBM(f)     the C library's f of it    FMA(a, b, c)  a b + c, rounded once
 *   BLOCK       the function's name        NUMBER(n)     reads a number as R */
#ifndef BLOCK /* read alone */
#include "ops/elementwise/kernels/each_block.h"
#include "ops/elementwise/kernels/functions.h"
#define T float
#define R float
#define NAME(name) name##_f32
#define LIBM(name) name##f
#define FMA(a, b, c) STNI_FMA_F32(a, b, c)
#define BLOCK block_near_f32
#define NUMBER(n) ((R)(n).f)
#endif

/* x and the rest are multiples of the last place of the smaller of x and y, so that the rest is exact. A quotient that
 * was rounded up to the next integer leaves one of the other sign. */
STNI_KERNEL_INLINE T NAME(rest_near)(T x, T y)
{
    const T rest = FMA(-LIBM(trunc)(x / y), y, x), next = rest + LIBM(copysign)(y, x);
    return LIBM(copysign)(((rest != 0) & ((rest < 0) != (x < 0))) ? next : rest, x);
}

ROW_FUNCTION(fmod, v, in0, NAME(rest_near)(x, y))
ROW_FUNCTION(remainder, v, in0, NAME(remainder_of)(NAME(rest_near)(x, y), y))
ROW_FUNCTION(div_floor, v, in0, NAME(floor_quotient_of)(x, y, NAME(rest_near)(x, y)))

static void BLOCK(const struct stni_pointwise_block *block)
{
    switch ((int)block->op) { /* STNI_RESTS_LIST */
        ROW_CASE(fmod)
        ROW_CASE(remainder)
        ROW_CASE(div_floor)
    }
}

#undef T
#undef R
#undef NAME
#undef LIBM
#undef FMA
#undef BLOCK
