/* Vector loads of elements by index: of a dense line as many whole vectors as it has, where the instruction set
 * gathers well; the number of elements that were read. Included by sources that are compiled once per instruction
 * set.
 *
 * The bound check is the gather's mask, so that a lane without an element loads nothing and is 0; `bad` becomes 1
 * where an index is not within 0 … n - 1. */
#ifndef STNI_OPS_INDEX_ACCESS_GATHER_H
#define STNI_OPS_INDEX_ACCESS_GATHER_H

#include "ops/index/access_walk.h"

static inline int64_t stni_gather_none(const void *out, const void *from, const struct stni_access_line *l,
                                       stn_dtype dtype, int *bad)
{
    (void)out, (void)from, (void)l, (void)dtype, (void)bad;
    return 0;
}

#ifdef __AVX512F__
#include <immintrin.h>

enum { STNI_GATHERS = 1, STNI_GATHER_LANES = 8 };

/* Offsets of the lanes from i on, and which of them are here. */
struct stni_gather {
    __m512i offset;
    __mmask8 here, bad;
};

static inline __m512i stni_gather_multiply(__m512i x, int64_t by)
{
    return by == 1 ? x : _mm512_mullo_epi64(x, _mm512_set1_epi64(by));
}

static inline struct stni_gather stni_gather_offsets(const struct stni_access_line *l, stn_dtype dtype, int64_t i)
{
    const struct stni_access *a = l->access;
    const __m512i index = dtype == STN_DTYPE_I32
                              ? _mm512_cvtepi32_epi64(_mm256_loadu_si256((const void *)((const int32_t *)a->index
                                                                                        + l->index + i)))
                              : _mm512_loadu_si512((const int64_t *)a->index + l->index + i);
    const __m512i key = _mm512_sub_epi64(index, _mm512_set1_epi64(a->first));
    const __m512i lane = _mm512_add_epi64(_mm512_set1_epi64(i), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    struct stni_gather g = {.offset = stni_gather_multiply(key, a->key_strides[0])};
    if (l->table_step != 0)
        g.offset = _mm512_add_epi64(g.offset, stni_gather_multiply(lane, l->table_step));
    g.here = _mm512_cmplt_epu64_mask(key, _mm512_set1_epi64(a->key_shape[0]));
    g.bad = _mm512_cmpge_epu64_mask(index, _mm512_set1_epi64(a->n));
    return g;
}

static inline int64_t stni_gather_4(uint32_t *out, const uint32_t *from, const struct stni_access_line *l,
                                    stn_dtype dtype, int *bad)
{
    int64_t i = 0;
    for (; i + STNI_GATHER_LANES <= l->n; i += STNI_GATHER_LANES) {
        const struct stni_gather g = stni_gather_offsets(l, dtype, i);
        *bad |= g.bad != 0;
        _mm256_storeu_si256((void *)(out + i), _mm512_mask_i64gather_epi32(_mm256_setzero_si256(), g.here, g.offset,
                                                                           from, 4));
    }
    return i;
}

static inline int64_t stni_gather_8(uint64_t *out, const uint64_t *from, const struct stni_access_line *l,
                                    stn_dtype dtype, int *bad)
{
    int64_t i = 0;
    for (; i + STNI_GATHER_LANES <= l->n; i += STNI_GATHER_LANES) {
        const struct stni_gather g = stni_gather_offsets(l, dtype, i);
        *bad |= g.bad != 0;
        _mm512_storeu_si512(out + i, _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), g.here, g.offset, from, 8));
    }
    return i;
}
#else
enum { STNI_GATHERS = 0 };
#define stni_gather_4 stni_gather_none
#define stni_gather_8 stni_gather_none
#endif

#endif
