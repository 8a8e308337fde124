/* From what arrives at a reduction over ranks to the cotangent of this rank's input. */
#include "ops/common/call.h"
#include "ops/dist/all_reduction.h"

#include <shardtensor/autograd.h>
#include <shardtensor/ops.h>

stn_status stni_all_reduction_backward(stn_backward_call *call, int64_t mesh, int64_t op,
                                   stn_tensor *(*arriving)(const stn_backward_call *call))
{
    const stn_mesh *ranks = call->context->shard.meshes[mesh];
    if (!stni_reduction_is_linear(op) && stn_grad_enabled(call->context)) /* a graph of this backward is being made */
        return stni_fail(
            call->context, STN_ERR_UNSUPPORTED,
            "stn_grad: the backward of a reduction over ranks with PROD, MIN or MAX cannot be differentiated again");
    stn_tensor *g = arriving(call);
    if (op == STN_AVG && ranks->member)
        g = stn_mul_number(g, 1.0 / ranks->size);
    if (!stni_reduction_is_linear(op)) {
        const struct stni_others_attrs others = {mesh, op};
        g = stni_call(STNI_OP_dist_others, 2, (stn_tensor *[]){g, call->in[0]}, &others);
    }
    call->grad_in[0] = g;
    return stn_context_status(call->context);
}
