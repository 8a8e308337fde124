/* What typed functions share: from handles and an attribute struct to a dispatched op with one output. */
#ifndef STNI_OPS_COMMON_CALL_H
#define STNI_OPS_COMMON_CALL_H

#include "ops/table.h"

/* Calls built-in op `index` on `n_in` inputs, in the schema's order; absent ones are NULL. `attrs` NULL: the op's
 * defaults. Returns out[0], or the context's error tensor; NULL where no input has a context. */
stn_tensor *stni_call(enum stni_op_index index, int n_in, stn_tensor *const *in, const void *attrs);

/* Keeps an error on behalf of a typed function that found an argument bad, and returns the error tensor of `any`'s
 * context (NULL where `any` is NULL). */
stn_tensor *stni_call_fail(stn_tensor *any, stn_status status, const char *format, ...) STN_PRINTF(3, 4);

/* What a typed function returns once an error is kept: the error tensor of `any`'s context; NULL where there is none
 * to keep it in. */
stn_tensor *stni_call_error(stn_tensor *any);

/* The tensor without what is pending, for an op made of others of which several would each reduce it. The error tensor
 * stays one, NULL stays NULL. */
stn_tensor *stni_call_complete(stn_tensor *tensor);

#endif
