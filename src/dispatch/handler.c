/* Handlers: an embedder's own versions of ops. */
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
    if (!context || !name)
        return STN_ERR_ARGUMENT;
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
        return stni_fail(context, STN_ERR_NOT_FOUND, "stn_handler_enable: neither an op nor a handler has the name '%s'", name);
    if (op)
        op->handlers_on = on != 0;
    if (named)
        named->on = on != 0;
    return STN_OK;
}
