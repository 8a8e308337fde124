/* Elements of one dtype as f64. */
#ifndef NAME /* read alone */
#include <stdint.h>
#include "core/box/as_f32.h"
#endif

static void NAME(widen)(const void *data, int64_t stride, int64_t n, double *out)
{
    const T *x = data;
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)LOAD(x[i * stride]);
}
