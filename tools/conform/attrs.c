/* JSON attributes, and how they meet an op's schema. */
#include "attrs.h"

#include <cjson/cJSON.h>

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The parser keeps numbers as doubles and so forgets whether 2 was written 2.0, which decides about dtypes. The
 * numbers of a text come in the order in which the tree is walked, so a cursor over the text tells them apart. */
static int next_number_is_whole(const char **cursor)
{
    const char *c = *cursor;
    while (*c != '\0' && *c != '-' && !isdigit((unsigned char)*c)) {
        if (*c++ != '"')
            continue;
        while (*c != '\0' && *c != '"')
            c += c[0] == '\\' && c[1] != '\0' ? 2 : 1;
        c += *c == '"';
    }
    size_t length = strspn(c, "+-0123456789.eE");
    int whole = length == strspn(c, "-0123456789");
    *cursor = c + length;
    return whole;
}

/* Past this doubles are not exact. */
static int is_whole(double x)
{
    return fabs(x) <= 9007199254740992.0 && x == floor(x);
}

/* A list of integers if all of its numbers are whole, else one of numbers. null stands for -1: a size that stays
 * what it is. */
static int parse_list(const cJSON *item, const char **cursor, stn_attr *attr)
{
    stn_floats list = {0};
    int whole = 1;
    if (cJSON_GetArraySize(item) > STN_MAX_NDIM)
        return 0;
    for (const cJSON *entry = item->child; entry != NULL; entry = entry->next) {
        if (!cJSON_IsNumber(entry) && !cJSON_IsNull(entry))
            return 0;
        if (cJSON_IsNumber(entry))
            next_number_is_whole(cursor);
        list.v[list.n] = cJSON_IsNull(entry) ? -1 : entry->valuedouble;
        whole &= is_whole(list.v[list.n++]);
    }
    attr->type = whole ? STN_ATTR_INTS : STN_ATTR_FLOATS;
    attr->value.floats = list;
    for (int64_t i = 0; i < list.n && whole; i++)
        attr->value.ints.v[i] = (int64_t)list.v[i];
    return 1;
}

static int parse_value(const cJSON *item, const char **cursor, stn_attr *attr)
{
    attr->name = item->string;
    if (cJSON_IsBool(item)) {
        attr->type = STN_ATTR_BOOL;
        attr->value.i = cJSON_IsTrue(item);
        return 1;
    }
    if (cJSON_IsString(item)) {
        attr->type = STN_ATTR_STRING;
        attr->value.s = item->valuestring;
        return 1;
    }
    if (cJSON_IsNumber(item)) {
        int whole = next_number_is_whole(cursor) && is_whole(item->valuedouble);
        attr->type = whole ? STN_ATTR_INT : STN_ATTR_FLOAT;
        if (whole)
            attr->value.i = (int64_t)item->valuedouble;
        else
            attr->value.f = item->valuedouble;
        return 1;
    }
    return cJSON_IsArray(item) && parse_list(item, cursor, attr);
}

/* An object or list inside a list or object inside the object would let the parser recurse. */
static int is_flat(const char *text)
{
    int depth = 0;
    for (; *text != '\0'; text++) {
        depth += (*text == '[' || *text == '{') - (*text == ']' || *text == '}');
        if (depth > 2)
            return 0;
    }
    return 1;
}

int attrs_parse(const char *text, struct attrs *attrs, char *error, size_t error_size)
{
    memset(attrs, 0, sizeof *attrs);
    if (strlen(text) <= ATTRS_MAX_TEXT && is_flat(text))
        attrs->json = cJSON_ParseWithOpts(text, NULL, 1);
    if (!cJSON_IsObject(attrs->json) || cJSON_GetArraySize(attrs->json) > ATTRS_MAX) {
        snprintf(error, error_size, "attrs is not a flat JSON object of at most %d entries", ATTRS_MAX);
        attrs_free(attrs);
        return 0;
    }
    const char *cursor = text;
    for (const cJSON *item = attrs->json->child; item != NULL; item = item->next) {
        if (cJSON_IsNull(item))
            continue;
        if (!parse_value(item, &cursor, &attrs->list[attrs->n])) {
            snprintf(error, error_size, "attribute %.64s is no number, text, or list of at most %d numbers",
                     item->string, STN_MAX_NDIM);
            attrs_free(attrs);
            return 0;
        }
        attrs->n++;
    }
    return 1;
}

void attrs_free(struct attrs *attrs)
{
    cJSON_Delete(attrs->json);
    memset(attrs, 0, sizeof *attrs);
}

/* Bit t: the schema has the name with type t. */
static unsigned wanted_types(const stn_op_desc *desc, const char *name)
{
    unsigned types = 0;
    for (int i = 0; i < desc->n_attrs; i++)
        if (strcmp(desc->attrs[i].name, name) == 0)
            types |= 1u << desc->attrs[i].type;
    return types;
}

void attrs_fit(const struct attrs *attrs, const stn_op_desc *desc, stn_attr *out)
{
    const unsigned real = 1u << STN_ATTR_FLOAT | 1u << STN_ATTR_NUMBER;
    const unsigned whole = 1u << STN_ATTR_INT | 1u << STN_ATTR_INTS | 1u << STN_ATTR_BOOL;
    for (int i = 0; i < attrs->n; i++) {
        out[i] = attrs->list[i];
        unsigned types = wanted_types(desc, out[i].name);
        if (out[i].type == STN_ATTR_FLOAT && (types & real) == 0 && (types & whole) != 0 && is_whole(out[i].value.f)) {
            int64_t value = (int64_t)out[i].value.f;
            out[i].type = STN_ATTR_INT;
            out[i].value.i = value;
        } else if (out[i].type == STN_ATTR_STRING && (types & real) != 0) {
            int sign = strcmp(out[i].value.s, "inf") == 0 ? 1 : strcmp(out[i].value.s, "-inf") == 0 ? -1 : 0;
            if (sign != 0) {
                out[i].type = STN_ATTR_FLOAT;
                out[i].value.f = sign * HUGE_VAL;
            }
        }
    }
}
