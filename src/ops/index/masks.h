/* Indices of the first dims of a tensor, masks among them. */
#ifndef STNI_OPS_INDEX_MASKS_H
#define STNI_OPS_INDEX_MASKS_H

#include "core/tensor/tensor.h"

#include <shardtensor/op.h>

struct stni_masks {
    int alone;   /* 1: there is one index, and it is a mask */
    int n;       /* indices of integers, one for each dim; with masks they are known when these have been looked at */
    int outside; /* 1: how many one of them names is not known here, outside its mesh, and counts as one */
    stn_tensor *indices[STN_MAX_NDIM];
};

/* Inputs from `first` on are indices of input `table`: integers, each for one dim, or masks, each for as many dims as
 * it has, whose sizes it has. Their shapes broadcast. Local. @return STN_ERR_ARGUMENT, STN_ERR_DTYPE, STN_ERR_SHAPE. */
stn_status stni_masks_check(const stn_op_call *call, int table, int first, struct stni_masks *out);

/* Each mask as integers, which name what is true in it. Collective over the mesh of a mask that is cut; the host waits
 * where there is a mask. */
stn_status stni_masks_find(const stn_op_call *call, int first, struct stni_masks *masks);

#endif
