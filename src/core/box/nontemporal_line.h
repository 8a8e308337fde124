/* Non-temporal stores of one cache line: they go to memory without reading it first, and leave the caches to others. Included by
 * sources that are compiled once per instruction set. */
#ifndef STNI_CORE_BOX_NONTEMPORAL_LINE_H
#define STNI_CORE_BOX_NONTEMPORAL_LINE_H

#include <string.h>

enum { STNI_LINE = 64 }; /* bytes */

#ifdef __SSE2__
#include <immintrin.h>

/* A store fence: orders non-temporal stores before what this thread writes next. To be called after them, before another thread may read the
 * result. */
static inline void stni_stream_fence(void)
{
    _mm_sfence();
}
#else
static inline void stni_stream_fence(void)
{
}
#endif

/* dst is aligned to a line; src to nothing. */
#if defined(__AVX512F__)
static inline void stni_stream_line(void *dst, const void *src)
{
    _mm512_stream_si512(dst, _mm512_loadu_si512(src));
}
#elif defined(__AVX2__)
static inline void stni_stream_line(void *dst, const void *src)
{
    const __m256i *from = src;
    __m256i *to = dst;
    __m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);
    _mm256_stream_si256(to, a);
    _mm256_stream_si256(to + 1, b);
}
#elif defined(__SSE2__)
static inline void stni_stream_line(void *dst, const void *src)
{
    const __m128i *from = src;
    __m128i *to = dst;
    __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
}
#else
static inline void stni_stream_line(void *dst, const void *src)
{
    memcpy(dst, src, STNI_LINE);
}
#endif

/* Bytes that stni_stream_line reads at once. */
#if defined(__AVX512F__)
#define STNI_STREAM_VECTOR 64
#elif defined(__AVX2__)
#define STNI_STREAM_VECTOR 32
#else
#define STNI_STREAM_VECTOR 16
#endif

/* Prefetches the cache line of `at`, which may be any address. (gcc 12 drops a loop that counts in size_t and calls nothing but the built-in.) */
static inline void stni_prefetch(const void *at)
{
#ifdef __x86_64__
    __asm__ volatile("prefetcht0 %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at);
#endif
}

#endif
