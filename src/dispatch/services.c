/* The services that the functions of an op may use. */
#include "dispatch/services.h"

#include "core/base/cold.h"
#include "core/tensor/tensor.h"
#include "core/device/trace.h"
#include "dispatch/registry.h"

#include <stdarg.h>
#include <stdio.h>

stn_status stn_op_fail(const stn_op_call *call, stn_status status, const char *format, ...)
{
    char text[STNI_ERROR_TEXT];
    if (!call)
        return status;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return stni_fail(call->context, status, "%s: %s", call->op->desc->name, text);
}

STNI_COLD static stn_status launch_refused(const stn_op *op, int slot, size_t args_size)
{
    return stni_fail(op->context, STN_ERR_INTERNAL, "%s: slot %d with %zu bytes of arguments", op->desc->name, slot,
                     args_size);
}

STNI_COLD static stn_status no_kernel(const stn_op *op, int slot, stn_dtype dtype)
{
    return stni_fail(op->context, STN_ERR_UNSUPPORTED, "%s: no kernel '%s' for %s on device %s", op->desc->name,
                     op->slots[slot].name, stn_dtype_name(dtype), op->context->device->name);
}

/* What a kernel wanted before its launch, while the same scratch was held. */
static size_t asked_for(const stn_op *op, int slot)
{
    const struct stni_slot *s = &op->slots[slot];
    return s->asked_in == op->context->registry->scratch_turn ? s->asked : 0;
}

static void note_asked(const stn_op *op, int slot, size_t bytes)
{
    const size_t before = asked_for(op, slot);
    op->slots[slot].asked = bytes > before ? bytes : before;
    op->slots[slot].asked_in = op->context->registry->scratch_turn;
}

STNI_COLD static stn_status launch_named(const stn_op *op, int slot, stn_dtype dtype, const void *args,
                                         size_t args_size)
{
    const struct stni_slot *s = &op->slots[slot];
    const struct stni_slot_kernel *kernel = &s->winner[dtype];
    const int checks = op->context->checks_scratch && kernel->workspace;
    const size_t wanted = checks ? kernel->workspace(op->context->queue, args) : 0;
    if (wanted > 0 && wanted > asked_for(op, slot))
        return stni_fail(op->context, STN_ERR_INTERNAL,
                         "%s: '%s' wants %zu bytes of scratch at its launch, of %zu that it was asked for",
                         op->desc->name, s->name, wanted, asked_for(op, slot));
    return stni_queue_launch_named(op->context->queue, kernel->function, args, args_size, s->name);
}

static inline stn_status launch(const stn_op *op, int slot, stn_dtype dtype, const void *args, size_t args_size)
{
    if ((unsigned)slot >= (unsigned)op->impl.n_slots || args_size != op->slots[slot].args_size)
        return launch_refused(op, slot, args_size);
    stn_kernel_fn kernel = op->slots[slot].winner[dtype].function;
    if (!kernel)
        return no_kernel(op, slot, dtype);
    if (op->context->names_launches)
        return launch_named(op, slot, dtype, args, args_size);
    return stni_queue_launch(op->context->queue, kernel, args, args_size);
}

stn_status stn_op_launch(const stn_op_call *call, int slot, stn_dtype dtype, const void *args, size_t args_size)
{
    return call ? launch(call->op, slot, dtype, args, args_size) : STN_ERR_ARGUMENT;
}

stn_status stni_slot_launch(const stn_op *op, int slot, stn_dtype dtype, const void *args, size_t args_size)
{
    stn_status status = launch(op, slot, dtype, args, args_size);
    return op->context->error.status == STN_OK ? stni_fail_queue(op->context, status) : status;
}

size_t stni_slot_workspace(const stn_op *op, int slot, stn_dtype dtype, const void *args)
{
    if (slot < 0 || slot >= op->impl.n_slots || !op->slots[slot].winner[dtype].workspace)
        return 0;
    const size_t bytes = op->slots[slot].winner[dtype].workspace(op->context->queue, args);
    if (op->context->checks_scratch)
        note_asked(op, slot, bytes);
    return bytes;
}

size_t stn_op_workspace(const stn_op_call *call, int slot, stn_dtype dtype, const void *args)
{
    return call ? stni_slot_workspace(call->op, slot, dtype, args) : 0;
}

static stn_status grow_scratch(stn_context *context)
{
    struct stni_registry *registry = context->registry;
    if (registry->n_scratch < registry->cap_scratch)
        return STN_OK;
    int cap = registry->cap_scratch ? 2 * registry->cap_scratch : 16;
    struct stni_scratch *more = stni_realloc(registry->scratch, (size_t)cap * sizeof *more);
    if (!more)
        return stni_fail_memory(context, "scratch list", (size_t)cap * sizeof *more);
    registry->scratch = more;
    registry->cap_scratch = cap;
    return STN_OK;
}

stn_status stn_op_scratch(const stn_op_call *call, size_t bytes, void **out)
{
    if (!call || !out)
        return stn_op_fail(call, STN_ERR_ARGUMENT, "scratch: out got NULL, wanted where to put the address");
    stn_context *context = call->context;
    struct stni_registry *registry = context->registry;
    STNI_TRY(grow_scratch(context));
    struct stni_scratch *s = &registry->scratch[registry->n_scratch];
    if (stni_mempool_take(context->pool, bytes, &s->pointer, &s->capacity) != STN_OK)
        return stni_fail_memory(context, "scratch", bytes);
    registry->n_scratch++;
    *out = s->pointer;
    return STN_OK;
}

void stni_scratch_release(stn_context *context, int mark)
{
    struct stni_registry *registry = context->registry;
    while (registry->n_scratch > mark) {
        struct stni_scratch *s = &registry->scratch[--registry->n_scratch];
        stni_mempool_release(context->pool, s->pointer, s->capacity);
    }
    registry->scratch_turn += registry->n_scratch == 0;
}

stn_status stn_op_alias(const stn_op_call *call, int k, stn_tensor *base, int64_t offset, const int64_t *strides)
{
    if (!call || !base || stni_is_error(base))
        return stn_op_fail(call, STN_ERR_ARGUMENT, "alias: base got %s, wanted an input or output of the op",
                           base ? "an error tensor" : "NULL");
    size_t size = stn_dtype_size(base->spec->layout.dtype);
    char *data = base->data ? (char *)base->data + offset * (int64_t)size : NULL;
    STNI_TRY(stni_tensor_on(call->context, call->out_spec[k], base->storage, data, strides, 0, &call->out[k]));
    stni_tensor_show(call->out[k], base);
    return STN_OK;
}
