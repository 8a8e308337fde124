/* What attention and its backward share. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_H
#define STNI_OPS_ATTENTION_ATTENTION_H

#include "core/shard/spec.h"
#include "ops/attention/attention_kernel.h"

enum { STNI_ATTENTION_QUERY, STNI_ATTENTION_KEY, STNI_ATTENTION_VALUE, STNI_ATTENTION_MASK };

struct stni_attention_attrs {
    double dropout_p;
    int64_t is_causal;
    double scale; /* NaN: 1 / sqrt(e) */
    int64_t enable_gqa;
    int64_t wants_mask; /* of the backward only: whether the mask's gradient is wanted too */
};

/* Checks the four inputs and the attributes; gives the result's dtype and shape. */
stn_status stni_attention_check(const stn_op_call *call, stn_meta *out);

/* Query heads to a head of keys. */
int64_t stni_attention_group(const stn_op_call *call);

/* The layout that leads in forward: that of the result (ops/placement/follow.h). Heads that share keys are kept on one
 * rank, where every rank can have some. */
stn_status stni_attention_lead(const stn_op_call *call, const stn_meta *out, struct stni_layout *leader);

/* The spec of input `k` beside a leader; `is_sum`: that of its gradient. Whole: keys and values are not cut along their
 * rows. */
stn_status stni_attention_follow(const stn_op_call *call, const struct stni_layout *leader, int k, int is_sum,
                                 const stn_spec **out);
stn_status stni_attention_follow_whole(const stn_op_call *call, const struct stni_layout *leader, int k, int is_sum,
                                       const stn_spec **out);

/* The mesh axes along which keys and values go round instead of being gathered: those that cut query rows, keys and
 * values alike, where it pays (docs/decisions.md, "Keys that go round"). 0: none. The same on every rank. */
stn_status stni_attention_ring_axes(const stn_op_call *call, const struct stni_layout *leader, uint32_t *axes);

/* Those of a placed call: which cut its keys along their rows. */
uint32_t stni_attention_placed_ring(const stn_op_call *call);

/* Whether ranks with more work than others lend query rows to these (attention_ring_balance.h). The same on every rank
 * of the ring. */
int stni_attention_ring_lends(const stn_op_call *call, const struct stni_attention_args *args);

/* What run does then. `args` are those of stni_attention_describe; of the backward with the cotangent. */
stn_status stni_attention_ring_forward(const stn_op_call *call, const struct stni_attention_args *args);
stn_status stni_attention_ring_backward(const stn_op_call *call, const stn_spec *rows,
                                        const struct stni_attention_args *args);

/* Slots of the forward op and of the backward one. */
enum { STNI_ATTENTION_KEEP_STREAM, STNI_ATTENTION_FORWARD, STNI_ATTENTION_MERGE, STNI_ATTENTION_ROUND };
enum { STNI_ATTENTION_BACKWARD, STNI_ATTENTION_ROUND_GRADIENTS };

/* The spec of the sums of exponentials. */
stn_status stni_attention_lse_spec(const stn_op_call *call, const struct stni_layout *leader, const stn_spec **out);

/* Arguments without gradients and workspace. */
void stni_attention_describe(const stn_op_call *call, const stn_tensor *out, const stn_tensor *lse,
                             const stn_tensor *stream, struct stni_attention_args *args);

/* A tensor's chunk as rows of a batch of out_ndim - 2 dims; of its dims the last ones are rows and their elements where
 * it has these. */
struct stni_attention_operand stni_attention_operand_of(const stn_tensor *t, int has_row, int has_col, int out_ndim);

/* The same of a chunk that lies elsewhere. */
struct stni_attention_operand stni_attention_operand_at(const struct stni_layout *layout, void *data,
                                                        const int64_t *strides, int has_row, int has_col, int out_ndim);

#endif
