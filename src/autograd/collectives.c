/* Per-rank semantics: which collectives a backward runs (contract 12).
 *
 * The backward of a collective communicates, so it runs on every rank or on none. A collective that is reachable from any rank's loss sends
 * cotangents to all ranks, which makes what precedes it there reachable too: so ranks exchange what they reach until nothing new is added. */
#include "autograd/pass.h"
#include "core/base/host_alloc.h"

static stn_status all_max(stn_context *context, int64_t *flags, int64_t n)
{
    return stni_comm_agree(context->comm, context->queue, flags, n, STN_MAX);
}

static stn_status same_number(stn_context *context, int n)
{
    int64_t pair[2] = {n, -(int64_t)n};
    STNI_TRY(all_max(context, pair, 2));
    if (pair[0] == -pair[1])
        return STN_OK;
    return stni_fail(context, STN_ERR_MISMATCH, "stn_backward: this rank recorded %d collectives, others from %lld to %lld", n,
                     (long long)-pair[1], (long long)pair[0]);
}

/* Marks collectives as reached that other ranks reach; *new tells whether there were any. */
static stn_status reach_flagged(struct stni_pass *pass, const int64_t *flags, int *new)
{
    const struct stni_tape *tape = pass->context->tape;
    *new = 0;
    for (int v = 0; v < tape->n_collectives; v++)
        if (flags[v] && tape->collectives[v]->mark != pass->mark) {
            *new = 1;
            STNI_TRY(stni_pass_reach(pass, (struct stni_edge){tape->collectives[v], NULL, 0}));
        }
    return STN_OK;
}

static stn_status reach_until_closed(struct stni_pass *pass, int64_t *flags)
{
    stn_context *context = pass->context;
    const struct stni_tape *tape = context->tape;
    int64_t any = 1;
    while (any) {
        int new;
        for (int v = 0; v < tape->n_collectives; v++)
            flags[v] = tape->collectives[v]->mark == pass->mark;
        STNI_TRY(all_max(context, flags, tape->n_collectives));
        STNI_TRY(reach_flagged(pass, flags, &new));
        any = new;
        STNI_TRY(all_max(context, &any, 1));
    }
    return STN_OK;
}

stn_status stni_pass_reach_collectives(struct stni_pass *pass)
{
    stn_context *context = pass->context;
    int n = context->tape->n_collectives;
    if (n == 0)
        return STN_OK;
    STNI_TRY(same_number(context, n));
    int64_t *flags = stni_malloc((size_t)n * sizeof *flags);
    if (!flags)
        return stni_fail_rank(context, STN_ERR_MEMORY, "stn_backward: no memory for %d collectives", n);
    stn_status status = reach_until_closed(pass, flags);
    stni_free(flags);
    return status;
}
