/* Messages in the order of their peers. */
#ifndef STNI_CORE_REDISTRIBUTE_PEERS_H
#define STNI_CORE_REDISTRIBUTE_PEERS_H

#include "core/redistribute/plan.h"

/* Sorts by peer; peers are distinct. Time proportional to the messages. */
stn_status stni_peers_sort(stn_context *context, struct stni_plan_messages *messages);

#endif
