/* An optimizer in a file: parameters, their state, and how many steps each has made. */
#include "core/host_alloc.h"
#include "ops/redistribute/action.h"
#include "train/load.h"
#include "train/optimizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 24 }; /* bytes of a number as text */

static const char steps_key[] = "steps";

/* What is written: a list of tensors and their names, and the numbers of steps. */
struct contents {
    int n, n_metadata;
    stn_named_tensor *tensors;
    stn_metadata *metadata;
    char *texts; /* where names, keys and values lie */
};

static void contents_fini(struct contents *c)
{
    stni_free(c->tensors);
    stni_free(c->metadata);
    stni_free(c->texts);
}

static size_t longest_name(const stn_optimizer *optimizer)
{
    size_t longest = 0;
    for (int i = 0; i < optimizer->n; i++) {
        size_t length = strlen(optimizer->parameters[i].name);
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* NAME.PART in the next place of `texts`. */
static const char *join(char **texts, size_t room, const char *name, const char *part)
{
    char *text = *texts;
    snprintf(text, room, "%s.%s", name, part);
    *texts += room;
    return text;
}

static const char *number(char **texts, int64_t value)
{
    char *text = *texts;
    snprintf(text, NUMBER, "%" PRId64, value);
    *texts += NUMBER;
    return text;
}

static stn_status list(const stn_optimizer *optimizer, struct contents *c)
{
    const struct stni_optimizer_rule *rule = optimizer->rule;
    size_t n = (size_t)optimizer->n, room = longest_name(optimizer) + 32, per = (size_t)(rule->n_state + 1) * room + NUMBER;
    *c = (struct contents){.tensors = stni_calloc(n * (size_t)(rule->n_state + 1) + 1, sizeof *c->tensors),
                           .metadata = stni_calloc(n + 1, sizeof *c->metadata), .texts = stni_calloc(n + 1, per)};
    if (!c->tensors || !c->metadata || !c->texts)
        return stni_fail_memory(optimizer->context, "the list of a file's tensors", (n + 1) * per);
    char *texts = c->texts;
    c->metadata[c->n_metadata++] = (stn_metadata){steps_key, number(&texts, optimizer->steps)};
    for (int i = 0; i < optimizer->n; i++) {
        const struct stni_parameter *p = &optimizer->parameters[i];
        c->tensors[c->n++] = (stn_named_tensor){p->name, p->tensor};
        for (int s = 0; s < rule->n_state; s++)
            c->tensors[c->n++] = (stn_named_tensor){join(&texts, room, p->name, rule->state[s]), p->state[s]};
        const char *key = join(&texts, room, p->name, steps_key);
        c->metadata[c->n_metadata++] = (stn_metadata){key, number(&texts, p->steps)};
    }
    return STN_OK;
}

stn_status stn_optimizer_save(stn_optimizer *optimizer, const char *path)
{
    struct contents c = {0};
    if (!optimizer)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(optimizer->context));
    stn_status status = stni_action_end(optimizer->context, list(optimizer, &c));
    if (status == STN_OK)
        status = stn_save(optimizer->context, path, c.n, c.tensors, c.n_metadata, c.metadata);
    contents_fini(&c);
    return status;
}

/* The steps of all, before anything is changed. */
static stn_status read_steps(struct stni_load *l, const struct contents *c, int64_t *steps)
{
    for (int i = 0; i < c->n_metadata; i++) {
        const char *text = stn_file_metadata(l->file, c->metadata[i].key);
        char *end = NULL;
        if (!text)
            return stni_error_set(&l->error, STN_ERR_NOT_FOUND, "optimizer: %s: no metadata '%s'", l->path, c->metadata[i].key);
        steps[i] = strtoll(text, &end, 10);
        if (end == text || *end || steps[i] < 0)
            return stni_error_set(&l->error, STN_ERR_IO, "optimizer: %s: metadata '%s' is '%.24s', wanted a number of steps", l->path,
                                  c->metadata[i].key, text);
    }
    return STN_OK;
}

static stn_status load(stn_optimizer *optimizer, struct stni_load *l, const struct contents *c)
{
    int64_t *steps = stni_calloc((size_t)c->n_metadata, sizeof *steps);
    if (!steps)
        return stni_fail_memory(optimizer->context, "numbers of steps", (size_t)c->n_metadata * sizeof *steps);
    if (stni_load_read(l) == STN_OK)
        read_steps(l, c, steps);
    stn_status status = stni_load_agree(l);
    if (status == STN_OK)
        status = stni_load_fill(l);
    for (int i = 0; i <= optimizer->n && status == STN_OK; i++)
        *(i == 0 ? &optimizer->steps : &optimizer->parameters[i - 1].steps) = steps[i];
    stni_free(steps);
    return status;
}

stn_status stn_optimizer_load(stn_optimizer *optimizer, const char *path)
{
    struct contents c = {0};
    if (!optimizer)
        return STN_ERR_ARGUMENT;
    stn_context *context = optimizer->context;
    STNI_TRY(stni_action_begin(context));
    stn_status status = list(optimizer, &c);
    if (status == STN_OK)
        status = stni_load_check(context, path, c.n, c.tensors);
    if (status == STN_OK) {
        struct stni_load l = {.context = context, .path = path, .n = c.n, .tensors = c.tensors};
        status = load(optimizer, &l, &c);
        stni_load_fini(&l);
    }
    contents_fini(&c);
    return stni_action_end(context, status);
}
