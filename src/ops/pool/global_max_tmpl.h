/* Included once per dtype by global_max_cpu.c. */
#ifndef NAME /* read alone */
#include "core/box/as_f32.h"
#include "ops/pool/global_max_kernel.h"
#include "ops/pool/max_line.h"
#endif

static void NAME(choose)(const struct stni_global_max_args *a)
{
    const T *values = a->values;
    for (int64_t i = 0; i < a->count; i++) {
        int64_t best = i;
        for (int64_t at = i + a->count; at < a->n_parts * a->count; at += a->count) {
            const ACC v = LOAD(values[at]), b = LOAD(values[best]);
            const int64_t place = a->places[at], before = a->places[best];
            const int wins = IS_NAN(v) ? !IS_NAN(b) || place > before : v > b || (v == b && place < before);
            if (place >= 0 && (before < 0 || wins))
                best = at;
        }
        ((T *)a->to)[i] = values[best];
        if (a->index)
            a->index[i] = a->places[best];
    }
}
