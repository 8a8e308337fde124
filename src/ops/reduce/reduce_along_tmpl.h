/* Elements that follow each other in memory join a few accumulators, which stay in registers. A template as
 * reduce_accumulate_tmpl.h, of real numbers. Four streams are read at once, which hardware prefetchers serve better
 * than one where they are long. */
#ifndef NAME /* read alone */
#include "core/box/as_f32.h"
#include "ops/reduce/reduce_kernel.h"
#include <string.h>
#define WIDE double
#define OWN ACC
#define COMBINED(real, complex) real
#endif

#define JOIN(acc_type, element, combined, stream)                  \
    {                                                              \
        acc_type v = (acc_type)LOAD(x[(stream) * apart + at + i]); \
        v = (acc_type)(element);                                   \
        p = (acc_type)(combined);                                  \
    }

#define CASE(name, acc_type, floating, integer, element, real, complex)          \
    case STNI_REDUCTION_##name: {                                                \
        enum { LANES = STNI_REDUCE_RUN / sizeof(acc_type) };                     \
        acc_type part[LANES];                                                    \
        memcpy(part, acc, sizeof part);                                          \
        for (int64_t k = 0, at = 0; k < n; k += LANES, at += step) {             \
            _Pragma("omp simd")                                                  \
            for (int i = 0; i < LANES; i++) {                                    \
                acc_type p = part[i];                                            \
                JOIN(acc_type, COMBINED(element, v), COMBINED(real, complex), 0) \
                JOIN(acc_type, COMBINED(element, v), COMBINED(real, complex), 1) \
                JOIN(acc_type, COMBINED(element, v), COMBINED(real, complex), 2) \
                JOIN(acc_type, COMBINED(element, v), COMBINED(real, complex), 3) \
                part[i] = p;                                                     \
            }                                                                    \
        }                                                                        \
        memcpy(acc, part, sizeof part);                                          \
        break;                                                                   \
    }

/* The further one of v and p, of floating numbers, where NaN is none. */
#define FURTHER(v) p = largest ? (v) > p ? (v) : p : (v) < p ? (v) : p;

/* Whether one of two floating numbers is NaN. */
#define NAN_AMONG(a, b) \
    _Generic((a), float: __builtin_isunordered((float)(a), (float)(b)), double: __builtin_isunordered((double)(a), (double)(b)), default: 0)

/* Where some element is NaN it says so, and the accumulators stay as they are: comparing each with itself on the way
 * to the next one would take most of the time. One comparison asks two of them. */
static inline __attribute__((always_inline)) int NAME(extremum_along)(int largest, ACC *acc, const T *restrict x,
                                                                      int64_t apart, int64_t step, int64_t n)
{
    enum { LANES = STNI_REDUCE_RUN / sizeof(ACC) };
    ACC part[LANES], nan[LANES] = {0};
    int any = 0;
    memcpy(part, acc, sizeof part);
    for (int64_t k = 0, at = 0; k < n; k += LANES, at += step) {
        _Pragma("omp simd")
        for (int i = 0; i < LANES; i++) {
            const ACC a = (ACC)LOAD(x[at + i]), b = (ACC)LOAD(x[apart + at + i]), c = (ACC)LOAD(x[2 * apart + at + i]),
                      d = (ACC)LOAD(x[3 * apart + at + i]);
            ACC p = part[i];
            FURTHER(a) FURTHER(b) FURTHER(c) FURTHER(d)
            part[i] = p;
            nan[i] = NAN_AMONG(a, b) ? (ACC)1 : nan[i];
            nan[i] = NAN_AMONG(c, d) ? (ACC)1 : nan[i];
        }
    }
    for (int i = 0; i < LANES; i++)
        any |= nan[i] != 0;
    if (any)
        return 0;
    memcpy(acc, part, sizeof part);
    return 1;
}

/* Four elements are added before they join the accumulators, which then wait for one addition instead of four. Of 16
 * bits they are added in f32, whose rounding is far below theirs: a quarter of the conversions. */
static inline __attribute__((always_inline)) void NAME(sum_along)(WIDE *acc, const T *restrict x, int64_t apart,
                                                                  int64_t step, int64_t n)
{
    enum { LANES = STNI_REDUCE_RUN / sizeof(WIDE) };
    WIDE part[LANES];
    memcpy(part, acc, sizeof part);
    for (int64_t k = 0, at = 0; k < n; k += LANES, at += step) {
        _Pragma("omp simd")
        for (int i = 0; i < LANES; i++) {
            const ACC a = LOAD(x[at + i]), b = LOAD(x[apart + at + i]), c = LOAD(x[2 * apart + at + i]),
                      d = LOAD(x[3 * apart + at + i]);
            part[i] += sizeof(T) == 2 ? (WIDE)((a + b) + (c + d)) : ((WIDE)a + (WIDE)b) + ((WIDE)c + (WIDE)d);
        }
    }
    memcpy(acc, part, sizeof part);
}

#define SMALL(stream) (counts ? LOAD(x[(stream) * apart + at + i]) != 0 : (int)LOAD(x[(stream) * apart + at + i]))

/* As NAME(tally). */
static inline __attribute__((always_inline)) void NAME(tally_along)(int counts, WIDE *acc, const T *restrict x,
                                                                    int64_t apart, int64_t step, int64_t n)
{
    enum { LANES = STNI_REDUCE_RUN / sizeof(WIDE) };
    uint32_t part[LANES] = {0};
    for (int64_t k = 0, at = 0; k < n; k += LANES, at += step) {
        _Pragma("omp simd")
        for (int i = 0; i < LANES; i++)
            part[i] += (uint32_t)(SMALL(0) + SMALL(1) + SMALL(2) + SMALL(3));
    }
    for (int i = 0; i < LANES; i++)
        acc[i] += part[i];
}

static void NAME(along)(enum stni_reduction op, void *acc, const void *elements, int64_t apart, int64_t step, int64_t n)
{
    const T *restrict x = elements;
    if (op == STNI_REDUCTION_nonzero) {
        NAME(tally_along)(1, acc, x, apart, step, n);
        return;
    }
    if (op == STNI_REDUCTION_sum && sizeof(T) == 1) {
        NAME(tally_along)(0, acc, x, apart, step, n);
        return;
    }
    const int is_floating = (ACC)0.5 != 0;
    if (is_floating && op == STNI_REDUCTION_amax && NAME(extremum_along)(1, acc, x, apart, step, n))
        return;
    if (is_floating && op == STNI_REDUCTION_amin && NAME(extremum_along)(0, acc, x, apart, step, n))
        return;
    if (is_floating && op == STNI_REDUCTION_sum) {
        NAME(sum_along)(acc, x, apart, step, n);
        return;
    }
    switch (op) {
        STNI_REDUCTION_LIST(CASE)
    case STNI_REDUCTION_COUNT:
        break;
    }
}

#undef CASE
#undef JOIN
#undef FURTHER
#undef SMALL
