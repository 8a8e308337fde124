/* Dims as callers give them: negative ones count from the end. A tensor without dims accepts 0 and -1, as if it had
 * one. */
#ifndef STNI_OPS_COMMON_DIMS_H
#define STNI_OPS_COMMON_DIMS_H

#include <shardtensor/op.h>

/* `dim` as 0 <= *out < max(ndim, 1). `name` is the attribute's, for the message. @return STN_ERR_ARGUMENT. */
stn_status stni_dim_wrap(const stn_op_call *call, const char *name, int64_t dim, int ndim, int *out);

/* The same of a dim that a check has accepted. */
static inline int stni_dim_from_front(int64_t dim, int ndim)
{
    const int n = ndim > 0 ? ndim : 1;
    return (int)(dim < 0 ? dim + n : dim);
}

/* A list of distinct dims as a mask: bit d stands for dim d. An absent or empty list means all. @return
 * STN_ERR_ARGUMENT. */
stn_status stni_dims_mask(const stn_op_call *call, const char *name, const stn_ints *dims, int ndim, uint32_t *out);

/* A list of distinct dims, counted from the front and in order. An absent or empty list means all. @return
 * STN_ERR_ARGUMENT. */
struct stni_dims_list {
    int n, dims[STN_MAX_NDIM];
};
stn_status stni_dims_list(const stn_op_call *call, const char *name, const stn_ints *dims, int ndim,
                          struct stni_dims_list *out);

/* stni_dims_mask for a list that a check has accepted. */
uint32_t stni_dims_mask_of(const stn_ints *dims, int ndim);

/* Writes a shape such as "(2, 3)" or "()", for messages. Returns `text`. */
enum { STNI_SHAPE_TEXT = 176 };
const char *stni_shape_text(int ndim, const int64_t *shape, char text[STNI_SHAPE_TEXT]);

#endif
