/* What the ops of dist_all_reduce share. */
#ifndef STNI_OPS_DIST_ALL_REDUCE_H
#define STNI_OPS_DIST_ALL_REDUCE_H

#include "core/tensor/tensor.h"

#include <shardtensor/op.h>

struct stni_all_reduce_attrs {
    int64_t mesh; /* its number in the context */
    int64_t op;   /* stn_reduce_op */
    int64_t convention;
};

/* The mesh that the attributes name; NULL if there is none. */
const stn_mesh *stni_all_reduce_mesh(const stn_context *context, const struct stni_all_reduce_attrs *attrs);

/* The communicator of all its ranks; NULL on a rank outside. */
stn_status stni_all_reduce_comm(stn_context *context, const struct stni_all_reduce_attrs *attrs, stn_comm **out);

/* The whole mesh's axes as a mask. */
static inline uint32_t stni_all_axes(const stn_mesh *mesh)
{
    return (1u << mesh->ndim) - 1;
}

#endif
