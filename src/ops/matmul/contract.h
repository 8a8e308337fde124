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

/* The sum over rows of a[row][i] b[row][j], for tensors (d0, d1, …, i) and (d0, d1, …, j) whose rows are all places of
 * d0, d1, …: one product, whichever of these are sharded. */
stn_tensor *stni_contract_rows(stn_tensor *a, stn_tensor *b);

#endif
