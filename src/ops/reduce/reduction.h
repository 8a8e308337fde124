/* Reductions as rows. What joins elements stands in reduce_kernel.h; here is what else there is to say of one, and
 * the functions of a descriptor that do the rest for every row: dims, placement, launch, and the way back. */
#ifndef STNI_OPS_REDUCE_REDUCTION_H
#define STNI_OPS_REDUCE_REDUCTION_H

#include "core/shard/spec.h"
#include "ops/reduce/reduce_kernel.h"
#include "ops/table.h"

#include <stddef.h>

struct stni_reduction_attrs {
    stn_ints dim; /* absent or empty: all */
    int64_t keepdim;
};

struct stni_reduction_rule {
    enum stni_reduction op;
    uint32_t dtypes;      /* of the input: bit d stands for dtype d. 0: all */
    const char *wanted;   /* in words, for the others */
    stn_dtype (*result)(stn_dtype in); /* NULL: the input's */
    stn_reduce_op pending; /* of what a Shard of a reduced dim, and a Partial of the same, becomes Partial */
    int counts;            /* 1: the result is no linear function, so that nothing pending stays so */
    int needs_elements;    /* 1: nothing to reduce is an error */
    int divides;           /* 1: by the number of elements, at the end. Each rank divides its part by the whole number */
    /* The input's cotangent from the result's; NULL: none. `reads`: what of input (bit 0) and output (bit 32) it
     * reads. */
    stn_tensor *(*derivative)(const stn_backward_call *call, stn_tensor *grad, uint32_t reduced);
    uint64_t reads;
};

/* What typed functions call. */
stn_tensor *stni_reduction_call(enum stni_op_index op, const char *name, stn_tensor *input, int n_dims, const int *dims,
                                int keepdim);

/* Output dim of each input dim for a mask of reduced ones, -1 where it is reduced away; returns how many there are. */
int stni_reduction_dims(int ndim, uint32_t reduced, int64_t keepdim, int to[STN_MAX_NDIM]);

/* The result's layout for an input of layout `in`, which becomes what is wanted of it: a Shard of a reduced dim
 * becomes Partial(pending), the other Shards stay; Partial stays on the axes in `kept` (bits). */
void stni_reduction_layout(struct stni_layout *in, uint32_t reduced, const int to[STN_MAX_NDIM], stn_reduce_op pending,
                           uint32_t kept, const stn_meta *meta, struct stni_layout *out);

/* The kernel's arguments for the call's input and output. */
void stni_reduction_args_make(const stn_op_call *call, const struct stni_reduction_attrs *attrs, enum stni_reduction op,
                              struct stni_reduce_args *args);

/* Launches the kernel of a slot with the workspace that it wants. */
stn_status stni_reduction_launch(const stn_op_call *call, int slot, struct stni_reduce_args *args);

/* Elements, of all ranks, that go into one result. */
int64_t stni_reduction_count(const stn_spec *input, uint32_t reduced);

/* A tensor of the result's shape as one that repeats along the reduced dims: what cotangents and results need to
 * meet the input, in its layout. */
stn_tensor *stni_reduction_expand(stn_tensor *result, const stn_spec *input, uint32_t reduced, int64_t keepdim);

/* `tensor`, which has as many dims as `like`, repeated along those that it has at size 1: a view, differentiable.
 * Where an axis shards such a dim of `like` and the tensor is whole along it, so it does of the result. */
stn_tensor *stni_expand_as(stn_tensor *tensor, const stn_spec *like);

stn_status stni_reduction_check(stn_op_call *call);

/* Where run joins what ranks found, so that nothing is left pending. The note: the axes whose ranks share results. */
stn_status stni_reduction_place_joined(stn_op_call *call);

extern const stn_input_schema stni_reduction_inputs[1];
extern const stn_attr_schema stni_reduction_attrs_schema[2];
extern const struct stni_reduction_attrs stni_reduction_defaults;
extern const stn_op_impl stni_reduction_impl;

/* What descriptors of reductions share but for the attributes' rows. */
#define STNI_REDUCTION(rule)                                                                                          \
    STN_INPUTS(stni_reduction_inputs), .attrs_init = &stni_reduction_defaults, .n_outputs = 1, .impl = &stni_reduction_impl, \
        .arg = (void *)(rule)

#endif
