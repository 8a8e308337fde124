/* Gradients of attention whose keys go round: keys and values come again, a chunk in each step, or what belongs to
 * rows that are borrowed. Gradients of this rank's tensors are summed up here; those of what came go home to its owner,
 * which adds them in the order of steps. Sums of 16-bit floats are in f32, on the way too, and are rounded once. */
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
enum { GRAD = MASK + 1, OUT, LSE };
enum { FETCHED = (1 << STNI_RING_TENSORS) - 1, RETURNED = STNI_RING_KEYS | 1 << STNI_RING_QUERY };

struct parts {
    struct stni_attention_ring ring;
    const stn_op_call *call;
    struct stni_attention_args all;
    stn_dtype wide;
    struct stni_attention_sum sum[MASK + 1]; /* of all steps */
    void *given[2];                          /* gradients of what came, in odd and in even steps */
    void *taken;                             /* from other ranks; where nothing goes beside the caller, `own` */
    void *own, *mask;                        /* of one step, before they are added */
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

/* Bytes of one of this rank's sums, so that another may lie behind it. */
static size_t bytes_of(const struct parts *p, int k)
{
    return stni_attention_space(p->sum[k].n, stn_dtype_size(p->wide));
}

static int borrows(const struct parts *p)
{
    for (int step = 1; step < p->ring.size; step++)
        if (p->ring.step[step].borrowed > 0)
            return 1;
    return 0;
}

/* For a step's gradients of own rows, or of own keys and values, and then for what others have for both. */
static stn_status set_own(struct parts *p)
{
    const size_t taken = stni_ring_most(&p->ring, RETURNED, STNI_RING_OWN, p->wide),
                 keys = borrows(p) ? bytes_of(p, KEY) + bytes_of(p, VALUE) : 0;
    size_t most = bytes_of(p, QUERY);
    most = most < keys ? keys : most;
    if (p->ring.beside)
        STNI_TRY(stn_op_scratch(p->call, taken, &p->taken));
    else if (most < taken)
        most = taken;
    STNI_TRY(stn_op_scratch(p->call, most, &p->own));
    if (!p->ring.beside)
        p->taken = p->own;
    return STN_OK;
}

static stn_status set_out(struct parts *p)
{
    const size_t given = stni_ring_most(&p->ring, RETURNED, STNI_RING_THEIRS, p->wide);
    for (int k = QUERY; k < p->call->n_out; k++)
        STNI_TRY(open_sum(p, k, &p->sum[k]));
    if (sums_mask(p))
        STNI_TRY(stn_op_scratch(p->call, (size_t)p->sum[MASK].n * stn_dtype_size(p->wide), &p->mask));
    if (p->ring.size == 1)
        return STN_OK;
    STNI_TRY(stn_op_scratch(p->call, given, &p->given[0]));
    p->given[1] = p->given[0];
    if (p->ring.beside)
        STNI_TRY(stn_op_scratch(p->call, given, &p->given[1]));
    return set_own(p);
}

/* sum += what a step gave, which lies as the sum does. */
static stn_status add_flat(const struct parts *p, const struct stni_attention_sum *sum, void *more)
{
    const stn_box to = {.data = sum->at.data, .ndim = 1, .shape = {sum->n}, .strides = {1}};
    const stn_box addends[] = {to, {.data = more, .ndim = 1, .shape = {sum->n}, .strides = {1}}};
    return sum->n == 0 ? STN_OK : stni_box_reduce(p->call->context->queue, 1, &to, 2, addends, p->wide, STN_SUM);
}

/* The same of some rows, which lie side by side. */
static stn_status add_rows(const struct parts *p, int which, int64_t first, int64_t n, void *more)
{
    static const int of[] = {[STNI_RING_KEY] = KEY, [STNI_RING_VALUE] = VALUE, [STNI_RING_QUERY] = QUERY};
    const stn_box from = stni_ring_box(&p->ring, which, n, more);
    stn_box to = from;
    if (stni_box_numel(&to) == 0)
        return STN_OK;
    const stn_tensor *t = p->call->out[of[which]];
    memcpy(to.strides, t->strides, (size_t)to.ndim * sizeof *to.strides);
    to.data = (char *)p->sum[of[which]].at.data + first * to.strides[to.ndim - 2] * (int64_t)stn_dtype_size(p->wide);
    const stn_box addends[] = {to, from};
    return stni_box_reduce(p->call->context->queue, 1, &to, 2, addends, p->wide, STN_SUM);
}

static struct stni_attention_sum sum_of(const struct parts *p, int which, int64_t n_rows, void *data)
{
    return (struct stni_attention_sum){.at = stni_ring_operand(&p->ring, which, n_rows, data),
                                       .n = stni_ring_numel(&p->ring, which, n_rows)};
}

static void describe_mask(const struct parts *p, int64_t first, struct stni_attention_args *args)
{
    args->grad_mask = p->sum[MASK];
    args->grad_mask.n = 0;
    if (p->call->n_out > MASK && p->sum[MASK].at.data != NULL)
        args->grad_mask.at.data =
            (char *)p->sum[MASK].at.data + first * p->sum[MASK].at.col * (int64_t)stn_dtype_size(p->wide);
    if (sums_mask(p)) {
        args->grad_mask = p->sum[MASK];
        args->grad_mask.at.data = p->mask;
    }
}

/* Of this rank's rows, and where their gradients go: those of queries to `own`, those of the step's keys to what is
 * given. The first step's are sums. */
static void describe_own(const struct parts *p, int step, struct stni_attention_args *args)
{
    const int owner = stni_ring_owner(&p->ring, step);
    void *of[STNI_RING_TENSORS];
    stni_ring_describe_own(&p->ring, step, &p->all, args);
    args->grad_query = p->sum[QUERY];
    args->grad_key = p->sum[KEY];
    args->grad_value = p->sum[VALUE];
    describe_mask(p, p->ring.piece[owner].key, args);
    if (step == 0)
        return;
    stni_ring_lay_out(&p->ring, RETURNED, STNI_RING_THEIRS, step, p->wide, p->given[step % 2], of);
    args->grad_query = sum_of(p, STNI_RING_QUERY, args->l, p->own);
    args->grad_key = sum_of(p, STNI_RING_KEY, args->s, of[STNI_RING_KEY]);
    args->grad_value = sum_of(p, STNI_RING_VALUE, args->s, of[STNI_RING_VALUE]);
}

static void *own_values(const struct parts *p)
{
    return p->own == NULL ? NULL : (char *)p->own + bytes_of(p, KEY);
}

/* Of borrowed rows: gradients of queries go to what is given, those of this rank's keys to `own`. */
static void describe_borrowed(const struct parts *p, int step, struct stni_attention_args *args)
{
    void *of[STNI_RING_TENSORS];
    stni_ring_describe_borrowed(&p->ring, step, &p->all, args);
    stni_ring_lay_out(&p->ring, RETURNED, STNI_RING_THEIRS, step, p->wide, p->given[step % 2], of);
    args->grad_query = sum_of(p, STNI_RING_QUERY, args->l, of[STNI_RING_QUERY]);
    args->grad_key = sum_of(p, STNI_RING_KEY, args->s, p->own);
    args->grad_value = sum_of(p, STNI_RING_VALUE, args->s, own_values(p));
    args->grad_mask = (struct stni_attention_sum){.n = 0};
}

static size_t workspace_of(const struct parts *p, const struct stni_attention_args *args)
{
    return stn_op_workspace(p->call, STNI_ATTENTION_BACKWARD, args->dtype, args);
}

/* As much as the kernel wants for any step. */
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

static stn_status launch(const struct parts *p, struct stni_attention_args *args)
{
    args->workspace = p->workspace;
    return stn_op_launch(p->call, STNI_ATTENTION_BACKWARD, args->dtype, args, sizeof *args);
}

/* Adds what came for this rank's tensors in the last exchange. */
static stn_status take(struct parts *p)
{
    void *of[STNI_RING_TENSORS];
    const int step = p->n_given;
    p->n_given = 0;
    STNI_TRY(stni_ring_finish(&p->ring, &p->way));
    if (step == 0)
        return STN_OK;
    stni_ring_lay_out(&p->ring, RETURNED, STNI_RING_OWN, step, p->wide, p->taken, of);
    for (int which = 0; which <= STNI_RING_QUERY; which++)
        STNI_TRY(add_rows(p, which, 0, stni_ring_moved(&p->ring, which, STNI_RING_OWN, step), of[which]));
    return STN_OK;
}

/* What is on its way from the step before is added first, whether exchanges go beside or not: the same bits. */
static stn_status differentiate(struct parts *p, int step)
{
    struct stni_attention_args args;
    const struct stni_ring_step *s = &p->ring.step[step];
    if (!s->reads)
        return STN_OK;
    describe_own(p, step, &args);
    STNI_TRY(launch(p, &args));
    STNI_TRY(take(p));
    if (step > 0)
        STNI_TRY(add_rows(p, STNI_RING_QUERY, s->lent, args.l, p->own));
    return sums_mask(p) ? add_flat(p, &p->sum[MASK], p->mask) : STN_OK;
}

static stn_status differentiate_for_reader(struct parts *p, int step)
{
    struct stni_attention_args args;
    if (p->ring.step[step].borrowed == 0)
        return STN_OK;
    describe_borrowed(p, step, &args);
    STNI_TRY(launch(p, &args));
    STNI_TRY(take(p));
    STNI_TRY(add_rows(p, STNI_RING_KEY, 0, args.s, p->own));
    return add_rows(p, STNI_RING_VALUE, 0, args.s, own_values(p));
}

static stn_status give(struct parts *p, int step)
{
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
        STNI_TRY(differentiate(p, step));
        STNI_TRY(differentiate_for_reader(p, step));
        if (!p->ring.beside)
            STNI_TRY(stni_ring_fetch_begin(&p->ring, step + 1));
        if (step > 0)
            STNI_TRY(give(p, step));
    }
    return take(p);
}

static stn_status run(struct parts *p)
{
    STNI_TRY(set_out(p));
    STNI_TRY(take_workspace(p));
    const stn_status status = go_round(p), fetched = stni_ring_finish(&p->ring, &p->ring.fetch),
                     given = stni_ring_finish(&p->ring, &p->way);
    STNI_TRY(status);
    STNI_TRY(fetched);
    STNI_TRY(given);
    for (int k = QUERY; k < p->call->n_out; k++)
        STNI_TRY(close_sum(p, k));
    return STN_OK;
}

stn_status stni_attention_ring_backward(const stn_op_call *call, const stn_spec *rows,
                                        const struct stni_attention_args *args)
{
    const stn_tensor *const tensor[STNI_RING_TENSORS] = {
        [STNI_RING_KEY] = call->in[KEY], [STNI_RING_VALUE] = call->in[VALUE], [STNI_RING_QUERY] = call->in[QUERY],
        [STNI_RING_OUT] = call->in[OUT], [STNI_RING_LSE] = call->in[LSE],     [STNI_RING_GRAD] = call->in[GRAD]};
    struct parts p = {.call = call, .all = *args, .wide = stni_wide_dtype(args->dtype)};
    if (!call->in[KEY]->spec->layout.mesh->member)
        return STN_OK;
    stn_status status = stni_ring_init(call, rows, args, tensor, FETCHED, &p.ring);
    if (status == STN_OK)
        status = run(&p);
    stni_ring_fini(&p.ring);
    return status;
}
