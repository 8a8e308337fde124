/* Lists of parameters: names and leaves, side by side as the functions that work on all of them want them. */
#include "core/base/host_alloc.h"
#include "core/tensor/scope.h"
#include "ops/redistribute/action.h"
#include "train/keys.h"

#include <shardtensor/train.h>

#include <string.h>

struct stn_params {
    stn_context *context;
    int n, cap;
    stn_named_tensor *named; /* names are the list's own, tensors retained */
    stn_tensor **tensors;    /* the same once more */
    struct stni_keys names;
};

stn_status stn_params_create(stn_context *context, stn_params **out)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_context_check_out(context, "params_create", out));
    STNI_TRY(stni_context_failed(context));
    stn_params *params = stni_calloc(1, sizeof *params);
    if (!params)
        return stni_fail_memory(context, "a list of parameters", sizeof *params);
    params->context = context;
    stni_context_keep(context);
    *out = params;
    return STN_OK;
}

static stn_status check_name(const stn_params *params, const char *name)
{
    if (!name || !name[0])
        return stni_fail(params->context, STN_ERR_ARGUMENT, "params: a parameter's name got %s, wanted a text",
                         name ? "''" : "NULL");
    if (stn_params_find(params, name))
        return stni_fail(params->context, STN_ERR_ARGUMENT, "params: '%s' is there already", name);
    return STN_OK;
}

static stn_status reserve(stn_params *params)
{
    const int cap = params->cap ? 2 * params->cap : 32;
    if (params->n < params->cap)
        return STN_OK;
    stn_named_tensor *named = stni_realloc(params->named, (size_t)cap * sizeof *named);
    params->named = named ? named : params->named;
    stn_tensor **tensors = named ? stni_realloc(params->tensors, (size_t)cap * sizeof *tensors) : NULL;
    if (!tensors)
        return stni_fail_memory(params->context, "a list of parameters",
                                (size_t)cap * (sizeof *named + sizeof *tensors));
    params->tensors = tensors;
    params->cap = cap;
    return STN_OK;
}

static stn_status add(stn_params *params, const char *name, stn_tensor *tensor)
{
    if (tensor->context != params->context)
        return stni_fail(params->context, STN_ERR_ARGUMENT, "params: '%s' is another context's tensor", name);
    if (!stn_is_leaf(tensor))
        return stni_fail(params->context, STN_ERR_STATE,
                         "params: '%s' is the result of an op, wanted a leaf (stn_detach makes one)", name);
    STNI_TRY(reserve(params));
    const size_t bytes = strlen(name) + 1;
    char *copy = stni_malloc(bytes);
    if (!copy)
        return stni_fail_memory(params->context, "a parameter's name", bytes);
    memcpy(copy, name, bytes);
    stn_status status = stni_keys_add_name(&params->names, params->context, copy, params->n);
    if (status == STN_OK)
        status = stn_set_requires_grad(tensor, 1);
    if (status != STN_OK) {
        stni_keys_cut(&params->names, params->n);
        stni_free(copy);
        return status;
    }
    params->named[params->n] = (stn_named_tensor){copy, stn_tensor_retain(tensor)};
    params->tensors[params->n++] = tensor;
    return STN_OK;
}

stn_status stn_params_add(stn_params *params, const char *name, stn_tensor *tensor)
{
    if (!params)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(params->context));
    stn_status status = check_name(params, name);
    if (status == STN_OK && !tensor)
        status = stni_fail(params->context, STN_ERR_ARGUMENT, "params: '%s' got NULL, wanted a tensor", name);
    if (status == STN_OK)
        status = stni_tensor_require(tensor, name);
    return stni_action_end(params->context, status == STN_OK ? add(params, name, tensor) : status);
}

static stn_status check_making(const stn_params *params, const char *name, const stn_spec *spec,
                               stn_initialiser initialiser)
{
    if (spec && initialiser)
        return STN_OK;
    return stni_fail(params->context, STN_ERR_ARGUMENT, "params: '%s' got no %s", name, spec ? "initialiser" : "spec");
}

/* What the initialiser makes on its way is the scope's. */
static stn_status make(stn_params *params, const char *name, const stn_spec *spec, stn_initialiser initialiser)
{
    stn_context *context = params->context;
    STNI_TRY(check_name(params, name));
    STNI_TRY(check_making(params, name, spec, initialiser));
    stni_scope_enter(context);
    stn_no_grad_begin(context);
    const int outer = stni_scope_fence(context);
    stn_tensor *tensor = initialiser(context, spec);
    stni_scope_unfence(context, outer, "params", "the initialiser");
    stn_no_grad_end(context);
    stn_status status = stni_context_failed(context);
    if (status == STN_OK && (!tensor || tensor->spec != spec))
        status =
            stni_fail(context, STN_ERR_ARGUMENT, "params: the initialiser of '%s' gave %s, wanted a tensor of the spec",
                      name, tensor ? "another layout" : "NULL");
    if (status == STN_OK)
        status = add(params, name, tensor);
    stni_scope_leave(context);
    return status;
}

stn_tensor *stn_params_make(stn_params *params, const char *name, const stn_spec *spec, stn_initialiser initialiser)
{
    if (!params)
        return NULL;
    if (stni_action_begin(params->context) != STN_OK)
        return params->context->error_tensor;
    const stn_status status = stni_action_end(params->context, make(params, name, spec, initialiser));
    return status == STN_OK ? params->tensors[params->n - 1] : params->context->error_tensor;
}

/* Whoever asks with another spec has another weight in mind. */
static stn_status get(stn_params *params, const char *name, const stn_spec *spec, stn_initialiser initialiser,
                      stn_tensor **out)
{
    char has[STNI_ERROR_TEXT / 3], wanted[STNI_ERROR_TEXT / 3]; /* so that the message has room for both */
    *out = stn_params_find(params, name);
    if (!*out) {
        STNI_TRY(make(params, name, spec, initialiser));
        *out = params->tensors[params->n - 1];
        return STN_OK;
    }
    STNI_TRY(check_making(params, name, spec, initialiser));
    if ((*out)->spec == spec)
        return STN_OK;
    stn_spec_describe((*out)->spec, has, sizeof has);
    stn_spec_describe(spec, wanted, sizeof wanted);
    return stni_fail(params->context, STN_ERR_ARGUMENT, "params: '%s' is %s, and got %s, wanted the same", name, has,
                     wanted);
}

stn_tensor *stn_params_get(stn_params *params, const char *name, const stn_spec *spec, stn_initialiser initialiser)
{
    stn_tensor *tensor = NULL;
    if (!params)
        return NULL;
    if (stni_action_begin(params->context) != STN_OK)
        return params->context->error_tensor;
    const stn_status status = stni_action_end(params->context, get(params, name, spec, initialiser, &tensor));
    return status == STN_OK ? tensor : params->context->error_tensor;
}

int stn_params_count(const stn_params *params)
{
    return params ? params->n : 0;
}

const stn_named_tensor *stn_params_named(const stn_params *params)
{
    return params ? params->named : NULL;
}

stn_tensor *const *stn_params_tensors(const stn_params *params)
{
    return params ? params->tensors : NULL;
}

stn_tensor *stn_params_find(const stn_params *params, const char *name)
{
    const int at = params && name ? stni_keys_find_name(&params->names, name) : -1;
    return at >= 0 ? params->tensors[at] : NULL;
}

stn_status stn_params_zero_grad(stn_params *params)
{
    if (!params)
        return STN_ERR_ARGUMENT;
    for (int i = 0; i < params->n; i++)
        STNI_TRY(stn_zero_grad(params->tensors[i]));
    return STN_OK;
}

void stn_params_destroy(stn_params **params)
{
    if (!params || !*params)
        return;
    stni_keys_cut(&(*params)->names, 0);
    for (int i = 0; i < (*params)->n; i++) {
        stni_free((void *)(uintptr_t)(*params)->named[i].name);
        stn_tensor_release(&(*params)->named[i].tensor);
    }
    stni_context_unkeep((*params)->context);
    stni_free((*params)->named);
    stni_free((*params)->tensors);
    stni_free(*params);
    *params = NULL;
}
