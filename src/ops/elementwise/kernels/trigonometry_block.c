/* The unary functions of trigonometry.h as loops over dense runs. In f32, sine, cosine and tangent of arguments that
 * are not large are vectorised loops; a block of a run in which some argument is large goes through the C library,
 * which reduces an argument of any size modulo pi / 2. */
#include "ops/elementwise/kernels/each_block.h"
#include "ops/elementwise/kernels/functions.h"
#include "ops/elementwise/kernels/pointwise_kernel.h"

enum { LOOKED_AT = 1024 /* elements */ };

#define ROWS STNI_TRIGONOMETRY_LIST
#define KERNELS stni_trigonometry_kernels
#define ANALYTIC_ROWS

#undef SIN_F32
#undef COS_F32
#undef TAN_F32
#define SIN_F32 stni_sin_near_f32
#define COS_F32 stni_cos_near_f32
#define TAN_F32 stni_tan_near_f32
#define NUMBER(n) ((R)(n).f)
#define PRODUCT(x, y) ((x) * (y))
#define DUAL(x) (x)
#define T float
#define R float
#define BLOCK block_near_f32
#include "ops/elementwise/kernels/unary_block_tmpl.h"
#undef NUMBER
#undef PRODUCT
#undef DUAL
#undef SIN_F32
#undef COS_F32
#undef TAN_F32

#define SIN_F32 sinf
#define COS_F32 cosf
#define TAN_F32 tanf
static void block_pieces_f32(const struct stni_pointwise_block *block);
#define BLOCK_F32 block_pieces_f32
#include "ops/elementwise/kernels/unary_kernels_tmpl.h"

/* NaN and infinities are not near. */
static int are_near(int64_t n, const float *x)
{
    int far = 0;
    for (int64_t k = 0; k < n; k++)
        far |= !(fabsf(x[k]) <= STNI_NEAR_F32);
    return !far;
}

/* The argument is the last operand, and cotangents are seldom large: all of them are looked at. */
static void block_pieces_f32(const struct stni_pointwise_block *block)
{
    if (block->op < STNI_POINTWISE_sin || block->op > STNI_POINTWISE_tan) { /* the derivative of tan reads its result */
        block_f32(block);
        return;
    }
    for (int64_t first = 0; first < block->n; first += LOOKED_AT) {
        struct stni_pointwise_block piece = *block;
        int near = 1;
        piece.n = block->n - first < LOOKED_AT ? block->n - first : LOOKED_AT;
        piece.out = (float *)block->out + first;
        for (int i = 0; i < STNI_POINTWISE_MAX_IN; i++) {
            const int same = block->buffer && block->same[i];
            piece.in[i] = (const float *)block->in[i] + (same ? 0 : first);
            if (i == 0 || block->in[i] != block->in[0])
                near = near && are_near(same ? 1 : piece.n, piece.in[i]);
        }
        (near ? block_near_f32 : block_f32)(&piece);
    }
}
