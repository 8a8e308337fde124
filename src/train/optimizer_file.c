/* An optimizer in a file: parameters, their state, and how many steps each has made. */
#include "ops/redistribute/action.h"
#include "train/contents.h"
#include "train/optimizer.h"

static const char steps_key[] = "steps";

stn_status stni_optimizer_list(const stn_optimizer *optimizer, struct stni_contents *contents)
{
    const struct stni_optimizer_rule *rule = optimizer->rule;
    STNI_TRY(stni_contents_add_number(contents, steps_key, NULL, (uint64_t)optimizer->steps));
    for (int i = 0; i < optimizer->n; i++) {
        const struct stni_parameter *p = &optimizer->parameters[i];
        STNI_TRY(stni_contents_add_tensor(contents, p->name, NULL, p->tensor));
        for (int s = 0; s < rule->n_state; s++)
            STNI_TRY(stni_contents_add_tensor(contents, p->name, rule->state[s], p->state[s]));
        STNI_TRY(stni_contents_add_number(contents, p->name, steps_key, (uint64_t)p->steps));
    }
    return STN_OK;
}

void stni_optimizer_take_numbers(stn_optimizer *optimizer, const uint64_t *numbers)
{
    optimizer->steps = (int64_t)numbers[0];
    for (int i = 0; i < optimizer->n; i++)
        optimizer->parameters[i].steps = (int64_t)numbers[1 + i];
}

stn_status stn_optimizer_save(stn_optimizer *optimizer, const char *path)
{
    if (!optimizer)
        return STN_ERR_ARGUMENT;
    struct stni_contents c = {.context = optimizer->context};
    STNI_TRY(stni_action_begin(optimizer->context));
    stn_status status = stni_action_end(optimizer->context, stni_optimizer_list(optimizer, &c));
    if (status == STN_OK)
        status = stn_save(optimizer->context, path, c.n, c.tensors, c.n_metadata, c.metadata);
    stni_contents_fini(&c);
    return status;
}

static stn_status load(stn_optimizer *optimizer, const char *path, struct stni_contents *c)
{
    STNI_TRY(stni_optimizer_list(optimizer, c));
    STNI_TRY(stni_load_check(optimizer->context, path, c->n, c->tensors));
    struct stni_load l = {.context = optimizer->context, .path = path, .n = c->n, .tensors = c->tensors};
    if (stni_load_open(&l) == STN_OK && stni_contents_read_numbers(c, &l, "optimizer") == STN_OK &&
        stni_contents_check_counts(c, 0, 1 + optimizer->n, &l, "optimizer") == STN_OK)
        stni_load_find(&l);
    stn_status status = stni_load_agree(&l);
    if (status == STN_OK)
        status = stni_load_fill(&l);
    if (status == STN_OK)
        stni_optimizer_take_numbers(optimizer, c->numbers);
    stni_load_fini(&l);
    return status;
}

stn_status stn_optimizer_load(stn_optimizer *optimizer, const char *path)
{
    if (!optimizer)
        return STN_ERR_ARGUMENT;
    struct stni_contents c = {.context = optimizer->context};
    STNI_TRY(stni_action_begin(optimizer->context));
    const stn_status status = load(optimizer, path, &c);
    stni_contents_fini(&c);
    return stni_action_end(optimizer->context, status);
}
