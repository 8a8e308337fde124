/* A whole run in one file: an optimizer's, an average, the caller's tensors, and the numbers that the run goes on
 * from. */
#include "core/base/host_alloc.h"
#include "core/context/context.h"
#include "ops/redistribute/action.h"
#include "train/average.h"
#include "train/contents.h"
#include "train/optimizer.h"
#include "train/streams.h"

#include <stddef.h>
#include <string.h>

/* Keys of the metadata; the caller's own may not begin like this. */
#define PREFIX "stn."
static const char step_key[] = PREFIX "step", seed_key[] = PREFIX "seed", stream_key[] = PREFIX "stream",
                  factor_key[] = PREFIX "rate_factor", rule_key[] = PREFIX "optimizer";

/* Numbers stand in this order, the optimizer's behind them. */
enum number { NUMBER_STEP, NUMBER_SEED, NUMBER_STREAM, NUMBER_FACTOR, NUMBER_OPTIMIZER };

/* A double as the number that its bits are: no digits are lost, no locale has a say. */
static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static stn_status check_texts(stn_context *context, const stn_checkpoint *c)
{
    if (c->n_texts < 0 || (c->n_texts > 0 && !c->texts))
        return stni_fail(context, STN_ERR_ARGUMENT, "checkpoint: texts got %d at %p, wanted a list", c->n_texts,
                         (const void *)c->texts);
    for (int i = 0; i < c->n_texts; i++)
        if (!c->texts[i].key || !c->texts[i].value || strncmp(c->texts[i].key, PREFIX, strlen(PREFIX)) == 0)
            return stni_fail(
                context, STN_ERR_ARGUMENT,
                "checkpoint: texts[%d] is called '%s', wanted a key and a value, and no key that begins with '%s'", i,
                c->texts[i].key ? c->texts[i].key : "NULL", PREFIX);
    return STN_OK;
}

static stn_status check(stn_context *context, const stn_checkpoint *c)
{
    STNI_TRY(
        stni_context_not_captured(context, "checkpoint", "whose repetitions know no files: do it before or after"));
    if (c->n_tensors < 0 || (c->n_tensors > 0 && !c->tensors))
        return stni_fail(context, STN_ERR_ARGUMENT, "checkpoint: tensors got %d at %p, wanted a list", c->n_tensors,
                         (const void *)c->tensors);
    for (int i = 0; i < c->n_tensors; i++)
        if (!c->tensors[i].name)
            return stni_fail(context, STN_ERR_ARGUMENT, "checkpoint: tensors[%d] got no name, wanted one", i);
    if (c->step < 0)
        return stni_fail(context, STN_ERR_ARGUMENT, "checkpoint: step got %lld, wanted at least 0", (long long)c->step);
    if ((c->optimizer && c->optimizer->context != context) || (c->average && c->average->context != context))
        return stni_fail(context, STN_ERR_ARGUMENT, "checkpoint: the %s is another context's",
                         c->optimizer && c->optimizer->context != context ? "optimizer" : "average");
    if (c->average && c->average->swapped)
        return stni_fail(
            context, STN_ERR_STATE,
            "checkpoint: parameters and means have changed places, wanted them back in theirs (stn_average_swap)");
    return STN_OK;
}

/* Numbers and tensors, which are the same list for saving and loading. */
static stn_status list(stn_context *context, const stn_checkpoint *c, struct stni_contents *contents)
{
    STNI_TRY(stni_contents_add_number(contents, step_key, NULL, (uint64_t)c->step));
    STNI_TRY(stni_contents_add_number(contents, seed_key, NULL, context->seed));
    STNI_TRY(stni_contents_add_number(contents, stream_key, NULL, context->random_stream));
    if (c->optimizer) {
        STNI_TRY(stni_contents_add_number(contents, factor_key, NULL, bits_of(c->optimizer->factor)));
        STNI_TRY(stni_optimizer_list(c->optimizer, contents));
    }
    for (int i = 0; c->average && i < c->average->n; i++)
        STNI_TRY(stni_contents_add_tensor(contents, c->average->entry[i].name, "average", c->average->entry[i].mean));
    for (int i = 0; i < c->n_tensors; i++)
        STNI_TRY(stni_contents_add_tensor(contents, c->tensors[i].name, NULL, c->tensors[i].tensor));
    return STN_OK;
}

static stn_status list_texts(const stn_checkpoint *c, struct stni_contents *contents)
{
    if (c->optimizer)
        STNI_TRY(stni_contents_add_text(contents, rule_key, c->optimizer->rule->name));
    for (int i = 0; i < c->n_texts; i++)
        STNI_TRY(stni_contents_add_text(contents, c->texts[i].key, c->texts[i].value));
    return STN_OK;
}

static stn_status prepare(stn_context *context, const stn_checkpoint *given, stn_checkpoint *c,
                          struct stni_contents *contents)
{
    if (!given || given->size < offsetof(stn_checkpoint, texts) + sizeof given->texts)
        return stni_fail(context, STN_ERR_ARGUMENT,
                         "checkpoint: checkpoint got %s of %zu bytes, wanted one of size %zu",
                         given ? "a struct" : "NULL", given ? given->size : 0, sizeof *given);
    *c = *given;
    STNI_TRY(check(context, c));
    return list(context, c, contents);
}

stn_status stn_checkpoint_save(stn_context *context, const char *path, const stn_checkpoint *checkpoint)
{
    stn_checkpoint c = {0};
    struct stni_contents contents = {.context = context};
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(context));
    stn_status status = prepare(context, checkpoint, &c, &contents);
    if (status == STN_OK)
        status = check_texts(context, &c);
    if (status == STN_OK)
        status = list_texts(&c, &contents);
    if (status == STN_OK)
        status = stni_streams_add(context, &contents);
    status = stni_action_end(context, status);
    if (status == STN_OK)
        status = stn_save(context, path, contents.n, contents.tensors, contents.n_metadata, contents.metadata);
    stni_contents_fini(&contents);
    return status;
}

static stn_status check_rule(struct stni_load *l, const stn_checkpoint *c)
{
    const char *rule = c->optimizer ? stn_file_metadata(l->file, rule_key) : NULL;
    if (rule && strcmp(rule, c->optimizer->rule->name) != 0)
        return stni_error_set(&l->error, STN_ERR_ARGUMENT, "checkpoint: %s: its optimizer is %.32s, wanted %s", l->path,
                              rule, c->optimizer->rule->name);
    return STN_OK;
}

/* The streams are the context's from now on. */
static void restore_numbers(stn_context *context, stn_checkpoint *c, const uint64_t *numbers,
                            struct stni_streams *streams)
{
    c->step = (int64_t)numbers[NUMBER_STEP];
    stni_random_go_on(context, numbers[NUMBER_SEED], numbers[NUMBER_STREAM], streams->start, streams->told, streams->n);
    streams->told = NULL;
    if (c->optimizer) {
        c->optimizer->factor = from_bits(numbers[NUMBER_FACTOR]);
        stni_optimizer_take_numbers(c->optimizer, numbers + NUMBER_OPTIMIZER);
    }
}

/* All but the tensors' bytes. What only this rank finds is left in the load's error. */
static stn_status read_texts(struct stni_load *l, const stn_checkpoint *c, struct stni_contents *contents,
                             struct stni_streams *streams)
{
    STNI_TRY(check_rule(l, c));
    STNI_TRY(stni_contents_read_numbers(contents, l, "checkpoint"));
    STNI_TRY(stni_contents_check_counts(contents, NUMBER_STEP, 1, l, "checkpoint"));
    if (c->optimizer)
        STNI_TRY(stni_contents_check_counts(contents, NUMBER_OPTIMIZER, 1 + c->optimizer->n, l, "checkpoint"));
    return stni_streams_read(l, contents->numbers[NUMBER_STREAM], streams);
}

static stn_status load(stn_context *context, const char *path, stn_checkpoint *checkpoint,
                       struct stni_contents *contents, stn_file **file)
{
    stn_checkpoint c = {0};
    STNI_TRY(prepare(context, checkpoint, &c, contents));
    STNI_TRY(stni_load_check(context, path, contents->n, contents->tensors));
    struct stni_load l = {.context = context, .path = path, .n = contents->n, .tensors = contents->tensors};
    struct stni_streams streams = {0};
    if (stni_load_open(&l) == STN_OK && read_texts(&l, &c, contents, &streams) == STN_OK)
        stni_load_find(&l);
    stn_status status = stni_load_agree(&l);
    if (status == STN_OK)
        status = stni_load_fill(&l);
    if (status == STN_OK) {
        restore_numbers(context, &c, contents->numbers, &streams);
        checkpoint->step = c.step;
        if (file) {
            *file = l.file;
            l.file = NULL;
        }
    }
    stni_free(streams.told);
    stni_load_fini(&l);
    return status;
}

stn_status stn_checkpoint_load(stn_context *context, const char *path, stn_checkpoint *checkpoint, stn_file **file)
{
    struct stni_contents contents = {.context = context};
    if (!context)
        return STN_ERR_ARGUMENT;
    STNI_TRY(stni_action_begin(context));
    const stn_status status = load(context, path, checkpoint, &contents, file);
    stni_contents_fini(&contents);
    return stni_action_end(context, status);
}
