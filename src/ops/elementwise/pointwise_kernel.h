/* The kernel of every pointwise op: an expression of arithmetic.h over strided operands of any dtypes. */
#ifndef STNI_OPS_ELEMENTWISE_POINTWISE_KERNEL_H
#define STNI_OPS_ELEMENTWISE_POINTWISE_KERNEL_H

#include <shardtensor/mesh.h>
#include <shardtensor/op.h>

#include "core/isa.h"
#include "ops/elementwise/arithmetic.h"

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
    stn_dtype compute; /* a compute type (ops/util/convert.h) */
    int ndim, n_in;
    int64_t shape[STN_MAX_NDIM]; /* slowest dim first; ndim may be 0 */
    struct stni_pointwise_operand out, in[STNI_POINTWISE_MAX_IN];
    struct stni_pointwise_number a, b, number[STNI_POINTWISE_MAX_IN];
};

stn_status stni_pointwise_cpu(stn_queue *queue, const void *args);

/* Dense runs of one compute type, n elements each; `out` may be one of `in`. For the CPU's kernel; compiled once per instruction set. */
struct stni_pointwise_block {
    enum stni_pointwise_op op;
    int64_t n;
    void *out;
    const void *in[STNI_POINTWISE_MAX_IN]; /* all valid: those that the op has not are in[0] */
    struct stni_pointwise_number a, b;
};

struct stni_pointwise_kernels {
    void (*block[STN_DTYPE_COUNT])(const struct stni_pointwise_block *block); /* by compute type */
};

extern const struct stni_pointwise_kernels stni_pointwise_kernels_base, stni_pointwise_kernels_avx2, stni_pointwise_kernels_avx512;

#endif
