/* From names and values to an attribute struct. */
#include "dispatch/schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const type_names[] = {
    "a bool", "an integer", "a number", "a number", "one of its choices", "a list of integers", "a list of numbers",
    "a text"};

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* Levenshtein's distance, one row at a time; names longer than the row count as far apart. */
int stni_name_distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    int row[LONGEST + 1];
    size_t n = strlen(b);
    if (n > LONGEST || strlen(a) > LONGEST)
        return LONGEST;
    for (int j = 0; j <= (int)n; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= (int)n; j++) {
            int above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[n];
}

static int is_whole(double f)
{
    return f == floor(f) && fabs(f) <= 9007199254740992.0; /* 2^53 */
}

/* A number as its kind tells it; 0 if that is unknown. */
static int normalise(const stn_number *given, stn_number *out)
{
    switch (given->kind) {
    case STN_NUMBER_NONE:
        *out = (stn_number){STN_NUMBER_NONE, 0, 0};
        return 1;
    case STN_NUMBER_BOOL:
        *out = (stn_number){STN_NUMBER_BOOL, given->i != 0, given->i != 0};
        return 1;
    case STN_NUMBER_INT:
        *out = (stn_number){STN_NUMBER_INT, given->i, (double)given->i};
        return 1;
    case STN_NUMBER_FLOAT:
        *out = (stn_number){STN_NUMBER_FLOAT, 0, given->f};
        return 1;
    default:
        return 0;
    }
}

/* The value as a number, which may be absent; 0 if it is none. */
static int as_optional_number(const stn_attr *given, stn_number *out)
{
    switch (given->type) {
    case STN_ATTR_BOOL:
        *out = (stn_number){STN_NUMBER_BOOL, given->value.i != 0, given->value.i != 0};
        return 1;
    case STN_ATTR_INT:
        *out = (stn_number){STN_NUMBER_INT, given->value.i, (double)given->value.i};
        return 1;
    case STN_ATTR_FLOAT:
        *out = (stn_number){STN_NUMBER_FLOAT, 0, given->value.f};
        return 1;
    case STN_ATTR_NUMBER:
        return normalise(&given->value.number, out);
    case STN_ATTR_CHOICE:
    case STN_ATTR_INTS:
    case STN_ATTR_FLOATS:
    case STN_ATTR_STRING:
        return 0;
    }
    return 0;
}

static int as_number(const stn_attr *given, stn_number *out)
{
    return as_optional_number(given, out) && out->kind != STN_NUMBER_NONE;
}

static int fill_choice(const stn_attr_schema *row, const stn_attr *given, int64_t *field)
{
    if (given->type != STN_ATTR_STRING || !given->value.s)
        return 0;
    for (int64_t i = 0; row->choices[i]; i++)
        if (strcmp(row->choices[i], given->value.s) == 0) {
            *field = i;
            return 1;
        }
    return 0;
}

static int fill_ints(const stn_attr *given, stn_ints *field)
{
    if (given->type == STN_ATTR_INT) {
        *field = (stn_ints){.n = 1, .v = {given->value.i}};
        return 1;
    }
    if (given->type != STN_ATTR_INTS || given->value.ints.n < 0 || given->value.ints.n > STN_MAX_NDIM)
        return 0;
    *field = (stn_ints){.n = given->value.ints.n};
    memcpy(field->v, given->value.ints.v, (size_t)field->n * sizeof field->v[0]);
    return 1;
}

static int fill_floats(const stn_attr *given, stn_floats *field)
{
    stn_number number;
    stn_floats list = {.n = 1};
    if (given->type == STN_ATTR_FLOATS) {
        list = given->value.floats;
    } else if (given->type == STN_ATTR_INTS) {
        list.n = given->value.ints.n;
        for (int64_t i = 0; i < list.n && i < STN_MAX_NDIM; i++)
            list.v[i] = (double)given->value.ints.v[i];
    } else if (as_number(given, &number)) {
        list.v[0] = number.f;
    } else {
        return 0;
    }
    if (list.n < 0 || list.n > STN_MAX_NDIM)
        return 0;
    *field = (stn_floats){.n = list.n};
    memcpy(field->v, list.v, (size_t)list.n * sizeof list.v[0]);
    return 1;
}

static int fill_text(const stn_attr *given, stn_text *field)
{
    if (given->type != STN_ATTR_STRING || !given->value.s || strlen(given->value.s) >= sizeof field->v)
        return 0;
    memset(field, 0, sizeof *field);
    memcpy(field->v, given->value.s, strlen(given->value.s));
    return 1;
}

/* Writes one value where its row says; 0 if the type does not fit. A whole FLOAT is taken as an INT: JSON may write
 * 2 as 2.0. */
static int fill_one(const stn_attr_schema *row, const stn_attr *given, void *attrs)
{
    void *field = (char *)attrs + row->offset;
    stn_number number;
    switch (row->type) {
    case STN_ATTR_BOOL:
        if (!as_number(given, &number) || (number.f != 0 && number.f != 1))
            return 0;
        *(int64_t *)field = number.f != 0;
        return 1;
    case STN_ATTR_INT:
        if (!as_number(given, &number) || (number.kind == STN_NUMBER_FLOAT && !is_whole(number.f)))
            return 0;
        *(int64_t *)field = number.kind == STN_NUMBER_FLOAT ? (int64_t)number.f : number.i;
        return 1;
    case STN_ATTR_FLOAT:
        if (!as_number(given, &number))
            return 0;
        *(double *)field = number.f;
        return 1;
    case STN_ATTR_NUMBER:
        return as_optional_number(given, (stn_number *)field);
    case STN_ATTR_CHOICE:
        return fill_choice(row, given, (int64_t *)field);
    case STN_ATTR_INTS:
        return fill_ints(given, (stn_ints *)field);
    case STN_ATTR_FLOATS:
        return fill_floats(given, (stn_floats *)field);
    case STN_ATTR_STRING:
        return fill_text(given, (stn_text *)field);
    }
    return 0;
}

static const char *nearest_attr(const stn_op_desc *desc, const char *name)
{
    const char *best = NULL;
    int least = 4; /* further away is no suggestion */
    for (int i = 0; i < desc->n_attrs; i++) {
        int d = stni_name_distance(name, desc->attrs[i].name);
        if (d < least) {
            least = d;
            best = desc->attrs[i].name;
        }
    }
    return best;
}

static stn_status unknown_attr(const stn_op_desc *desc, const char *name, struct stni_error *error)
{
    const char *near = nearest_attr(desc, name);
    if (near)
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: no attribute '%s'; nearest is '%s'", desc->name, name,
                              near);
    return stni_error_set(error, STN_ERR_ARGUMENT, "%s: no attribute '%s'", desc->name, name);
}

static void list_choices(const stn_attr_schema *row, char *text, size_t size)
{
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; row->choices[i] && at + strlen(row->choices[i]) + 4 < size; i++) {
        at += (size_t)snprintf(text + at, size - at, "%s\"%s\"", i ? ", " : "", row->choices[i]);
    }
}

static stn_status bad_attr(const stn_op_desc *desc, const stn_attr_schema *row, const stn_attr *given,
                           struct stni_error *error)
{
    char choices[160];
    if (row->type == STN_ATTR_CHOICE && given->type == STN_ATTR_STRING) {
        list_choices(row, choices, sizeof choices);
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: attribute '%s' got \"%s\", wanted one of %s", desc->name,
                              row->name, given->value.s ? given->value.s : "", choices);
    }
    if (row->type == STN_ATTR_STRING && given->type == STN_ATTR_STRING)
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: attribute '%s' got a text of %zu bytes, wanted at most %d",
                              desc->name, row->name, given->value.s ? strlen(given->value.s) : 0, STN_MAX_TEXT - 1);
    if (given->type == STN_ATTR_NUMBER &&
        (given->value.number.kind < STN_NUMBER_BOOL || given->value.number.kind > STN_NUMBER_FLOAT))
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: attribute '%s' got a number of kind %lld, wanted %d to %d",
                              desc->name, row->name, (long long)given->value.number.kind,
                              row->type == STN_ATTR_NUMBER ? STN_NUMBER_NONE : STN_NUMBER_BOOL, STN_NUMBER_FLOAT);
    if ((given->type == STN_ATTR_INTS && (given->value.ints.n < 0 || given->value.ints.n > STN_MAX_NDIM)) ||
        (given->type == STN_ATTR_FLOATS && (given->value.floats.n < 0 || given->value.floats.n > STN_MAX_NDIM)))
        return stni_error_set(error, STN_ERR_ARGUMENT, "%s: attribute '%s' got a list of %lld entries, wanted 0 to %d",
                              desc->name, row->name,
                              (long long)(given->type == STN_ATTR_INTS ? given->value.ints.n : given->value.floats.n),
                              STN_MAX_NDIM);
    return stni_error_set(error, STN_ERR_ARGUMENT, "%s: attribute '%s' got %s, wanted %s", desc->name, row->name,
                          type_names[given->type], type_names[row->type]);
}

/* A name may stand in several rows of different types: the first that takes the value wins. */
static stn_status fill_named(const stn_op_desc *desc, const stn_attr *given, void *attrs, struct stni_error *error)
{
    const stn_attr_schema *named = NULL;
    if (!given->name || (unsigned)given->type > STN_ATTR_STRING)
        return stni_error_set(error, STN_ERR_ARGUMENT,
                              "%s: attribute '%s' got type %d, wanted a name and a type of 0 to %d", desc->name,
                              given->name ? given->name : "(NULL)", (int)given->type, STN_ATTR_STRING);
    for (int i = 0; i < desc->n_attrs; i++) {
        const stn_attr_schema *row = &desc->attrs[i];
        if (strcmp(row->name, given->name) != 0)
            continue;
        if (fill_one(row, given, attrs))
            return STN_OK;
        if (!named || (row->type == STN_ATTR_CHOICE && given->type == STN_ATTR_STRING))
            named = row;
    }
    return named ? bad_attr(desc, named, given, error) : unknown_attr(desc, given->name, error);
}

stn_status stni_schema_fill(const stn_op_desc *desc, int n, const stn_attr *given, void *attrs,
                            struct stni_error *error)
{
    if (desc->attrs_init)
        memcpy(attrs, desc->attrs_init, desc->attrs_size);
    else
        memset(attrs, 0, desc->attrs_size);
    for (int i = 0; i < n; i++)
        STNI_TRY(fill_named(desc, &given[i], attrs, error));
    return STN_OK;
}
