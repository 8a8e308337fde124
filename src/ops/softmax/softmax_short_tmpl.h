/* Softmax of a line that fits in a buffer of the type of arithmetic, in the L1 cache: read once, written once, its
 * exponentials computed once. The end is padded by what adds nothing, so that no loop but those that read and write
 * has a scalar remainder. A template of core/box/each_float.h. */
#ifndef NAME /* read alone */
#include "ops/softmax/softmax_strip.h"
#include "core/box/as_f32.h"
#endif

/* Pads the line with -infinity. */
static inline void NAME(read_line)(ACC *line, const T *x, int64_t n, int64_t padded, int64_t step)
{
    for (int64_t i = padded - LANES; i < padded; i++)
        line[i] = -(ACC)INFINITY;
    if (step == 1)
        for (int64_t i = 0; i < n; i++)
            line[i] = LOAD(x[i]);
    else
        for (int64_t i = 0; i < n; i++)
            line[i] = LOAD(x[i * step]);
}

static inline ACC NAME(largest)(const ACC *line, int64_t padded)
{
    ACC max = -(ACC)INFINITY;
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < padded; i++)
        max = line[i] > max ? line[i] : max;
    return max;
}

/* The terms of the sum, which is returned, take the line's place. */
static inline ACC NAME(raise)(ACC *line, int64_t padded, ACC max)
{
    ACC total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < padded; i++) {
        line[i] = MATH(exp_negative)(line[i] - max);
        total += line[i];
    }
    return total;
}

/* The same sum; differences from the largest take the line's place. The logarithm of the sum is subtracted from
 * these, never added to the largest, beside which it may have no digits. */
static inline ACC NAME(lower)(ACC *line, int64_t padded, ACC max)
{
    ACC total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < padded; i++) {
        line[i] -= max;
        total += MATH(exp_addend)(line[i]);
    }
    return total;
}

/* out = (line - less) factor */
static inline void NAME(write_line)(T *out, const ACC *line, int64_t n, int64_t step, ACC less, ACC factor)
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++)
            out[i] = STORE((line[i] - less) * factor);
    else
        for (int64_t i = 0; i < n; i++)
            out[i * step] = STORE((line[i] - less) * factor);
}

/* Prefetches what later lines read, so that reads go on while the results are written to memory. */
static inline void NAME(prefetch)(const struct strip *s, const T *x, int64_t n)
{
    stni_block_prefetch(x, (size_t)(s->lines * n) * sizeof *x, s->ahead);
}

static inline void NAME(send)(const struct strip *s, T *out, const T *from, int64_t n)
{
    if (s->streamed)
        stni_block_send(out, from, (size_t)(s->lines * n) * sizeof *out);
}

static void NAME(forward_short)(const struct stni_softmax_args *a, const struct strip *s)
{
    _Alignas(STNI_LINE) ACC line[SHORT];
    _Alignas(STNI_LINE) char buffer[STNI_STREAMING_PAGE + sizeof(T) * SHORT];
    const int64_t n = a->lines.n, padded = (n + LANES - 1) / LANES * LANES, x_step = a->lines.step[SOFTMAX_X],
                  step = a->lines.step[SOFTMAX_OUT];
    const int64_t *x_next = a->lines.strides[SOFTMAX_X], *next = a->lines.strides[SOFTMAX_OUT],
                  last = a->lines.ndim - 1;
    const T *x = (const T *)a->x + s->at[SOFTMAX_X];
    T *out = (T *)a->out + s->at[SOFTMAX_OUT], *to = s->streamed ? stni_block_place(buffer, out) : out;
    ACC max[LANES], total[LANES];
    NAME(prefetch)(s, x, n);
    for (int64_t l = 0; l < s->lines; l++)
        NAME(read_line)(line + l * padded, x + l * x_next[last], n, padded, x_step);
    for (int64_t l = 0; l < s->lines; l++)
        max[l] = NAME(largest)(line + l * padded, padded);
    for (int64_t l = 0; l < s->lines; l++)
        total[l] = a->logarithm ? NAME(lower)(line + l * padded, padded, max[l])
                                : NAME(raise)(line + l * padded, padded, max[l]);
    for (int64_t l = 0; l < s->lines; l++)
        if (a->logarithm)
            NAME(write_line)(to + l * next[last], line + l * padded, n, step, MATH(log)(total[l]), 1);
        else
            NAME(write_line)(to + l * next[last], line + l * padded, n, step, 0, 1 / total[l]);
    NAME(send)(s, out, to, n);
}

/* What the elements of a line have in common: the sum of the cotangent x, times the result y where that is no
 * logarithm. */
static inline ACC NAME(dot_line)(const T *x, const T *y, int64_t n, int logarithm)
{
    ACC dot = 0;
    if (logarithm) {
#pragma omp simd reduction(+ : dot)
        for (int64_t i = 0; i < n; i++)
            dot += LOAD(x[i]);
    } else {
#pragma omp simd reduction(+ : dot)
        for (int64_t i = 0; i < n; i++)
            dot += LOAD(x[i]) * LOAD(y[i]);
    }
    return dot;
}

static inline void NAME(apply_line)(T *out, const T *x, const T *y, int64_t n, int logarithm, ACC dot)
{
    if (logarithm) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = STORE(LOAD(x[i]) - MATH(exp_addend)(LOAD(y[i])) * dot);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = STORE(LOAD(y[i]) * (LOAD(x[i]) - dot));
    }
}

/* Gradients of lines whose elements are neighbours in all tensors. */
static void NAME(backward_short)(const struct stni_softmax_args *a, const struct strip *s)
{
    _Alignas(STNI_LINE) char buffer[STNI_STREAMING_PAGE + sizeof(T) * SHORT];
    const int64_t n = a->lines.n, last = a->lines.ndim - 1, x_next = a->lines.strides[SOFTMAX_X][last];
    const int64_t y_next = a->lines.strides[SOFTMAX_Y][last], next = a->lines.strides[SOFTMAX_OUT][last];
    const T *x = (const T *)a->x + s->at[SOFTMAX_X], *y = (const T *)a->y + s->at[SOFTMAX_Y];
    T *out = (T *)a->out + s->at[SOFTMAX_OUT], *to = s->streamed ? stni_block_place(buffer, out) : out;
    NAME(prefetch)(s, x, n);
    NAME(prefetch)(s, y, n);
    for (int64_t l = 0; l < s->lines; l++) {
        const ACC dot = NAME(dot_line)(x + l * x_next, y + l * y_next, n, a->logarithm);
        NAME(apply_line)(to + l * next, x + l * x_next, y + l * y_next, n, a->logarithm, dot);
    }
    NAME(send)(s, out, to, n);
}
