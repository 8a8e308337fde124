/* The loop of every block (pointwise_kernel.h): over the whole run, or piece by piece where the result is written by non-temporal stores. Expands
 * where T, n, in0, in1, in2, out and `block` are what their names say: `result` of x, y and `third`, the elements of in0, in1 and `last`. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_EACH_BLOCK_H
#define STNI_OPS_ELEMENTWISE_KERNELS_EACH_BLOCK_H

#include "ops/elementwise/kernels/pointwise_kernel.h"
#include "ops/cpu/nontemporal_blocks.h"

struct piece {
    void *to; /* where its result is put */
    int64_t n;
};

/* The piece from element `at` on. This function and the next are not inlined: the loops have no registers to spare. */
static __attribute__((noinline)) struct piece open_piece(const struct stni_pointwise_block *block, int64_t at, size_t size)
{
    const char *out = (const char *)block->out + at * (int64_t)size;
    const struct piece piece = {stni_block_place(block->buffer, out), stni_block_length(out, block->n - at, size)};
    for (int i = 0; i < STNI_POINTWISE_MAX_IN; i++)
        stni_block_prefetch((const char *)block->in[i] + at * (int64_t)size, (size_t)piece.n * size, block->ahead[i]);
    return piece;
}

static __attribute__((noinline)) void send_piece(void *to, struct piece piece, size_t size)
{
    stni_block_send(to, piece.to, (size_t)piece.n * size);
}

/* What decides how the loop goes on changes inside the loop; otherwise the compiler would make two loops of it. */
#define EACH_PIECE(third, last, result)                                                                             \
    {                                                                                                               \
        struct piece piece = block->buffer ? open_piece(block, 0, sizeof(T)) : (struct piece){out, n};                \
        for (int64_t at = 0; at < n; piece = open_piece(block, at, sizeof(T))) {                                    \
            const T *from0 = in0 + at, *from1 = in1 + at, *from2 = (last) + at;                                     \
            T *to = piece.to;                                                                                       \
            _Pragma("omp simd")                                                                                     \
            for (int64_t k = 0; k < piece.n; k++) {                                                                 \
                const T x = from0[k], y = from1[k], third = from2[k];                                               \
                (void)x, (void)y, (void)third;                                                                      \
                to[k] = (result);                                                                                   \
            }                                                                                                       \
            if (to == out + at)                                                                                     \
                break;                                                                                              \
            send_piece(out + at, piece, sizeof(T));                                                                 \
            at += piece.n;                                                                                          \
        }                                                                                                           \
    }

#endif
