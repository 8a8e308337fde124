/* What the attributes of pools mean: of those over windows and of adaptive ones, of their adjoints and of what picks
 * by a max pool's indices. */
#ifndef STNI_OPS_POOL_POOL_H
#define STNI_OPS_POOL_POOL_H

#include "ops/resample/resample_solve.h"

#include <shardtensor/ops_pool.h>

#include <stddef.h>

enum { STNI_POOL_DIMS = STNI_RESAMPLE_DIMS };

struct stni_pool_attrs {
    stn_ints kernel_size, stride, padding, dilation; /* one number stands for all dims */
    stn_ints output_size;                            /* of adaptive ones; -1: the input's */
    stn_ints input_size;                             /* of adjoints: of the pooled dims */
    int64_t ceil_mode, count_include_pad;
    int64_t divisor_override; /* INT64_MIN: none */
    int64_t return_indices;
    int64_t dims, adaptive; /* of ops that serve all */
};

extern const struct stni_pool_attrs stni_pool_attrs_init;

/* Each op's `arg`. */
struct stni_pool_kind {
    int dims, adaptive; /* dims 0: both are in the attributes */
    int adjoint;        /* the first input has the shape of the pool's output, the result that of its input */
};
extern const struct stni_pool_kind stni_pool_windows[STNI_POOL_DIMS], stni_pool_adaptive[STNI_POOL_DIMS], stni_pool_any,
    stni_pool_adjoint;

/* A row of a pool's schema. */
#define STNI_POOL_ATTR(name, type) {#name, STN_ATTR_##type, offsetof(struct stni_pool_attrs, name), NULL}

extern const stn_attr_schema stni_pool_adjoint_schema[11];

/* An average pool is a resampling (ops/resample) of its last dims; a max pool has the same windows. */
struct stni_pooling {
    struct stni_resample geometry;
    int64_t in[STN_MAX_NDIM], out[STN_MAX_NDIM]; /* shapes */
    int ndim;
};

/* From the op's first input and attributes. Fails through the call. */
stn_status stni_pool_read(const stn_op_call *call, struct stni_pooling *out);

static inline int stni_pool_is_adjoint(const stn_op_call *call)
{
    return ((const struct stni_pool_kind *)call->arg)->adjoint;
}

/* The attributes of a call of `kind`, complete, as an op that serves all kinds takes them; input_size from the
 * layout. */
struct stni_pool_attrs stni_pool_attrs_of(const void *attrs, const struct stni_pool_kind *kind,
                                          const struct stni_layout *in);

/* What typed functions give, as attributes. NULL, or the error tensor. */
stn_tensor *stni_pool_given(const char *name, stn_tensor *input, int dims, const stn_pool_attrs *given,
                            struct stni_pool_attrs *out);
struct stni_pool_attrs stni_pool_given_size(int dims, const int64_t *output_size);

#endif
