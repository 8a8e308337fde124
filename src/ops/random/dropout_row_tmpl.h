/* Rows of one dtype: a template of core/box/each_float.h. */
#ifndef NAME /* read alone */
#include "ops/random/dropout_words.h"
#include "core/box/as_f32.h"
#endif

/* What n words of a row make of their elements. */
static const ACC *NAME(factors)(const struct stni_dropout_args *a, uint64_t index, uint64_t step, int64_t n,
                                struct drawn *drawn)
{
    ACC *factor = (ACC *)(void *)drawn->factor;
    if (drawn->index == index && drawn->step == step && drawn->n >= n)
        return factor;
    uint32_t words[CHUNK];
    const uint32_t limit = (uint32_t)(a->threshold > UINT32_MAX ? UINT32_MAX : a->threshold);
    const ACC scale = a->threshold > UINT32_MAX ? 0 : (ACC)a->scale;
    draw(a, index, step, n, words);
    for (int64_t i = 0; i < n; i++)
        factor[i] = words[i] < limit ? 0 : scale;
    drawn->index = index, drawn->step = step, drawn->n = n;
    return factor;
}

/* out = x f[i], or x f[0] where `fixed`. */
static void NAME(scale)(const T *x, int64_t sx, T *out, int64_t so, const ACC *f, int fixed, int64_t n)
{
    const ACC one = f[0];
    if (sx != 1 || so != 1)
        for (int64_t i = 0; i < n; i++)
            out[i * so] = STORE(LOAD(x[i * sx]) * f[fixed ? 0 : i]);
    else if (fixed)
        for (int64_t i = 0; i < n; i++)
            out[i] = STORE(LOAD(x[i]) * one);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = STORE(LOAD(x[i]) * f[i]);
}

/* One row, CHUNK elements at a time. A row with the numbers of the one before does not draw them again. */
static void NAME(row)(const struct stni_dropout_args *a, int64_t x_at, int64_t out_at, uint64_t index,
                      struct drawn *drawn)
{
    const int d = a->ndim - 1;
    const int64_t n = a->shape[d], sx = a->x_strides[d], so = a->out_strides[d];
    const int fixed = a->count[d] == 0;
    for (int64_t at = 0; at < n;) {
        const int64_t m = fixed ? n : n - at < CHUNK ? n - at : CHUNK;
        const ACC *f =
            NAME(factors)(a, index + (uint64_t)(at * a->count[d]), (uint64_t)a->count[d], fixed ? 1 : m, drawn);
        NAME(scale)((const T *)a->x + x_at + at * sx, sx, (T *)a->out + out_at + at * so, so, f, fixed, m);
        at += m;
    }
}
