#include "draw.h"

#include "generators.h"

#include "conform/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How near to a kink or to each other numbers may be, far above rounding; how large they and tensors may become. */
static const double LEAST_GAP = 1e-5, LARGEST = 100;
enum { LARGEST_NUMEL = 800, LARGEST_LEAF = 400, TRIES = 6 };

/* Facts */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* 0 where there is something that is no number, or too large. */
static int learn(struct draft *d, int t)
{
    const struct term *term = term_of(d, t);
    const int64_t numel = term_numel(term);
    stn_tensor *tensor = d->e.tensor[t];
    double numbers[LARGEST_NUMEL];
    void *data = malloc((size_t)numel * stn_dtype_size(term->dtype) + 1);
    int good = data != NULL && numel <= LARGEST_NUMEL &&
               stn_to_host(tensor, data, (size_t)numel * stn_dtype_size(term->dtype)) == STN_OK;
    struct facts facts = {0, 0, HUGE_VAL};
    for (int64_t i = 0; good && i < numel * number_parts(term->dtype); i++)
        good = fabs(number_at(term->dtype, data, i)) <= LARGEST;
    for (int64_t i = 0; good && number_parts(term->dtype) == 1 && i < numel; i++)
        numbers[i] = number_at(term->dtype, data, i);
    if (good && number_parts(term->dtype) == 1 && numel > 0) {
        qsort(numbers, (size_t)numel, sizeof *numbers, by_value);
        facts.lo = numbers[0];
        facts.hi = numbers[numel - 1];
        for (int64_t i = 1; i < numel; i++)
            facts.gap = fmin(facts.gap, numbers[i] - numbers[i - 1]);
    }
    free(data);
    d->facts[t] = facts;
    return good;
}

/* How far a number is from where it may not be. */
static double distance(const struct want *want, double x)
{
    return want->has_kink == KINK_HALVES ? fabs(x - nearbyint(2 * x) / 2) : fabs(x - want->kink);
}

/* Of complex numbers the imaginary parts count. They are to be larger, since their angle's slope is their inverse. */
static int is_away(struct draft *d, int t, const struct want *want)
{
    const struct term *term = term_of(d, t);
    const int64_t parts = number_parts(term->dtype), numel = term_numel(term);
    const double least = parts > 1 ? 0.1 : LEAST_GAP;
    double data[2 * LARGEST_NUMEL];
    int good = stn_to_host(d->e.tensor[t], data, (size_t)numel * stn_dtype_size(term->dtype)) == STN_OK;
    for (int64_t i = 0; good && i < numel; i++)
        good = distance(want, number_at(term->dtype, data, i * parts + parts - 1)) >= least;
    return good;
}

static int suits(struct draft *d, int t, const struct want *want)
{
    const struct term *term = term_of(d, t);
    const struct facts *facts = &d->facts[t];
    const stn_dtype dtype = !want->is_complex ? d->dtype : d->dtype == STN_DTYPE_F64 ? STN_DTYPE_C128 : STN_DTYPE_C64;
    if (term->is_changed || term->dtype != dtype || term->ndim < want->min_ndim || term->ndim > want->max_ndim)
        return 0;
    if (facts->lo < want->lo || facts->hi > want->hi || (want->distinct && facts->gap < LEAST_GAP))
        return 0;
    for (int i = 0; i < term->ndim; i++)
        if (term->shape[i] < want->min_size || (i == term->ndim - 1 && term->shape[i] < want->min_last))
            return 0;
    return want->has_kink == KINK_NONE || is_away(d, t, want);
}

/* Leaves */

static void draw_layout(struct draft *d, const struct term *term, struct layout *layout)
{
    const struct subject subject = {term->dtype, term->ndim, term->shape};
    layouts_nth(&d->grid, 1, &subject, rng_below(&d->rng, layouts_count(&d->grid, 1, &subject)), layout);
    if (draw_below(d, 3) > 0)
        layouts_cut(&d->grid, 1, &subject, rng_mix(d->rng.seed, d->rng.next++), layout);
}

static stn_dtype dtype_of(const struct draft *d, enum fill fill)
{
    return fill == FILL_INDEX ? STN_DTYPE_I64 : fill == FILL_BOOL ? STN_DTYPE_BOOL : d->dtype;
}

int draw_leaf(struct draft *d, enum fill fill, int ndim, const int64_t *shape, double lo, double hi)
{
    if (d->p->n_terms == MAX_TERMS)
        return -1;
    const int t = d->p->n_terms++;
    struct term *term = &d->p->terms[t];
    *term = (struct term){.step = GIVEN, .dtype = dtype_of(d, fill), .ndim = ndim, .fill = fill, .lo = lo, .hi = hi};
    for (int i = 0; i < ndim; i++)
        term->shape[i] = shape[i];
    term->requires_grad = fill == FILL_REAL && draw_below(d, d->p->seed % 2 ? 2 : 8) > 0;
    term->seed = rng_mix(d->rng.seed, d->rng.next++);
    draw_layout(d, term, &term->layout);
    d->e.tensor[t] = execute_given(&d->e, t);
    return d->e.tensor[t] != NULL && learn(d, t) ? t : -1;
}

static int64_t draw_size(struct draft *d, int64_t least)
{
    static const int64_t sizes[] = {1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9};
    const int64_t n = draw_chance(d, 60) ? 0 : sizes[draw_below(d, sizeof sizes / sizeof *sizes)];
    return n < least ? least : n;
}

static int draw_fresh(struct draft *d, const struct want *want)
{
    const int usual = want->min_ndim > 4 ? want->min_ndim : 4, most = want->max_ndim < usual ? want->max_ndim : usual,
              least = want->min_ndim > most ? most : want->min_ndim;
    const double lo = fmax(want->lo, -2), hi = fmin(want->hi, fmax(2, lo + 2));
    int64_t shape[STN_MAX_NDIM], numel = 1;
    int ndim = draw_between(d, least, most);
    if (ndim == 0 && least == 0 && most > 0 && !draw_chance(d, 3))
        ndim = 1;
    for (int i = 0; i < ndim; i++) {
        shape[i] = draw_size(d, i == ndim - 1 && want->min_last > want->min_size ? want->min_last : want->min_size);
        while (numel * shape[i] > LARGEST_LEAF)
            shape[i] = (shape[i] + 1) / 2;
        numel *= shape[i];
    }
    for (int i = 0; i < TRIES; i++) {
        const int n = d->p->n_terms, t = draw_leaf(d, FILL_REAL, ndim, shape, lo, hi);
        if (t >= 0 && suits(d, t, want))
            return t;
        d->p->n_terms = n;
    }
    return -1;
}

int draw_term(struct draft *d, const struct want *want)
{
    for (int i = 0; i < 2 * TRIES && d->p->n_terms > 0 && !(i == 0 && draw_chance(d, 5)); i++) {
        /* Later ones are likelier: programs are to be deep. */
        const int t = d->p->n_terms - 1 - draw_below(d, 1 + draw_below(d, d->p->n_terms));
        if (suits(d, t, want))
            return t;
    }
    return want->is_complex ? -1 : draw_fresh(d, want);
}

int draw_partner(struct draft *d, int t, double lo, double hi)
{
    int64_t shape[STN_MAX_NDIM];
    const struct term *term = term_of(d, t);
    for (int i = 0; i < TRIES && draw_below(d, 3) > 0; i++) {
        const int other = draw_below(d, d->p->n_terms);
        const struct term *o = term_of(d, other);
        if (!o->is_changed && o->dtype == term->dtype && o->ndim == term->ndim &&
            memcmp(o->shape, term->shape, sizeof *o->shape * (size_t)o->ndim) == 0 && d->facts[other].lo >= lo &&
            d->facts[other].hi <= hi)
            return other;
    }
    const int drop = draw_chance(d, 3) ? draw_below(d, term->ndim + 1) : 0;
    for (int i = drop; i < term->ndim; i++)
        shape[i - drop] = draw_chance(d, 4) ? 1 : term->shape[i];
    return draw_leaf(d, FILL_REAL, term->ndim - drop, shape, fmax(lo, -2), fmin(hi, fmax(2, lo + 2)));
}

/* Steps */

int put_input(struct draft *d, int term)
{
    if (term < 0)
        return 0;
    d->step->inputs[d->step->n_inputs++] = term;
    return 1;
}

static stn_attr *put(struct draft *d, const char *name, stn_attr_type type)
{
    stn_attr *attr = &d->step->attrs[d->step->n_attrs++];
    *attr = (stn_attr){.name = name, .type = type};
    return attr;
}

void put_int(struct draft *d, const char *name, int64_t value)
{
    put(d, name, STN_ATTR_INT)->value.i = value;
}

void put_bool(struct draft *d, const char *name, int value)
{
    put(d, name, STN_ATTR_BOOL)->value.i = value;
}

void put_float(struct draft *d, const char *name, double value)
{
    put(d, name, STN_ATTR_FLOAT)->value.f = value;
}

void put_ints(struct draft *d, const char *name, int n, const int64_t *values)
{
    stn_ints *ints = &put(d, name, STN_ATTR_INTS)->value.ints;
    *ints = (stn_ints){.n = n};
    for (int i = 0; i < n; i++)
        ints->v[i] = values[i];
}

void put_text(struct draft *d, const char *name, const char *value)
{
    put(d, name, STN_ATTR_STRING)->value.s = value;
}

/* The outputs become terms. */
static int take_outputs(struct draft *d, int number, int n_outputs, stn_tensor *const *outputs)
{
    struct step *step = d->step;
    for (int k = 0; k < n_outputs && outputs[k] != NULL; k++) {
        if (d->p->n_terms == MAX_TERMS || step->n_outputs == MAX_STEP_OUTPUTS)
            return 0;
        const int t = d->p->n_terms++;
        struct term *term = &d->p->terms[t];
        *term = (struct term){.step = number,
                              .output = k,
                              .dtype = stn_tensor_dtype(outputs[k]),
                              .ndim = stn_tensor_ndim(outputs[k]),
                              .lo = -1,
                              .hi = 1};
        memcpy(term->shape, stn_tensor_shape(outputs[k]), sizeof(int64_t) * (size_t)term->ndim);
        term->seed = rng_mix(d->rng.seed, d->rng.next++);
        draw_layout(d, term, &term->layout);
        step->outputs[step->n_outputs++] = t;
        d->e.tensor[t] = outputs[k];
        if (!learn(d, t))
            return 0;
    }
    return step->n_outputs > 0;
}

/* Runs what was written; outputs are counted by the op. @return 0 and nothing changed where the op refuses it or its
 * numbers are too large. */
static int run(struct draft *d, struct draw_counts *counts)
{
    stn_tensor *outputs[STN_MAX_OUTPUTS] = {NULL};
    const int number = d->p->n_steps;
    struct step *step = d->step;
    if (step->op == NULL) {
        outputs[0] = d->e.tensor[step->inputs[0]];
        return take_outputs(d, number, 1, outputs);
    }
    if (execute_op(&d->e, step, outputs) == STN_OK) {
        if (step->in_place)
            d->p->terms[step->inputs[0]].is_changed = 1;
        return take_outputs(d, number, STN_MAX_OUTPUTS, outputs);
    }
    char text[256];
    counts->refused++;
    stn_context_take_error(d->e.context, text, sizeof text);
    if (getenv("STN_TEST_FUZZ_REFUSED") != NULL)
        fprintf(stderr, "refused: %s\n", text);
    return 0;
}

/* Views are changed in place in some layouts and not in others, and what they show with them. */
static int is_view(const stn_tensor *tensor)
{
    char text[512] = "";
    stn_tensor_describe(tensor, text, sizeof text);
    return strstr(text, ", view") != NULL;
}

/* Whether a term may be changed in place: nothing else reads it, nor does the backward of what made it, and it shares
 * no memory by being moved to where it is already. */
static int may_change(const struct draft *d, int t)
{
    const struct term *term = term_of(d, t);
    if (is_view(d->e.tensor[t]))
        return 0;
    if (term->dtype != d->dtype || program_uses(d->p, t) > 0)
        return 0;
    if (term->step == GIVEN)
        return !term->requires_grad;
    const char *maker = d->p->steps[term->step].op;
    return maker != NULL && !generator_of(maker)->keeps_result;
}

static void draw_in_place(struct draft *d)
{
    struct step *step = d->step;
    char name[64];
    int reads = 0;
    for (int i = 0; i < step->n_inputs; i++)
        reads += step->inputs[i] == step->inputs[0];
    snprintf(name, sizeof name, "%s_", step->op);
    step->in_place =
        reads == 1 && may_change(d, step->inputs[0]) && stn_op_find(d->e.context, name) != NULL && draw_chance(d, 2);
}

static int redistribution(struct draft *d)
{
    const struct want any = {0, STN_MAX_NDIM, -HUGE_VAL, HUGE_VAL, 0, 0, 0, 0, 0, draw_chance(d, 10)};
    const int t = draw_term(d, &any);
    if (!put_input(d, t))
        return 0;
    draw_layout(d, term_of(d, t), &d->step->layout);
    return 1;
}

static void draw_step(struct draft *d, const char *only, struct draw_counts *counts)
{
    const int terms = d->p->n_terms;
    d->step = &d->p->steps[d->p->n_steps];
    *d->step = (struct step){0};
    int drawn;
    if (only == NULL && draw_chance(d, 12)) {
        drawn = redistribution(d);
    } else {
        const struct generator *g = only ? generator_of(only) : generator_at(draw_below(d, generator_count()));
        if (only && g->is_complex && draw_chance(d, 2))
            g = generator_of(draw_chance(d, 2) ? "rfft" : "complex"); /* something has to make what it reads */
        d->step->op = g->op;
        drawn = g->draw(d, g);
        if (drawn)
            draw_in_place(d);
    }
    counts->drawn += drawn;
    if (drawn && run(d, counts))
        d->p->n_steps++;
    else
        d->p->n_terms = terms;
}

static void draw_grid(struct draft *d)
{
    static const struct grid grids[] = {{1, {1}, 1}, {1, {2}, 2}, {1, {2}, 2},    {1, {3}, 3},
                                        {1, {3}, 3}, {1, {4}, 4}, {2, {2, 2}, 4}, {2, {2, 3}, 6}};
    d->grid = d->p->grid = grids[draw_below(d, sizeof grids / sizeof *grids)];
    d->p->queue = draw_chance(d, 2) ? STN_QUEUE_WORKER : STN_QUEUE_IMMEDIATE;
}

int draw_program(struct program *p, uint64_t seed, const char *only, struct draw_counts *counts)
{
    struct finding finding = {{0}, 0, 0};
    const struct platform platform = p->platform;
    memset(p, 0, sizeof *p);
    p->seed = seed;
    p->platform = platform;
    struct draft *d = calloc(1, sizeof *d);
    if (d == NULL)
        return 0;
    *d = (struct draft){.p = p, .rng = {seed, 0}, .e = {.program = p, .finding = &finding}};
    d->dtype = draw_chance(d, 5) ? STN_DTYPE_F32 : STN_DTYPE_F64;
    draw_grid(d);
    const int steps = draw_between(d, 2, MAX_STEPS);
    int good = execute_open(&d->e) == STN_OK;
    if (good) {
        stn_scope_begin(d->e.context);
        stn_no_grad_begin(d->e.context);
        for (int i = 0; i < 3 * MAX_STEPS && p->n_steps < steps; i++)
            draw_step(d, only, counts);
        stn_no_grad_end(d->e.context);
        stn_scope_end(d->e.context);
        stn_context_destroy(&d->e.context);
    }
    free(d);
    return good;
}
