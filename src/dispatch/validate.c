/* Whether a descriptor makes sense, before it is registered: what the walk of an op relies on. And whether an
 * attribute struct does. */
#include "dispatch/schema.h"

#include <shardtensor/device.h>

#include <limits.h>
#include <string.h>

static size_t attr_bytes(stn_attr_type type)
{
    static const size_t bytes[] = {sizeof(int64_t), sizeof(int64_t), sizeof(double), sizeof(stn_number),
                                   sizeof(int64_t), sizeof(stn_ints), sizeof(stn_floats), sizeof(stn_text)};
    return bytes[type];
}

/* An array and its length. */
static stn_status check_array(const stn_op_desc *desc, const char *name, int n, const void *entries, int most,
                              struct stni_error *error)
{
    if (n < 0 || n > most)
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: n_%s got %d, wanted 0 to %d", desc->name, name, n, most);
    if (n > 0 && !entries)
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: %s is NULL, wanted %d entries", desc->name, name, n);
    return STN_OK;
}

static stn_status check_inputs(const stn_op_desc *desc, struct stni_error *error)
{
    STNI_TRY(check_array(desc, "inputs", desc->n_inputs, desc->inputs, STN_MAX_INPUTS, error));
    for (int i = 0; i < desc->n_inputs; i++) {
        if (!desc->inputs[i].name)
            return stni_error_set(error, STN_ERR_ARGUMENT, "%s: input %d has no name", desc->name, i);
        if (desc->inputs[i].variadic && i != desc->n_inputs - 1)
            return stni_error_set(error, STN_ERR_ARGUMENT,
                                  "%s: input '%s' is variadic, wanted at most the last one to be", desc->name,
                                  desc->inputs[i].name);
    }
    return STN_OK;
}

static stn_status check_attr_row(const stn_op_desc *desc, int i, struct stni_error *error)
{
    const stn_attr_schema *row = &desc->attrs[i];
    if (!row->name || (unsigned)row->type > STN_ATTR_STRING)
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: attribute %d has no name or an unknown type", desc->name,
                              i);
    size_t bytes = attr_bytes(row->type);
    if (row->offset % 8 != 0 || bytes > desc->attrs_size || row->offset > desc->attrs_size - bytes)
        return stni_error_set(
            error, STN_ERR_ARGUMENT,
            "%s: attribute '%s' does not fit its struct: %zu bytes at %zu of %zu, wanted a multiple of 8", desc->name,
            row->name, bytes, row->offset, desc->attrs_size);
    if (row->type == STN_ATTR_CHOICE && (!row->choices || !row->choices[0]))
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: attribute '%s' has no choices", desc->name, row->name);
    return STN_OK;
}

static stn_status check_attrs(const stn_op_desc *desc, struct stni_error *error)
{
    if (desc->attrs_size > STNI_MAX_ATTRS_SIZE || desc->attrs_size % 8 != 0)
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: attrs_size got %zu, wanted a multiple of 8 up to %d",
                              desc->name, desc->attrs_size, STNI_MAX_ATTRS_SIZE);
    STNI_TRY(check_array(desc, "attrs", desc->n_attrs, desc->attrs, STNI_MAX_ATTRS_SIZE, error));
    for (int i = 0; i < desc->n_attrs; i++)
        STNI_TRY(check_attr_row(desc, i, error));
    return STN_OK;
}

static stn_status check_outputs(const stn_op_desc *desc, struct stni_error *error)
{
    if (desc->n_outputs < 0 || desc->n_outputs > STN_MAX_OUTPUTS)
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: n_outputs got %d, wanted 0 to %d", desc->name,
                              desc->n_outputs, STN_MAX_OUTPUTS);
    if (desc->n_private < 0 || desc->n_private > desc->n_outputs)
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: n_private got %d, wanted 0 to n_outputs, %d", desc->name,
                              desc->n_private, desc->n_outputs);
    return STN_OK;
}

static stn_status check_slot(const stn_op_desc *desc, int i, struct stni_error *error)
{
    const stn_kernel_slot *slot = &desc->impl->slots[i];
    if (!slot->name || slot->args_size > STN_MAX_KERNEL_ARGS)
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: slot %d has no name, or more than %d bytes of arguments",
                              desc->name, i, STN_MAX_KERNEL_ARGS);
    if (strchr(slot->name, '.'))
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "%s: slot %d got the name '%s', wanted one without the op's and without '.'", desc->name,
                              i, slot->name);
    return STN_OK;
}

static stn_status check_kernels(const stn_op_desc *desc, struct stni_error *error)
{
    const stn_op_impl *impl = desc->impl;
    STNI_TRY(check_array(desc, "slots", impl->n_slots, impl->slots, INT_MAX, error));
    STNI_TRY(check_array(desc, "kernels", impl->n_kernels, impl->kernels, INT_MAX, error));
    for (int i = 0; i < impl->n_slots; i++)
        STNI_TRY(check_slot(desc, i, error));
    for (int i = 0; i < impl->n_kernels; i++) {
        const stn_kernel *kernel = &impl->kernels[i];
        if (kernel->size != sizeof *kernel)
            return stni_error_set(error, STN_ERR_VERSION, "%s: kernel %d has size %zu, wanted %zu", desc->name, i,
                                  kernel->size, sizeof *kernel);
        if (!kernel->name || !kernel->device || !kernel->function)
            return stni_error_set(error, STN_ERR_ARGUMENT,
                                  "%s: kernel %d is incomplete, wanted name, device and function", desc->name, i);
    }
    return STN_OK;
}

/* Flags that require a first input, which a call cannot leave out. */
static stn_status check_flags(const stn_op_desc *desc, struct stni_error *error)
{
    const unsigned known =
        STN_OP_IN_PLACE | STN_OP_ALIAS | STN_OP_FIRST_ORDER | STN_OP_PER_RANK | STN_OP_VIEW | STN_OP_INTERNAL;
    int has_first = desc->n_inputs > 0 && !desc->inputs[0].optional, in_place = (desc->flags & STN_OP_IN_PLACE) != 0;
    if (desc->flags & ~known)
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: flags got unknown bits 0x%x", desc->name,
                              desc->flags & ~known);
    if (in_place && (!has_first || desc->n_outputs != 1 || desc->n_private != 0 || desc->impl->compose ||
                     (desc->flags & STN_OP_ALIAS)))
        return stni_error_set(
            error, STN_ERR_ARGUMENT,
            "%s: in place, wanted a first input that is required, one output that is not private, and "
            "neither compose nor STN_OP_ALIAS",
            desc->name);
    if ((desc->flags & STN_OP_VIEW) && (!has_first || !(desc->flags & STN_OP_ALIAS)))
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "%s: a view, wanted a first input that is required, and STN_OP_ALIAS", desc->name);
    return STN_OK;
}

/* One that gives kernels names, for launches outside of a call. */
static int holds_kernels_alone(const stn_op_desc *desc)
{
    return (desc->flags & STN_OP_INTERNAL) && desc->impl->n_slots > 0 && desc->n_inputs == 0 && desc->n_outputs == 0;
}

stn_status stni_schema_validate(const stn_op_desc *desc, struct stni_error *error)
{
    if (!desc || desc->size != sizeof *desc)
        return stni_error_set(error, STN_ERR_VERSION, "op descriptor: size got %zu, wanted %zu", desc ? desc->size : 0,
                              sizeof *desc);
    const stn_op_impl *impl = desc->impl;
    if (!desc->name || !desc->name[0])
        return stni_error_set(error, STN_ERR_ARGUMENT, "op descriptor: name got %s, wanted a text",
                              desc->name ? "\"\"" : "NULL");
    if (!impl || (!impl->compose && !holds_kernels_alone(desc) && (!impl->check || !impl->run)))
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: %s got NULL, wanted check and run, or compose", desc->name,
                              !impl ? "impl" : impl->check ? "run" : "check");
    STNI_TRY(check_inputs(desc, error));
    STNI_TRY(check_outputs(desc, error));
    STNI_TRY(check_attrs(desc, error));
    STNI_TRY(check_kernels(desc, error));
    STNI_TRY(stni_signature_check(desc, error));
    return check_flags(desc, error);
}

static int64_t count_choices(const char *const *choices)
{
    int64_t n = 0;
    while (choices[n])
        n++;
    return n;
}

/* The legal values of a field that stands for one of a few things, or counts entries: [*least, *most]. */
static void legal_range(const stn_attr_schema *row, int64_t *least, int64_t *most)
{
    *least = INT64_MIN;
    *most = INT64_MAX;
    switch (row->type) {
    case STN_ATTR_CHOICE:
        *least = 0;
        *most = count_choices(row->choices) - 1;
        return;
    case STN_ATTR_NUMBER:
        *least = STN_NUMBER_NONE;
        *most = STN_NUMBER_FLOAT;
        return;
    case STN_ATTR_INTS:
    case STN_ATTR_FLOATS:
        *least = -1;
        *most = STN_MAX_NDIM;
        return;
    case STN_ATTR_BOOL:
    case STN_ATTR_INT:
    case STN_ATTR_FLOAT:
    case STN_ATTR_STRING:
        return;
    }
}

static const char *field_of(const stn_attr_schema *row)
{
    switch (row->type) {
    case STN_ATTR_NUMBER: return ": its kind";
    case STN_ATTR_INTS:
    case STN_ATTR_FLOATS: return ": its length";
    case STN_ATTR_BOOL:
    case STN_ATTR_INT:
    case STN_ATTR_FLOAT:
    case STN_ATTR_CHOICE:
    case STN_ATTR_STRING: return "";
    }
    return "";
}

stn_status stni_schema_check(const stn_op_desc *desc, const void *attrs, struct stni_error *error)
{
    for (int i = 0; i < desc->n_attrs; i++) {
        const stn_attr_schema *row = &desc->attrs[i];
        int64_t value, least, most, initial = 0;
        if (row->type == STN_ATTR_FLOAT || row->type == STN_ATTR_STRING)
            continue;
        memcpy(&value, (const char *)attrs + row->offset, sizeof value); /* what each of the others begins with */
        if (desc->attrs_init)
            memcpy(&initial, (const char *)desc->attrs_init + row->offset, sizeof initial);
        legal_range(row, &least, &most);
        if (value != initial && (value < least || value > most)) /* the default may be none of the choices */
            return stni_error_set(error, STN_ERR_ARGUMENT, "%s: attribute '%s'%s got %lld, wanted %lld to %lld",
                                  desc->name, row->name, field_of(row), (long long)value, (long long)least,
                                  (long long)most);
    }
    return STN_OK;
}
