/* The product of two tensors with labelled dims. */
#ifndef STNI_OPS_MATMUL_CONTRACT_H
#define STNI_OPS_MATMUL_CONTRACT_H

#include <shardtensor/op.h>

/* Labels of the dims of both factors and of the result, 0 <= label < STNI_MAX_LABELS (ops/placement/bilinear.h);
 * each stands in two at least. */
struct stni_contract_attrs {
    stn_ints labels[3];
};

stn_tensor *stni_contract(stn_tensor *a, stn_tensor *b, const struct stni_contract_attrs *attrs);

#endif
