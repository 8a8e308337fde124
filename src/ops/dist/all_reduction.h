/* What the parts of dist_all_reduce share. */
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

#endif
