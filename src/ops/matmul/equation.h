/* Equations of einsum: which labels the dims of operands and of the result have. Metadata only. */
#ifndef STNI_OPS_MATMUL_EQUATION_H
#define STNI_OPS_MATMUL_EQUATION_H

#include <shardtensor/op.h>

/* Labels: 26 capitals, 26 small letters, then the dims that an ellipsis stands for, the last one last. */
enum { STNI_EINSUM_ELLIPSIS = 52, STNI_EINSUM_LABELS = STNI_EINSUM_ELLIPSIS + STN_MAX_NDIM };

struct stni_einsum_term {
    int n;
    int8_t label[STN_MAX_NDIM];
};

struct stni_equation {
    int n; /* operands */
    struct stni_einsum_term in[STN_MAX_INPUTS], out;
    int64_t size[STNI_EINSUM_LABELS]; /* 1 where no operand has more */
};

/* Reads an equation for the inputs of the call, and checks their dims. @return STN_ERR_ARGUMENT, STN_ERR_SHAPE. */
stn_status stni_equation_read(const stn_op_call *call, const char *text, struct stni_equation *out);

#endif
