/* Strided elements and transposes of one element size. Included with T, LANES (of 16 bytes), ROWS (of the destination
 * in a staged block), NAME(x), and LOW and HIGH, which interleave the lower and upper halves of two vectors.
 *
 * A transpose is done in squares of LANES x LANES. A square is transposed in log2(LANES) rounds, each of which
 * interleaves the vectors of the first half with those of the second. With non-temporal stores, whole cache lines of
 * the destination are assembled first:
 *   - where its rows begin at cache lines, in tiles one line wide: every line of the source is read once, in strips of
 *     rows, and the next strip is prefetched meanwhile;
 *   - elsewhere in blocks that are one line longer than the step from block to block, because the cache lines of each
 *     row begin at an offset of their own. */
#ifndef NAME /* read alone */
#include "core/box/box_kernel.h"
#include "core/box/copy_stream.h"
#define T uint32_t
#define LANES 4
#define ROWS 128
#define NAME(x) x##_4
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

enum {
    NAME(LINE) = STNI_LINE / (int)sizeof(T),
    NAME(STRIP) = 1024 / (int)sizeof(T),                                     /* of the source's rows, in tiles */
    NAME(STEP) = LANES == 16 ? 2 * NAME(LINE) : 4 * NAME(LINE),                 /* by which blocks advance */
    NAME(STAGE) = NAME(STEP) + NAME(LINE)
};

typedef T NAME(loose) __attribute__((aligned(1), may_alias));

/* Steps that there are loads and shuffles for have loops of their own, in which they are constants. */
static void NAME(elements)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n)
{
    const int64_t size = (int64_t)sizeof(T);
    NAME(loose) *restrict to = (NAME(loose) *)dst;
    const NAME(loose) *restrict from = (const NAME(loose) *)src;
    if (dst_stride == size && src_stride == 2 * size)
        for (int64_t i = 0; i < n; i++)
            to[i] = from[2 * i];
    else if (dst_stride == size && src_stride == -size)
        for (int64_t i = 0; i < n; i++)
            to[i] = from[-i];
    else {
        int64_t i = 0;
        for (; i + 4 <= n; i += 4)
            for (int k = 0; k < 4; k++)
                memcpy(dst + (i + k) * dst_stride, src + (i + k) * src_stride, sizeof(T));
        for (; i < n; i++)
            memcpy(dst + i * dst_stride, src + i * src_stride, sizeof(T));
    }
}

#if LANES > 1
typedef T NAME(vector) __attribute__((vector_size(16)));

static inline void NAME(square)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride)
{
    NAME(vector) a[LANES], b[LANES];
    for (int i = 0; i < LANES; i++)
        memcpy(&a[i], src + i * src_stride, 16);
    for (int round = 1; round < LANES; round *= 2) {
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = LOW(a[i], a[i + LANES / 2]);
            b[2 * i + 1] = HIGH(a[i], a[i + LANES / 2]);
        }
        for (int i = 0; i < LANES; i++) /* one by one: as a block, gcc copies it through memory, by narrow stores and a wide load */
            a[i] = b[i];
    }
    for (int i = 0; i < LANES; i++)
        memcpy(dst + i * dst_stride, &a[i], 16);
}
#else
static inline void NAME(square)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride)
{
    (void)dst_stride;
    (void)src_stride;
    memcpy(dst, src, sizeof(T));
}
#endif

/* Prefetches, for each of LANES runs, the cache line that is `ahead` bytes further. */
static inline void NAME(prefetch_runs)(const char *src, int64_t src_stride, int64_t ahead)
{
    for (int64_t i = 0; i < LANES; i++)
        stni_prefetch((const void *)((uintptr_t)src + (uintptr_t)(i * src_stride + ahead)));
}

/* dst[j, i] = src[i, j]; what is left over beside whole squares is copied element by element. */
static inline void NAME(transpose_block)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n,
                                         int64_t m, int64_t ahead)
{
    int64_t size = (int64_t)sizeof(T), n_whole = n / LANES * LANES, m_whole = m / LANES * LANES;
    for (int64_t i = 0; i < n_whole; i += LANES)
        for (int64_t j = 0; j < m_whole; j += LANES) {
            const char *at = src + i * src_stride + j * size;
            if (ahead != 0 && j % NAME(LINE) == 0)
                NAME(prefetch_runs)(at, src_stride, ahead);
            NAME(square)(dst + j * dst_stride + i * size, dst_stride, at, src_stride);
        }
    for (int64_t i = n_whole; i < n; i++)
        NAME(elements)(dst + i * size, dst_stride, src + i * src_stride, size, m_whole);
    for (int64_t j = m_whole; j < m; j++)
        NAME(elements)(dst + j * dst_stride, size, src + j * size, src_stride, n);
}

/* A tile of LINE x LINE, by lines. */
static inline void NAME(stream_tile)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride)
{
    _Alignas(STNI_LINE) T tile[NAME(LINE) * NAME(LINE)];
    NAME(transpose_block)((char *)tile, STNI_LINE, src, src_stride, NAME(LINE), NAME(LINE), 0);
    for (int64_t j = 0; j < NAME(LINE); j++)
        stni_stream_line(dst + j * dst_stride, tile + j * NAME(LINE));
}

static inline void NAME(prefetch)(const char *src, int64_t src_stride, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        __builtin_prefetch(src + i * src_stride, 0, 2);
}

/* Whole tiles of a strip of m elements. */
static inline void NAME(stream_strip)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n,
                                      int64_t m)
{
    int64_t size = (int64_t)sizeof(T);
    for (int64_t i = 0; i + NAME(LINE) <= n; i += NAME(LINE)) {
        int64_t ahead = n - i - NAME(LINE) < NAME(LINE) ? n - i - NAME(LINE) : NAME(LINE);
        for (int64_t j = 0; j + NAME(LINE) <= m; j += NAME(LINE)) {
            const char *at = src + i * src_stride + j * size;
            NAME(prefetch)(at + NAME(LINE) * src_stride, src_stride, ahead);
            NAME(stream_tile)(dst + j * dst_stride + i * size, dst_stride, at, src_stride);
        }
    }
}

static void NAME(stream_aligned)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n,
                                 int64_t m)
{
    int64_t size = (int64_t)sizeof(T), n_whole = n / NAME(LINE) * NAME(LINE), m_whole = m / NAME(LINE) * NAME(LINE);
    for (int64_t j = 0; j < m_whole; j += NAME(STRIP))
        NAME(stream_strip)(dst + j * dst_stride, dst_stride, src + j * size, src_stride, n_whole,
                           m_whole - j < NAME(STRIP) ? m_whole - j : NAME(STRIP));
    NAME(transpose_block)(dst + n_whole * size, dst_stride, src + n_whole * src_stride, src_stride, n - n_whole, m, 0);
    NAME(transpose_block)(dst + m_whole * dst_stride, dst_stride, src + m_whole * size, src_stride, n_whole,
                          m - m_whole, 0);
}

/* m rows, elements from i on: whole lines, but for the first and the last piece of a row of n. */
static inline void NAME(stream_block)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t i,
                                      int64_t n, int64_t m)
{
    _Alignas(STNI_LINE) T stage[ROWS * NAME(STAGE)];
    int64_t size = (int64_t)sizeof(T), width = n - i < NAME(STAGE) ? n - i : NAME(STAGE);
    NAME(transpose_block)((char *)stage, NAME(STAGE) * size, src + i * src_stride, src_stride, width, m, 0);
    for (int64_t j = 0; j < m; j++) {
        char *row = dst + j * dst_stride;
        int64_t phase = (int64_t)(-(uintptr_t)row % STNI_LINE) / size;
        int64_t from = i == 0 ? 0 : phase, to = phase + NAME(STEP) > width ? width : phase + NAME(STEP);
        if (from < to)
            copy_stream(row + (i + from) * size, (const char *)(stage + j * NAME(STAGE) + from), (to - from) * size);
    }
}

static void NAME(stream_any)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n, int64_t m)
{
    int64_t size = (int64_t)sizeof(T);
    for (int64_t j = 0; j < m; j += ROWS)
        for (int64_t i = 0; i < n; i += NAME(STEP))
            NAME(stream_block)
            (dst + j * dst_stride, dst_stride, src + j * size, src_stride, i, n, m - j < ROWS ? m - j : ROWS);
}

static void NAME(transpose)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n, int64_t m,
                            int streamed, int64_t ahead)
{
    const int64_t size = (int64_t)sizeof(T), block = NAME(LINE) * 4;
    const int64_t rows = dst_stride % STNI_CACHE_WAY == 0 ? STNI_CACHE_WAYS : block;
    if (streamed && ((uintptr_t)dst | (uint64_t)dst_stride) % STNI_LINE == 0) {
        NAME(stream_aligned)(dst, dst_stride, src, src_stride, n, m);
        return;
    }
    if (streamed && (uintptr_t)dst % sizeof(T) == 0) {
        NAME(stream_any)(dst, dst_stride, src, src_stride, n, m);
        return;
    }
    for (int64_t j = 0; j < m; j += rows)
        for (int64_t i = 0; i < n; i += block)
            NAME(transpose_block)
            (dst + j * dst_stride + i * size, dst_stride, src + i * src_stride + j * size, src_stride,
             n - i < block ? n - i : block, m - j < rows ? m - j : rows, ahead);
}

#undef T
#undef LANES
#undef ROWS
#undef NAME
#undef LOW
#undef HIGH
