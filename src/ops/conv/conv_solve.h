/* From a plan to launches: what the ops share when they run. */
#ifndef STNI_OPS_CONV_CONV_SOLVE_H
#define STNI_OPS_CONV_CONV_SOLVE_H

#include "core/tensor/tensor.h"
#include "ops/conv/conv_kernel.h"
#include "ops/conv/conv_plan.h"

/* Slots of the ops. */
enum { STNI_CONV_SOLVE, STNI_CONV_ADD, STNI_CONV_NARROW };

/* Runs an op: reads two of x, y and weight, and writes the third, all in the specs that place gave. `bias` may be
 * NULL; a gradient by the input takes one only where its boundary is zero. Collective over the ranks that share the
 * source's windowed dims. */
stn_status stni_conv_solve(const stn_op_call *call, const struct stni_conv *conv, stn_tensor *x, stn_tensor *y,
                           stn_tensor *weight, stn_tensor *bias);

#endif
