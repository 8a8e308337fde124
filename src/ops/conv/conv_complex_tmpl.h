/* Between complex numbers and planes; included once per dtype by conv_complex.c. Included with T, the type of a
 * part, and NAME(f). */
#ifndef NAME /* read alone */
#include "ops/conv/conv_planes.h"
#define T float
#define NAME(f) f##_c64
#endif

static void NAME(part)(const void *from, const struct planes *to)
{
    const T *pairs = from;
    T *re = to->part[0], *im = to->part[1];
    for (int64_t i = 0; i < to->n; i++) {
        re[i] = pairs[2 * i];
        im[i] = pairs[2 * i + 1];
    }
}

/* to = (re - others' re, im + others' im), or that added to it. */
static void NAME(join)(void *to, const struct planes *planes, const struct planes *others, int add)
{
    const T *re = planes->part[0], *im = planes->part[1], *less = others->part[0], *more = others->part[1];
    T *pairs = to;
    for (int64_t i = 0; i < planes->n; i++) {
        pairs[2 * i] = (add ? pairs[2 * i] : 0) + (re[i] - less[i]);
        pairs[2 * i + 1] = (add ? pairs[2 * i + 1] : 0) + (im[i] + more[i]);
    }
}

#undef T
#undef NAME
