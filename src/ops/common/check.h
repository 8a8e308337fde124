/* Checks that ops make of an input, and metadata that they copy from it. The messages name the input as the op's
 * schema does. */
#ifndef STNI_OPS_COMMON_CHECK_H
#define STNI_OPS_COMMON_CHECK_H

#include "core/shard/spec.h"

#include <shardtensor/op.h>

/* A floating dtype. @return STN_ERR_DTYPE. */
stn_status stni_check_floating(const stn_op_call *call, int input);

/* A dtype of a mask, of the arithmetic of all inputs: that of the first where it is the only one.
 * @return STN_ERR_DTYPE. */
stn_status stni_check_dtypes(const stn_op_call *call, stn_dtype dtype, uint32_t dtypes);

/* This dtype. `whose` says in the message whose it is, as "input's" does; NULL: nobody's. @return STN_ERR_DTYPE. */
stn_status stni_check_dtype(const stn_op_call *call, int input, stn_dtype dtype, const char *whose);

/* This shape. @return STN_ERR_SHAPE. */
stn_status stni_check_shape(const stn_op_call *call, int input, int ndim, const int64_t *shape, const char *whose);

/* A shape that broadcasts to this one. @return STN_ERR_SHAPE. */
stn_status stni_check_broadcasts(const stn_op_call *call, int input, int ndim, const int64_t *shape, const char *whose);

/* A number that becomes an element: one that the dtype has. @return STN_ERR_DTYPE. */
stn_status stni_check_number(const stn_op_call *call, const char *name, const stn_number *number, stn_dtype dtype);

/* The dtype and the shape of a layout: those of a result like it. */
stn_meta stni_meta_of(const struct stni_layout *layout);

/* The check and the place of an op whose one result has the first input's dtype, shape and layout, whatever that is. */
stn_status stni_check_same(stn_op_call *call);
stn_status stni_place_same(stn_op_call *call);

#endif
