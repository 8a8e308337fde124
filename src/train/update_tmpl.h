/* Lists of one type. Included with T, SQRT(x) and NAME(x). */
#ifndef NAME /* read alone */
#include "train/update_kernel.h"
#include <math.h>
#define T float
#define SQRT sqrtf
#define NAME(x) x##_f32
#endif

#include "train/update_rows_tmpl.h"

static void NAME(sgd)(const struct stni_update_chunk *chunk, const struct stni_update_numbers *numbers)
{
    const struct NAME(step) s = NAME(step_of)(STNI_UPDATE_SGD, numbers);
    T *restrict p = chunk->at[0];
    const T *restrict g = chunk->at[1];
    for (int64_t i = 0; i < chunk->n; i++)
        NAME(step_sgd)(&s, p + i, g[i]);
}

static void NAME(momentum)(const struct stni_update_chunk *chunk, const struct stni_update_numbers *numbers)
{
    const struct NAME(step) s = NAME(step_of)(STNI_UPDATE_MOMENTUM, numbers);
    T *restrict p = chunk->at[0], *restrict m = chunk->at[2];
    const T *restrict g = chunk->at[1];
    for (int64_t i = 0; i < chunk->n; i++)
        NAME(step_momentum)(&s, p + i, g[i], m + i);
}

static void NAME(adamw)(const struct stni_update_chunk *chunk, const struct stni_update_numbers *numbers)
{
    const struct NAME(step) s = NAME(step_of)(STNI_UPDATE_ADAMW, numbers);
    T *restrict p = chunk->at[0], *restrict m = chunk->at[2], *restrict v = chunk->at[3];
    const T *restrict g = chunk->at[1];
    for (int64_t i = 0; i < chunk->n; i++)
        NAME(step_adamw)(&s, p + i, g[i], m + i, v + i);
}

static void NAME(adam)(const struct stni_update_chunk *chunk, const struct stni_update_numbers *numbers)
{
    const struct NAME(step) s = NAME(step_of)(STNI_UPDATE_ADAM, numbers);
    T *restrict p = chunk->at[0], *restrict m = chunk->at[2], *restrict v = chunk->at[3];
    const T *restrict g = chunk->at[1];
    for (int64_t i = 0; i < chunk->n; i++)
        NAME(step_adam)(&s, p + i, g[i], m + i, v + i);
}

static void NAME(average)(const struct stni_update_chunk *chunk, const struct stni_update_numbers *numbers)
{
    const struct NAME(step) s = NAME(step_of)(STNI_UPDATE_AVERAGE, numbers);
    T *restrict mean = chunk->at[0];
    const T *restrict p = chunk->at[1];
    for (int64_t i = 0; i < chunk->n; i++)
        NAME(step_average)(&s, mean + i, p[i]);
}

static void NAME(swap)(const struct stni_update_chunk *chunk, const struct stni_update_numbers *numbers)
{
    T *restrict a = chunk->at[0], *restrict b = chunk->at[1];
    (void)numbers;
    for (int64_t i = 0; i < chunk->n; i++) {
        T kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* at[0] may be at[1]. */
static void NAME(scale)(const struct stni_update_chunk *chunk, const struct stni_update_numbers *numbers)
{
    T *to = chunk->at[0];
    const T *from = chunk->at[1];
    const T factor = NAME(clipping)(numbers);
    for (int64_t i = 0; i < chunk->n; i++)
        to[i] = factor * from[i];
}

/* x - x is 0 for finite numbers only. */
static void NAME(unscale)(const struct stni_update_chunk *chunk, const struct stni_update_numbers *numbers)
{
    T *restrict to = chunk->at[0];
    const T *restrict from = chunk->at[1];
    const T divisor = (T)numbers->most;
    int64_t bad = 0;
    for (int64_t i = 0; i < chunk->n; i++) {
        to[i] = from[i] / divisor;
        bad += to[i] - to[i] != 0;
    }
    *numbers->norm_square += (double)bad;
}

/* Eight sums, so that the order of additions does not depend on the instruction set. */
static void NAME(norm)(const struct stni_update_chunk *chunk, const struct stni_update_numbers *numbers)
{
    enum { LANES = 8 };
    const T *g = chunk->at[0];
    double sums[LANES] = {0}, rest = 0;
    int64_t i = 0;
    for (; i + LANES <= chunk->n; i += LANES)
        for (int l = 0; l < LANES; l++)
            sums[l] += (double)g[i + l] * (double)g[i + l];
    for (; i < chunk->n; i++)
        rest += (double)g[i] * (double)g[i];
    *numbers->norm_square += ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])) + rest;
}

#undef T
#undef SQRT
#undef NAME
