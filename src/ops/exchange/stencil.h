/* One rank's share of an op whose targets are each made of a range of sources per dim: resampling, pooling, and the
 * adjoints of both.
 *
 * What the rank's own chunk gives is computed from the chunk where it lies, the rest from small buffers into which
 * neighbours' elements come (contract 19). Which parts there are is a pure function of the cuts: a sender finds by
 * it what its readers want. */
#ifndef STNI_OPS_EXCHANGE_STENCIL_H
#define STNI_OPS_EXCHANGE_STENCIL_H

#include "core/tensor/tensor.h"
#include "ops/exchange/window.h"

#include <shardtensor/op.h>

enum { STNI_STENCIL_DIMS = 3, STNI_STENCIL_SOURCES = 4 };

struct stni_stencil {
    int dims;  /* 1 to STNI_STENCIL_DIMS */
    int first; /* they are the tensors' dims first, first + 1, …; source and target are sharded there by the same axes */
    const void *arg;
    /* The sources of target t along dim `first` + d. Both ends never decrease with t; the range may be empty. */
    struct stni_range (*sources)(const void *arg, int d, int64_t t);
    const stn_spec *source, *target;
};

/* A box of targets, and the hull of their sources. */
struct stni_stencil_part {
    struct stni_range target[STNI_STENCIL_DIMS], source[STNI_STENCIL_DIMS];
};

/* Computes one part. from[i] holds the elements of source tensor i that lie in part->source. */
typedef stn_status (*stni_stencil_fn)(void *arg, const struct stni_stencil_part *part, const stn_box *from);

/* Whether any rank needs elements of another: the same on all. Metadata only. */
int stni_stencil_exchanges(const struct stni_stencil *stencil);

/* Calls `compute` for each part of this rank's targets, which do not overlap and are none where its chunk is empty.
 * Each of the source tensors lies as stencil->source does. Collective over the ranks that share the dims where
 * `exchanges`. Queued. */
stn_status stni_stencil_solve(const stn_op_call *call, const struct stni_stencil *stencil, int n_sources,
                              stn_tensor *const *sources, int exchanges, stni_stencil_fn compute, void *arg);

#endif
