/* The states before a rank's elements; included after each scan_state_tmpl.h. */
#ifndef STATE /* read alone */
#include "ops/scan/scan_block.h"
#include "ops/scan/scan_real.h"
#endif

static void STATE(prefix)(const struct stni_scan_prefix_args *a)
{
    struct STATE(state) *states = a->states;
    for (int64_t i = 0; i < a->count; i++)
        states[i] = STATE(none)(a->op);
    for (int k = a->begin; k < a->end; k++) {
        const int piece = a->reverse ? a->begin + a->end - 1 - k : k;
        const struct STATE(state) *part =
            (const struct STATE(state) *)a->parts + stni_scan_rank_of(a, piece) * a->count;
        for (int64_t i = 0; i < a->count; i++)
            states[i] = STATE(join)(a->op, states[i], part[i]);
    }
}
