/* Non-temporal stores: the line that is written is not read first. */
#include "copy_plain.h"

#include <immintrin.h>

__attribute__((target("avx512f"))) static void rows_stream512(const struct rows *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        float *to = r->to + i * r->to_stride;
        const float *from = r->from + i * r->from_stride, *plus = r->plus ? r->plus + i * r->from_stride : NULL;
        int64_t j = 0;
        for (; j < r->length && ((uintptr_t)(to + j) & 63) != 0; j++)
            to[j] = plus ? from[j] + plus[j] : from[j];
        for (; j + 16 <= r->length; j += 16) {
            __m512 v = _mm512_loadu_ps(from + j);
            if (plus)
                v = _mm512_add_ps(v, _mm512_loadu_ps(plus + j));
            _mm512_stream_ps(to + j, v);
        }
        for (; j < r->length; j++)
            to[j] = plus ? from[j] + plus[j] : from[j];
    }
    _mm_sfence();
}

__attribute__((target("avx2"))) static void rows_stream256(const struct rows *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        float *to = r->to + i * r->to_stride;
        const float *from = r->from + i * r->from_stride, *plus = r->plus ? r->plus + i * r->from_stride : NULL;
        int64_t j = 0;
        for (; j < r->length && ((uintptr_t)(to + j) & 31) != 0; j++)
            to[j] = plus ? from[j] + plus[j] : from[j];
        for (; j + 8 <= r->length; j += 8) {
            __m256 v = _mm256_loadu_ps(from + j);
            if (plus)
                v = _mm256_add_ps(v, _mm256_loadu_ps(plus + j));
            _mm256_stream_ps(to + j, v);
        }
        for (; j < r->length; j++)
            to[j] = plus ? from[j] + plus[j] : from[j];
    }
    _mm_sfence();
}

const rows_fn *rows_ways(void)
{
    static const rows_fn with512[] = {rows_plain, rows_stream256, rows_stream512, NULL};
    static const rows_fn with256[] = {rows_plain, rows_stream256, NULL}, without[] = {rows_plain, NULL};
    if (__builtin_cpu_supports("avx512f"))
        return with512;
    return __builtin_cpu_supports("avx2") ? with256 : without;
}
