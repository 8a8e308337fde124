/* A sum of two dense pieces of one floating dtype, written by non-temporal stores. Included with T and NAME(x).
 *
 * A line is made of vectors of gcc and clang as wide as stni_stream_line reads them, so that they stay in registers:
 * what is written in pieces of one size and read in others makes the processor wait. */
#ifndef NAME /* read alone */
#include "core/box/nontemporal_line.h"
#include <stdint.h>
#define T float
#define NAME(x) x##_f32
#endif

typedef T NAME(vector) __attribute__((vector_size(STNI_STREAM_VECTOR), aligned(sizeof(T))));

static void NAME(sum_streamed)(void *out, const void *a, const void *b, int64_t n)
{
    enum { LINE = STNI_LINE / sizeof(T), PARTS = STNI_LINE / STNI_STREAM_VECTOR };
    T *to = out;
    const T *x = a, *y = b;
    int64_t i = 0;
    for (; i < n && (uintptr_t)(to + i) % STNI_LINE != 0; i++)
        to[i] = x[i] + y[i];
    for (; i + LINE <= n; i += LINE) {
        const NAME(vector) *u = (const void *)(x + i), *v = (const void *)(y + i);
        NAME(vector) sum[PARTS];
        for (int k = 0; k < PARTS; k++)
            sum[k] = u[k] + v[k];
        stni_stream_line(to + i, sum);
    }
    for (; i < n; i++)
        to[i] = x[i] + y[i];
}

#undef T
#undef NAME
