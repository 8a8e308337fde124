/* Functions that are vectorised loops for near arguments and calls of the C library for others, over runs that have
 * both. Which of them an element goes through does not depend on its neighbours, so that the same arguments have the
 * same bits in every layout. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_PIECES_H
#define STNI_OPS_ELEMENTWISE_KERNELS_PIECES_H

#include "ops/cpu/nontemporal_blocks.h"
#include "ops/elementwise/kernels/pointwise_kernel.h"

enum { STNI_LOOKED_AT = 8192 /* bytes, which are still in the L1 cache for the loop that follows */ };

/* Of one type: its elements' size, whether all arguments of a run are near, and the functions of near ones and of
 * any. */
struct stni_pieces {
    size_t size;
    int (*are_near)(const struct stni_pointwise_block *block);
    stni_pointwise_block_fn near, any;
};

/* Up to n elements of a run, from `first` on. */
static inline struct stni_pointwise_block stni_piece(const struct stni_pointwise_block *block, int64_t first, int64_t n,
                                                     size_t size)
{
    struct stni_pointwise_block piece = *block;
    const int64_t bytes = first * (int64_t)size;
    piece.n = block->n - first < n ? block->n - first : n;
    piece.out = (char *)block->out + bytes;
    for (int i = 0; i < STNI_POINTWISE_MAX_IN; i++)
        piece.in[i] = (const char *)block->in[i] + (block->buffer && block->same[i] ? 0 : bytes);
    return piece;
}

static inline void stni_block_pieces(const struct stni_pointwise_block *block, const struct stni_pieces *of)
{
    const int one_value = block->buffer && (block->same[0] || block->same[1] || block->same[2]);
    /* There is as much of it as a piece of a streamed run reads. */
    const int64_t most = (int64_t)((one_value ? STNI_PIECE : STNI_LOOKED_AT) / of->size);
    struct stni_pointwise_block piece;
    for (int64_t first = 0; first < block->n; first += piece.n) {
        piece = stni_piece(block, first, most, of->size);
        int near = of->are_near(&piece);
        if (!near) { /* as many as are like the first one */
            struct stni_pointwise_block one = stni_piece(&piece, 0, 1, of->size);
            near = of->are_near(&one);
            int64_t same = 1;
            for (; same < piece.n; same++) {
                one = stni_piece(&piece, same, 1, of->size);
                if (of->are_near(&one) != near)
                    break;
            }
            piece.n = same;
        }
        (near ? of->near : of->any)(&piece);
    }
}

#endif
