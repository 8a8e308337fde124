/* Complex numbers have no order: what stands for it, included once per type. */
#ifndef NAME /* read alone */
#include "ops/index/access_functions.h"
#define ACC float _Complex
#define NAME(f) f##_c64
#endif

STNI_INLINE ACC NAME(identity)(enum stni_access_mode mode)
{
    return mode == STNI_ACCESS_MUL ? (ACC)1 : (ACC)0;
}

STNI_INLINE ACC NAME(extreme)(enum stni_access_mode mode, ACC t, ACC v)
{
    (void)mode;
    (void)v;
    return t;
}
