/* Softmax of LANES short lines at once, transposed in the L1 cache, so that each has a lane to itself: nothing is
 * added up across lanes, and no loop has a scalar remainder. Lines that are left over, fewer than LANES, are
 * computed as in softmax_short_tmpl.h. A template of core/box/each_float.h. */
#ifndef NAME /* read alone */
#include "ops/softmax/softmax_short_tmpl.h"
#endif

static inline void NAME(transpose)(T *to, int64_t to_stride, const T *from, int64_t from_stride, int64_t n, int64_t m)
{
    enum { LOG = sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3 };
    const int64_t size = sizeof(T);
    STNI_ISA_NAME(stni_copy_kernels).transpose[LOG]((char *)to, to_stride * size, (const char *)from,
                                                    from_stride * size, n, m, 0, 0);
}

static inline void NAME(largest_transposed)(const T *tile, int64_t n, ACC *max)
{
    for (int l = 0; l < LANES; l++)
        max[l] = -(ACC)INFINITY;
    for (int64_t i = 0; i < n; i++)
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            ACC x = LOAD(tile[i * LANES + l]);
            max[l] = x > max[l] ? x : max[l];
        }
}

/* The terms of the sums, and the sums. */
static inline void NAME(raise_transposed)(const T *tile, int64_t n, const ACC *max, ACC *term, ACC *total)
{
    ACC part[PARTS][LANES] = {{0}};
    for (int64_t i = 0; i < n; i++)
#pragma omp simd
        for (int l = 0; l < LANES; l++) {
            term[i * LANES + l] = MATH(exp_negative)(LOAD(tile[i * LANES + l]) - max[l]);
            part[i % PARTS][l] += term[i * LANES + l];
        }
    for (int l = 0; l < LANES; l++)
        total[l] = (part[0][l] + part[2][l]) + (part[1][l] + part[3][l]);
}

/* The results overwrite the transposed lines. */
static inline void NAME(finish_transposed)(T *tile, int64_t n, int logarithm, const ACC *max, const ACC *term,
                                           ACC *total)
{
    for (int l = 0; l < LANES; l++)
        total[l] = logarithm ? MATH(log)(total[l]) : 1 / total[l];
    for (int64_t i = 0; i < n; i++)
#pragma omp simd
        for (int l = 0; l < LANES; l++)
            tile[i * LANES + l] = logarithm ? STORE((LOAD(tile[i * LANES + l]) - max[l]) - total[l])
                                            : STORE(term[i * LANES + l] * total[l]);
}

static void NAME(forward_transposed)(const struct stni_softmax_args *a, const struct strip *s)
{
    _Alignas(STNI_LINE) T tile[TRANSPOSED * LANES];
    _Alignas(STNI_LINE) ACC term[TRANSPOSED * LANES];
    _Alignas(STNI_LINE) char buffer[STNI_STREAMING_PAGE + sizeof tile];
    const int64_t n = a->lines.n, last = a->lines.ndim - 1;
    const T *x = (const T *)a->x + s->at[SOFTMAX_X];
    T *out = (T *)a->out + s->at[SOFTMAX_OUT], *to = s->streamed ? stni_block_place(buffer, out) : out;
    ACC max[LANES], total[LANES];
    if (s->lines < LANES) {
        NAME(forward_short)(a, s);
        return;
    }
    NAME(prefetch)(s, x, n);
    NAME(transpose)(tile, LANES, x, a->lines.strides[SOFTMAX_X][last], LANES, n);
    NAME(largest_transposed)(tile, n, max);
    NAME(raise_transposed)(tile, n, max, term, total);
    NAME(finish_transposed)(tile, n, a->logarithm, max, term, total);
    NAME(transpose)(to, a->lines.strides[SOFTMAX_OUT][last], tile, LANES, n, LANES);
    NAME(send)(s, out, to, n);
}
