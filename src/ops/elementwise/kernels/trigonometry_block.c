/* The unary functions of trigonometry.h as loops over dense runs. Sine, cosine and tangent of arguments that are not
 * large are vectorised loops; the others go through the C library, which reduces an argument of any size modulo
 * pi / 2. An argument's function does not depend on its neighbours, so that the same ones have the same bits in every
 * layout. */
#include "ops/elementwise/kernels/each_block.h"
#include "ops/elementwise/kernels/functions.h"
#include "ops/elementwise/kernels/pointwise_kernel.h"

enum { LOOKED_AT = 1024 /* elements */, ROWS_EACH = 3 /* the function, its derivative and its second one */ };

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

/* Of one type: whether n elements of x from `first` on are all near, and the functions of near and of any elements. */
struct pieces {
    size_t size;
    int (*are_near)(const void *x, int64_t first, int64_t n);
    stni_pointwise_block_fn near, any;
};

/* NaN and infinities are not near. */
static int are_near_f32(const void *x, int64_t first, int64_t n)
{
    const float *from = (const float *)x + first;
    int far = 0;
    for (int64_t k = 0; k < n; k++)
        far |= !(fabsf(from[k]) <= STNI_NEAR_F32);
    return !far;
}

static int are_near_f64(const void *x, int64_t first, int64_t n)
{
    const double *from = (const double *)x + first;
    int far = 0;
    for (int64_t k = 0; k < n; k++)
        far |= !(fabs(from[k]) <= STNI_NEAR_F64);
    return !far;
}

/* How many of the n elements of x from `first` on are like that one, near or not. */
static int64_t like_first(const struct pieces *of, const void *x, int64_t first, int64_t n)
{
    const int near = of->are_near(x, first, 1);
    int64_t same = 1;
    while (same < n && of->are_near(x, first + same, 1) == near)
        same++;
    return same;
}

static void block_pieces(const struct stni_pointwise_block *block, const struct pieces *of)
{
    if (block->op < STNI_POINTWISE_sin || block->op > STNI_POINTWISE_tan) { /* the derivative of tan reads its result */
        of->any(block);
        return;
    }
    /* The argument is the last operand: of the function the first, of its derivatives the second and the third. */
    const int last = ((int)block->op - STNI_POINTWISE_sin) % ROWS_EACH;
    const int one = block->buffer && block->same[last];
    const void *argument = block->in[last];
    struct stni_pointwise_block piece = *block;
    for (int64_t first = 0; first < block->n; first += piece.n) {
        const int64_t at = one ? 0 : first, bytes = first * (int64_t)of->size;
        piece.n = block->n - first < LOOKED_AT ? block->n - first : LOOKED_AT;
        if (!of->are_near(argument, at, one ? 1 : piece.n) && !one)
            piece.n = like_first(of, argument, at, piece.n);
        piece.out = (char *)block->out + bytes;
        for (int i = 0; i < STNI_POINTWISE_MAX_IN; i++)
            piece.in[i] = (const char *)block->in[i] + (block->buffer && block->same[i] ? 0 : bytes);
        (of->are_near(argument, at, 1) ? of->near : of->any)(&piece);
    }
}

static void block_pieces_f32(const struct stni_pointwise_block *block)
{
    block_pieces(block, &(struct pieces){sizeof(float), are_near_f32, block_near_f32, block_f32});
}

static void block_pieces_f64(const struct stni_pointwise_block *block)
{
    block_pieces(block, &(struct pieces){sizeof(double), are_near_f64, block_near_f64, block_f64});
}
