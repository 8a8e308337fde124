/* What is done with accumulators themselves. Included once per accumulator's type with ACC, the type, NAME(f), f of
 * this type, IDENTITY(floating, integer) and COMBINED(real, complex) choosing its columns, and LOWEST and HIGHEST an
 * integer's limits. */
#ifndef NAME /* read alone */
#include "ops/reduce/reduce_kernel.h"
#define ACC float
#define NAME(f) f##_f32
#define IDENTITY(floating, integer) floating
#define COMBINED(real, complex) real
#endif

#define CASE(name, accumulator, floating, integer, element, real, complex) \
    case STNI_REDUCTION_##name:                                            \
        for (int64_t i = 0; i < n; i++)                                    \
            acc[i] = (ACC)(IDENTITY(floating, integer));                   \
        break;

static void NAME(clear)(enum stni_reduction op, void *accumulators, int64_t n)
{
    ACC *acc = accumulators;
    switch (op) {
        STNI_REDUCTION_LIST(CASE)
    case STNI_REDUCTION_COUNT:
        break;
    }
}

#undef CASE
#define CASE(name, accumulator, floating, integer, element, real, complex) \
    case STNI_REDUCTION_##name:                                            \
        _Pragma("omp simd")                                                \
        for (int64_t i = 0; i < n; i++) {                                  \
            const ACC p = acc[i], v = upper[i];                            \
            (void)v;                                                       \
            acc[i] = (ACC)(COMBINED(real, complex));                       \
        }                                                                  \
        break;

static void NAME(fold)(enum stni_reduction op, void *accumulators, int64_t groups, int64_t width)
{
    ACC *acc = accumulators;
    for (int64_t half; groups > 1; groups = half) {
        half = (groups + 1) / 2;
        const int64_t n = (groups - half) * width;
        const ACC *upper = acc + half * width;
        switch (op) {
            STNI_REDUCTION_LIST(CASE)
        case STNI_REDUCTION_COUNT:
            break;
        }
    }
}

#undef CASE
