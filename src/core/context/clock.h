/* By how much the clocks of ranks on several machines differ. */
#ifndef STNI_CORE_CONTEXT_CLOCK_H
#define STNI_CORE_CONTEXT_CLOCK_H

#include "core/base/status.h"

/* A rank's clock, and the machine that it belongs to. */
struct stni_clock {
    uint64_t machine;
    int64_t (*now)(void *arg); /* nanoseconds */
    void *arg;
};

/* What to add to the times of this rank's clock to have those of rank 0's: 0 on its machine, else measured by the
 * first rank of each machine. Collective over the world. */
stn_status stni_clock_offset(stn_context *context, const struct stni_clock *clock, int64_t *offset);

#endif
