/* Lists that a typed function's caller passes as a count and a pointer, read into attributes. */
#ifndef STNI_OPS_COMMON_LIST_H
#define STNI_OPS_COMMON_LIST_H

#include <shardtensor/op.h>

/* What the function calls the two in its prototype, for messages, and the least count that it takes.
 * STN_MAX_NDIM is the most. */
struct stni_list {
    const char *op, *count, *name;
    int least;
};

/* Copies `n` entries of `list` to `out`. @return 1; 0 where n is out of range or the list is NULL though n is not 0:
 * the error is kept by the context of `any`, and the function returns stni_call_error(any). */
int stni_list_read(stn_tensor *any, const struct stni_list *what, int n, const int64_t *list, stn_ints *out);

/* The same of dims. */
int stni_list_read_dims(stn_tensor *any, const struct stni_list *what, int n, const int *list, stn_ints *out);

/* The same of dims of which none stand for all: `out` is absent then. */
int stni_list_read_dims_or_all(stn_tensor *any, const struct stni_list *what, int n, const int *list, stn_ints *out);

#endif
