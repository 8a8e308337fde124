/* How an op is called, as a text: from its schema, its defaults and the order that its descriptor tells. */
#include "core/base/host_alloc.h"
#include "core/base/text.h"
#include "dispatch/registry.h"
#include "dispatch/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values, as Python writes them. */

/* The shortest decimal that is read as the same number. */
static void put_float(struct stni_text *text, double value)
{
    char digits[40];
    if (fabs(value) < 1e16 && value == floor(value)) {
        stni_text_put(text, "%.1f", value);
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    stni_text_put(text, "%s", isnan(value) ? "None" : digits);
}

/* The ends of the range stand for a number that is absent. */
static void put_int(struct stni_text *text, int64_t value)
{
    if (value == INT64_MIN || value == INT64_MAX)
        stni_text_put(text, "None");
    else
        stni_text_put(text, "%" PRId64, value);
}

static void put_bool(struct stni_text *text, int64_t value)
{
    stni_text_put(text, "%s", value == 0 ? "False" : value == 1 ? "True" : "None");
}

static void put_number(struct stni_text *text, const stn_number *value)
{
    switch ((stn_number_kind)value->kind) {
    case STN_NUMBER_NONE: stni_text_put(text, "None"); return;
    case STN_NUMBER_BOOL: put_bool(text, value->i); return;
    case STN_NUMBER_INT: put_int(text, value->i); return;
    case STN_NUMBER_FLOAT: put_float(text, value->f); return;
    }
}

static void put_choice(struct stni_text *text, const char *const *choices, int64_t value)
{
    for (int64_t i = 0; choices[i]; i++)
        if (i == value) {
            stni_text_put(text, "'%s'", choices[i]);
            return;
        }
    stni_text_put(text, "None");
}

/* One entry stands without brackets, as it may be given. */
static void put_list(struct stni_text *text, int64_t n, const int64_t *ints, const double *floats)
{
    if (n < 0) {
        stni_text_put(text, "None");
        return;
    }
    stni_text_put(text, "%s", n == 1 ? "" : "(");
    for (int64_t i = 0; i < n; i++) {
        stni_text_put(text, "%s", i ? ", " : "");
        if (ints)
            put_int(text, ints[i]);
        else
            put_float(text, floats[i]);
    }
    stni_text_put(text, "%s", n == 1 ? "" : ")");
}

static void put_value(struct stni_text *text, const stn_attr_schema *row, const void *field)
{
    const stn_ints *ints = field;
    const stn_floats *floats = field;
    switch (row->type) {
    case STN_ATTR_BOOL: put_bool(text, *(const int64_t *)field); return;
    case STN_ATTR_INT: put_int(text, *(const int64_t *)field); return;
    case STN_ATTR_FLOAT: put_float(text, *(const double *)field); return;
    case STN_ATTR_NUMBER: put_number(text, field); return;
    case STN_ATTR_CHOICE: put_choice(text, row->choices, *(const int64_t *)field); return;
    case STN_ATTR_INTS: put_list(text, ints->n, ints->v, NULL); return;
    case STN_ATTR_FLOATS: put_list(text, floats->n, NULL, floats->v); return;
    case STN_ATTR_STRING: stni_text_put(text, "'%s'", ((const stn_text *)field)->v); return;
    }
}

/* Names */

static int is_name(const char *name, const char *token, size_t n)
{
    return strlen(name) == n && memcmp(name, token, n) == 0;
}

static const stn_input_schema *find_input(const stn_op_desc *desc, const char *token, size_t n)
{
    for (int i = 0; i < desc->n_inputs; i++)
        if (is_name(desc->inputs[i].name, token, n))
            return &desc->inputs[i];
    return NULL;
}

static const stn_attr_schema *find_attr(const stn_op_desc *desc, const char *token, size_t n)
{
    for (int i = 0; i < desc->n_attrs; i++)
        if (is_name(desc->attrs[i].name, token, n))
            return &desc->attrs[i];
    return NULL;
}

static void put_default(struct stni_text *text, const stn_op_desc *desc, const char *name, size_t n)
{
    static const stn_text zeros;
    const stn_attr_schema *row = find_attr(desc, name, n);
    if (row)
        put_value(text, row, desc->attrs_init ? (const char *)desc->attrs_init + row->offset : (const char *)&zeros);
    else
        stni_text_put(text, "None");
}

/* One entry of the list in a descriptor: where it begins, and how long it and the name in it are. */
struct token {
    const char *at, *name;
    size_t length, name_length;
};

/* The entry at `from`; returns what follows it, NULL past the last. */
static const char *next_token(const char *from, struct token *out)
{
    out->at = from;
    out->length = strcspn(from, ",");
    const char *arrow = strstr(from, " -> ");
    if (arrow && (size_t)(arrow - from) < out->length)
        out->length = (size_t)(arrow - from);
    out->name = from + (from[0] == '*');
    out->name_length = strcspn(out->name, "=[, ");
    if (out->name + out->name_length > from + out->length)
        out->name_length = (size_t)(from + out->length - out->name);
    return from[out->length] == ',' ? from + out->length + 1 + (from[out->length + 1] == ' ') : NULL;
}

static void put_listed(struct stni_text *text, const stn_op_desc *desc)
{
    struct token token;
    for (const char *at = desc->signature; at;) {
        const char *next = next_token(at, &token);
        stni_text_put(text, "%.*s", (int)token.length, token.at);
        if (token.at[token.length - 1] == '=')
            put_default(text, desc, token.name, token.name_length);
        stni_text_put(text, "%s", next ? ", " : "");
        at = next;
    }
}

/* Inputs, then attributes. An input that is a tensor or a number is required as one of them. */
static void put_in_order(struct stni_text *text, const stn_op_desc *desc)
{
    for (int i = 0; i < desc->n_inputs; i++) {
        const stn_input_schema *in = &desc->inputs[i];
        const int absent = in->optional && !find_attr(desc, in->name, strlen(in->name));
        stni_text_put(text, "%s%s%s%s", i ? ", " : "", in->name, in->variadic ? "[]" : "", absent ? "=None" : "");
    }
    int n = desc->n_inputs;
    for (int i = 0; i < desc->n_attrs; i++) {
        const char *name = desc->attrs[i].name;
        const size_t length = strlen(name);
        if (find_input(desc, name, length) || find_attr(desc, name, length) != &desc->attrs[i])
            continue;
        stni_text_put(text, "%s%s=", n++ ? ", " : "", name);
        put_default(text, desc, name, length);
    }
}

static void put_result(struct stni_text *text, const stn_op_desc *desc)
{
    const char *told = desc->signature ? strstr(desc->signature, " -> ") : NULL;
    const int n = desc->n_outputs - desc->n_private;
    stni_text_put(text, "%s", told ? told : " -> ");
    if (told)
        return;
    if (n == 1 || n == STN_MAX_OUTPUTS) {
        stni_text_put(text, "Tensor%s", n == 1 ? "" : "[]");
        return;
    }
    for (int k = 0; k < n; k++)
        stni_text_put(text, "%sTensor", k ? ", " : "(");
    stni_text_put(text, "%s", n > 0 ? ")" : "()");
}

static void put_signature(struct stni_text *text, const stn_op_desc *desc)
{
    stni_text_put(text, "%s(", desc->name);
    if (desc->signature)
        put_listed(text, desc);
    else
        put_in_order(text, desc);
    stni_text_put(text, ")");
    put_result(text, desc);
}

const char *stn_op_signature(const stn_op *op)
{
    if (!op)
        return NULL;
    if (op->signature)
        return op->signature;
    struct stni_text counted = {0};
    put_signature(&counted, op->desc);
    struct stni_text written = {.to = stni_malloc(counted.length + 1), .size = counted.length + 1};
    if (written.to)
        put_signature(&written, op->desc);
    else
        stni_fail_memory(op->context, "signature", written.size);
    ((stn_op *)op)->signature = written.to;
    return written.to;
}

/* Checking what a descriptor says */

static int count_named(const stn_op_desc *desc, const char *name)
{
    struct token token;
    int n = 0;
    for (const char *at = desc->signature; at;) {
        at = next_token(at, &token);
        n += is_name(name, token.name, token.name_length);
    }
    return n;
}

static stn_status check_named(const stn_op_desc *desc, const char *name, struct stni_error *error)
{
    const int n = count_named(desc, name);
    if (n == 1)
        return STN_OK;
    return stni_error_set(error, STN_ERR_ARGUMENT, "%s: its signature names '%s' %d times, wanted once", desc->name,
                          name, n);
}

stn_status stni_signature_check(const stn_op_desc *desc, struct stni_error *error)
{
    struct token token;
    for (const char *at = desc->signature; at;) {
        at = next_token(at, &token);
        const int star = token.length == 1 && token.at[0] == '*';
        if (!star && !find_input(desc, token.name, token.name_length) &&
            !find_attr(desc, token.name, token.name_length))
            return stni_error_set(error, STN_ERR_ARGUMENT,
                                  "%s: its signature names '%.*s', which is neither an input nor an attribute",
                                  desc->name, (int)token.name_length, token.name);
    }
    for (int i = 0; desc->signature && i < desc->n_inputs; i++)
        STNI_TRY(check_named(desc, desc->inputs[i].name, error));
    for (int i = 0; desc->signature && i < desc->n_attrs; i++)
        STNI_TRY(check_named(desc, desc->attrs[i].name, error));
    return STN_OK;
}
