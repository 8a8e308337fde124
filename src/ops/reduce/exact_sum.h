/* Exact sums for other reductions: what stn_context_options.reproducible_sums has them add by. */
#ifndef STNI_OPS_REDUCE_EXACT_SUM_H
#define STNI_OPS_REDUCE_EXACT_SUM_H

#include "ops/reduce/exact_sum_kernel.h"

/* The sums that a reduction's arguments describe, over the ranks of the axes in call->note too, into its result; means
 * where they divide, roots where they say so. Floating and complex dtypes. */
stn_status stni_exact_sum_reduce(const stn_op_call *call, const struct stni_reduce_args *of);

/* The same of complete arguments but for the sums, which come into scratch memory. */
stn_status stni_exact_sum_run(const stn_op_call *call, struct stni_exact_sum_args *args);

/* A sum of squares over many tensors. Adds those of this rank's chunk to a sum of f64's words, which begins with zeros;
 * rounds such a sum. Both on the queue. */
stn_status stni_exact_squares_add(const stn_tensor *tensor, int64_t *sum);
stn_status stni_exact_squares_round(stn_context *context, int64_t *sum, double *out);

#endif
