/* Rests of divisions as loops over dense runs: vectorised where quotients are small enough to be exact integers and a
 * product and a sum are fused; else they are the C library's (pieces.h). */
#include "ops/cpu/fused.h"
#include "ops/elementwise/kernels/arithmetic.h"
#include "ops/elementwise/kernels/pieces.h"

#define ROWS STNI_RESTS_LIST
#define KERNELS stni_rests_kernels
#ifdef STNI_FMA_IS_ONE_INSTRUCTION
static void block_pieces_f32(const struct stni_pointwise_block *block);
static void block_pieces_f64(const struct stni_pointwise_block *block);
#define BLOCK_F32 block_pieces_f32
#define BLOCK_F64 block_pieces_f64
#endif
#include "ops/elementwise/kernels/value_kernels_tmpl.h"

#ifdef STNI_FMA_IS_ONE_INSTRUCTION
#undef NUMBER
#define NUMBER(n) ((R)(n).f)
#define T float
#define R float
#define NAME(name) name##_f32
#define LIBM(name) name##f
#define FMA(a, b, c) STNI_FMA_F32(a, b, c)
#define BLOCK block_near_f32
#include "ops/elementwise/kernels/rests_tmpl.h"
#define T double
#define R double
#define NAME(name) name##_f64
#define LIBM(name) name
#define FMA(a, b, c) STNI_FMA_F64(a, b, c)
#define BLOCK block_near_f64
#include "ops/elementwise/kernels/rests_tmpl.h"

/* Whether all quotients are of finite numbers, by none that is 0, and so small that they are exact integers. */
#define ARE_NEAR(T, magnitude, limit, largest)                                                      \
    const T *x = block->in[0], *y = block->in[1];                                                   \
    int far = 0;                                                                                    \
    for (int64_t k = 0; k < block->n; k++)                                                          \
        far |= !((magnitude(x[k]) < (limit) * magnitude(y[k])) & (magnitude(y[k]) <= (largest)));   \
    return !far;

static int are_near_f32(const struct stni_pointwise_block *block)
{
    ARE_NEAR(float, fabsf, 0x1p22f, FLT_MAX)
}

static int are_near_f64(const struct stni_pointwise_block *block)
{
    ARE_NEAR(double, fabs, 0x1p51, DBL_MAX)
}

static void block_pieces_f32(const struct stni_pointwise_block *block)
{
    stni_block_pieces(block, &(struct stni_pieces){sizeof(float), are_near_f32, block_near_f32, block_f32});
}

static void block_pieces_f64(const struct stni_pointwise_block *block)
{
    stni_block_pieces(block, &(struct stni_pieces){sizeof(double), are_near_f64, block_near_f64, block_f64});
}
#endif
