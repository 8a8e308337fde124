/* Elements that follow each other in memory join a few accumulators, which stay in registers. A template as reduce_accumulate_tmpl.h, of real
 * numbers. Four streams are read at once, which hardware prefetchers serve better than one. */
#ifndef NAME /* read alone */
#include "core/box/as_f32.h"
#include "ops/reduce/reduce_kernel.h"
#include <string.h>
#define WIDE double
#define OWN ACC
#define COMBINED(real, complex) real
#endif

#define JOIN(acc_type, element, combined, stream)                 \
    {                                                             \
        acc_type v = (acc_type)LOAD(x[(stream) * apart + k + i]); \
        v = (acc_type)(element);                                  \
        p = (acc_type)(combined);                                 \
    }

#define CASE(name, acc_type, floating, integer, element, real, complex)          \
    case STNI_REDUCTION_##name: {                                                \
        enum { LANES = STNI_REDUCE_RUN / sizeof(acc_type) };                     \
        acc_type part[LANES];                                                    \
        memcpy(part, acc, sizeof part);                                          \
        for (int64_t k = 0; k < n; k += LANES) {                                 \
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

#define SMALL(stream) (counts ? LOAD(x[(stream) * apart + k + i]) != 0 : (int)LOAD(x[(stream) * apart + k + i]))

/* As NAME(tally). */
static inline __attribute__((always_inline)) void NAME(tally_along)(int counts, WIDE *acc, const T *restrict x, int64_t apart, int64_t n)
{
    enum { LANES = STNI_REDUCE_RUN / sizeof(WIDE) };
    uint32_t part[LANES] = {0};
    for (int64_t k = 0; k < n; k += LANES) {
        _Pragma("omp simd")
        for (int i = 0; i < LANES; i++)
            part[i] += (uint32_t)(SMALL(0) + SMALL(1) + SMALL(2) + SMALL(3));
    }
    for (int i = 0; i < LANES; i++)
        acc[i] += part[i];
}

static void NAME(along)(enum stni_reduction op, void *acc, const void *elements, int64_t apart, int64_t n)
{
    const T *restrict x = elements;
    if (op == STNI_REDUCTION_nonzero) {
        NAME(tally_along)(1, acc, x, apart, n);
        return;
    }
    if (op == STNI_REDUCTION_sum && sizeof(T) == 1) {
        NAME(tally_along)(0, acc, x, apart, n);
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
#undef SMALL
