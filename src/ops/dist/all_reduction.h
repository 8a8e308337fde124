/* What dist_all_reduce and the other reductions over ranks share. */
#ifndef STNI_OPS_DIST_ALL_REDUCTION_H
#define STNI_OPS_DIST_ALL_REDUCTION_H

#include "core/tensor/tensor.h"

#include <shardtensor/op.h>

struct stni_all_reduction_attrs {
    int64_t mesh; /* its number in the context */
    int64_t op;   /* stn_reduce_op */
    int64_t convention;
};

/* Of dist_others, the derivative of a product or an extreme over the ranks of a mesh. */
struct stni_others_attrs {
    int64_t mesh, op;
};

/* The communicator of all ranks of the mesh with that number; NULL on a rank outside. */
stn_status stni_all_reduction_comm(stn_context *context, int64_t mesh, stn_comm **out);

static inline int stni_reduction_is_linear(int64_t op)
{
    return op == STN_SUM || op == STN_AVG;
}

/* The backward of every reduction by `op` over the ranks of a mesh. `arriving` gives what the ranks' cotangents come
 * to on this one, as if the op were a sum. @return STN_ERR_UNSUPPORTED, before anything is sent, where a graph of
 * the backward of a product or an extreme is wanted. */
stn_status stni_all_reduction_backward(stn_backward_call *call, int64_t mesh, int64_t op,
                                   stn_tensor *(*arriving)(const stn_backward_call *call));

#endif
