/* Non-temporal stores of one cache line: they go to memory without reading it first, and leave the caches to others.
 * Included by sources that are compiled once per instruction set. */
#ifndef STNI_CORE_BOX_NONTEMPORAL_LINE_H
#define STNI_CORE_BOX_NONTEMPORAL_LINE_H

#include <string.h>

enum { STNI_LINE = 64 }; /* bytes */

/* Bytes that one instruction writes, and that instruction: a built-in, since <immintrin.h> takes compilers 0.3 s in
 * each of the many sources that write so, and assembly would have them put into memory what is in registers. */
#if defined(__AVX512F__)
#define STNI_STREAM_VECTOR 64
#define STNI_STREAM_STORE __builtin_ia32_movntdq512
#elif defined(__AVX2__)
#define STNI_STREAM_VECTOR 32
#define STNI_STREAM_STORE __builtin_ia32_movntdq256
#else
#define STNI_STREAM_VECTOR 16
#define STNI_STREAM_STORE __builtin_ia32_movntdq
#endif

#ifdef __SSE2__
/* A store fence: orders non-temporal stores before what this thread writes next. To be called after them, before
 * another thread may read the result. */
static inline void stni_stream_fence(void)
{
    __builtin_ia32_sfence();
}

/* dst is aligned to a line; src to nothing. */
static inline void stni_stream_line(void *dst, const void *src)
{
    typedef long long lanes __attribute__((vector_size(STNI_STREAM_VECTOR)));
#pragma GCC unroll 4
    for (int at = 0; at < STNI_LINE; at += STNI_STREAM_VECTOR) {
        lanes v, *to = (void *)((char *)dst + at);
        memcpy(&v, (const char *)src + at, sizeof v);
#ifdef __clang__
        __builtin_nontemporal_store(v, to);
#else
        STNI_STREAM_STORE(to, v);
#endif
    }
}
#else
static inline void stni_stream_fence(void)
{
}

static inline void stni_stream_line(void *dst, const void *src)
{
    memcpy(dst, src, STNI_LINE);
}
#endif

/* Prefetches the cache line of `at`, which may be any address. (gcc 12 drops a loop that counts in size_t and calls
 * nothing but the built-in.) */
static inline void stni_prefetch(const void *at)
{
#ifdef __x86_64__
    __asm__ volatile("prefetcht0 %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at);
#endif
}

#endif
