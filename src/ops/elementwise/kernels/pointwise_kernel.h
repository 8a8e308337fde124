/* The kernel of every pointwise op: an expression of a list of arithmetic over strided operands of any dtypes. */
#ifndef STNI_OPS_ELEMENTWISE_KERNELS_POINTWISE_KERNEL_H
#define STNI_OPS_ELEMENTWISE_KERNELS_POINTWISE_KERNEL_H

#include <shardtensor/mesh.h>
#include <shardtensor/op.h>

#include "core/base/isa.h"
#include "ops/elementwise/pointwise_op.h"

enum { STNI_POINTWISE_MAX_IN = 3 };

/* A number as every class of types reads it. */
struct stni_pointwise_number {
    double f;
    int64_t i;
};

struct stni_pointwise_operand {
    void *data; /* NULL: a number stands for it */
    stn_dtype dtype;
    int64_t strides[STN_MAX_NDIM]; /* elements; 0 along broadcast dims */
};

/* out may be the memory of an operand where both have the same strides. No dim has size 0. */
struct stni_pointwise_args {
    enum stni_pointwise_op op;
    stn_dtype compute; /* a compute type (ops/cpu/convert.h) */
    int ndim, n_in;
    int64_t shape[STN_MAX_NDIM]; /* slowest dim first; ndim may be 0 */
    struct stni_pointwise_operand out, in[STNI_POINTWISE_MAX_IN];
    struct stni_pointwise_number a, b, c, number[STNI_POINTWISE_MAX_IN];
    int divides; /* 1: it divides by integers of operand 1, of which a 0 is a value error of `number_of_op` */
    int number_of_op;
    int one_run; /* 1: stni_pointwise_is_one_run was asked, and said so */
};

/* The dtype of what the CPU's block of an op gives: that in which it computes, but for truths. */
static inline stn_dtype stni_pointwise_result(enum stni_pointwise_op op, stn_dtype compute)
{
    return op >= STNI_POINTWISE_eq && op <= STNI_POINTWISE_isfinite ? STN_DTYPE_BOOL : compute;
}

static inline int stni_pointwise_is_run(const struct stni_pointwise_args *args,
                                        const struct stni_pointwise_operand *operand, stn_dtype dtype)
{
    return operand->data && operand->dtype == dtype && (args->ndim == 0 || operand->strides[0] == 1);
}

/* Whether everything is one dense run as a block reads and writes it, in which no divisor must be looked at. */
static inline int stni_pointwise_is_one_run(const struct stni_pointwise_args *args)
{
    const stn_dtype result = stni_pointwise_result(args->op, args->compute);
    int one_run = args->ndim <= 1 && !args->divides && stni_pointwise_is_run(args, &args->out, result);
    for (int i = 0; i < args->n_in; i++)
        one_run = one_run && stni_pointwise_is_run(args, &args->in[i], args->compute);
    return one_run;
}

/* Whether the op's function is another one in bf16, for operands and results of that dtype whatever their strides:
 * then every layout gives the same bits. */
static inline int stni_pointwise_is_narrow(const struct stni_pointwise_args *args)
{
    return args->op == STNI_POINTWISE_gelu && args->in[0].dtype == STN_DTYPE_BF16 && args->out.dtype == STN_DTYPE_BF16;
}

/* Whether the CPU has a block that reads and writes bf16 itself: those functions, and arithmetic of tensors, which
 * gives the same bits either way. */
static inline int stni_pointwise_has_bf16_block(const struct stni_pointwise_args *args)
{
    const enum stni_pointwise_op op = args->op;
    const stn_dtype x = args->in[0].dtype, y = args->in[1].dtype, out = args->out.dtype;
    const int of_two =
        op == STNI_POINTWISE_add || op == STNI_POINTWISE_sub || op == STNI_POINTWISE_mul || op == STNI_POINTWISE_div;
    const int tensors = of_two && args->in[0].data && args->in[1].data;
    return stni_pointwise_is_narrow(args) ||
           (tensors && x == STN_DTYPE_BF16 && y == STN_DTYPE_BF16 && out == STN_DTYPE_BF16);
}

stn_status stni_pointwise_cpu(stn_queue *queue, const void *args);

/* Dense runs of n elements: operands of one compute type, and `out` of stni_pointwise_result, which may be one of
 * `in` where that is the same. For the CPU's kernel; compiled once per instruction set. */
struct stni_pointwise_block {
    enum stni_pointwise_op op;
    int64_t n;
    void *out;
    const void *in[STNI_POINTWISE_MAX_IN]; /* all valid: those that the op has not are in[0] */
    struct stni_pointwise_number a, b, c;
    char *buffer;                          /* NULL, or where blocks of `out` wait for non-temporal stores (ops/cpu/nontemporal_blocks.h) */
    size_t piece;                          /* then: bytes of such a block, a power of two up to STNI_PIECE */
    size_t ahead[STNI_POINTWISE_MAX_IN];   /* then: how far ahead each operand is prefetched, bytes; 0: not at all */
    uint8_t same[STNI_POINTWISE_MAX_IN];   /* then: 1 where an operand is one value, of which only a piece is there */
};

typedef void (*stni_pointwise_block_fn)(const struct stni_pointwise_block *block);

/* The blocks of one list, by compute type; NULL where its rows admit no operand of the type. Of bf16: the rows of
 * stni_pointwise_has_bf16_block. */
struct stni_pointwise_kernels {
    stni_pointwise_block_fn block[STN_DTYPE_COUNT];
};

extern const struct stni_pointwise_kernels stni_arithmetic_kernels_base, stni_arithmetic_kernels_avx2,
    stni_arithmetic_kernels_avx512;
extern const struct stni_pointwise_kernels stni_rests_kernels_base, stni_rests_kernels_avx2, stni_rests_kernels_avx512;
extern const struct stni_pointwise_kernels stni_truth_kernels_base, stni_truth_kernels_avx2, stni_truth_kernels_avx512;
extern const struct stni_pointwise_kernels stni_comparison_kernels_base, stni_comparison_kernels_avx2,
    stni_comparison_kernels_avx512;
extern const struct stni_pointwise_kernels stni_exponential_kernels_base, stni_exponential_kernels_avx2,
    stni_exponential_kernels_avx512;
extern const struct stni_pointwise_kernels stni_trigonometry_kernels_base, stni_trigonometry_kernels_avx2,
    stni_trigonometry_kernels_avx512;
extern const struct stni_pointwise_kernels stni_activation_kernels_base, stni_activation_kernels_avx2,
    stni_activation_kernels_avx512;

/* The block that computes an op in a type; NULL where its list has none for it. */
stni_pointwise_block_fn stni_pointwise_block_of(enum stni_pointwise_op op, stn_dtype compute, enum stni_isa isa);

#endif
