/* The walk of an op, step by step as docs/architecture.md tells it. */
#include "dispatch/dispatch.h"

#include "autograd/node.h"
#include "autograd/tape.h"
#include "core/box/box.h"
#include "core/base/cold.h"
#include "core/base/thread_state.h"
#include "core/tensor/kept.h"
#include "core/tensor/scope.h"
#include "core/tensor/tensor.h"
#include "core/device/trace.h"
#include "dispatch/fallback.h"
#include "dispatch/in_place.h"
#include "dispatch/mixed.h"
#include "dispatch/move.h"
#include "dispatch/place_cache.h"
#include "dispatch/registry.h"
#include "dispatch/schema.h"
#include "dispatch/services.h"
#include "dispatch/settle.h"
#include "dispatch/walk.h"

#include <string.h>

/* Stages of a warm call: calls of them would be a third of a dispatch, and so would be the registers that what is
 * seldom done needs. */
#define INLINE __attribute__((always_inline)) static inline
#define ASIDE __attribute__((noinline)) static

/* Gives the error tensor as each output. No failure gets lost: one that nobody reported is reported here. */
STNI_COLD static stn_status fail_outputs(stn_context *context, stn_status status, int n, stn_tensor **out)
{
    if (context->error.status == STN_OK)
        stni_fail_queue(context, status);
    for (int k = 0; k < n; k++)
        out[k] = context->error_tensor;
    return context->error.status;
}

/* Notes whose ranks may wait for this one in a backward, where a caller's op failed. */
STNI_COLD static stn_status fail_call(stn_context *context, stn_status status, int n_in, stn_tensor *const *in,
                                      int n_out, stn_tensor **out)
{
    status = fail_outputs(context, status, n_out, out);
    stni_tape_note_call(context, n_in, in);
    return status;
}

static int is_variadic(const stn_op_desc *desc)
{
    return desc->n_inputs > 0 && desc->inputs[desc->n_inputs - 1].variadic;
}

static int is_optional(const stn_op_desc *desc, int i)
{
    return i < desc->n_inputs && desc->inputs[i].optional;
}

/* An input that is absent, where it may be, or that cannot be taken. */
STNI_COLD static stn_status take_other(struct stni_walk *w, int i, const stn_tensor *t)
{
    stn_context *context = w->call.context;
    const char *op = w->desc->name;
    w->in[i] = NULL;
    w->in_spec[i] = NULL;
    if (!t)
        return is_optional(w->desc, i)
                   ? STN_OK
                   : stni_fail(context, STN_ERR_ARGUMENT, "%s: input '%s' is missing", op,
                               stni_input_name(w->desc, i).text);
    if (stni_is_error(t))
        return stni_fail(context, STN_ERR_STATE, "%s: input '%s' is what an earlier failure returned", op,
                         stni_input_name(w->desc, i).text);
    return stni_fail(context, STN_ERR_ARGUMENT, "%s: input '%s' belongs to another context", op,
                     stni_input_name(w->desc, i).text);
}

/* Guard: each input is there, healthy, and of this context. */
static inline stn_status take_input(struct stni_walk *w, int i, stn_tensor *t)
{
    if (!t || stni_is_error(t) || t->context != w->call.context)
        return take_other(w, i, t);
    if (t->flags & STNI_TENSOR_UNDER_WAY)
        STNI_TRY(stni_tensor_arrive(t));
    w->in[i] = t;
    w->in_spec[i] = t->spec;
    w->flags |= t->flags;
    return STN_OK;
}

static stn_status take_inputs(struct stni_walk *w, int n, stn_tensor *const *in)
{
    int n_in = w->desc->n_inputs;
    if (n > n_in && is_variadic(w->desc))
        n_in = n;
    if (n > n_in || n > STN_MAX_INPUTS)
        return stni_fail(w->call.context, STN_ERR_ARGUMENT, "%s: got %d inputs, wanted at most %d", w->desc->name, n,
                         is_variadic(w->desc) ? STN_MAX_INPUTS : n_in);
    for (int i = 0; i < n_in; i++)
        STNI_TRY(take_input(w, i, i < n ? in[i] : NULL));
    w->call.n_in = n_in;
    w->call.local = n_in > 0 && w->in_spec[0] && !w->in_spec[0]->layout.mesh;
    return STN_OK;
}

static const void *default_attrs(const stn_op_desc *desc)
{
    static const uint64_t zeros[STNI_MAX_ATTRS_SIZE / 8];
    return desc->attrs_init ? desc->attrs_init : zeros;
}

/* Sets out on the walk. */
static void set_out(struct stni_walk *w, const stn_op *op, const void *attrs)
{
    w->desc = op->desc;
    w->attrs_size = attrs ? op->desc->attrs_size : 0;
    w->moved = w->flags = 0;
    w->call = (stn_op_call){.size = sizeof w->call,
                            .context = op->context,
                            .op = op,
                            .attrs = attrs ? attrs : default_attrs(op->desc),
                            .in = w->in,
                            .out = w->out,
                            .in_spec = w->in_spec,
                            .reports = op->impl.n_value_texts > 0,
                            .arg = op->desc->arg};
}

/* Takes over what an entry says of every call like this one. */
INLINE void adopt(struct stni_walk *w, const struct stni_placed *placed, const void *attrs)
{
    w->placed = placed;
    w->call = placed->call;
    w->call.in = w->in;
    w->call.out = w->out;
    if (attrs)
        w->call.attrs = attrs;
}

/* Guard and place of a call whose entry was not the last one. */
ASIDE stn_status place(struct stni_walk *w, const stn_op *op, int n, stn_tensor *const *in, const void *attrs)
{
    set_out(w, op, attrs);
    STNI_TRY(take_inputs(w, n, in));
    w->call.n_out = w->desc->n_outputs;
    w->placed = stni_place_cache_find(&w->call, w->attrs_size);
    if (w->placed)
        op->context->stats.place_hits++;
    else
        STNI_TRY(stni_place_new(w));
    adopt(w, w->placed, attrs);
    return STN_OK;
}

/* Whether the inputs are those of an entry. Of tensors whose specs are, nothing else has to be looked at: a spec is
 * of one context, and the error tensor, which has none, is told by its flag. */
INLINE int takes(struct stni_walk *w, const stn_op_call *call, int n, stn_tensor *const *in)
{
    uint32_t flags = 0;
    if (n > call->n_in)
        return 0;
    for (int i = 0; i < n; i++) {
        stn_tensor *t = in[i];
        if ((t ? t->spec : NULL) != call->in_spec[i])
            return 0;
        flags |= t ? t->flags : 0;
        w->in[i] = t;
    }
    for (int i = n; i < call->n_in; i++) {
        if (call->in_spec[i])
            return 0;
        w->in[i] = NULL;
    }
    w->flags = flags;
    return !(flags & (STNI_TENSOR_ERROR | STNI_TENSOR_UNDER_WAY));
}

/* Whether attributes are those behind the specs in a key. */
INLINE int same_attrs(const uint64_t *words, const void *attrs, size_t size)
{
    for (size_t at = 0; at < size; at += 8, words++) {
        uint64_t word;
        memcpy(&word, (const char *)attrs + at, 8);
        if (word != *words)
            return 0;
    }
    return 1;
}

/* Guard and place of a call like the last one that met in its place of the cache; 0 where it is another. */
INLINE int recall(struct stni_walk *w, const stn_op *op, int n, stn_tensor *const *in, const void *attrs)
{
    stn_context *context = op->context;
    const stn_spec *first = n > 0 && in[0] ? in[0]->spec : NULL;
    const struct stni_placed *placed = *stni_place_cache_recent(context->places, (unsigned)op->index, first);
    size_t attrs_size = attrs ? op->desc->attrs_size : 0;
    if (!placed || placed->key[0] != stni_place_cache_first_word(op, attrs_size) || !takes(w, &placed->call, n, in) ||
        !same_attrs(placed->key + 1 + placed->call.n_in, attrs, attrs_size))
        return 0;
    w->desc = op->desc;
    w->moved = 0;
    context->stats.place_hits++;
    adopt(w, placed, attrs);
    return 1;
}

ASIDE stn_status make_outputs(struct stni_walk *w)
{
    stn_status status = STN_OK;
    for (int k = 0; k < w->call.n_out; k++) {
        w->out[k] = NULL;
        if (w->call.out_spec[k] && status == STN_OK)
            status = stni_tensor_create(w->call.context, w->call.out_spec[k], &w->out[k]);
    }
    return status;
}

INLINE stn_status make(struct stni_walk *w, unsigned steps)
{
    if (!(steps & STNI_STEP_ONE))
        return make_outputs(w);
    w->out[0] = NULL;
    return stni_tensor_create(w->call.context, w->call.out_spec[0], &w->out[0]);
}

/* Of what is not made before the op runs: what it changes in place is its result. */
ASIDE stn_status begin_outputs(struct stni_walk *w, unsigned steps)
{
    for (int k = 0; k < w->call.n_out; k++)
        w->out[k] = NULL;
    if (!(steps & STNI_STEP_IN_PLACE))
        return STN_OK;
    return stni_in_place_begin(w);
}

/* A failed run may have left peers waiting: unless they know already, or have agreed on it, the family is aborted.
 * One that reported a failure has failed, whatever it returned. */
STNI_COLD static stn_status run_failed(const struct stni_walk *w, stn_status status)
{
    stn_context *context = w->call.context;
    if (status == STN_OK)
        status = context->error.status;
    if (context->error.status == STN_OK)
        stni_fail(context, status, "%s: %s", w->desc->name, stni_context_failure_text(context, status));
    if (context->size > 1 && status != STN_ERR_PEER && status != STN_ERR_TIMEOUT && !context->error_agreed)
        stni_context_abort(context, status, context->error.text);
    return status;
}

INLINE stn_status run(struct stni_walk *w, unsigned steps)
{
    stn_context *context = w->call.context;
    int mark = stni_scratch_mark(context);
    stn_status status = steps & STNI_STEP_FALLBACK ? stni_fallback_run(&w->call) : w->call.op->impl.run(&w->call);
    if (stni_scratch_mark(context) > mark)
        stni_scratch_release(context, mark);
    if (status != STN_OK || context->error.status != STN_OK)
        return run_failed(w, status);
    if (steps & STNI_STEP_IN_PLACE)
        stni_tensor_root(w->out[0])->version++; /* on every rank, those of an empty view too */
    return STN_OK;
}

/* Outputs that run itself had to make are there; views are views of what was given, in whatever layout it was read. */
ASIDE stn_status take_made(struct stni_walk *w, const stn_tensor *given)
{
    for (int k = 0; k < w->call.n_out; k++) {
        if (!w->out[k] && w->call.out_spec[k])
            return stni_fail(w->call.context, STN_ERR_INTERNAL, "%s: its run made no output %d", w->desc->name, k);
        if (w->out[k] && (w->desc->flags & STN_OP_VIEW) && !(w->out[k]->flags & STNI_TENSOR_SHARES))
            stni_tensor_show(w->out[k], given);
    }
    return STN_OK;
}

ASIDE stn_status record(struct stni_walk *w)
{
    const stn_context *context = w->call.context;
    if (!w->call.op->impl.backward)
        return STN_OK;
    uint32_t needs = stni_needs_grad(context, w->call.n_in, w->in);
    int coll = (w->desc->flags & STN_OP_PER_RANK) && stn_grad_enabled(context);
    return needs || coll ? stni_node_record(&w->call, w->desc, needs) : STN_OK;
}

/* Drops the outputs from `first` on; what an op changes in place is none of its own. */
ASIDE void drop_outputs(struct stni_walk *w, int first)
{
    if (w->desc->flags & STN_OP_IN_PLACE)
        return;
    for (int k = first; k < w->call.n_out; k++)
        stni_tensor_drop(&w->out[k]);
}

/* Hands out what the caller asked for; nothing was visible before. What an op changed in place is the caller's all
 * along: its reference is neither handed out nor dropped. */
ASIDE void publish(struct stni_walk *w, int in_place, int n_out, stn_tensor **out)
{
    stn_context *context = w->call.context;
    int given = w->call.n_out - w->desc->n_private;
    if (given > n_out)
        given = n_out;
    for (int k = 0; k < given; k++)
        out[k] = context->scopes.depth > 0 && w->out[k] && !in_place ? stni_tensor_publish(w->out[k]) : w->out[k];
    if (given < w->call.n_out && !in_place)
        drop_outputs(w, given);
    for (int k = given; k < n_out; k++)
        out[k] = NULL;
}

INLINE void hand_out(struct stni_walk *w, unsigned steps, int n_out, stn_tensor **out)
{
    if ((steps & STNI_STEP_ONE) && n_out == 1)
        out[0] = w->call.context->scopes.depth > 0 ? stni_tensor_publish(w->out[0]) : w->out[0];
    else
        publish(w, steps & STNI_STEP_IN_PLACE, n_out, out);
}

INLINE stn_status walk(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                       stn_tensor **out)
{
    struct stni_walk w;
    stn_status status;
    if (!recall(&w, op, n_in, in, attrs))
        STNI_TRY(place(&w, op, n_in, in, attrs));
    const unsigned steps = w.placed->steps;
    if (steps & STNI_STEP_REPORTS)
        op->context->may_have_values = 1;
    if (steps & STNI_STEP_MOVE) {
        if (steps & STNI_STEP_IN_PLACE)
            STNI_TRY(stni_in_place_check(&w));
        STNI_TRY_GOTO(stni_inputs_move(&w, in), moved);
    }
    STNI_TRY_GOTO(steps & STNI_STEP_MAKE ? make(&w, steps) : begin_outputs(&w, steps), made);
    STNI_TRY_GOTO(run(&w, steps), made);
    if (steps & STNI_STEP_ALIAS)
        STNI_TRY_GOTO(take_made(&w, n_in > 0 ? in[0] : NULL), made);
    if ((w.flags & STNI_TENSOR_REQUIRES_GRAD) || (steps & STNI_STEP_PER_RANK))
        STNI_TRY_GOTO(record(&w), made);
    hand_out(&w, steps, n_out, out);
    if (w.moved)
        stni_inputs_drop_moved(&w);
    return STN_OK;
made:
    drop_outputs(&w, 0);
moved:
    stni_inputs_drop_moved(&w);
    return status;
}

/* Caches that have grown are trimmed between ops, when no op reads them. */
static void begin(stn_context *context)
{
    context->stats.dispatches++;
    if (context->busy++ > 0)
        return;
    if (context->places->full)
        stni_place_cache_trim(context->places);
    if (context->shard.n_specs > context->shard.collect_at)
        stni_shard_collect(context, 0);
}

/* The handler that serves this call: none where this thread is inside it already, or inside a conversion. */
static const struct stni_handler *handler_of(const stn_op *op)
{
    const struct stni_handler *handler = stni_registry_handler(op);
    const struct stni_thread_state *guard = stni_thread_state_here();
    return guard->conversion_depth == 0 && !stni_thread_state_masks(guard, op) ? handler : NULL;
}

/* What an op made of others leaves in `out` is not its own before it is settled. */
static stn_status settle_all(struct stni_walk *w)
{
    int n_out = w->call.n_out;
    stn_status status = STN_OK;
    for (int k = 0; k < n_out && status == STN_OK; k++) {
        status = stni_settle(w, k);
        w->call.n_out = status == STN_OK ? k + 1 : k;
    }
    return status;
}

/* Once what was made on the way is gone. */
static stn_status settle_late(struct stni_walk *w)
{
    stn_status status = STN_OK;
    for (int k = 0; k < w->call.n_out && status == STN_OK; k++)
        status = stni_settle_late(w, k);
    return status;
}

/* An op made of others: a scope of its own releases what they make on the way. */
ASIDE stn_status compose(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                         stn_tensor **out)
{
    struct stni_walk w;
    stn_status status;
    stn_context *context = op->context;
    set_out(&w, op, attrs);
    STNI_TRY(take_inputs(&w, n_in, in));
    if (!(w.desc->flags & STN_OP_PER_RANK)) /* where one rank alone may be wrong, which the op has all agree on */
        STNI_TRY(stni_check_meshes(&w.call));
    STNI_TRY(stni_check_attrs(&w));
    w.call.n_out = n_out < w.desc->n_outputs ? n_out : w.desc->n_outputs;
    memset(w.out, 0, (size_t)w.desc->n_outputs * sizeof w.out[0]);
    stni_scope_enter(context);
    STNI_TRY_GOTO(stni_answer_of(&w, "compose", op->impl.compose(&w.call)), left);
    STNI_TRY_GOTO(stni_check_n_out(&w, "compose"), left);
    STNI_TRY_GOTO(settle_all(&w), settled);
    stni_scope_leave(context);
    status = settle_late(&w);
    if (status == STN_OK)
        publish(&w, w.desc->flags & STN_OP_IN_PLACE, n_out, out);
    else
        drop_outputs(&w, 0);
    return status;
settled:
    drop_outputs(&w, 0);
left:
    stni_name_refusal(&w);
    stni_scope_leave(context);
    return status;
}

INLINE stn_status dispatch(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                           stn_tensor **out)
{
    stn_status status;
    begin(op->context);
    const struct stni_handler *handler = stni_registry_has_handler(op) ? handler_of(op) : NULL;
    if (handler)
        status = stni_handler_run(op, handler, n_in, in, attrs ? attrs : default_attrs(op->desc), n_out, out);
    else
        status = op->impl.compose ? compose(op, n_in, in, attrs, n_out, out) : walk(op, n_in, in, attrs, n_out, out);
    op->context->busy--;
    return status == STN_OK ? STN_OK : fail_call(op->context, status, n_in, in, n_out, out);
}

STNI_COLD static stn_status dispatch_traced(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs,
                                            int n_out, stn_tensor **out)
{
    stn_context *context = op->context;
    struct stni_trace *trace = context->trace;
    const int64_t start = stni_trace_span_begin(trace);
    const struct stni_comm_stats before = context->comm_stats;
    const int records = stni_trace_records(trace), marked = stni_trace_mark_begin(trace, op->desc->name);
    struct stni_trace_args args = {0};
    stni_trace_arg_tensors(&args, "in", records ? n_in : 0,
                           in); /* as they are before an op that changes them in place */
    const char *around = stni_trace_enter(trace, op->desc->name);
    stn_status status = dispatch(op, n_in, in, attrs, n_out, out);
    stni_trace_mark_end(marked);
    if (trace != context->trace) /* a handler has ended it */
        return status;
    stni_trace_enter(trace, around);
    stni_trace_arg_tensors(&args, "out", records ? n_out : 0, out);
    args.bytes = context->comm_stats.bytes_sent - before.bytes_sent;
    args.messages = context->comm_stats.messages - before.messages;
    stni_trace_add_args(trace, STNI_TRACE_OP, op->desc->name, start, &args);
    stni_trace_add_memory(trace, stni_mempool_stats(context->pool)->live_bytes);
    return status;
}

STNI_COLD static stn_status dispatch_promoted(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs,
                                              int n_out, stn_tensor **out)
{
    stn_tensor *promoted[STN_MAX_INPUTS];
    op->context->busy++; /* specs stay meanwhile */
    stn_status status = stni_mixed_promote(op, n_in, in, promoted);
    if (status == STN_OK) {
        status = stni_dispatch(op, n_in, promoted, attrs, n_out, out);
        stni_mixed_fini(n_in, promoted);
    } else {
        status = fail_outputs(op->context, status, n_out, out);
    }
    op->context->busy--;
    return status;
}

stn_status stni_dispatch(const stn_op *op, int n_in, stn_tensor *const *in, const void *attrs, int n_out,
                         stn_tensor **out)
{
    stn_context *context = op->context;
    stni_context_reap(context); /* which may keep an error */
    if (context->error.status != STN_OK)
        return fail_call(context, context->error.status, n_in, in, n_out, out);
    if (context->promotion != STN_PROMOTE_REFUSE && stni_mixed_found(op, n_in, in))
        return dispatch_promoted(op, n_in, in, attrs, n_out, out);
    return context->trace ? dispatch_traced(op, n_in, in, attrs, n_out, out)
                          : dispatch(op, n_in, in, attrs, n_out, out);
}
