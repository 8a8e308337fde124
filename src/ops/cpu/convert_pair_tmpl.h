/* One conversion of tiles. Included once per pair with
 *   FROM, TO  dtypes in small letters (f32, bf16, …): FROM_T and TO_T are how they lie in memory, FROM_LOAD and TO_STORE their values.
 *   RUN       defined where a function of its own converts dense runs (convert_half.h) */
#ifndef FROM /* read alone */
#include "ops/cpu/convert_dtypes.h"
#define FROM f32
#define TO f64
#endif

#define PAIR CONVERT_JOIN(FROM, CONVERT_JOIN(to, TO))
#define STREAM CONVERT_JOIN(stream, PAIR)
#define FROM_T CONVERT_JOIN(FROM, T)
#define TO_T CONVERT_JOIN(TO, T)
#define CONVERTED(v) CONVERT_JOIN(TO, STORE)(CONVERT_JOIN(FROM, LOAD)(v))

#ifndef RUN
#define RUN CONVERT_JOIN(run, PAIR)
static inline __attribute__((always_inline)) void RUN(TO_T *restrict t, const FROM_T *restrict f, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        t[k] = CONVERTED(f[k]);
}
#endif

/* Whole lines, a piece's at most, by non-temporal stores. */
static inline __attribute__((always_inline)) void STREAM(TO_T *restrict t, const FROM_T *restrict f, int64_t lines,
                                                         int64_t ahead)
{
    enum { LINE = STNI_LINE / sizeof(TO_T), MOST = STNI_PIECE / STNI_LINE };
    alignas(STNI_LINE) TO_T line[MOST][LINE];
    stni_block_prefetch(f, (size_t)(lines * LINE) * sizeof *f, (size_t)ahead);
    for (int64_t l = 0; l < lines; l++)
        RUN(line[l], f + l * LINE, LINE);
    for (int64_t l = 0; l < lines; l++)
        stni_stream_line(t + l * LINE, line[l]);
}

static void PAIR(void *to, const void *from, const struct stni_tile *tile)
{
    /* A vector that is read back just after it was written in parts waits until these are in the L1 cache: then
     * several lines are written first. */
    enum {
        LINE = STNI_LINE / sizeof(TO_T),
        LINES = sizeof(TO_T) >= IN_PARTS * sizeof(FROM_T) ? STNI_PIECE / STNI_LINE : 1
    };
    const int64_t n = tile->cols, to_col = tile->to_col, from_col = tile->from_col;
    for (int64_t r = 0; r < tile->rows; r++) {
        TO_T *restrict t = (TO_T *)to + r * tile->to_row;
        const FROM_T *restrict f = (const FROM_T *)from + r * tile->from_row;
        if (to_col == 1 && from_col == 1) {
            int64_t c = 0;
            if (tile->streamed) {
                for (; c < n && (uintptr_t)(t + c) % STNI_LINE; c++) {
                    STNI_SCALAR_LOOP
                    t[c] = CONVERTED(f[c]);
                }
                for (; c + LINES * LINE <= n; c += LINES * LINE)
                    STREAM(t + c, f + c, LINES, tile->ahead);
                if (LINES > 1) {
                    STREAM(t + c, f + c, (n - c) / LINE, tile->ahead);
                    c += (n - c) / LINE * LINE;
                }
            }
            RUN(t + c, f + c, n - c);
        } else if (to_col == 1 && from_col == 0) {
            const TO_T value = CONVERTED(f[0]);
            for (int64_t c = 0; c < n; c++)
                t[c] = value;
        } else {
            for (int64_t c = 0; c < n; c++) {
                STNI_SCALAR_LOOP
                t[c * to_col] = CONVERTED(f[c * from_col]);
            }
        }
    }
}

#undef RUN
#undef CONVERTED
#undef TO_T
#undef FROM_T
#undef STREAM
#undef PAIR
#undef TO
