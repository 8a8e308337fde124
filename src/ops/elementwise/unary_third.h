/* Third derivatives of unary functions, for gradients of their double backward ops: by ops, so that they have
 * derivatives of every order themselves. */
#ifndef STNI_OPS_ELEMENTWISE_UNARY_THIRD_H
#define STNI_OPS_ELEMENTWISE_UNARY_THIRD_H

#include <shardtensor/tensor.h>

/* stni_third_sin(x, v, attrs): x times the derivative of the column `second derivative` (kernels/exponential.h) with
 * respect to v. Of those rows of unary_list.h that say OPS. NULL, and the context has the failure, as ops. */
#define STNI_THIRD(name) stn_tensor *stni_third_##name(stn_tensor *x, stn_tensor *v, const void *attrs)

STNI_THIRD(log);
STNI_THIRD(log2);
STNI_THIRD(log10);
STNI_THIRD(log1p);
STNI_THIRD(sqrt);
STNI_THIRD(rsqrt);
STNI_THIRD(reciprocal);
STNI_THIRD(sinh);
STNI_THIRD(cosh);
STNI_THIRD(tanh);
STNI_THIRD(asinh);
STNI_THIRD(acosh);
STNI_THIRD(atanh);
STNI_THIRD(sigmoid);
STNI_THIRD(sin);
STNI_THIRD(cos);
STNI_THIRD(tan);
STNI_THIRD(asin);
STNI_THIRD(acos);
STNI_THIRD(atan);
STNI_THIRD(erf);
STNI_THIRD(erfc);
STNI_THIRD(gelu);
STNI_THIRD(silu);
STNI_THIRD(mish);
STNI_THIRD(softplus);
STNI_THIRD(logsigmoid);
STNI_THIRD(elu);
STNI_THIRD(celu);
STNI_THIRD(selu);
STNI_THIRD(logit);
STNI_THIRD(softsign);

#endif
