/* What needs an order of one element type, included once per type; least and most are its ends. */
#ifndef NAME /* read alone */
#include "ops/index/access_functions.h"
#include "core/box/as_f32.h"
#include <math.h>
static const float least_f32 = -INFINITY, most_f32 = INFINITY;
#endif

STNI_INLINE ACC NAME(identity)(enum stni_access_mode mode)
{
    return mode == STNI_ACCESS_MUL   ? (ACC)1
           : mode == STNI_ACCESS_MAX ? NAME(least)
           : mode == STNI_ACCESS_MIN ? NAME(most)
                                     : (ACC)0;
}

/* Unordered numbers, of which one is NaN, give NaN. */
STNI_INLINE ACC NAME(extreme)(enum stni_access_mode mode, ACC t, ACC v)
{
    if (mode == STNI_ACCESS_MAX)
        return v > t ? v : v <= t ? t : (ACC)(v + t);
    return v < t ? v : v >= t ? t : (ACC)(v + t);
}
