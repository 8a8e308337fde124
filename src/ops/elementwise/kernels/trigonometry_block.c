/* The unary functions of trigonometry.h as loops over dense runs. Sine, cosine and tangent of arguments that are not
 * large are vectorised loops; the others go through the C library, which reduces an argument of any size modulo
 * pi / 2 (pieces.h). */
#include "ops/elementwise/kernels/each_block.h"
#include "ops/elementwise/kernels/functions.h"
#include "ops/elementwise/kernels/pieces.h"
#include "ops/elementwise/kernels/pointwise_kernel.h"

enum { ROWS_EACH = 3 /* the function, its derivative and its second one */ };

#define ROWS STNI_TRIGONOMETRY_LIST
#define KERNELS stni_trigonometry_kernels
#define ANALYTIC_ROWS

#undef SIN_F32
#undef COS_F32
#undef TAN_F32
#undef SIN_F64
#undef COS_F64
#undef TAN_F64
#define SIN_F32 stni_sin_near_f32
#define COS_F32 stni_cos_near_f32
#define TAN_F32 stni_tan_near_f32
#define SIN_F64 stni_sin_near_f64
#define COS_F64 stni_cos_near_f64
#define TAN_F64 stni_tan_near_f64
#define NUMBER(n) ((R)(n).f)
#define PRODUCT(x, y) ((x) * (y))
#define DUAL(x) (x)
#define T float
#define R float
#define BLOCK block_near_f32
#include "ops/elementwise/kernels/unary_block_tmpl.h"
#define T double
#define R double
#define BLOCK block_near_f64
#include "ops/elementwise/kernels/unary_block_tmpl.h"
#undef NUMBER
#undef PRODUCT
#undef DUAL
#undef SIN_F32
#undef COS_F32
#undef TAN_F32
#undef SIN_F64
#undef COS_F64
#undef TAN_F64

#define SIN_F32 sinf
#define COS_F32 cosf
#define TAN_F32 tanf
#define SIN_F64 sin
#define COS_F64 cos
#define TAN_F64 tan
static void block_pieces_f32(const struct stni_pointwise_block *block);
static void block_pieces_f64(const struct stni_pointwise_block *block);
#define BLOCK_F32 block_pieces_f32
#define BLOCK_F64 block_pieces_f64
#include "ops/elementwise/kernels/unary_kernels_tmpl.h"

/* NaN and infinities are not near. The argument is the last operand: of the function the first, of its derivatives the
 * second and the third. */
#define ARE_NEAR(T, magnitude, limit)                                               \
    const T *x = block->in[((int)block->op - STNI_POINTWISE_sin) % ROWS_EACH];      \
    int far = 0;                                                                    \
    for (int64_t k = 0; k < block->n; k++)                                          \
        far |= !(magnitude(x[k]) <= (limit));                                       \
    return !far;

static int are_near_f32(const struct stni_pointwise_block *block)
{
    ARE_NEAR(float, fabsf, STNI_NEAR_F32)
}

static int are_near_f64(const struct stni_pointwise_block *block)
{
    ARE_NEAR(double, fabs, STNI_NEAR_F64)
}

/* The derivative of tan reads its result. */
static int is_of_sine(enum stni_pointwise_op op)
{
    return op >= STNI_POINTWISE_sin && op <= STNI_POINTWISE_tan;
}

static void block_pieces_f32(const struct stni_pointwise_block *block)
{
    const struct stni_pieces sines = {sizeof(float), are_near_f32, block_near_f32, block_f32};
    is_of_sine(block->op) ? stni_block_pieces(block, &sines) : block_f32(block);
}

static void block_pieces_f64(const struct stni_pointwise_block *block)
{
    const struct stni_pieces sines = {sizeof(double), are_near_f64, block_near_f64, block_f64};
    is_of_sine(block->op) ? stni_block_pieces(block, &sines) : block_f64(block);
}
