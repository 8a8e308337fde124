/* Redistribution of data: plan, exchange, unpack. No autograd. */
#ifndef STNI_CORE_REDISTRIBUTE_REDISTRIBUTE_H
#define STNI_CORE_REDISTRIBUTE_REDISTRIBUTE_H

#include "core/tensor/tensor.h"

/* `tensor` in the layout `spec` (same shape and dtype, same context). Collective over the ranks of both meshes. Where nothing changes,
 * *out is `tensor` with one more reference; where only the spec's name changes, it shares memory. The result carries `tensor`'s
 * node and leaf: it is the same logical value. One reference, the caller's; not in a scope. */
stn_status stni_redistribute(stn_tensor *tensor, const stn_spec *spec, stn_tensor **out);

#endif
