/* Clocks of several machines. One rank of each asks rank 0 for its time, several times: the answer was given
 * somewhere between question and arrival, so the shortest round trip tells most. Everything goes by broadcasts of
 * host memory, which every communicator has. */
#include "core/context/clock.h"

#include "core/base/fnv.h"
#include "core/context/context.h"
#include "core/device/trace.h"

#include <shardtensor/trace.h>

#include <stdio.h>
#include <string.h>

enum { ROUND_TRIPS = 8 };

static stn_status tell(stn_context *context, int64_t *word, int from)
{
    return stni_comm_agree_broadcast(context->comm, context->queue, word, sizeof *word, from);
}

/* Rank 0's time less that of `asker`, who gets it. */
static stn_status ask(stn_context *context, const struct stni_clock *clock, int asker, int64_t *offset)
{
    int64_t shortest = INT64_MAX;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        int64_t question = i;
        const int64_t asked = clock->now(clock->arg);
        STNI_TRY(tell(context, &question, asker));
        int64_t answer = clock->now(clock->arg);
        STNI_TRY(tell(context, &answer, 0));
        const int64_t arrived = clock->now(clock->arg), trip = arrived - asked;
        if (context->rank == asker && trip < shortest) {
            shortest = trip;
            *offset = answer - (asked + trip / 2);
        }
    }
    return STN_OK;
}

/* The lowest rank that does not know its offset yet measures that of its machine. `*known` is set on the ranks of
 * it. */
static stn_status align_machine(stn_context *context, const struct stni_clock *clock, int asker, int *known,
                                int64_t *offset)
{
    int64_t machine = (int64_t)clock->machine, found = 0;
    STNI_TRY(tell(context, &machine, asker));
    if (asker != 0)
        STNI_TRY(ask(context, clock, asker, &found));
    STNI_TRY(tell(context, &found, asker));
    if ((uint64_t)machine == clock->machine) {
        *known = 1;
        *offset = found;
    }
    return STN_OK;
}

stn_status stni_clock_offset(stn_context *context, const struct stni_clock *clock, int64_t *offset)
{
    int known = 0;
    *offset = 0;
    for (;;) {
        int64_t asker = known ? INT64_MAX : context->rank;
        STNI_TRY(stni_agree_least(context, &asker, 1));
        if (asker == INT64_MAX)
            return STN_OK;
        STNI_TRY(align_machine(context, clock, (int)asker, &known, offset));
    }
}

static int64_t monotonic(void *arg)
{
    (void)arg;
    return stni_trace_now();
}

/* The id of the machine's run, since whose start its clock counts; where it cannot be read each rank is a machine of
 * its own. */
static uint64_t this_machine(const stn_context *context)
{
    char id[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file) {
        if (!fgets(id, sizeof id, file))
            id[0] = '\0';
        fclose(file);
    }
    return id[0] ? stni_fnv(STNI_FNV_EMPTY, id, strlen(id)) : (uint64_t)context->rank;
}

stn_status stn_trace_align_clocks(stn_context *context)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_context_failed(context));
    if (context->size == 1)
        return STN_OK;
    const struct stni_clock clock = {.machine = this_machine(context), .now = monotonic};
    const stn_status status = stni_clock_offset(context, &clock, &context->clock_offset);
    if (context->trace)
        stni_trace_set_clock_offset(context->trace, context->clock_offset);
    return status == STN_OK || context->error.status != STN_OK ? status
        : stni_fail_rank(context, status, "trace_align_clocks: %s", stni_context_failure_text(context, status));
}
