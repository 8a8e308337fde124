/* Buckets: small tensors one behind the other in one buffer, so that many of them cost one all-reduce. */
#ifndef STNI_AUTOGRAD_BUCKET_H
#define STNI_AUTOGRAD_BUCKET_H

#include "core/comm/comm.h"
#include "core/tensor/tensor.h"

struct stni_bucket_item {
    stn_tensor *in;       /* borrowed */
    const stn_spec *spec; /* of the result; its chunk is that of `in` */
    stn_tensor *out;      /* the result, on the buffer: one reference, the caller's */
};

/* How many of the n items, of which all have the first one's dtype, fit into one bucket: the first one always does. */
int stni_bucket_fill(const struct stni_bucket_item *items, int n);

/* The same one by one: whether a tensor fits behind n items, and whether nothing does. */
int stni_bucket_takes(const struct stni_bucket_item *items, int n, const stn_tensor *in);
int stni_bucket_is_full(const struct stni_bucket_item *items, int n);

/* Reduces what fill said: one all-reduce. Nothing is copied out, and a tensor alone, if dense, is not copied in.
 * Collective over `comm`, whose ranks have items of the same sizes. With a `request` the results are there once that
 * was waited for. */
stn_status stni_bucket_reduce(stn_context *context, stn_comm *comm, stn_reduce_op op, int n,
                              struct stni_bucket_item *items, stn_request **request);

#endif
