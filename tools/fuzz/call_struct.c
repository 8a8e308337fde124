/* Attribute structs, filled by the offsets of a schema. */
#include "call.h"

#include <string.h>

static void put_attr(const struct call_attr *a, const stn_attr_schema *schema, char *attrs)
{
    const stn_attr *given = &a->attr;
    char *to = attrs + schema->offset;
    stn_ints ints = given->value.ints;
    stn_floats floats = given->value.floats;
    int64_t choice = -1;
    switch (schema->type) {
    case STN_ATTR_BOOL:
    case STN_ATTR_INT:
        memcpy(to, &given->value.i, sizeof given->value.i);
        return;
    case STN_ATTR_FLOAT:
        memcpy(to, &given->value.f, sizeof given->value.f);
        return;
    case STN_ATTR_NUMBER:
        memcpy(to, &given->value.number, sizeof given->value.number);
        return;
    case STN_ATTR_CHOICE:
        for (int64_t k = 0; schema->choices[k]; k++)
            choice = strcmp(schema->choices[k], a->text) == 0 ? k : choice;
        memcpy(to, &choice, sizeof choice);
        return;
    case STN_ATTR_INTS: /* its length is the caller's promise */
        ints.n = ints.n < -1 || ints.n > STN_MAX_NDIM ? -1 : ints.n;
        memcpy(to, &ints, sizeof ints);
        return;
    case STN_ATTR_FLOATS:
        floats.n = floats.n < -1 || floats.n > STN_MAX_NDIM ? -1 : floats.n;
        memcpy(to, &floats, sizeof floats);
        return;
    case STN_ATTR_STRING:
        snprintf(to, STN_MAX_TEXT, "%s", a->text);
        return;
    }
}

/* A struct holds what is of the schema's type; a text that is no choice becomes one out of range. */
static int fits(const struct call_attr *a, const stn_attr_schema *schema)
{
    if (a->attr.type == STN_ATTR_STRING)
        return schema->type == STN_ATTR_STRING || (schema->type == STN_ATTR_CHOICE && schema->choices);
    return a->attr.type == schema->type;
}

void call_fill_struct(const struct call *call, char *attrs)
{
    if (call->op->attrs_init)
        memcpy(attrs, call->op->attrs_init, call->op->attrs_size);
    for (int i = 0; i < call->n_attrs; i++) {
        const struct call_attr *a = &call->attrs[i];
        if (a->schema >= 0 && fits(a, &call->op->attrs[a->schema]))
            put_attr(a, &call->op->attrs[a->schema], attrs);
    }
}
