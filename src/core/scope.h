/* Scopes inside the library. */
#ifndef STNI_CORE_SCOPE_H
#define STNI_CORE_SCOPE_H

#include "core/context.h"

/* A scope of the library's own inside an action: as stn_scope_begin and stn_scope_end, but the kept error stays kept, also where no
 * other scope is open. */
void stni_scope_enter(stn_context *context);
void stni_scope_leave(stn_context *context);

#endif
