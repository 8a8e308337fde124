/* Included once per dtype by unfold_cpu.c. */
#ifndef NAME /* read alone */
#include "ops/pool/unfold.h"
#include "core/box/as_f32.h"
enum { BLOCK = 128 };
#endif

/* sums += the places of element i in windows, for n lanes. */
static void NAME(add_places)(const struct stni_unfold_args *a, const T *from, int64_t i, ACC *restrict sums, int64_t n)
{
    const struct stni_unfold *u = &a->unfold;
    const struct stni_range windows = stni_unfold_readers(u, (struct stni_range){i, i + 1});
    for (int64_t w = windows.begin; w < windows.end; w++) {
        const int64_t apart = i - w * u->step, tap = apart / u->dilation - a->first_tap;
        if (apart % u->dilation != 0 || tap < 0 || tap >= a->n_taps)
            continue;
        const T *place = from + (w - a->windows.begin) * a->window_stride + tap * a->tap_stride;
        for (int64_t l = 0; l < n; l++)
            sums[l] += LOAD(place[l * a->from_lane]);
    }
}

static void NAME(image)(const struct stni_unfold_args *a, int64_t to_at, int64_t from_at)
{
    ACC sums[BLOCK];
    for (int64_t i = a->target.begin; i < a->target.end; i++)
        for (int64_t l = 0; l < a->lanes; l += BLOCK) {
            const int64_t n = a->lanes - l < BLOCK ? a->lanes - l : BLOCK;
            T *to = (T *)a->to + to_at + (i - a->target.begin) * a->to_stride + l * a->to_lane;
            for (int64_t k = 0; k < n; k++)
                sums[k] = 0;
            NAME(add_places)(a, (const T *)a->from + from_at + l * a->from_lane, i, sums, n);
            for (int64_t k = 0; k < n; k++)
                to[k * a->to_lane] = STORE(sums[k]);
        }
}
