/* Gradients of attention whose keys go round: keys and values come again, a chunk in each step. Gradients of queries
 * are summed up here; those of a chunk go home to its owner, which adds what comes in the order of steps. Sums of
 * 16-bit floats are in f32, on the way too, and are rounded once. */
#include "core/box/box.h"
#include "core/redistribute/identity.h"
#include "ops/attention/attention_merge_kernel.h"
#include "ops/attention/attention_ring.h"
#include "ops/cpu/widen.h"

#include <string.h>

enum {
    QUERY = STNI_ATTENTION_QUERY,
    KEY = STNI_ATTENTION_KEY,
    VALUE = STNI_ATTENTION_VALUE,
    MASK = STNI_ATTENTION_MASK
};

struct parts {
    struct stni_attention_ring ring;
    const stn_op_call *call;
    struct stni_attention_args all;
    stn_dtype wide;
    struct stni_attention_sum sum[MASK + 1]; /* of all steps */
    void *query, *mask;                      /* of one step */
    void *given[2][STNI_RING_TENSORS]; /* for the owners of keys and values, by turns where they go beside the caller */
    void *taken[STNI_RING_TENSORS];    /* from other ranks */
    void *workspace;
    struct stni_ring_way way;
    int n_given; /* the step whose gradients are on their way; 0: none */
};

static stn_status fill(const struct parts *p, const struct stni_attention_sum *sum)
{
    return sum->n == 0 ? STN_OK : stni_fill_zeros(p->call->context->queue, sum->at.data, sum->n, p->wide);
}

/* A sum over steps: of 16-bit floats in memory that lies as the chunk does. */
static stn_status open_sum(const struct parts *p, int k, struct stni_attention_sum *sum)
{
    const stn_tensor *t = p->call->out[k];
    const int ndim = t->spec->layout.ndim;
    sum->at = stni_attention_operand_of(t, ndim > 1, ndim > 0, p->ring.rows->layout.ndim);
    sum->n = t->spec->local_numel;
    if (p->wide != p->all.dtype)
        STNI_TRY(stn_op_scratch(p->call, (size_t)sum->n * stn_dtype_size(p->wide), &sum->at.data));
    return fill(p, sum);
}

static stn_status close_sum(const struct parts *p, int k)
{
    const struct stni_attention_round_args args = {
        .dtype = p->all.dtype, .n = p->sum[k].n, .from = p->sum[k].at.data, .to = p->call->out[k]->data};
    if (p->wide == p->all.dtype || args.n == 0)
        return STN_OK;
    return stn_op_launch(p->call, STNI_ATTENTION_ROUND_GRADIENTS, args.dtype, &args, sizeof args);
}

/* A mask that has one number for all keys is summed over steps; of others each step has its own part. */
static int sums_mask(const struct parts *p)
{
    return p->call->n_out > MASK && p->sum[MASK].n > 0 && p->sum[MASK].at.col == 0;
}

/* Whether what comes for this rank's chunk takes the place of the chunk that the step has attended to: where it is
 * added at once. */
static int takes_in_place(const struct parts *p)
{
    return !p->ring.beside && p->wide == p->all.dtype;
}

static stn_status set_out(struct parts *p)
{
    const size_t size = stn_dtype_size(p->wide);
    for (int k = QUERY; k < p->call->n_out; k++)
        STNI_TRY(open_sum(p, k, &p->sum[k]));
    if (p->ring.size > 1)
        STNI_TRY(stn_op_scratch(p->call, (size_t)p->sum[QUERY].n * size, &p->query));
    if (sums_mask(p))
        STNI_TRY(stn_op_scratch(p->call, (size_t)p->sum[MASK].n * size, &p->mask));
    for (int which = 0; which < STNI_RING_TENSORS && p->ring.size > 1; which++) {
        STNI_TRY(stni_ring_space(&p->ring, which, p->wide, &p->given[0][which]));
        p->given[1][which] = p->given[0][which];
        if (p->ring.beside)
            STNI_TRY(stni_ring_space(&p->ring, which, p->wide, &p->given[1][which]));
        if (!takes_in_place(p))
            STNI_TRY(stni_ring_space(&p->ring, which, p->wide, &p->taken[which]));
    }
    return STN_OK;
}

/* sum += what a step gave, which lies as the sum does. */
static stn_status add_flat(const struct parts *p, const struct stni_attention_sum *sum, void *more)
{
    const stn_box to = {.data = sum->at.data, .ndim = 1, .shape = {sum->n}, .strides = {1}};
    const stn_box addends[] = {to, {.data = more, .ndim = 1, .shape = {sum->n}, .strides = {1}}};
    return sum->n == 0 ? STN_OK : stni_box_reduce(p->call->context->queue, 1, &to, 2, addends, p->wide, STN_SUM);
}

/* A step's arguments, and where its gradients go. The first one's are those of this rank's own chunk. */
static void describe(const struct parts *p, int step, struct stni_attention_args *args)
{
    stni_ring_describe(&p->ring, step, &p->all, args);
    const int piece = stni_ring_piece(&p->ring, step);
    struct stni_attention_sum *const of_piece[] = {&args->grad_key, &args->grad_value};
    args->grad_query = p->sum[QUERY];
    args->grad_key = p->sum[KEY];
    args->grad_value = p->sum[VALUE];
    args->grad_mask = p->sum[MASK];
    args->grad_mask.n = 0;
    if (p->call->n_out > MASK && p->sum[MASK].at.data != NULL)
        args->grad_mask.at.data = (char *)p->sum[MASK].at.data + stni_ring_first(&p->ring, piece) *
                                                                     p->sum[MASK].at.col *
                                                                     (int64_t)stn_dtype_size(p->wide);
    if (sums_mask(p)) {
        args->grad_mask = p->sum[MASK];
        args->grad_mask.at.data = p->mask;
    }
    if (step == 0)
        return;
    args->grad_query.at.data = p->query;
    for (int which = 0; which < STNI_RING_TENSORS; which++)
        *of_piece[which] =
            (struct stni_attention_sum){.at = stni_ring_operand(&p->ring, which, piece, p->given[step % 2][which]),
                                        .n = stni_ring_numel(&p->ring, which, piece)};
}

/* As much as the kernel wants for any step. */
static stn_status take_workspace(struct parts *p)
{
    size_t most = 0;
    for (int step = 0; step < p->ring.size; step++) {
        struct stni_attention_args args;
        describe(p, step, &args);
        const size_t bytes = stn_op_workspace(p->call, STNI_ATTENTION_BACKWARD, args.dtype, &args);
        most = bytes > most ? bytes : most;
    }
    return stn_op_scratch(p->call, most, &p->workspace);
}

static stn_status differentiate(const struct parts *p, int step)
{
    struct stni_attention_args args;
    if (!stni_ring_attends(&p->ring, p->ring.own, stni_ring_piece(&p->ring, step)))
        return STN_OK;
    describe(p, step, &args);
    args.workspace = p->workspace;
    STNI_TRY(stn_op_launch(p->call, STNI_ATTENTION_BACKWARD, args.dtype, &args, sizeof args));
    if (step > 0)
        STNI_TRY(add_flat(p, &p->sum[QUERY], p->query));
    return sums_mask(p) ? add_flat(p, &p->sum[MASK], p->mask) : STN_OK;
}

/* Adds what came for this rank's chunk in the last exchange. */
static stn_status take(struct parts *p)
{
    const int step = p->n_given;
    p->n_given = 0;
    STNI_TRY(stni_ring_finish(&p->ring, &p->way));
    if (step == 0 || !stni_ring_attends(&p->ring, stni_ring_reader(&p->ring, step), p->ring.own))
        return STN_OK;
    for (int which = 0; which < STNI_RING_TENSORS; which++) {
        stn_box to;
        stni_tensor_box(p->call->out[KEY + which], &to);
        to.data = p->sum[KEY + which].at.data;
        const stn_box addends[] = {to, stni_ring_box(&p->ring, which, p->ring.own, p->taken[which])};
        if (stni_box_numel(&to) > 0)
            STNI_TRY(stni_box_reduce(p->call->context->queue, 1, &to, 2, addends, p->wide, STN_SUM));
    }
    return STN_OK;
}

static stn_status give(struct parts *p, int step)
{
    STNI_TRY(take(p));
    p->n_given = step;
    if (takes_in_place(p))
        memcpy(p->taken, stni_ring_chunk(&p->ring, step), sizeof p->taken);
    STNI_TRY(stni_ring_return_begin(&p->ring, step, p->wide, p->given[step % 2], p->taken, &p->way));
    return p->ring.beside ? STN_OK : take(p);
}

static stn_status go_round(struct parts *p)
{
    for (int step = 0; step < p->ring.size; step++) {
        STNI_TRY(stni_ring_finish(&p->ring, &p->ring.fetch));
        if (step + 1 < p->ring.size)
            STNI_TRY(stni_ring_fetch_begin(&p->ring, step + 1));
        STNI_TRY(differentiate(p, step));
        if (step > 0)
            STNI_TRY(give(p, step));
    }
    return take(p);
}

stn_status stni_attention_ring_backward(const stn_op_call *call, const stn_spec *rows,
                                        const struct stni_attention_args *args)
{
    struct parts p = {.call = call, .all = *args, .wide = stni_wide_dtype(args->dtype)};
    if (!call->in[STNI_ATTENTION_KEY]->spec->layout.mesh->member)
        return STN_OK;
    STNI_TRY(stni_ring_init(call, rows, args, &p.ring));
    STNI_TRY(set_out(&p));
    STNI_TRY(take_workspace(&p));
    const stn_status status = go_round(&p), fetched = stni_ring_finish(&p.ring, &p.ring.fetch),
                     given = stni_ring_finish(&p.ring, &p.way);
    STNI_TRY(status);
    STNI_TRY(fetched);
    STNI_TRY(given);
    for (int k = QUERY; k < call->n_out; k++)
        STNI_TRY(close_sum(&p, k));
    return STN_OK;
}
