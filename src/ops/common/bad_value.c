#include "ops/common/bad_value.h"

#include "core/base/clamp.h"
#include "dispatch/registry.h"
#include "ops/common/dims.h"
#include "ops/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const texts[STNI_BAD_VALUES] = {
    [STNI_BAD_INDEX] = "index {0} at {3*} is outside {1} … {2}",
    [STNI_BAD_INDEX_OF] = "index {0} of 'indices{1}' at {4*} is outside {2} … {3}",
    [STNI_BAD_CLASS] = "target {0} at {2*} is outside 0 … {1}",
    [STNI_BAD_DIVISOR] = "an integer is divided by 0",
    [STNI_BAD_RANGE] = "elements from {0g} to {1g}, wanted finite ones, or 'min' and 'max'",
    [STNI_BAD_REPEAT_BELOW] = "'repeats' {0} at ({1}) is below 0",
    [STNI_BAD_REPEAT_LESS] = "'repeats' add up to less than 'output_size' {0}",
    [STNI_BAD_REPEAT_MORE] = "'repeats' add up to more than 'output_size' {0}",
};

static const char *template_of(const stn_op *op, int what)
{
    const int own = op->index < STNI_OP_COUNT;
    const int n = own ? STNI_BAD_VALUES : op->impl.n_value_texts;
    const char *const *list = own ? texts : op->impl.value_texts;
    return what >= 0 && what < n && list && list[what] ? list[what] : "a value could not be used";
}

/* What a placeholder stands for: `kind` is what follows its number. */
static void show(const stn_value_record *record, int i, char kind, char *out, size_t size)
{
    char list[STNI_SHAPE_TEXT];
    double real;
    int64_t n = i < record->n ? record->numbers[i] : 0;
    if (kind == '*') {
        n = stni_clamp(n, 0, record->n - i - 1);
        snprintf(out, size, "%s", stni_shape_text((int)n, record->numbers + i + 1, list));
        return;
    }
    memcpy(&real, &n, sizeof real);
    if (kind == 'g')
        snprintf(out, size, "%g", real);
    else
        snprintf(out, size, "%" PRId64, n);
}

/* `at` behind the opening brace; returns behind the closing one. */
static const char *show_placeholder(const stn_value_record *record, const char *at, char *out, size_t size)
{
    char *end;
    const long i = strtol(at, &end, 10);
    show(record, i >= 0 && i < STN_VALUE_NUMBERS ? (int)i : STN_VALUE_NUMBERS, *end, out, size);
    while (*end && *end != '}')
        end++;
    return *end ? end + 1 : end;
}

void stni_bad_value_text(const stn_context *context, const stn_value_record *record, char *text, size_t size)
{
    const struct stni_registry *registry = context->registry;
    if (record->op < 0 || record->op >= registry->n_ops) {
        snprintf(text, size, "a kernel could not use a value");
        return;
    }
    const stn_op *op = registry->ops[record->op];
    size_t n = (size_t)snprintf(text, size, "%s: ", op->desc->name);
    for (const char *at = template_of(op, record->what); *at && n + 1 < size;) {
        if (*at == '{') {
            at = show_placeholder(record, at + 1, text + n, size - n);
            n += strlen(text + n);
        } else {
            text[n++] = *at++;
            text[n] = '\0';
        }
    }
}
