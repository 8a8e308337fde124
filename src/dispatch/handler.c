/* Handlers: an embedder's own versions of ops. */
#include "core/base/thread_state.h"
#include "core/tensor/scope.h"
#include "dispatch/registry.h"

#include <string.h>

const struct stni_handler *stni_registry_handler(const stn_op *op)
{
    if (!stni_registry_has_handler(op))
        return NULL;
    if (!op->handlers_on || !op->context->registry->handlers_on)
        return NULL;
    return op->own.function ? &op->own : &op->named;
}

stn_status stn_op_set_handler(const stn_op *op, stn_op_handler handler, void *arg)
{
    if (!op)
        return STN_ERR_ARGUMENT;
    op->context->registry->ops[op->index]->own = (struct stni_handler){handler, arg};
    return STN_OK;
}

/* The entry of a name, made where there is none; NULL without memory. */
static struct stni_named_handler *named_entry(struct stni_registry *registry, const char *name)
{
    struct stni_named_handler *named;
    HASH_FIND_STR(registry->named, name, named);
    if (named)
        return named;
    named = stni_calloc(1, sizeof *named);
    char *copy = stni_malloc(strlen(name) + 1);
    if (!named || !copy)
        goto none;
    strcpy(copy, name);
    named->name = copy;
    named->on = 1;
    unsigned before = HASH_COUNT(registry->named);
    HASH_ADD_KEYPTR(hh, registry->named, named->name, strlen(name), named);
    if (HASH_COUNT(registry->named) > before)
        return named;
none:
    stni_free(named);
    stni_free(copy);
    return NULL;
}

stn_status stn_handler_set(stn_context *context, const char *name, stn_op_handler handler, void *arg)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    if (!name)
        return stni_fail(context, STN_ERR_ARGUMENT, "stn_handler_set: name got NULL, wanted an op's name");
    struct stni_named_handler *named = named_entry(context->registry, name);
    if (!named)
        return stni_fail_memory(context, "handler", sizeof *named);
    named->handler = (struct stni_handler){handler, arg};
    stn_op *op;
    HASH_FIND_STR(context->registry->by_name, name, op);
    if (op)
        op->named = named->handler;
    return STN_OK;
}

stn_status stn_handler_enable(stn_context *context, const char *name, int on)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    if (!name) {
        context->registry->handlers_on = on != 0;
        return STN_OK;
    }
    stn_op *op;
    struct stni_named_handler *named;
    HASH_FIND_STR(context->registry->by_name, name, op);
    HASH_FIND_STR(context->registry->named, name, named);
    if (!op && !named)
        return stni_fail(context, STN_ERR_NOT_FOUND,
                         "stn_handler_enable: neither an op nor a handler has the name '%s'", name);
    if (op)
        op->handlers_on = on != 0;
    if (named)
        named->on = on != 0;
    return STN_OK;
}

/* A handler gives the first output at least, but for ops that give as many as they please: those may have none. */
static stn_status check_handled(const stn_op *op, stn_tensor *const *in, int n_out, stn_tensor *const *out)
{
    const stn_op_desc *desc = op->desc;
    if (op->context->error.status != STN_OK || n_out < 1 || desc->n_outputs - desc->n_private < 1)
        return op->context->error.status;
    if (!out[0] && desc->n_outputs < STN_MAX_OUTPUTS)
        return stni_fail(op->context, STN_ERR_CALLBACK, "%s: its handler gave no output", desc->name);
    if ((desc->flags & STN_OP_IN_PLACE) && out[0] != in[0])
        return stni_fail(op->context, STN_ERR_CALLBACK, "%s: in place, its handler gave another tensor than its input",
                         desc->name);
    return STN_OK;
}

stn_status stni_handler_run(const stn_op *op, const struct stni_handler *handler, int n_in, stn_tensor *const *in,
                            const void *attrs, int n_out, stn_tensor **out)
{
    struct stni_thread_state *guard = stni_thread_state_here();
    struct stni_handler_frame frame = {op, guard->frames};
    struct stni_thread_state saved = *guard;
    for (int k = 0; k < n_out; k++)
        out[k] = NULL;
    *guard = (struct stni_thread_state){0, &frame};
    const int outer = stni_scope_fence(op->context);
    stn_status status = handler->function(op, n_in, in, attrs, n_out, out, handler->arg);
    *guard = saved;
    STNI_TRY(stni_scope_unfence(op->context, outer, op->desc->name, "its handler"));
    if (status == STN_OK)
        return check_handled(op, in, n_out, out);
    return stni_fail(op->context, STN_ERR_CALLBACK, "%s: its handler returned \"%s\"", op->desc->name,
                     stn_status_text(status));
}
