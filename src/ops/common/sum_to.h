/* The adjoint of broadcasting and of promotion, for backward functions. */
#ifndef STNI_OPS_COMMON_SUM_TO_H
#define STNI_OPS_COMMON_SUM_TO_H

#include <shardtensor/ops.h>

/* A cotangent of an input of spec `like`, from one of the shape that the input was broadcast to and of the dtype
 * that it was promoted to: summed over the dims that the input lacks or has at size 1, its real part taken where the
 * input is real, of the input's dtype. The layout is whatever comes out. `grad` itself where nothing is to do. */
stn_tensor *stni_sum_to(stn_tensor *grad, const stn_spec *like);

#endif
