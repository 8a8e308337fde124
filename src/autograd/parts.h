/* Cotangents of parts of a tensor, which are added up in one memory: of n parts a tensor of zeros each would have to be
 * filled, and n - 1 sums made, of the whole. */
#ifndef STNI_AUTOGRAD_PARTS_H
#define STNI_AUTOGRAD_PARTS_H

#include <shardtensor/op.h>

/* Elements start, start + step, … of a dim of a tensor, `length` of them. */
struct stni_cotangent_part {
    const stn_spec *whole; /* where a cotangent of the whole lies if this part is the first that is added */
    int dim;
    int64_t start, step, length;
};

/* For the backward of a node's only input, in place of grad_in[0], while no graph is made: the cotangent of the input
 * is `grad` in the part and zero elsewhere. */
stn_status stni_cotangent_add_part(const stn_backward_call *call, const struct stni_cotangent_part *part,
                                   stn_tensor *grad);

/* Of a sum of cotangents that others are about to read: what no part has written becomes zero, and no part is added in
 * place from then on. Accepts NULL. */
stn_status stni_cotangent_close(stn_tensor *sum);

#endif
