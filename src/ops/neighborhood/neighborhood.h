/* What neighborhood attention and its backward share. */
#ifndef STNI_OPS_NEIGHBORHOOD_NEIGHBORHOOD_H
#define STNI_OPS_NEIGHBORHOOD_NEIGHBORHOOD_H

#include "core/shard/spec.h"
#include "ops/exchange/stencil.h"
#include "ops/neighborhood/neighborhood_kernel.h"

enum { STNI_NEIGHBORHOOD_QUERY, STNI_NEIGHBORHOOD_KEY, STNI_NEIGHBORHOOD_VALUE };

/* The dims of space stand behind the batch. */
enum { STNI_NEIGHBORHOOD_FIRST = 1 };

struct stni_neighborhood_attrs {
    stn_ints kernel_size, dilation, is_causal; /* one number stands for all dims */
    int64_t all_causal;                        /* of all dims, where there is no list of them */
    double scale;                              /* NaN: 1 / sqrt(e) */
};

extern const struct stni_neighborhood_attrs stni_neighborhood_attrs_init;
extern const stn_attr_schema stni_neighborhood_schema[5];

/* A call with its numbers resolved. */
struct stni_neighborhood {
    int dims;
    struct stni_neighborhood_dim dim[STNI_NEIGHBORHOOD_DIMS];
    int64_t group; /* query heads to a head of keys */
    double scale;
};

/* Checks the first three inputs and the attributes. Fails through the call. */
stn_status stni_neighborhood_read(const stn_op_call *call, struct stni_neighborhood *out);

/* The metadata of the result, and of the logarithms of sums. */
stn_meta stni_neighborhood_result(const stn_op_call *call);
stn_meta stni_neighborhood_lse(const stn_op_call *call);

/* The layout that leads in forward: that of the result (ops/placement/follow.h). */
stn_status stni_neighborhood_lead(const stn_op_call *call, const struct stni_neighborhood *n,
                                  struct stni_layout *leader);

/* The spec of input `k` beside a leader; `is_sum`: that of its gradient. Keys and values keep the cuts that keys have
 * of their own where the leader's axes made them: what a query needs comes by a halo. */
stn_status stni_neighborhood_follow(const stn_op_call *call, const struct stni_neighborhood *n,
                                    const struct stni_layout *leader, int k, int is_sum, const stn_spec **out);

/* The spec of a number for each query and head. */
stn_status stni_neighborhood_lse_spec(const stn_op_call *call, const struct stni_layout *leader, const stn_spec **out);

/* What queries (`of_keys`: keys) of `target` need of `source`. */
struct stni_stencil stni_neighborhood_stencil(const struct stni_neighborhood *n, int of_keys, const stn_spec *source,
                                              const stn_spec *target);

/* Arguments of a kernel but its operands. */
struct stni_neighborhood_args stni_neighborhood_describe(const stn_op_call *call, const struct stni_neighborhood *n,
                                                         const struct stni_stencil_part *part);

/* A tensor's chunk from the first target of a part on, and a box of a part's sources. */
struct stni_neighborhood_operand stni_neighborhood_target(const struct stni_neighborhood *n, const stn_tensor *t,
                                                          const struct stni_stencil_part *part);
struct stni_neighborhood_operand stni_neighborhood_source(const struct stni_neighborhood *n, const stn_box *box);

#endif
