/* Pointwise ops as rows. What an op computes stands in the lists of pointwise_op.h; here is what else there is to
 * say of it, and the functions of a descriptor that do the rest for every row: broadcasting, promotion, placement,
 * launch, and the way from a derivative to cotangents. */
#ifndef STNI_OPS_ELEMENTWISE_POINTWISE_H
#define STNI_OPS_ELEMENTWISE_POINTWISE_H

#include "ops/elementwise/kernels/pointwise_kernel.h"
#include "ops/table.h"
#include "ops/placement/pointwise.h"

/* The numbers of a call, from its attributes and the specs of its inputs. */
struct stni_pointwise_numbers {
    enum stni_pointwise_op op;                   /* begins as the rule's; an attribute may choose another row */
    stn_number a, b, c;                          /* of the arithmetic */
    stn_number operand[STNI_POINTWISE_MAX_IN];   /* what stands for an input that is absent; kind NONE: nothing */
};

/* The cotangent of input i before it is summed to the input's shape and cast to its dtype, by public ops; NULL for
 * zero. */
typedef stn_tensor *(*stni_pointwise_derivative)(const stn_backward_call *call, stn_tensor *grad);

enum { STNI_READS_NOTHING = 0 };
#define STNI_READS_IN(i) (UINT64_C(1) << (i))
#define STNI_READS_OUT (UINT64_C(1) << 32)

enum {
    STNI_FLOATING = 1 << STN_DTYPE_F32 | 1 << STN_DTYPE_F64 | 1 << STN_DTYPE_BF16 | 1 << STN_DTYPE_F16,
    STNI_INTEGER = 1 << STN_DTYPE_I64 | 1 << STN_DTYPE_I32 | 1 << STN_DTYPE_U8 | 1 << STN_DTYPE_I8 | 1 << STN_DTYPE_I16,
    STNI_COMPLEX = 1 << STN_DTYPE_C64 | 1 << STN_DTYPE_C128,
    STNI_BOOL = 1 << STN_DTYPE_BOOL
};

struct stni_pointwise_rule {
    enum stni_pointwise_op op;
    stn_dtype (*result)(const void *attrs, stn_dtype promoted);  /* the output's dtype; NULL: the promoted one */
    stn_dtype (*compute)(const void *attrs, stn_dtype promoted); /* that of the arithmetic; NULL: the output's */
    uint32_t dtypes;       /* in which the arithmetic is done: bit d stands for dtype d. 0: all */
    uint8_t promotes;      /* the operands that decide the promoted dtype, as a set; 0: all */
    uint8_t booleans;      /* the operands that must be bool */
    uint8_t elements;      /* the operands that become elements of the result as they are: numbers that its dtype has */
    uint8_t divides;       /* 1: by operand 1; where that is the integer 0 the result is 0, and a value error is kept */
    uint8_t linear[STNI_POINTWISE_MASKS];
    void (*numbers)(const stn_op_call *call, struct stni_pointwise_numbers *out); /* NULL: it has none */
    stn_status (*check)(const stn_op_call *call); /* of its attributes; NULL: all are right */
    struct {
        stni_pointwise_derivative function; /* NULL: no gradient reaches this input */
        uint64_t reads;                     /* inputs and output that the function reads: STNI_READS_… */
    } derivative[STNI_POINTWISE_MAX_IN];
    enum stni_op_index backward, double_backward; /* a unary function's other ops (unary_rule.c) */
    /* Of its double backward op: x times the third derivative at v (unary_third.c). */
    stn_tensor *(*third)(stn_tensor *x, stn_tensor *v, const void *attrs);
    /* The rule that holds for these attributes, NULL: this one. Of the descriptor's rule only. */
    const struct stni_pointwise_rule *(*variant)(const void *attrs);
};

/* For result and compute: f32 for integers and bool; bool; the real dtype of a complex one; the promoted dtype
 * itself. */
stn_dtype stni_dtype_floating(const void *attrs, stn_dtype promoted);
stn_dtype stni_dtype_bool(const void *attrs, stn_dtype promoted);
stn_dtype stni_dtype_real(const void *attrs, stn_dtype promoted);
stn_dtype stni_dtype_same(const void *attrs, stn_dtype promoted);

/* The derivative of what is linear with factor 1: the cotangent itself. */
stn_tensor *stni_derivative_same(const stn_backward_call *call, stn_tensor *grad);

/* The conjugate where complex, else the tensor itself. */
stn_tensor *stni_conjugate(stn_tensor *t);

extern const stn_op_impl stni_pointwise_impl;
extern const stn_input_schema stni_unary_inputs[1];
extern const stn_input_schema stni_binary_inputs[2]; /* the second may be a number */

/* What descriptors of pointwise ops share. */
#define STNI_POINTWISE(rule) .n_outputs = 1, .impl = &stni_pointwise_impl, .arg = (void *)(rule)

#endif
