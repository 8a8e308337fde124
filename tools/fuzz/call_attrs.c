/* Drawing attributes from a schema: mostly of its type and within reason, else of another type, out of every range,
 * or unknown. */
#include "call_draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const int64_t wild_ints[] = {0,
                                    1,
                                    -1,
                                    2,
                                    3,
                                    -2,
                                    -3,
                                    4,
                                    5,
                                    7,
                                    8,
                                    9,
                                    -8,
                                    -9,
                                    16,
                                    64,
                                    100,
                                    1000,
                                    127,
                                    128,
                                    255,
                                    256,
                                    65536,
                                    INT32_MAX,
                                    INT32_MIN,
                                    (int64_t)1 << 31,
                                    (int64_t)1 << 32,
                                    (int64_t)1 << 40,
                                    -((int64_t)1 << 40),
                                    ((int64_t)1 << 53) + 1,
                                    (int64_t)1 << 62,
                                    -((int64_t)1 << 62),
                                    INT64_MAX,
                                    INT64_MAX - 1,
                                    INT64_MIN,
                                    INT64_MIN + 1};
static const double wild_floats[] = {
    0,     -0.0, 1, -1,  2,        0.5,       1e-8,   1e308,   -1e308, 5e-324,       1e39,
    1e300, -2.5, 3, NAN, INFINITY, -INFINITY, 9.3e18, -9.3e18, 1e19,   4294967296.0, 2147483648.0};
static const char *const wild_texts[] = {"bogus", "", "same", "valid", "mean", "sum", "none", "\xff\xfe", "%s%n",
                                         "a text that is longer than any name, 50 bytes long"};
static const char *const equations[] = {"ij,jk->ik",
                                        "ij,jk",
                                        "ii->i",
                                        "ii",
                                        "ij->ji",
                                        "...ij,...jk->...ik",
                                        "i,j->ij",
                                        "ij,ij->",
                                        "ij,j->i",
                                        "bij,bjk->bik",
                                        "",
                                        "->",
                                        "ij->",
                                        "ij,jk,kl->il",
                                        "a...->...",
                                        "...",
                                        "i...i",
                                        "ij->ii",
                                        "ij->k",
                                        "i.j",
                                        "..",
                                        "ab,cd->abcd",
                                        "abcdefgh,ijk->abcdefghijk",
                                        "A,a->aA",
                                        "ij,",
                                        "i1->i",
                                        "ij->ij->i",
                                        "iij->j",
                                        "ij->...",
                                        "...a,...b->ab..."};

const char *call_draw_equation(struct call_draft *d)
{
    return equations[call_below(d, COUNT(equations))];
}

static int64_t draw_int(struct call_draft *d, const char *attr)
{
    int least, most;
    if (call_chance(d, d->wild))
        return wild_ints[call_below(d, COUNT(wild_ints))];
    if (call_chance(d, 85) && call_range_of(attr, &least, &most))
        return least + call_below(d, most - least + 1);
    return call_below(d, 7) - 2;
}

static double draw_float(struct call_draft *d)
{
    return call_chance(d, d->wild) ? wild_floats[call_below(d, COUNT(wild_floats))]
                                   : (double)(call_below(d, 41) - 10) / 10;
}

static void draw_number(struct call_draft *d, const char *attr, stn_number *n)
{
    n->kind = STN_NUMBER_BOOL + call_below(d, 3);
    if (call_chance(d, d->wild / 10))
        n->kind = draw_int(d, attr);
    n->i = n->kind == STN_NUMBER_BOOL ? call_below(d, 2) : draw_int(d, attr);
    n->f = n->kind == STN_NUMBER_FLOAT ? draw_float(d) : (double)n->i;
}

/* Dims of the first input in some order. */
static void draw_order(struct call_draft *d, int ndim, stn_ints *ints)
{
    ints->n = ndim;
    for (int i = 0; i < ndim; i++)
        ints->v[i] = i;
    for (int i = ndim - 1; i > 0; i--) {
        const int j = call_below(d, i + 1);
        const int64_t v = ints->v[i];
        ints->v[i] = ints->v[j];
        ints->v[j] = v;
    }
}

/* Dims that windows of an op have; 0: it has none, or tensors say how many. */
static int window_dims(const char *op)
{
    const char *digit = strpbrk(op, "123");
    if (digit && digit[1] == 'd')
        return *digit - '0';
    return strcmp(op, "neighborhood_attention") == 0 ? 2 : 0;
}

/* As many as windows have dims, or the end of a shape, or some order of dims, or anything. */
static void draw_ints(struct call_draft *d, const char *attr, stn_ints *ints)
{
    const int dims = window_dims(d->call->op->name);
    const struct call_input *first = d->call->n_inputs > 0 ? &d->call->inputs[0] : NULL;
    const int of_shape = strstr(attr, "shape") != NULL ? 80 : 15;
    ints->n = call_below(d, 5);
    if (dims > 0 && call_chance(d, 80))
        ints->n = call_chance(d, 30) ? 1 : dims;
    for (int i = 0; i < STN_MAX_NDIM; i++)
        ints->v[i] = draw_int(d, attr);
    if (first && call_chance(d, of_shape)) {
        ints->n = strcmp(attr, "normalized_shape") == 0 && first->ndim > 0 && call_chance(d, 80)
                      ? 1
                      : call_below(d, first->ndim + 1);
        for (int i = 0; i < ints->n; i++)
            ints->v[i] = first->shape[first->ndim - (int)ints->n + i];
    } else if (first && call_chance(d, strcmp(attr, "dims") == 0 ? 60 : 5)) {
        draw_order(d, first->ndim, ints);
    }
    if (call_chance(d, d->wild / 8))
        ints->n = draw_int(d, attr);
}

static void draw_floats(struct call_draft *d, const char *attr, stn_floats *floats)
{
    floats->n = call_chance(d, d->wild / 8) ? draw_int(d, attr) : call_below(d, 4);
    for (int i = 0; i < STN_MAX_NDIM; i++)
        floats->v[i] = draw_float(d);
}

static const char *draw_text(struct call_draft *d, const stn_attr_schema *schema)
{
    int n = 0;
    while (schema && schema->choices && schema->choices[n])
        n++;
    if (n > 0 && !call_chance(d, d->wild / 3))
        return schema->choices[call_below(d, n)];
    if (d->equation && schema && schema->type == STN_ATTR_STRING && !call_chance(d, d->wild / 3))
        return d->equation;
    return wild_texts[call_below(d, COUNT(wild_texts))];
}

static void draw_value(struct call_draft *d, struct call_attr *a, const stn_attr_schema *schema)
{
    switch (a->attr.type) {
    case STN_ATTR_FLOAT:
        a->attr.value.f = draw_float(d);
        return;
    case STN_ATTR_NUMBER:
        draw_number(d, a->name, &a->attr.value.number);
        return;
    case STN_ATTR_INTS:
        draw_ints(d, a->name, &a->attr.value.ints);
        return;
    case STN_ATTR_FLOATS:
        draw_floats(d, a->name, &a->attr.value.floats);
        return;
    case STN_ATTR_CHOICE:
    case STN_ATTR_STRING:
        a->attr.type = STN_ATTR_STRING;
        a->has_text = !call_chance(d, d->wild / 8);
        snprintf(a->text, sizeof a->text, "%s", draw_text(d, schema));
        return;
    case STN_ATTR_BOOL:
        a->attr.value.i = call_chance(d, d->wild / 3) ? draw_int(d, a->name) : call_below(d, 2);
        return;
    case STN_ATTR_INT:
        break;
    }
    a->attr.value.i = draw_int(d, a->name);
}

/* Attribute `which` of the schema; -1: one that there is not. */
static void draw_attr(struct call_draft *d, int which)
{
    const stn_attr_schema *schema = which >= 0 ? &d->call->op->attrs[which] : NULL;
    struct call_attr *a = &d->call->attrs[d->call->n_attrs++];
    a->schema = which;
    snprintf(a->name, sizeof a->name, "%s", schema ? schema->name : "no_such_attribute");
    a->attr.type = schema ? schema->type : STN_ATTR_INT;
    if (call_chance(d, d->wild / 4))
        a->attr.type = (stn_attr_type)call_below(d, STN_ATTR_STRING + 1);
    draw_value(d, a, schema);
    if (call_chance(d, d->wild / 20))
        a->attr.type = (stn_attr_type)(STN_ATTR_STRING + 1 + call_below(d, 3));
}

/* With it products overflow in the narrowest dtype, where sums of them depend on their order. */
static int is_extreme(const stn_attr *a)
{
    const double x = a->type == STN_ATTR_FLOAT ? a->value.f : a->type == STN_ATTR_NUMBER ? a->value.number.f : 0;
    return !(fabs(x) < 1e4);
}

static int is_needed(const stn_attr_schema *schema)
{
    return schema->type == STN_ATTR_STRING || strcmp(schema->name, "kernel_size") == 0;
}

/* Percent. Placements are of a mesh, which one process's tensors are not on: it refuses them where ranks do not. */
static int chance_of(const stn_attr_schema *schema)
{
    return strcmp(schema->name, "placements") == 0 ? 0 : is_needed(schema) ? 95 : 55;
}

void call_draw_attrs(struct call_draft *d)
{
    for (int i = 0; i < d->call->op->n_attrs && d->call->n_attrs < CALL_ATTRS - 2; i++)
        if (call_chance(d, chance_of(&d->call->op->attrs[i]))) {
            draw_attr(d, i);
            d->call->special |= is_extreme(&d->call->attrs[d->call->n_attrs - 1].attr);
        }
    if (call_chance(d, d->wild / 15))
        draw_attr(d, -1);
}
