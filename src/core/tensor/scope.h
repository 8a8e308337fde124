/* Scopes inside the library. */
#ifndef STNI_CORE_TENSOR_SCOPE_H
#define STNI_CORE_TENSOR_SCOPE_H

#include "core/context/context.h"

/* A scope of the library's own inside an action: as stn_scope_begin and stn_scope_end, but the kept error stays
 * kept, also where no other scope is open. */
void stni_scope_enter(stn_context *context);
void stni_scope_leave(stn_context *context);

/* 1: what would be the tensor's last reference to go was a scope's, which a caller has released: an error is kept, and
 * the tensor stays until its scopes end. */
int stni_scope_keeps(stn_tensor *tensor);

/* Gives one reference to a spec to the innermost scope; without one it is the caller's. Returns the spec; NULL
 * without memory, and the reference is given up. */
const stn_spec *stni_scope_own_spec(stn_context *context, const stn_spec *spec);

#endif
