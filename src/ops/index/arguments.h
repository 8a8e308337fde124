/* Checks of the arguments of the ops that users call, which then call index_read and index_write. */
#ifndef STNI_OPS_INDEX_ARGUMENTS_H
#define STNI_OPS_INDEX_ARGUMENTS_H

#include "ops/index/access.h"

/* The inputs of such an op: a tensor, an index, and perhaps values. */
enum { STNI_INDEXED, STNI_INDEX, STNI_SOURCE };

/* A dim of the input as an access wants it, which calls itself by the op's name. Without dims a tensor counts as one
 * element along dim 0. */
stn_status stni_index_begin(const stn_op_call *call, int64_t dim, struct stni_access_attrs *out);

/* An attribute that may be absent, and where it is not is whole: 2.0 is 2. */
stn_status stni_index_whole(const stn_op_call *call, const char *name, const stn_number *number, int64_t *out);

/* i64 or i32. */
stn_status stni_index_dtype(const stn_op_call *call, int input);

/* The values' dtype is the input's. */
stn_status stni_index_same_dtype(const stn_op_call *call);

/* An index with as many dims as the input, none of them longer but for `dim`. */
stn_status stni_index_fits(const stn_op_call *call, int dim);

/* An index of one dim, or of none. */
stn_status stni_index_is_line(const stn_op_call *call);

/* The whole number of a tensor of one element, on every rank of its mesh; outside *out stays. The host waits. */
stn_status stni_index_read_number(stn_tensor *tensor, int64_t *out);

/* `tensor` with at least one dim. */
stn_tensor *stni_index_with_dims(stn_tensor *tensor);

/* `tensor` of one element, or of the same number as `like`, in `like`'s shape. */
stn_tensor *stni_index_as(stn_tensor *tensor, stn_tensor *like);

#endif
