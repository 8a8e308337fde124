/* Redistribution of data: plan, exchange, unpack. No autograd. */
#ifndef STNI_CORE_REDISTRIBUTE_REDISTRIBUTE_H
#define STNI_CORE_REDISTRIBUTE_REDISTRIBUTE_H

#include "core/tensor/tensor.h"

struct stni_under_way;

/* `tensor` in the layout `spec` (same shape and dtype, same context). Collective over the ranks of both meshes.
 * Where nothing changes, *out is `tensor` with one more reference; where only the spec's name changes, it shares
 * memory. The result carries `tensor`'s node and leaf: it is the same logical value. One reference, the caller's;
 * not in a scope. */
stn_status stni_redistribute(stn_tensor *tensor, const stn_spec *spec, stn_tensor **out);

/* The same beside the caller: *out, a handle that nobody else has, is under way until stni_tensor_arrive, which the
 * first use calls. Its last exchange, or the reduction and the gathering, run on the communicators' side queues;
 * what has to come before is done at once. `tensor` is held, and must not be changed, until then. */
stn_status stni_redistribute_begin(stn_tensor *tensor, const stn_spec *spec, stn_tensor **out);

/* The elements of `from` to the memory of `to`: the same shape, dtype and context, nothing pending in either.
 * Collective over the ranks of both meshes. No history: whoever writes a tensor says so. */
stn_status stni_redistribute_into(const stn_tensor *from, const stn_tensor *to);

/* What the first two do: a handle that nobody else has, whose last exchanges are steps of `way` where that is not
 * NULL. */
stn_status stni_redistribute_by(stn_tensor *tensor, const stn_spec *spec, struct stni_under_way *way, stn_tensor **out);

#endif
