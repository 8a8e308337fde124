/* Attention whose keys go round: each step attends to one chunk of them, and what it gives is joined with what the
 * steps before gave by the two logarithms of sums of exponentials. 16-bit floats are joined in f32 and rounded once. */
#include "ops/attention/attention_merge_kernel.h"
#include "ops/attention/attention_ring.h"
#include "ops/cpu/widen.h"

#include <string.h>

enum { OUT, LSE };

struct parts {
    struct stni_attention_ring ring;
    const stn_op_call *call;
    struct stni_attention_args all;               /* `out` and `lse`: of the steps so far */
    struct stni_attention_operand more, more_lse; /* of one step */
    void *workspace;
    int is_empty; /* no step has attended yet */
};

/* Memory that lies as a chunk does. */
static stn_status like(const stn_op_call *call, const stn_tensor *t, stn_dtype dtype,
                       struct stni_attention_operand *operand)
{
    return stn_op_scratch(call, (size_t)t->spec->local_numel * stn_dtype_size(dtype), &operand->data);
}

/* As much as the kernel wants for any step. */
static stn_status take_workspace(struct parts *p)
{
    size_t most = 0;
    for (int step = 0; step < p->ring.size; step++) {
        struct stni_attention_args args;
        stni_ring_describe(&p->ring, step, &p->all, &args);
        const size_t bytes = stn_op_workspace(p->call, STNI_ATTENTION_FORWARD, args.dtype, &args);
        most = bytes > most ? bytes : most;
    }
    return stn_op_scratch(p->call, most, &p->workspace);
}

static stn_status set_out(struct parts *p)
{
    const stn_tensor *out = p->call->out[OUT], *lse = p->call->out[LSE];
    const stn_dtype dtype = p->all.dtype, wide = stni_wide_dtype(dtype);
    if (wide != dtype)
        STNI_TRY(like(p->call, out, wide, &p->all.out));
    p->more = p->all.out;
    p->more_lse = p->all.lse;
    if (p->ring.size > 1) {
        STNI_TRY(like(p->call, out, wide, &p->more));
        STNI_TRY(like(p->call, lse, wide, &p->more_lse));
    }
    return take_workspace(p);
}

static stn_status merge(const struct parts *p)
{
    struct stni_attention_merge_args args = {.dtype = stni_wide_dtype(p->all.dtype),
                                             .n_batch = p->all.n_batch,
                                             .l = p->all.l,
                                             .v = p->all.v,
                                             .out = p->all.out,
                                             .lse = p->all.lse,
                                             .more = p->more,
                                             .more_lse = p->more_lse};
    memcpy(args.batch, p->all.batch, sizeof args.batch);
    return stn_op_launch(p->call, STNI_ATTENTION_MERGE, args.dtype, &args, sizeof args);
}

static stn_status launch(const struct parts *p, struct stni_attention_args *args)
{
    args->workspace = p->workspace;
    return stn_op_launch(p->call, STNI_ATTENTION_FORWARD, args->dtype, args, sizeof *args);
}

/* The first step that attends leaves what it gives where the others add to it. */
static stn_status attend(struct parts *p, int step)
{
    struct stni_attention_args args;
    if (p->call->out[LSE]->spec->local_numel == 0 ||
        !stni_ring_attends(&p->ring, p->ring.own, stni_ring_piece(&p->ring, step)))
        return STN_OK;
    stni_ring_describe(&p->ring, step, &p->all, &args);
    if (p->is_empty) {
        p->is_empty = 0;
        return launch(p, &args);
    }
    args.out = p->more;
    args.lse = p->more_lse;
    STNI_TRY(launch(p, &args));
    return merge(p);
}

static stn_status go_round(struct parts *p)
{
    for (int step = 0; step < p->ring.size; step++) {
        STNI_TRY(stni_ring_finish(&p->ring, &p->ring.fetch));
        if (step + 1 < p->ring.size)
            STNI_TRY(stni_ring_fetch_begin(&p->ring, step + 1));
        STNI_TRY(attend(p, step));
    }
    return STN_OK;
}

/* Rows for which there was no key; and the rounding. */
static stn_status close(struct parts *p)
{
    const stn_tensor *out = p->call->out[OUT];
    if (p->call->out[LSE]->spec->local_numel == 0)
        return STN_OK;
    if (p->is_empty) {
        struct stni_attention_args args;
        stni_ring_describe(&p->ring, 0, &p->all, &args);
        args.s = 0;
        STNI_TRY(launch(p, &args));
    }
    if (p->all.out.data == out->data || out->spec->local_numel == 0)
        return STN_OK;
    const struct stni_attention_round_args args = {
        .dtype = p->all.dtype, .n = out->spec->local_numel, .from = p->all.out.data, .to = out->data};
    return stn_op_launch(p->call, STNI_ATTENTION_ROUND, args.dtype, &args, sizeof args);
}

stn_status stni_attention_ring_forward(const stn_op_call *call, const struct stni_attention_args *args)
{
    struct parts p = {.call = call, .all = *args, .is_empty = 1};
    if (!call->in[STNI_ATTENTION_KEY]->spec->layout.mesh->member)
        return STN_OK;
    STNI_TRY(stni_ring_init(call, call->out[OUT]->spec, args, &p.ring));
    STNI_TRY(set_out(&p));
    const stn_status status = go_round(&p), waited = stni_ring_finish(&p.ring, &p.ring.fetch);
    STNI_TRY(status);
    STNI_TRY(waited);
    return close(&p);
}
