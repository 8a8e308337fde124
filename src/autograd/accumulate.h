/* Adding cotangents that arrive in different layouts. */
#ifndef STNI_AUTOGRAD_ACCUMULATE_H
#define STNI_AUTOGRAD_ACCUMULATE_H

#include "core/tensor/tensor.h"

/* The layout in which two cotangents of a tensor of spec `forward` are added, axis by axis: where the tensor is
 * Shard they become that Shard, where it is Partial they become Replicate; where it is Replicate what both share
 * stays, else both become Partial(sum). */
stn_status stni_cotangent_spec(const stn_spec *forward, const stn_spec *a, const stn_spec *b, const stn_spec **out);

/* *slot += cotangent, where an empty slot (NULL) takes the handle itself, retained. A cotangent is never written to. */
stn_status stni_cotangent_add(const stn_spec *forward, stn_tensor **slot, stn_tensor *cotangent);

#endif
