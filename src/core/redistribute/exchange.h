/* One exchange of a redistribution on its communicator. */
#ifndef STNI_CORE_REDISTRIBUTE_EXCHANGE_H
#define STNI_CORE_REDISTRIBUTE_EXCHANGE_H

#include "core/redistribute/plan.h"
#include "core/tensor/under_way.h"

/* Moves the chunks of route->src, which lie in `src`, to those of route->dst in `dst`. Addends have one op. Where
 * both frames are the same memory, what a rank keeps is left where it is. Collective over the ranks of both meshes,
 * or those along route->axes; nothing is done on others. `way` NULL: the chunks are there for what is put on the
 * queue next. Else the exchange becomes its next step. */
stn_status stni_exchange_chunks(stn_context *context, const struct stni_axis_roles *route, stn_dtype dtype,
                                const struct stni_frame *src, const struct stni_frame *dst, struct stni_under_way *way);

#endif
