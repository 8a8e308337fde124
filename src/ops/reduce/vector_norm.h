/* Norms for other ops. */
#ifndef STNI_OPS_REDUCE_VECTOR_NORM_H
#define STNI_OPS_REDUCE_VECTOR_NORM_H

#include <shardtensor/op.h>

/* stn_vector_norm along dims counted from the front. `wide`: of 16-bit floats the norm in f32, which a sum of their
 * powers may need. */
stn_tensor *stni_vector_norm(stn_tensor *input, double ord, int n_dims, const int *dims, int keepdim, int wide);

/* Whether input 0 has a norm of this order along dims that were checked: one of infinite order is that of an element.
 * @return STN_ERR_SHAPE. */
stn_status stni_vector_norm_check(const stn_op_call *call, double ord, const stn_ints *dims);

/* That of order 2, of a floating dtype. */
stn_tensor *stni_euclidean_norm(stn_tensor *input, int n_dims, const int *dims, int keepdim, int wide);

/* The order of a norm that an op is given: `infinite` 0 is the first of stni_vector_norm_infinities, 1 the second,
 * -1 leaves it to p. */
extern const char *const stni_vector_norm_infinities[];
double stni_vector_norm_order(int64_t infinite, double p);

/* s^(1/p), with the gradient 0 where s is 0: a norm of 0 or, of negative order, of infinities alone. */
stn_tensor *stni_vector_norm_root(stn_tensor *s, double p);

#endif
