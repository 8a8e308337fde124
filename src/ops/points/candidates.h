/* The k nearest of what was seen so far, for every device: a heap whose root is the farthest of them.
 *
 * A distance's key is the bits of its square, in the type that is computed in: numbers from +0 on are in the order of
 * their bits. NaN has one key, behind infinity. */
#ifndef STNI_OPS_POINTS_CANDIDATES_H
#define STNI_OPS_POINTS_CANDIDATES_H

#include "core/base/inline.h"

#include <stdint.h>
#include <string.h>

/* `index` -1: none. */
struct stni_candidate {
    uint64_t key;
    int64_t index;
};

STNI_INLINE uint64_t stni_near_key_f32(float square)
{
    uint32_t bits = 0x7fc00000u;
    if (square == square)
        memcpy(&bits, &square, sizeof bits);
    return bits;
}

STNI_INLINE uint64_t stni_near_key_f64(double square)
{
    uint64_t bits = UINT64_C(0x7ff8000000000000);
    if (square == square)
        memcpy(&bits, &square, sizeof bits);
    return bits;
}

/* Of a key beyond all distances: NaN. */
STNI_INLINE float stni_near_square_f32(uint64_t key)
{
    const uint32_t bits = (uint32_t)key;
    float square;
    memcpy(&square, &bits, sizeof square);
    return square;
}

STNI_INLINE double stni_near_square_f64(uint64_t key)
{
    double square;
    memcpy(&square, &key, sizeof square);
    return square;
}

/* Whether a is nearer than b; of equal distances the lower index is. */
STNI_INLINE int stni_near_before(struct stni_candidate a, struct stni_candidate b)
{
    return a.key < b.key || (a.key == b.key && a.index < b.index);
}

/* Lets the root of the first `n` sink to where it belongs. */
STNI_INLINE void stni_near_sink(struct stni_candidate *heap, int64_t n, struct stni_candidate root)
{
    int64_t i = 0;
    for (int64_t child = 1; child < n; child = 2 * i + 1) {
        child += child + 1 < n && stni_near_before(heap[child], heap[child + 1]);
        if (!stni_near_before(root, heap[child]))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = root;
}

/* Takes a candidate in, in the place of the farthest, if it is nearer than that. */
STNI_INLINE void stni_near_put(struct stni_candidate *heap, int64_t k, struct stni_candidate candidate)
{
    if (stni_near_before(candidate, heap[0]))
        stni_near_sink(heap, k, candidate);
}

/* Nearest first: no heap any more. */
STNI_INLINE void stni_near_sort(struct stni_candidate *heap, int64_t k)
{
    for (int64_t n = k - 1; n > 0; n--) {
        const struct stni_candidate farthest = heap[0];
        stni_near_sink(heap, n, heap[n]);
        heap[n] = farthest;
    }
}

#endif
