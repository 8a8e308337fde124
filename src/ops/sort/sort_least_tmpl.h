/* The smallest key of elements of one dtype. */
#ifndef NAME /* read alone */
#include "ops/sort/sort_key.h"
#include "core/box/as_f32.h"
#endif

/* Keys of at most 32 bits are compared as such, of which a vector holds twice as many. Compiled for neighbours. */
static inline __attribute__((always_inline)) uint64_t NAME(least_by)(const struct stni_sort_key_rule *rule, const T *x,
                                                                     int64_t stride, int64_t n)
{
    const uint64_t nan = rule->nan, flip = rule->flip;
    if (sizeof(ACC) == sizeof(uint64_t)) {
        uint64_t least = UINT64_MAX;
        _Pragma("omp simd reduction(min : least)")
        for (int64_t i = 0; i < n; i++) {
            const uint64_t key = STNI_SORT_KEY(LOAD(x[i * stride]), nan) ^ flip;
            least = key < least ? key : least;
        }
        return least;
    }
    uint32_t least = UINT32_MAX;
    _Pragma("omp simd reduction(min : least)")
    for (int64_t i = 0; i < n; i++) {
        const uint32_t key = (uint32_t)(STNI_SORT_KEY(LOAD(x[i * stride]), nan) ^ flip);
        least = key < least ? key : least;
    }
    return least;
}

static uint64_t NAME(least)(const struct stni_sort_key_rule *rule, const void *x, int64_t stride, int64_t n)
{
    return stride == 1 ? NAME(least_by)(rule, x, 1, n) : NAME(least_by)(rule, x, stride, n);
}
