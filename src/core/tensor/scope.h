/* Scopes inside the library. */
#ifndef STNI_CORE_TENSOR_SCOPE_H
#define STNI_CORE_TENSOR_SCOPE_H

#include "core/context/context.h"

/* A scope of the library's own inside an action: as stn_scope_begin and stn_scope_end, but the kept error stays
 * kept, also where no other scope is open. */
void stni_scope_enter(stn_context *context);
void stni_scope_leave(stn_context *context);

/* Around each call of a function of a caller's (a hook, a handler, a function on chunks), which may begin scopes of its
 * own and end these, and no other: an end of one around it is refused, since its owner would end the next one in its
 * place. Whoever fences hands what it got to the end of the fence. Scopes that the function left open are closed
 * there, without agreement, and are STN_ERR_STATE: "OP: FUNCTION left 1 scope open …"; else the end returns STN_OK. */
static inline int stni_scope_fence(stn_context *context)
{
    const int outer = context->scopes.floor;
    context->scopes.floor = context->scopes.depth;
    return outer;
}

stn_status stni_scope_close_left_open(stn_context *context, const char *op, const char *function);

static inline stn_status stni_scope_unfence(stn_context *context, int outer, const char *op, const char *function)
{
    const stn_status status =
        context->scopes.depth > context->scopes.floor ? stni_scope_close_left_open(context, op, function) : STN_OK;
    context->scopes.floor = outer;
    return status;
}

/* 1: what would be the tensor's last reference to go was a scope's, which a caller has released: an error is kept, and
 * the tensor stays until its scopes end. */
int stni_scope_keeps(stn_tensor *tensor);

/* Gives one reference to a spec to the innermost scope; without one it is the caller's. Returns the spec; NULL
 * without memory, and the reference is given up. */
const stn_spec *stni_scope_own_spec(stn_context *context, const stn_spec *spec);

#endif
