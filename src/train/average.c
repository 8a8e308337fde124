/* Exponential means of parameters. */
#include "core/base/host_alloc.h"
#include "core/tensor/host_memory.h"
#include "ops/redistribute/action.h"
#include "train/average.h"
#include "train/keys.h"
#include "train/update.h"

#include <string.h>

static stn_status copy_tensor(stn_tensor *from, stn_tensor **out)
{
    STNI_TRY(stni_tensor_create_for(from, from->spec, out));
    stn_status status = stni_fail_queue(from->context, stni_tensor_copy_elements(*out, from));
    if (status != STN_OK)
        stni_tensor_drop(out);
    return status;
}

static stn_status add(stn_average *average, struct stni_keys *tensors, const stn_named_tensor *parameter)
{
    const char *name = parameter->name ? parameter->name : "";
    struct stni_average_entry *entry = &average->entry[average->n];
    STNI_TRY(stni_update_check(average->context, "average", name, parameter->tensor));
    const int same = stni_keys_find_address(tensors, parameter->tensor);
    if (same >= 0) /* two means would not find back from where they have changed places */
        return stni_fail(average->context, STN_ERR_ARGUMENT, "average: '%s' is the tensor that '%s' is", name,
                         average->entry[same].name);
    STNI_TRY(stni_keys_add_address(tensors, average->context, parameter->tensor, average->n));
    entry->name = stni_malloc(strlen(name) + 1);
    if (!entry->name)
        return stni_fail_memory(average->context, "a parameter's name", strlen(name) + 1);
    average->n++;
    strcpy(entry->name, name);
    STNI_TRY(copy_tensor(parameter->tensor, &entry->mean));
    entry->parameter = stn_tensor_retain(parameter->tensor);
    return STN_OK;
}

static stn_status create(stn_context *context, int n, const stn_named_tensor *parameters, stn_average **out)
{
    if (n < 0 || (n > 0 && !parameters))
        return stni_fail(context, STN_ERR_ARGUMENT, "average: parameters got %d at %p, wanted a list", n,
                         (const void *)parameters);
    size_t bytes = sizeof(stn_average) + (size_t)n * sizeof(struct stni_average_entry);
    stn_average *average = stni_calloc(1, bytes);
    if (!average)
        return stni_fail_memory(context, "an average", bytes);
    average->context = context;
    stni_context_keep(context);
    struct stni_keys tensors = {NULL};
    stn_status status = STN_OK;
    for (int i = 0; i < n && status == STN_OK; i++)
        status = add(average, &tensors, &parameters[i]);
    stni_keys_cut(&tensors, 0);
    if (status == STN_OK)
        *out = average;
    else
        stn_average_destroy(&average);
    return status;
}

stn_status stn_average_create(stn_context *context, int n, const stn_named_tensor *parameters, stn_average **out)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_context_check_out(context, "average_create", out));
    STNI_TRY(stni_action_begin(context));
    return stni_action_end(context, create(context, n, parameters, out));
}

static stn_status apply(stn_average *average, enum stni_update_kind kind, double decay, uint32_t written)
{
    struct stni_update update;
    const struct stni_update_numbers numbers = {.decay = decay};
    for (int i = 0; i < average->n; i++) {
        const struct stni_average_entry *entry = &average->entry[i];
        STNI_TRY(stni_update_check_writable(average->context, "average", entry->name, entry->mean));
        if (written >> 1 & 1)
            STNI_TRY(stni_update_check_writable(average->context, "average", entry->name, entry->parameter));
    }
    stni_update_begin(&update, average->context, kind);
    stn_status status = STN_OK;
    for (int i = 0; i < average->n && status == STN_OK; i++) {
        stn_tensor *operands[] = {average->entry[i].mean, average->entry[i].parameter};
        status = stni_update_add(&update, &numbers, 2, operands, written, NULL);
    }
    return stni_update_end(&update, status);
}

stn_status stn_average_update(stn_average *average, double decay)
{
    if (!average)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(average->context));
    stn_status status = STN_OK;
    if (!(decay >= 0 && decay <= 1))
        status = stni_fail(average->context, STN_ERR_ARGUMENT, "average: decay got %g, wanted 0 to 1", decay);
    if (status == STN_OK)
        status = apply(average, STNI_UPDATE_AVERAGE, decay, 1);
    return stni_action_end(average->context, status);
}

stn_status stn_average_swap(stn_average *average)
{
    if (!average)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(average->context));
    stn_status status = stni_context_not_captured(
        average->context, "average_swap",
        "whose repetitions would not say which of the two are in place: do it before or after");
    if (status == STN_OK)
        status = apply(average, STNI_UPDATE_SWAP, 0, 3);
    average->swapped ^= status == STN_OK;
    return stni_action_end(average->context, status);
}

stn_named_tensor stn_average_at(const stn_average *average, int i)
{
    if (!average || i < 0 || i >= average->n)
        return (stn_named_tensor){NULL, NULL};
    return (stn_named_tensor){average->entry[i].name, average->entry[i].mean};
}

void stn_average_destroy(stn_average **average)
{
    if (!average || !*average)
        return;
    for (int i = 0; i < (*average)->n; i++) {
        struct stni_average_entry *entry = &(*average)->entry[i];
        stn_tensor_release(&entry->mean);
        stn_tensor_release(&entry->parameter);
        stni_free(entry->name);
    }
    stni_context_unkeep((*average)->context);
    stni_free(*average);
    *average = NULL;
}
