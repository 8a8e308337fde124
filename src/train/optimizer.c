/* Optimizers: options, parameter groups, steps. What a step computes stands in update_tmpl.h. */
#include "train/optimizer.h"

#include "core/base/host_alloc.h"
#include "core/device/trace.h"
#include "core/redistribute/identity.h"
#include "core/tensor/host_memory.h"
#include "ops/redistribute/action.h"

#include <math.h>
#include <string.h>

static const struct stni_optimizer_rule sgd = {"sgd", STNI_UPDATE_SGD, 0, {NULL}};
static const struct stni_optimizer_rule sgd_momentum = {"sgd", STNI_UPDATE_MOMENTUM, 1, {"momentum"}};
static const struct stni_optimizer_rule adam = {"adam", STNI_UPDATE_ADAM, 2, {"mean", "square"}};
static const struct stni_optimizer_rule adamw = {"adamw", STNI_UPDATE_ADAMW, 2, {"mean", "square"}};

/* Options */

/* Fails unless least <= value < most; NaN is never within. */
static stn_status check_range(stn_context *context, const char *whose, const char *option, double value, double least,
                              double most)
{
    if (value >= least && value < most)
        return STN_OK;
    return stni_fail(context, STN_ERR_ARGUMENT, "%s: %s got %g, wanted at least %g and less than %g", whose, option,
                     value, least, most);
}

static stn_status check_size(stn_context *context, const char *what, size_t size, size_t wanted)
{
    if (size == wanted)
        return STN_OK;
    return stni_fail(context, STN_ERR_ARGUMENT, "%s got a struct of size %zu, wanted %zu", what, size, wanted);
}

static stn_status create(stn_context *context, const struct stni_optimizer_rule *rule,
                         const struct stni_update_numbers *numbers, stn_optimizer **out)
{
    stn_optimizer *optimizer = stni_calloc(1, sizeof *optimizer);
    if (!optimizer)
        return stni_fail_memory(context, "an optimizer", sizeof *optimizer);
    optimizer->context = context;
    stni_context_keep(context);
    optimizer->rule = rule;
    optimizer->numbers = *numbers;
    optimizer->factor = 1;
    *out = optimizer;
    return STN_OK;
}

stn_status stn_sgd_create(stn_context *context, const stn_sgd_options *options, stn_optimizer **out)
{
    const stn_sgd_options defaults = {.size = sizeof defaults}, *o = options ? options : &defaults;
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_context_check_out(context, "sgd_create", out));
    STNI_TRY(stni_context_failed(context));
    STNI_TRY(check_size(context, "sgd: options", o->size, sizeof *o));
    STNI_TRY(check_range(context, "sgd", "rate", o->rate, 0, INFINITY));
    STNI_TRY(check_range(context, "sgd", "momentum", o->momentum, 0, 1));
    STNI_TRY(check_range(context, "sgd", "dampening", o->dampening, 0, 1));
    STNI_TRY(check_range(context, "sgd", "weight_decay", o->weight_decay, 0, INFINITY));
    if (o->nesterov && (o->momentum == 0 || o->dampening != 0))
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "sgd: nesterov got momentum %g and dampening %g, wanted a momentum and no dampening",
                         o->momentum, o->dampening);
    struct stni_update_numbers numbers = {.rate = o->rate == 0 ? 1e-3 : o->rate,
                                          .decay = o->weight_decay,
                                          .a = o->momentum,
                                          .b = 1 - o->dampening,
                                          .nesterov = o->nesterov};
    return create(context, o->momentum == 0 ? &sgd : &sgd_momentum, &numbers, out);
}

static stn_status create_adam(stn_context *context, const struct stni_optimizer_rule *rule,
                              const stn_adamw_options *options, stn_optimizer **out)
{
    const stn_adamw_options defaults = {.size = sizeof defaults}, *o = options ? options : &defaults;
    STNI_TRY(stni_context_failed(context));
    if (o->size != sizeof *o)
        return stni_fail(context, STN_ERR_ARGUMENT, "%s: options got a struct of size %zu, wanted %zu", rule->name,
                         o->size, sizeof *o);
    STNI_TRY(check_range(context, rule->name, "rate", o->rate, 0, INFINITY));
    STNI_TRY(check_range(context, rule->name, "beta1", o->beta1, 0, 1));
    STNI_TRY(check_range(context, rule->name, "beta2", o->beta2, 0, 1));
    STNI_TRY(check_range(context, rule->name, "epsilon", o->epsilon, 0, INFINITY));
    STNI_TRY(check_range(context, rule->name, "weight_decay", o->weight_decay, 0, INFINITY));
    struct stni_update_numbers numbers = {.rate = o->rate == 0 ? 1e-3 : o->rate,
                                          .decay = o->weight_decay,
                                          .a = o->beta1 == 0 ? 0.9 : o->beta1,
                                          .b = o->beta2 == 0 ? 0.999 : o->beta2,
                                          .epsilon = o->epsilon == 0 ? 1e-8 : o->epsilon};
    return create(context, rule, &numbers, out);
}

stn_status stn_adamw_create(stn_context *context, const stn_adamw_options *options, stn_optimizer **out)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_context_check_out(context, "adamw_create", out));
    return create_adam(context, &adamw, options, out);
}

stn_status stn_adam_create(stn_context *context, const stn_adamw_options *options, stn_optimizer **out)
{
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_context_check_out(context, "adam_create", out));
    return create_adam(context, &adam, options, out);
}

/* Parameters */

static void parameter_fini(struct stni_parameter *p)
{
    for (int s = 0; s < STNI_OPTIMIZER_MAX_STATE; s++)
        stn_tensor_release(&p->state[s]);
    stn_tensor_release(&p->tensor);
    stni_free(p->name);
}

static char *copy_text(const char *text)
{
    char *copy = stni_malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

static stn_status check_parameter(const stn_optimizer *optimizer, const stn_named_tensor *parameter)
{
    stn_context *context = optimizer->context;
    const char *name = parameter->name;
    if (!name || !name[0])
        return stni_fail(context, STN_ERR_ARGUMENT, "optimizer: a parameter's name got %s, wanted a text",
                         name ? "''" : "NULL");
    if (stni_keys_find_name(&optimizer->names, name) >= 0)
        return stni_fail(context, STN_ERR_ARGUMENT, "optimizer: '%s' is there already", name);
    const int same = stni_keys_find_address(&optimizer->tensors, parameter->tensor);
    if (same >= 0) /* which would make each step twice */
        return stni_fail(context, STN_ERR_ARGUMENT, "optimizer: '%s' is the tensor that '%s' is", name,
                         optimizer->parameters[same].name);
    STNI_TRY(stni_update_check(context, "optimizer", name, parameter->tensor));
    if (!stn_is_leaf(parameter->tensor) || !stn_requires_grad(parameter->tensor))
        return stni_fail(context, STN_ERR_STATE, "optimizer: '%s' does not require grad, wanted a leaf that does",
                         name);
    return STN_OK;
}

static stn_status reserve(stn_optimizer *optimizer, int more)
{
    if (optimizer->n + more <= optimizer->cap)
        return STN_OK;
    int cap = 2 * optimizer->cap > optimizer->n + more ? 2 * optimizer->cap : optimizer->n + more;
    struct stni_parameter *grown = stni_realloc(optimizer->parameters, (size_t)cap * sizeof *grown);
    if (!grown)
        return stni_fail_memory(optimizer->context, "an optimizer's parameters", (size_t)cap * sizeof *grown);
    optimizer->parameters = grown;
    optimizer->cap = cap;
    return STN_OK;
}

static stn_status zeros_for(stn_tensor *parameter, stn_tensor **out)
{
    stn_context *context = parameter->context;
    const stn_spec *spec = parameter->spec;
    STNI_TRY(stni_tensor_create_for(parameter, spec, out));
    return stni_fail_queue(context,
                           stni_fill_zeros(context->queue, (*out)->data, spec->local_numel, spec->layout.dtype));
}

static stn_status add(stn_optimizer *optimizer, const stn_parameter_group *group, const stn_named_tensor *parameter)
{
    STNI_TRY(check_parameter(optimizer, parameter));
    struct stni_parameter p = {.name = copy_text(parameter->name),
                               .rate = group->rate == 0 ? optimizer->numbers.rate : group->rate,
                               .decay = group->has_weight_decay ? group->weight_decay : optimizer->numbers.decay};
    stn_status status =
        p.name ? STN_OK : stni_fail_memory(optimizer->context, "a parameter's name", strlen(parameter->name) + 1);
    for (int s = 0; s < optimizer->rule->n_state && status == STN_OK; s++)
        status = zeros_for(parameter->tensor, &p.state[s]);
    if (status == STN_OK)
        status = stni_keys_add_name(&optimizer->names, optimizer->context, p.name, optimizer->n);
    if (status == STN_OK)
        status = stni_keys_add_address(&optimizer->tensors, optimizer->context, parameter->tensor, optimizer->n);
    if (status != STN_OK) {
        stni_keys_cut(&optimizer->names, optimizer->n);
        parameter_fini(&p);
        return status;
    }
    p.tensor = stn_tensor_retain(parameter->tensor);
    optimizer->parameters[optimizer->n++] = p;
    return STN_OK;
}

static stn_status add_group(stn_optimizer *optimizer, const stn_parameter_group *group)
{
    stn_context *context = optimizer->context;
    int before = optimizer->n;
    if (group)
        STNI_TRY(check_size(context, "optimizer: the group", group->size, sizeof *group));
    if (!group || group->n < 0 || (group->n > 0 && !group->parameters))
        return stni_fail(context, STN_ERR_ARGUMENT, "optimizer: group got %d parameters at %p, wanted a list",
                         group ? group->n : 0, group ? (const void *)group->parameters : NULL);
    STNI_TRY(check_range(context, "optimizer", "the group's rate", group->rate, 0, INFINITY));
    STNI_TRY(check_range(context, "optimizer", "the group's weight_decay",
                         group->has_weight_decay ? group->weight_decay : 0, 0, INFINITY));
    STNI_TRY(reserve(optimizer, group->n));
    for (int i = 0; i < group->n; i++) {
        stn_status status = add(optimizer, group, &group->parameters[i]);
        if (status == STN_OK)
            continue;
        stni_keys_cut(&optimizer->names, before);
        stni_keys_cut(&optimizer->tensors, before);
        while (optimizer->n > before)
            parameter_fini(&optimizer->parameters[--optimizer->n]);
        return status;
    }
    return STN_OK;
}

stn_status stn_optimizer_add_group(stn_optimizer *optimizer, const stn_parameter_group *group)
{
    if (!optimizer)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(optimizer->context));
    return stni_action_end(optimizer->context, add_group(optimizer, group));
}

stn_status stn_optimizer_add_params(stn_optimizer *optimizer, const stn_params *params, double rate)
{
    if (!optimizer)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(optimizer->context));
    const stn_parameter_group all = {
        .size = sizeof all, .n = stn_params_count(params), .parameters = stn_params_named(params), .rate = rate};
    const stn_status status =
        all.n > 0 ? add_group(optimizer, &all)
                  : stni_fail(optimizer->context, STN_ERR_ARGUMENT, "optimizer: params got %s, wanted parameters",
                              params ? "a list without any" : "NULL");
    return stni_action_end(optimizer->context, status);
}

/* Steps */

struct stni_update_numbers stni_optimizer_numbers(const stn_optimizer *optimizer, const struct stni_parameter *p)
{
    struct stni_update_numbers numbers = optimizer->numbers;
    numbers.rate = p->rate * optimizer->factor;
    numbers.decay = p->decay;
    if (optimizer->rule == &sgd_momentum && p->steps == 1)
        numbers.b = 1;
    if (optimizer->rule == &adamw || optimizer->rule == &adam) {
        numbers.mean_scale = 1 / (1 - pow(numbers.a, (double)p->steps));
        numbers.square_scale = 1 / (1 - pow(numbers.b, (double)p->steps));
    }
    return numbers;
}

/* `counts`: of the step that is being captured, or NULL. */
static stn_status step_one(stn_optimizer *optimizer, struct stni_update *update, int index,
                           struct stni_optimizer_counts *counts)
{
    struct stni_parameter *p = &optimizer->parameters[index];
    stn_tensor *operands[STNI_UPDATE_OPERANDS] = {p->tensor}, *grad;
    uint32_t written = 1;
    STNI_TRY(stni_update_gradient(p->tensor, &grad));
    if (!grad)
        return STN_OK;
    p->steps++;
    update->index = index;
    if (counts)
        stni_optimizer_count(counts, index);
    operands[1] = grad;
    for (int s = 0; s < optimizer->rule->n_state; s++) {
        operands[2 + s] = p->state[s];
        written |= UINT32_C(4) << s;
    }
    struct stni_update_numbers numbers = stni_optimizer_numbers(optimizer, p);
    return stni_update_add(update, &numbers, 2 + optimizer->rule->n_state, operands, written, grad);
}

/* All parameters or none are changed. */
static stn_status check_step(const stn_optimizer *optimizer)
{
    for (int i = 0; i < optimizer->n; i++) {
        const struct stni_parameter *p = &optimizer->parameters[i];
        stn_tensor *grad;
        STNI_TRY(stni_update_check_writable(optimizer->context, "optimizer", p->name, p->tensor));
        STNI_TRY(stn_grad_of(p->tensor, &grad));
    }
    return STN_OK;
}

static stn_status step(stn_optimizer *optimizer)
{
    struct stni_update update;
    struct stni_update_renewal renewal;
    struct stni_optimizer_counts *counts = NULL;
    stn_status status = STN_OK;
    STNI_TRY(check_step(optimizer));
    stni_update_begin(&update, optimizer->context, optimizer->rule->update);
    if (optimizer->context->capture) {
        STNI_TRY(stni_optimizer_record(optimizer, &renewal, &counts));
        update.renewal = &renewal;
    }
    for (int i = 0; i < optimizer->n && status == STN_OK; i++)
        status = step_one(optimizer, &update, i, counts);
    status = stni_update_end(&update, status);
    optimizer->steps += status == STN_OK;
    return status;
}

stn_status stn_optimizer_step(stn_optimizer *optimizer)
{
    if (!optimizer)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(optimizer->context));
    if (optimizer->context->trace)
        stni_trace_range_begin(optimizer->context->trace, "step");
    const stn_status status = step(optimizer);
    if (optimizer->context->trace)
        stni_trace_range_end(optimizer->context->trace);
    return stni_action_end(optimizer->context, status);
}

stn_status stn_optimizer_zero_grad(stn_optimizer *optimizer)
{
    if (!optimizer)
        return STN_ERR_ARGUMENT;
    for (int i = 0; i < optimizer->n; i++)
        STNI_TRY(stn_zero_grad(optimizer->parameters[i].tensor));
    return STN_OK;
}

void stn_optimizer_set_rate_factor(stn_optimizer *optimizer, double factor)
{
    if (optimizer)
        optimizer->factor = factor;
}

int64_t stn_optimizer_steps(const stn_optimizer *optimizer)
{
    return optimizer ? optimizer->steps : 0;
}

void stn_optimizer_destroy(stn_optimizer **optimizer)
{
    if (!optimizer || !*optimizer)
        return;
    stni_keys_cut(&(*optimizer)->names, 0);
    stni_keys_cut(&(*optimizer)->tensors, 0);
    for (int i = 0; i < (*optimizer)->n; i++)
        parameter_fini(&(*optimizer)->parameters[i]);
    stni_optimizer_unlink(*optimizer);
    stni_context_unkeep((*optimizer)->context);
    stni_free((*optimizer)->parameters);
    stni_free(*optimizer);
    *optimizer = NULL;
}
