/* The loop of every row (pointwise_kernel.h): over the whole run, or piece by piece where the result is written by
 * non-temporal stores. For templates that define T, the type, R, that of the op's numbers, NUMBER(n), which reads
 * one of these, and BLOCK, the function that chooses a row; sources may define RESULT, the type of what rows give,
 * where that is not T. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_EACH_BLOCK_H
#define STNI_OPS_ELEMENTWISE_KERNELS_EACH_BLOCK_H

#include "ops/elementwise/kernels/pointwise_kernel.h"
#include "ops/cpu/nontemporal_blocks.h"

#ifndef RESULT
#define RESULT T
#endif

struct piece {
    void *to; /* where its result is put */
    int64_t n;
};

/* The piece from element `at` on; `size` is that of the operands' elements. This function and the next are not
 * inlined: the loops have no registers to spare. */
static __attribute__((noinline)) struct piece open_piece(const struct stni_pointwise_block *block, int64_t at,
                                                         size_t size, size_t result_size)
{
    const char *out = (const char *)block->out + at * (int64_t)result_size;
    const int64_t n = stni_block_length(out, block->n - at, result_size, block->piece);
    const struct piece piece = {stni_block_place(block->buffer, out), n};
    for (int i = 0; i < STNI_POINTWISE_MAX_IN; i++)
        stni_block_prefetch((const char *)block->in[i] + at * (int64_t)size, (size_t)piece.n * size, block->ahead[i]);
    return piece;
}

static __attribute__((noinline)) void send_piece(void *to, struct piece piece, size_t size)
{
    stni_block_send(to, piece.to, (size_t)piece.n * size);
}

/* From one piece to the next: the n elements behind those at `from`, or for one value the same ones. */
#define NEXT(from, i, n) ((from) + (block->same[i] ? 0 : (n)))

/* One row's function: add_block_f32 where BLOCK is block_f32. */
#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)
#define ROW_NAME(op) JOINED(op##_, BLOCK)

/* `result` of x, y and `third`, the elements of in0, in1 and `last`, and of the numbers a, b and c. The function is not
 * inlined, so that debuggers and profilers know it by its name; together in one function, the loops of all rows are
 * also slower to compile, and larger.
 *
 * What decides how the loop goes on changes inside the loop; otherwise the compiler would make two loops of it. */
#define ROW_FUNCTION(op, third, last, result)                                                                       \
    static __attribute__((noinline)) void ROW_NAME(op)(const struct stni_pointwise_block *block)                    \
    {                                                                                                               \
        const int64_t n = block->n;                                                                                 \
        const R a = NUMBER(block->a), b = NUMBER(block->b), c = NUMBER(block->c);                                   \
        const T *in0 = block->in[0], *in1 = block->in[1], *in2 = block->in[2];                                      \
        RESULT *out = block->out;                                                                                   \
        struct piece piece = {out, n};                                                                              \
        if (block->buffer)                                                                                          \
            piece = open_piece(block, 0, sizeof(T), sizeof(RESULT));                                                \
        (void)a, (void)b, (void)c, (void)in2;                                                                       \
        for (int64_t at = 0; at < n; piece = open_piece(block, at, sizeof(T), sizeof(RESULT))) {                    \
            const T *from0 = in0, *from1 = in1, *from2 = (last);                                                    \
            RESULT *to = piece.to;                                                                                  \
            _Pragma("omp simd")                                                                                     \
            for (int64_t k = 0; k < piece.n; k++) {                                                                 \
                const T x = from0[k], y = from1[k], third = from2[k];                                               \
                (void)x, (void)y, (void)third;                                                                      \
                to[k] = (result);                                                                                   \
            }                                                                                                       \
            if (to == out + at)                                                                                     \
                break;                                                                                              \
            send_piece(out + at, piece, sizeof(RESULT));                                                            \
            at += piece.n;                                                                                          \
            in0 = NEXT(in0, 0, piece.n), in1 = NEXT(in1, 1, piece.n), in2 = NEXT(in2, 2, piece.n);                  \
        }                                                                                                           \
    }

#define ROW_CASE(op) \
    case STNI_POINTWISE_##op: ROW_NAME(op)(block); break;

#endif
