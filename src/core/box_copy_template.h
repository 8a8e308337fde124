/* Strided elements and transposes of one element size. Included with TYPE, LANES (of 16 bytes), NAME(x), and LOW and HIGH, which interleave the
 * lower and upper halves of two vectors.
 *
 * A transpose goes by square tiles one line wide, so that every line of the source is read once and every line of the destination is
 * written whole; tiles go by blocks, so that few pages are in use at a time. A tile goes by squares of LANES x LANES: log2(LANES)
 * rounds, each of which interleaves the vectors of the first half with those of the second, transpose a square. */

enum { NAME(LINE) = STNI_LINE / (int)sizeof(TYPE), NAME(BLOCK) = 4 * STNI_LINE / (int)sizeof(TYPE) };

static void NAME(elements)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n)
{
    if (dst_stride == (int64_t)sizeof(TYPE))
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * (int64_t)sizeof(TYPE), src + i * src_stride, sizeof(TYPE));
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * dst_stride, src + i * src_stride, sizeof(TYPE));
}

#if LANES > 1
typedef TYPE NAME(vector) __attribute__((vector_size(16)));

static inline void NAME(square)(TYPE *dst, int64_t dst_step, const char *src, int64_t src_stride)
{
    NAME(vector) a[LANES], b[LANES];
    for (int i = 0; i < LANES; i++)
        memcpy(&a[i], src + i * src_stride, 16);
    for (int round = 1; round < LANES; round *= 2) {
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = LOW(a[i], a[i + LANES / 2]);
            b[2 * i + 1] = HIGH(a[i], a[i + LANES / 2]);
        }
        memcpy(a, b, sizeof a);
    }
    for (int i = 0; i < LANES; i++)
        memcpy(dst + i * dst_step, &a[i], 16);
}
#else
static inline void NAME(square)(TYPE *dst, int64_t dst_step, const char *src, int64_t src_stride)
{
    (void)dst_step;
    (void)src_stride;
    memcpy(dst, src, sizeof(TYPE));
}
#endif

/* A tile of LINE x LINE. */
static inline void NAME(tile)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int streamed)
{
    enum { N = NAME(LINE) };
    _Alignas(STNI_LINE) TYPE tile[N * N];
    for (int i = 0; i < N; i += LANES)
        for (int j = 0; j < N; j += LANES)
            NAME(square)(tile + j * N + i, N, src + i * src_stride + j * (int64_t)sizeof(TYPE), src_stride);
    if (streamed)
        for (int j = 0; j < N; j++)
            stni_stream_line(dst + j * dst_stride, tile + j * N);
    else
        for (int j = 0; j < N; j++)
            memcpy(dst + j * dst_stride, tile + j * N, STNI_LINE);
}

/* At most BLOCK x BLOCK; what is left over at the edges of whole tiles goes element by element. */
static void NAME(block)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n, int64_t m, int streamed)
{
    int64_t size = (int64_t)sizeof(TYPE), line = NAME(LINE), n_tiled = n / line * line, m_tiled = m / line * line;
    for (int64_t i = 0; i < n_tiled; i += line)
        for (int64_t j = 0; j < m_tiled; j += line)
            NAME(tile)(dst + j * dst_stride + i * size, dst_stride, src + i * src_stride + j * size, src_stride, streamed);
    for (int64_t j = 0; j < m_tiled; j++)
        NAME(elements)(dst + j * dst_stride + n_tiled * size, size, src + n_tiled * src_stride + j * size, src_stride, n - n_tiled);
    for (int64_t j = m_tiled; j < m; j++)
        NAME(elements)(dst + j * dst_stride, size, src + j * size, src_stride, n);
}

static void NAME(transpose)(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n, int64_t m,
                            int streamed)
{
    int64_t size = (int64_t)sizeof(TYPE), block = NAME(BLOCK);
    int aligned = streamed && (uintptr_t)dst % STNI_LINE == 0 && dst_stride % STNI_LINE == 0;
    for (int64_t j = 0; j < m; j += block)
        for (int64_t i = 0; i < n; i += block)
            NAME(block)(dst + j * dst_stride + i * size, dst_stride, src + i * src_stride + j * size, src_stride,
                        n - i < block ? n - i : block, m - j < block ? m - j : block, aligned);
}

#undef TYPE
#undef LANES
#undef NAME
#undef LOW
#undef HIGH
