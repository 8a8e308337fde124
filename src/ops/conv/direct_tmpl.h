/* One dtype's direct convolution; included once per dtype by direct_kernels.c, with T and NAME(x). Vectors begin
 * wherever a window does. */
#ifndef NAME /* read alone */
#include "ops/conv/direct_tile.h"
#define T float
#define NAME(x) x##_f32
#endif

typedef T NAME(vector) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
typedef __typeof__((NAME(vector)){0} < (NAME(vector)){0}) NAME(mask);

enum { NAME(LANES) = (int)(VECTOR_BYTES / sizeof(T)) };

/* `outputs` by `vectors` of the target, at output o and position i. Both are constants where this is inlined, so that
 * the sums stay in registers. */
ALWAYS_INLINE void NAME(tile)(const struct stni_conv_correlation *c, int outputs, int vectors, int64_t o, int64_t i)
{
    const T *weight = (const T *)c->weight + o * c->terms, *source = (const T *)c->source + i, *bias = c->bias;
    T *target = (T *)c->target + o * c->target_plane + i;
    NAME(vector) sum[OUTPUTS][WIDE];
    for (int j = 0; j < outputs; j++)
        for (int v = 0; v < vectors; v++)
            sum[j][v] = (NAME(vector)){0} + (bias != NULL ? bias[o + j] : 0);
    for (int64_t k = 0; k < c->terms; k++) {
        const NAME(vector) *at = (const void *)(source + c->offset[k]);
        for (int v = 0; v < vectors; v++) {
            const NAME(vector) x = at[v];
            for (int j = 0; j < outputs; j++)
                sum[j][v] += weight[j * c->terms + k] * x;
        }
    }
    for (int j = 0; j < outputs; j++)
        for (int v = 0; v < vectors; v++)
            ((NAME(vector) *)(void *)(target + j * c->target_plane))[v] = sum[j][v];
}

/* All outputs at `single` vectors from position i on: several outputs by `vectors` of them, or one by all. */
ALWAYS_INLINE void NAME(strip)(const struct stni_conv_correlation *c, int vectors, int single, int64_t i)
{
    int64_t o = 0;
    for (; o + OUTPUTS <= c->outputs; o += OUTPUTS)
        for (int v = 0; v < single; v += vectors)
            NAME(tile)(c, OUTPUTS, vectors, o, i + v * NAME(LANES));
    for (; o < c->outputs; o++)
        NAME(tile)(c, 1, single, o, i);
}

static void NAME(correlate)(const struct stni_conv_correlation *c)
{
    int64_t i = 0;
    for (; i + WIDE * NAME(LANES) <= c->n; i += WIDE * NAME(LANES))
        NAME(strip)(c, WIDE / 2, WIDE, i);
    for (; i + 2 * NAME(LANES) <= c->n; i += 2 * NAME(LANES))
        NAME(strip)(c, 2, 2, i);
    for (; i < c->n; i += NAME(LANES))
        NAME(strip)(c, 1, 1, i);
}

static inline NAME(vector) NAME(load)(const T *at)
{
    return *(const NAME(vector) *)(const void *)at;
}

/* The lanes of x that are inside, and zeros: what lies outside may be no number. */
static inline NAME(vector) NAME(only)(NAME(vector) x, NAME(mask) inside)
{
    return (NAME(vector))((NAME(mask))x & inside);
}

/* One row of as many terms as is constant where this is inlined, up to its last whole vector. */
ALWAYS_INLINE void NAME(dot_vectors)(int terms, const int64_t *offset, const T *x, const T *y, int64_t n,
                                     NAME(vector) sum[TERMS][2])
{
    int64_t i = 0;
    for (; i + 2 * NAME(LANES) <= n; i += 2 * NAME(LANES))
        for (int j = 0; j < terms; j++) {
            sum[j][0] += NAME(load)(x + offset[j] + i) * NAME(load)(y + i);
            sum[j][1] += NAME(load)(x + offset[j] + i + NAME(LANES)) * NAME(load)(y + i + NAME(LANES));
        }
    for (; i + NAME(LANES) <= n; i += NAME(LANES))
        for (int j = 0; j < terms; j++)
            sum[j][0] += NAME(load)(x + offset[j] + i) * NAME(load)(y + i);
}

/* Terms k … k + terms - 1. Rows end in a vector of which some lanes count. */
ALWAYS_INLINE void NAME(dot)(const struct stni_conv_dots *d, int terms, int64_t k)
{
    static const T lanes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const int64_t whole = d->n / NAME(LANES) * NAME(LANES), *offset = d->offset + k;
    const NAME(mask) inside = NAME(load)(lanes) < (NAME(vector)){0} + (T)(d->n - whole);
    NAME(vector) sum[TERMS][2] = {{{0}}};
    for (int64_t row = 0; row < d->rows; row++) {
        const T *x = (const T *)d->source + row * d->row, *y = (const T *)d->target + row * d->row;
        NAME(dot_vectors)(terms, offset, x, y, d->n, sum);
        if (whole == d->n)
            continue;
        const NAME(vector) last = NAME(only)(NAME(load)(y + whole), inside);
        for (int j = 0; j < terms; j++)
            sum[j][1] += NAME(only)(NAME(load)(x + offset[j] + whole), inside) * last;
    }
    for (int j = 0; j < terms; j++)
        for (int lane = 0; lane < NAME(LANES); lane++)
            d->sum[k + j] += (double)sum[j][0][lane] + (double)sum[j][1][lane];
}

static void NAME(dots)(const struct stni_conv_dots *d)
{
    int64_t k = 0;
    for (; k + TERMS <= d->terms; k += TERMS)
        NAME(dot)(d, TERMS, k);
    for (; k + 2 <= d->terms; k += 2)
        NAME(dot)(d, 2, k);
    for (; k < d->terms; k++)
        NAME(dot)(d, 1, k);
}

#undef T
#undef NAME
