/* Placement of ops that are linear in each of two operands: products and convolutions (contracts 2 and 4). Metadata
 * only.
 *
 * Every dim of the operands and of the result carries a label, as in Einstein's notation; a label that the result
 * lacks is summed over. One mesh axis cuts one label: in every operand that has it, which leaves the result sharded
 * along it or, where the label is summed over, Partial(sum). An operand without the label is Replicate on that axis. */
#ifndef STNI_OPS_PLACEMENT_BILINEAR_H
#define STNI_OPS_PLACEMENT_BILINEAR_H

#include <shardtensor/op.h>

enum { STNI_MAX_LABELS = 16, STNI_NO_LABEL = -1 };

struct stni_labels {
    int8_t of[STN_MAX_NDIM];     /* 0 <= label < STNI_MAX_LABELS; STNI_NO_LABEL: a dim that cannot stay sharded */
    const uint8_t *memory_order; /* NULL: an operand keeps its own, the result is row-major */
};

struct stni_bilinear {
    struct stni_labels in[2], out;
    const struct stni_labels *added; /* of input 2, which is added to the result if it is there; NULL: no such input */
    /* Parts that a label's dims consist of and that no cut divides (groups of channels): their sizes are multiples
     * of it. 0: any cut. */
    int64_t parts[STNI_MAX_LABELS];
    uint32_t leading; /* bit l: label l is sharded as operand 0 is, even where operand 1 is larger */
};

/* Fills want and out_spec[0], whose shape and dtype are those of out_meta[0].
 *
 * Per mesh axis: what only one operand has there (a sharded label, or Partial(sum)) is kept, and the other operand
 * is redistributed to match; where the two differ the larger operand's is kept. The cut of a label is that of the
 * largest operand which has it sharded by the same axes; dims of other sizes are sharded in proportion
 * (stni_split_scaled); else balanced, in mesh order. What is added goes to the result's placement, which for a
 * Partial(sum) moves nothing. */
stn_status stni_bilinear_place(stn_op_call *call, const struct stni_bilinear *rule);

#endif
