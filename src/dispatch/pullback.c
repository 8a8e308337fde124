/* Calls that give their pullback: the op runs on handles that only the pullback knows, whose history ends in leaves
 * of its own. */
#include "autograd/pullback.h"

#include "autograd/tape.h"
#include "core/tensor/scope.h"
#include "dispatch/registry.h"

static int is_in_place(const stn_op *op)
{
    return (op->desc->flags & STN_OP_IN_PLACE) != 0;
}

/* The handles that the op is to see; returned with their number, also where not all could be made. */
static stn_status make_inputs(stn_pullback *pullback, const stn_op *op, int n, stn_tensor *const *inputs,
                              uint32_t needs, stn_tensor **seen)
{
    for (int i = 0; i < n; i++) {
        const int needed = needs >> i & 1;
        if (i == 0 && is_in_place(op))
            STNI_TRY(stni_pullback_add_changed(pullback, inputs[i], needed, &seen[i]));
        else
            STNI_TRY(stni_pullback_add_input(pullback, inputs[i], needed, &seen[i]));
    }
    return STN_OK;
}

static void drop_inputs(int n, stn_tensor *const *inputs, stn_tensor **seen)
{
    for (int i = 0; i < n; i++)
        if (seen[i] && seen[i] != inputs[i])
            stni_tensor_drop(&seen[i]);
}

/* Grad mode is on for the call; collectives of per-rank semantics that it recorded leave the tape, which is not to
 * run them. */
static stn_status call_recorded(const stn_op *op, int n_in, stn_tensor *const *in, int n_attrs, const stn_attr *attrs,
                                int n_out, stn_tensor **out)
{
    stn_context *context = op->context;
    struct stni_tape *tape = context->tape;
    const int no_grad = context->no_grad, n_collectives = tape->n_collectives;
    struct stni_recomputation *part = tape->part;
    context->no_grad = 0;
    tape->part = NULL; /* a pullback keeps what it needs */
    stn_status status = stn_op_invoke(op, n_in, in, n_attrs, attrs, n_out, out);
    context->no_grad = no_grad;
    tape->part = part;
    while (tape->n_collectives > n_collectives)
        stni_node_release(tape->collectives[--tape->n_collectives]);
    return status;
}

/* What the caller gets: handles without history. One that was changed in place is the caller's own. */
static stn_status take_outputs(stn_pullback *pullback, const stn_op *op, int n, stn_tensor *const *made,
                               stn_tensor **given)
{
    for (int k = 0; k < n; k++) {
        given[k] = NULL;
        stni_pullback_add_output(pullback, made[k]);
        if (made[k] && !is_in_place(op))
            STNI_TRY(stni_pullback_detach(made[k], &given[k]));
    }
    return STN_OK;
}

static stn_status run(stn_pullback *pullback, const stn_op *op, int n_in, stn_tensor *const *in, int n_attrs,
                      const stn_attr *attrs, uint32_t needs, int n_out, stn_tensor **given)
{
    stn_tensor *seen[STN_MAX_INPUTS] = {0}, *made[STN_MAX_OUTPUTS] = {0};
    stn_status status = make_inputs(pullback, op, n_in, in, needs, seen);
    if (status == STN_OK)
        status = call_recorded(op, n_in, seen, n_attrs, attrs, n_out, made);
    if (status == STN_OK)
        status = take_outputs(pullback, op, n_out, made, given);
    drop_inputs(n_in, in, seen);
    return status;
}

static void hand_out(const stn_op *op, stn_status status, stn_tensor *const *inputs, int n, stn_tensor **given,
                     stn_tensor **outputs)
{
    for (int k = 0; k < n; k++) {
        if (status != STN_OK) {
            stni_tensor_drop(&given[k]);
            outputs[k] = op->context->error_tensor;
        } else if (is_in_place(op)) {
            outputs[k] = k == 0 ? inputs[0] : NULL;
        } else {
            outputs[k] = given[k] ? stni_tensor_publish(given[k]) : NULL;
        }
    }
}

/* What stn_op_invoke refuses by itself, and more outputs than any op has. */
static int is_refused(const stn_op *op, int n_inputs, stn_tensor *const *inputs, int n_outputs,
                      stn_tensor *const *outputs)
{
    return op->context->error.status != STN_OK || n_inputs < 0 || n_inputs > STN_MAX_INPUTS ||
           (n_inputs > 0 && !inputs) || n_outputs < 0 || (n_outputs > 0 && !outputs);
}

stn_status stn_op_invoke_pullback(const stn_op *op, int n_inputs, stn_tensor *const *inputs, int n_attrs,
                                  const stn_attr *attrs, uint32_t needs, int n_outputs, stn_tensor **outputs,
                                  stn_pullback **pullback)
{
    stn_pullback *made = NULL;
    stn_tensor *given[STN_MAX_OUTPUTS] = {0};
    if (!op)
        return STN_ERR_ARGUMENT;
    if (!pullback)
        return stni_fail(op->context, STN_ERR_ARGUMENT,
                         "stn_op_invoke_pullback: pullback got NULL, wanted where to put it");
    if (is_refused(op, n_inputs, inputs, n_outputs, outputs))
        return stn_op_invoke(op, n_inputs, inputs, n_attrs, attrs, n_outputs, outputs);
    const int n_out = n_outputs < STN_MAX_OUTPUTS ? n_outputs : STN_MAX_OUTPUTS;
    stn_context *context = op->context;
    context->busy++; /* specs stay meanwhile */
    stni_scope_enter(context);
    stn_status status = stni_pullback_create(context, &made);
    if (status == STN_OK)
        status = run(made, op, n_inputs, inputs, n_attrs, attrs, needs, n_out, given);
    stni_scope_leave(context);
    context->busy--;
    hand_out(op, status, inputs, n_out, given, outputs);
    for (int k = n_out; k < n_outputs; k++)
        outputs[k] = status == STN_OK ? NULL : context->error_tensor;
    if (status != STN_OK)
        stn_pullback_release(&made);
    else
        *pullback = made;
    return status;
}
