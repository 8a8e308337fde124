/* The ops of a context and their kernels. */
#include "dispatch/registry.h"

#include "core/context/module.h"
#include "core/tensor/scope.h"
#include "dispatch/dispatch.h"
#include "dispatch/schema.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static int find_slot(const stn_op_impl *impl, const char *name)
{
    for (int s = 0; s < impl->n_slots; s++)
        if (strcmp(impl->slots[s].name, name) == 0)
            return s;
    return -1;
}

static void choose_winners(struct stni_slot *slot)
{
    for (int d = 0; d < STN_DTYPE_COUNT; d++)
        slot->winner[d] = slot->added_on && slot->added[d].function ? slot->added[d] : slot->builtin[d];
}

/* `row` is one of the slot's. */
static void slot_fill(struct stni_slot *slot, struct stni_slot_kernel *row, const stn_kernel *kernel)
{
    for (int d = 0; d < STN_DTYPE_COUNT; d++)
        if (kernel->dtypes >> d & 1)
            row[d] = (struct stni_slot_kernel){kernel->function, kernel->workspace};
    choose_winners(slot);
}

/* Whether a kernel runs in a context: its device is the context's, or "cpu/SET" for a set that the context's
 * instruction set includes. */
static int runs_in(const stn_context *context, const stn_kernel *kernel)
{
    const char *device = context->device->name;
    const size_t n = strlen(device);
    if (strncmp(kernel->device, device, n) != 0)
        return 0;
    for (int isa = 0; context->device->is_cpu && kernel->device[n] == '/' && isa <= (int)context->isa; isa++)
        if (strcmp(kernel->device + n + 1, stni_isa_name((enum stni_isa)isa)) == 0)
            return 1;
    return kernel->device[n] == '\0';
}

/* Built-in kernels of other devices and of wider instruction sets are passed over; of what is left the last stands. */
static stn_status attach_builtin(stn_op *op)
{
    for (int k = 0; k < op->impl.n_kernels; k++) {
        const stn_kernel *kernel = &op->impl.kernels[k];
        int slot = find_slot(&op->impl, kernel->name);
        if (slot < 0 || kernel->args_size != op->impl.slots[slot].args_size)
            return stni_fail(op->context, STN_ERR_VERSION, "%s: kernel '%s' with %zu bytes of arguments fits no slot",
                             op->desc->name, kernel->name, kernel->args_size);
        if (runs_in(op->context, kernel))
            slot_fill(&op->slots[slot], op->slots[slot].builtin, kernel);
    }
    return STN_OK;
}

static void op_destroy(stn_op *op)
{
    for (int s = 0; op && op->slots && s < op->impl.n_slots; s++)
        stni_free(op->slots[s].name);
    if (op) {
        stni_free(op->slots);
        stni_free(op->signature);
    }
    stni_free(op);
}

/* The name by which everybody else knows a slot; NULL where there is no memory. */
static char *slot_name(const char *op, const char *slot)
{
    const size_t bytes = strlen(op) + 1 + strlen(slot) + 1;
    char *name = stni_malloc(bytes);
    if (name)
        snprintf(name, bytes, "%s.%s", op, slot);
    return name;
}

static int make_slots(stn_op *op)
{
    op->slots = stni_calloc((size_t)op->impl.n_slots + 1, sizeof *op->slots);
    for (int s = 0; op->slots && s < op->impl.n_slots; s++) {
        op->slots[s].added_on = 1;
        op->slots[s].args_size = op->impl.slots[s].args_size;
        op->slots[s].name = slot_name(op->desc->name, op->impl.slots[s].name);
        if (!op->slots[s].name)
            return 0;
    }
    return op->slots != NULL;
}

static stn_status op_create(stn_context *context, const stn_op_desc *desc, stn_op **out)
{
    stn_op *op = stni_calloc(1, sizeof *op);
    if (!op)
        return stni_fail_memory(context, "op", sizeof *op);
    *op = (stn_op){.context = context, .desc = desc, .impl = *desc->impl, .handlers_on = 1};
    stn_status status = make_slots(op) ? attach_builtin(op) : stni_fail_memory(context, "op", sizeof *op);
    if (status != STN_OK) {
        op_destroy(op);
        return status;
    }
    *out = op;
    return STN_OK;
}

static stn_status grow_list(stn_context *context, int cap, stn_op ***list)
{
    stn_op **more = stni_realloc(*list, (size_t)cap * sizeof *more);
    if (!more)
        return stni_fail_memory(context, "op table", (size_t)cap * sizeof *more);
    *list = more;
    return STN_OK;
}

static stn_status grow_ops(struct stni_registry *registry, stn_context *context)
{
    if (registry->n_ops < registry->cap_ops)
        return STN_OK;
    int cap = registry->cap_ops ? 2 * registry->cap_ops : 64;
    STNI_TRY(grow_list(context, cap, &registry->ops));
    STNI_TRY(grow_list(context, cap, &registry->listed));
    registry->cap_ops = cap;
    return STN_OK;
}

static stn_status add_op(stn_context *context, const stn_op_desc *desc, stn_op **out)
{
    struct stni_registry *registry = context->registry;
    stn_op *op = NULL;
    STNI_TRY(grow_ops(registry, context));
    STNI_TRY(op_create(context, desc, &op));
    unsigned before = HASH_COUNT(registry->by_name);
    HASH_ADD_KEYPTR(hh, registry->by_name, desc->name, strlen(desc->name), op);
    if (HASH_COUNT(registry->by_name) == before) {
        op_destroy(op);
        return stni_fail_memory(context, "op names", sizeof *op);
    }
    op->index = registry->n_ops;
    registry->ops[registry->n_ops++] = op;
    if (!(desc->flags & STN_OP_INTERNAL))
        registry->listed[registry->n_listed++] = op;
    struct stni_named_handler *named;
    HASH_FIND_STR(registry->named, desc->name, named);
    if (named) {
        op->named = named->handler;
        op->handlers_on = named->on;
    }
    *out = op;
    return STN_OK;
}

stn_status stni_registry_create(stn_context *context, const stn_op_desc *const *table, int n)
{
    context->registry = stni_calloc(1, sizeof *context->registry);
    if (!context->registry)
        return stni_fail_memory(context, "op registry", sizeof *context->registry);
    context->registry->handlers_on = 1;
    context->free_registry = stni_registry_destroy;
    for (int i = 0; i < n; i++) {
        stn_op *op;
        STNI_TRY(add_op(context, table[i], &op));
    }
    return STN_OK;
}

stn_status stni_registry_add(stn_context *context, const stn_op_desc *desc)
{
    stn_op *op;
    return add_op(context, desc, &op);
}

void stni_registry_destroy(stn_context *context)
{
    struct stni_registry *registry = context->registry;
    if (!registry)
        return;
    HASH_CLEAR(hh, registry->by_name);
    for (int i = 0; i < registry->n_ops; i++)
        op_destroy(registry->ops[i]);
    struct stni_named_handler *named, *next;
    HASH_ITER(hh, registry->named, named, next)
    {
        HASH_DEL(registry->named, named);
        stni_free(named->name);
        stni_free(named);
    }
    stni_free(registry->scratch);
    stni_free(registry->ops);
    stni_free(registry->listed);
    stni_free(registry);
    context->registry = NULL;
}

/* What stands in place of the functions of an op that is not ours: each ends the scopes that it began, and no other. */

static stn_status call_fenced(stn_op_call *call, const char *function, stn_status (*called)(stn_op_call *call))
{
    const int outer = stni_scope_fence(call->context);
    const stn_status status = called(call);
    stni_scope_unfence(call->context, outer, call->op->desc->name, function);
    return status;
}

static stn_status check_fenced(stn_op_call *call)
{
    return call_fenced(call, "its check", call->op->desc->impl->check);
}

static stn_status place_fenced(stn_op_call *call)
{
    return call_fenced(call, "its place", call->op->desc->impl->place);
}

static stn_status run_fenced(stn_op_call *call)
{
    return call_fenced(call, "its run", call->op->desc->impl->run);
}

static stn_status compose_fenced(stn_op_call *call)
{
    return call_fenced(call, "its compose", call->op->desc->impl->compose);
}

static void fence(stn_op_impl *impl)
{
    impl->check = impl->check ? check_fenced : NULL;
    impl->place = impl->place ? place_fenced : NULL;
    impl->run = impl->run ? run_fenced : NULL;
    impl->compose = impl->compose ? compose_fenced : NULL;
}

stn_status stn_op_register(stn_context *context, const stn_op_desc *desc, const stn_op **out)
{
    struct stni_error error = {0};
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_context_check_out(context, "stn_op_register", out));
    if (stni_schema_validate(desc, &error) != STN_OK)
        return stni_fail(context, error.status, "stn_op_register: %s", error.text);
    if (stni_registry_find(context, desc->name))
        return stni_fail(context, STN_ERR_STATE, "stn_op_register: the name '%s' is taken", desc->name);
    stn_op *op;
    STNI_TRY(add_op(context, desc, &op));
    fence(&op->impl);
    *out = op;
    return STN_OK;
}

stn_op *stni_registry_find(const stn_context *context, const char *name)
{
    stn_op *op;
    HASH_FIND_STR(context->registry->by_name, name, op);
    return op;
}

const stn_op *stn_op_find(stn_context *context, const char *name)
{
    const stn_op *op = context && name ? stni_registry_find(context, name) : NULL;
    return op && !(op->desc->flags & STN_OP_INTERNAL) ? op : NULL;
}

const stn_op_desc *stn_op_descriptor(const stn_op *op)
{
    return op ? op->desc : NULL;
}

int stn_op_number(const stn_op *op)
{
    return op ? op->index : -1;
}

const stn_op *stn_op_at(stn_context *context, int index)
{
    if (!context || index < 0 || index >= context->registry->n_listed)
        return NULL;
    return context->registry->listed[index];
}

/* The op and slot that a kernel's name ("op.slot") stands for. */
static stn_op *find_kernel_slot(stn_context *context, const char *name, int *slot)
{
    const char *dot = name ? strrchr(name, '.') : NULL;
    stn_op *op = NULL;
    if (!dot)
        return NULL;
    HASH_FIND(hh, context->registry->by_name, name, (size_t)(dot - name), op);
    *slot = op ? find_slot(&op->impl, dot + 1) : -1;
    return *slot >= 0 ? op : NULL;
}

int stni_context_has_slot(stn_context *context, const char *name)
{
    int slot;
    return find_kernel_slot(context, name, &slot) != NULL;
}

/* A kernel of this or an older header; 0: none, or an incomplete one. */
static int read_kernel(const stn_kernel *given, stn_kernel *out)
{
    if (!given || given->size < offsetof(stn_kernel, workspace) || given->size > sizeof *given)
        return 0;
    memset(out, 0, sizeof *out);
    memcpy(out, given, given->size);
    return out->name && out->device && out->function;
}

stn_status stn_kernel_register(stn_context *context, const stn_kernel *given)
{
    int slot;
    stn_kernel kernel;
    if (!context)
        return STN_ERR_ARGUMENT;
    if (!read_kernel(given, &kernel))
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "stn_kernel_register: the kernel got size %zu, wanted %zu to %zu, a name, device and function",
                         given ? given->size : 0, offsetof(stn_kernel, workspace), sizeof *given);
    stn_op *op = find_kernel_slot(context, kernel.name, &slot);
    if (!op)
        return stni_fail(context, STN_ERR_NOT_FOUND, "stn_kernel_register: no op has a slot '%s'", kernel.name);
    if (kernel.args_size != op->impl.slots[slot].args_size)
        return stni_fail(context, STN_ERR_VERSION, "stn_kernel_register: '%s' takes %zu bytes of arguments, wanted %zu",
                         kernel.name, kernel.args_size, op->impl.slots[slot].args_size);
    if (runs_in(context, &kernel))
        slot_fill(&op->slots[slot], op->slots[slot].added, &kernel);
    return STN_OK;
}

stn_status stn_kernel_enable(stn_context *context, const char *name, int on)
{
    int slot;
    if (!context)
        return STN_ERR_ARGUMENT;
    stn_op *op = find_kernel_slot(context, name, &slot);
    if (!op)
        return stni_fail(context, STN_ERR_NOT_FOUND, "stn_kernel_enable: no op has a slot '%s'", name ? name : "");
    op->slots[slot].added_on = on != 0;
    choose_winners(&op->slots[slot]);
    return STN_OK;
}
