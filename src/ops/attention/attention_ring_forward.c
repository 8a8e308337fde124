/* Attention whose keys go round: each step attends to one chunk of them, and what it gives is joined with what the
 * steps before gave by the two logarithms of sums of exponentials; what others make of rows that are lent, too. 16-bit
 * floats are joined in f32 and rounded once. */
#include "ops/attention/attention_merge_kernel.h"
#include "ops/attention/attention_ring.h"
#include "ops/cpu/widen.h"

#include <string.h>

enum { OUT, LSE };
enum { FETCHED = STNI_RING_KEYS | 1 << STNI_RING_QUERY, RETURNED = 1 << STNI_RING_OUT | 1 << STNI_RING_LSE };

struct parts {
    struct stni_attention_ring ring;
    const stn_op_call *call;
    stn_dtype wide;
    struct stni_attention_args all;               /* `out` and `lse`: of the steps so far */
    struct stni_attention_operand more, more_lse; /* of one step */
    void *given[2], *taken; /* of rows that are borrowed, in odd and in even steps, and of those that are lent */
    void *workspace;
    struct stni_ring_way way;
    int n_given; /* the step whose results are on their way; 0: none */
};

/* Memory that lies as a chunk does. */
static stn_status like(const stn_op_call *call, const stn_tensor *t, stn_dtype dtype,
                       struct stni_attention_operand *operand)
{
    return stn_op_scratch(call, (size_t)t->spec->local_numel * stn_dtype_size(dtype), &operand->data);
}

/* Of this rank's rows. The first step leaves what it gives where the others add to it. */
static void describe_own(const struct parts *p, int step, struct stni_attention_args *args)
{
    stni_ring_describe_own(&p->ring, step, &p->all, args);
    if (step == 0)
        return;
    args->out = p->more;
    args->lse = p->more_lse;
}

static void describe_borrowed(const struct parts *p, int step, struct stni_attention_args *args)
{
    const int64_t borrowed = p->ring.step[step].borrowed;
    void *of[STNI_RING_TENSORS];
    stni_ring_describe_borrowed(&p->ring, step, &p->all, args);
    stni_ring_lay_out(&p->ring, RETURNED, STNI_RING_THEIRS, step, p->wide, p->given[step % 2], of);
    args->out = stni_ring_operand(&p->ring, STNI_RING_OUT, borrowed, of[STNI_RING_OUT]);
    args->lse = stni_ring_operand(&p->ring, STNI_RING_LSE, borrowed, of[STNI_RING_LSE]);
}

static size_t workspace_of(const struct parts *p, const struct stni_attention_args *args)
{
    return stn_op_workspace(p->call, STNI_ATTENTION_FORWARD, args->dtype, args);
}

/* As much as the kernel wants for any step, which follows from where its operands lie, too. */
static stn_status take_workspace(struct parts *p)
{
    size_t most = 0;
    for (int step = 0; step < p->ring.size; step++) {
        struct stni_attention_args own, borrowed;
        describe_own(p, step, &own);
        describe_borrowed(p, step, &borrowed);
        const size_t bytes = workspace_of(p, &own), more = workspace_of(p, &borrowed);
        most = bytes > most ? bytes : most;
        most = more > most ? more : most;
    }
    return stn_op_scratch(p->call, most, &p->workspace);
}

static stn_status set_space(struct parts *p)
{
    const size_t given = stni_ring_most(&p->ring, RETURNED, STNI_RING_THEIRS, p->wide),
                 taken = stni_ring_most(&p->ring, RETURNED, STNI_RING_OWN, p->wide);
    STNI_TRY(stn_op_scratch(p->call, given, &p->given[0]));
    p->given[1] = p->given[0];
    if (p->ring.beside)
        STNI_TRY(stn_op_scratch(p->call, given, &p->given[1]));
    return stn_op_scratch(p->call, taken, &p->taken);
}

static stn_status set_out(struct parts *p)
{
    const stn_tensor *out = p->call->out[OUT], *lse = p->call->out[LSE];
    if (p->wide != p->all.dtype)
        STNI_TRY(like(p->call, out, p->wide, &p->all.out));
    p->more = p->all.out;
    p->more_lse = p->all.lse;
    if (p->ring.size > 1) {
        STNI_TRY(like(p->call, out, p->wide, &p->more));
        STNI_TRY(like(p->call, lse, p->wide, &p->more_lse));
        STNI_TRY(set_space(p));
    }
    return take_workspace(p);
}

/* Joins what there is of `n` rows, from `first` on, with more. */
static stn_status merge(const struct parts *p, int64_t first, int64_t n, const struct stni_attention_operand *more,
                        const struct stni_attention_operand *more_lse)
{
    struct stni_attention_merge_args args = {.dtype = p->wide,
                                             .n_batch = p->all.n_batch,
                                             .l = n,
                                             .v = p->all.v,
                                             .out = stni_ring_behind(&p->all.out, first, p->wide),
                                             .lse = stni_ring_behind(&p->all.lse, first, p->wide),
                                             .more = *more,
                                             .more_lse = *more_lse};
    memcpy(args.batch, p->all.batch, sizeof args.batch);
    return stn_op_launch(p->call, STNI_ATTENTION_MERGE, args.dtype, &args, sizeof args);
}

static stn_status launch(const struct parts *p, struct stni_attention_args *args)
{
    args->workspace = p->workspace;
    return stn_op_launch(p->call, STNI_ATTENTION_FORWARD, args->dtype, args, sizeof *args);
}

/* Joins what came of rows that were lent in the last exchange. */
static stn_status take(struct parts *p)
{
    void *of[STNI_RING_TENSORS];
    const int step = p->n_given;
    const int64_t lent = p->ring.step[step].lent;
    p->n_given = 0;
    STNI_TRY(stni_ring_finish(&p->ring, &p->way));
    if (lent == 0)
        return STN_OK;
    stni_ring_lay_out(&p->ring, RETURNED, STNI_RING_OWN, step, p->wide, p->taken, of);
    const struct stni_attention_operand more = stni_ring_operand(&p->ring, STNI_RING_OUT, lent, of[STNI_RING_OUT]),
                                        lse = stni_ring_operand(&p->ring, STNI_RING_LSE, lent, of[STNI_RING_LSE]);
    return merge(p, 0, lent, &more, &lse);
}

/* Nothing where its keys are none. What is on its way from the step before is joined first, whether exchanges go beside
 * or not: the same bits. */
static stn_status attend(struct parts *p, int step)
{
    struct stni_attention_args args;
    const int64_t lent = p->ring.step[step].lent;
    if (p->call->out[LSE]->spec->local_numel == 0 || (step > 0 && !p->ring.step[step].reads))
        return STN_OK;
    describe_own(p, step, &args);
    STNI_TRY(launch(p, &args));
    if (step == 0)
        return STN_OK;
    STNI_TRY(take(p));
    return merge(p, lent, args.l, &p->more, &p->more_lse);
}

static stn_status attend_for_reader(struct parts *p, int step)
{
    struct stni_attention_args args;
    if (p->ring.step[step].borrowed == 0)
        return STN_OK;
    describe_borrowed(p, step, &args);
    return launch(p, &args);
}

static stn_status give(struct parts *p, int step)
{
    if (!p->ring.step[step].moves)
        return STN_OK;
    STNI_TRY(take(p));
    p->n_given = step;
    STNI_TRY(stni_ring_return_begin(&p->ring, RETURNED, step, p->wide, p->given[step % 2], p->taken, &p->way));
    return p->ring.beside ? STN_OK : take(p);
}

static stn_status go_round(struct parts *p)
{
    for (int step = 0; step < p->ring.size; step++) {
        STNI_TRY(stni_ring_finish(&p->ring, &p->ring.fetch));
        if (p->ring.beside)
            STNI_TRY(stni_ring_fetch_begin(&p->ring, step + 1));
        STNI_TRY(attend(p, step));
        STNI_TRY(attend_for_reader(p, step));
        if (!p->ring.beside)
            STNI_TRY(stni_ring_fetch_begin(&p->ring, step + 1));
        STNI_TRY(give(p, step));
    }
    return take(p);
}

static stn_status round_out(const struct parts *p)
{
    const stn_tensor *out = p->call->out[OUT];
    if (p->all.out.data == out->data || out->spec->local_numel == 0)
        return STN_OK;
    const struct stni_attention_round_args args = {
        .dtype = p->all.dtype, .n = out->spec->local_numel, .from = p->all.out.data, .to = out->data};
    return stn_op_launch(p->call, STNI_ATTENTION_ROUND, args.dtype, &args, sizeof args);
}

static stn_status run(struct parts *p)
{
    STNI_TRY(set_out(p));
    const stn_status status = go_round(p), fetched = stni_ring_finish(&p->ring, &p->ring.fetch),
                     given = stni_ring_finish(&p->ring, &p->way);
    STNI_TRY(status);
    STNI_TRY(fetched);
    STNI_TRY(given);
    return round_out(p);
}

stn_status stni_attention_ring_forward(const stn_op_call *call, const struct stni_attention_args *args)
{
    const stn_tensor *const tensor[STNI_RING_TENSORS] = {[STNI_RING_KEY] = call->in[STNI_ATTENTION_KEY],
                                                         [STNI_RING_VALUE] = call->in[STNI_ATTENTION_VALUE],
                                                         [STNI_RING_QUERY] = call->in[STNI_ATTENTION_QUERY],
                                                         [STNI_RING_OUT] = call->out[OUT],
                                                         [STNI_RING_LSE] = call->out[LSE]};
    struct parts p = {.call = call, .all = *args, .wide = stni_wide_dtype(args->dtype)};
    if (!call->in[STNI_ATTENTION_KEY]->spec->layout.mesh->member)
        return STN_OK;
    stn_status status = stni_ring_init(call, call->out[OUT]->spec, args, tensor, FETCHED, &p.ring);
    if (status == STN_OK)
        status = run(&p);
    stni_ring_fini(&p.ring);
    return status;
}
