#include "program.h"

double program_number(const struct term *term, int64_t i)
{
    const uint64_t bits = rng_mix(term->seed, (uint64_t)i);
    if (term->fill == FILL_BOOL)
        return (double)(bits & 1);
    if (term->fill == FILL_INDEX)
        return (double)(bits % (uint64_t)term->hi);
    if (term->fill == FILL_SIGN)
        return bits & 1 ? 1 : -1;
    if (term->fill == FILL_RISING)
        return term->lo + 0.5 * (double)(i % term->shape[term->ndim - 1]);
    return term->lo + (term->hi - term->lo) * (double)(bits >> 44) / 1048576;
}

int program_uses(const struct program *p, int term)
{
    int uses = 0;
    for (int s = 0; s < p->n_steps; s++)
        for (int i = 0; i < p->steps[s].n_inputs; i++)
            uses += p->steps[s].inputs[i] == term;
    return uses;
}

int64_t term_numel(const struct term *term)
{
    int64_t numel = 1;
    for (int d = 0; d < term->ndim; d++)
        numel *= term->shape[d];
    return numel;
}

void program_compact(struct program *p)
{
    int to[MAX_TERMS], n = 0;
    for (int t = 0; t < p->n_terms; t++) {
        to[t] = n;
        if (p->terms[t].step != LOST)
            p->terms[n++] = p->terms[t];
    }
    p->n_terms = n;
    for (int s = 0; s < p->n_steps; s++) {
        struct step *step = &p->steps[s];
        for (int i = 0; i < step->n_inputs; i++)
            step->inputs[i] = step->inputs[i] < 0 ? -1 : to[step->inputs[i]];
        for (int k = 0; k < step->n_outputs; k++)
            step->outputs[k] = to[step->outputs[k]];
    }
}

int program_goes_round(const struct program *p)
{
    return p->seed % 2 != 0;
}

int program_goes_twice(const struct program *p)
{
    return p->seed % 3 == 0;
}

struct term program_second_cotangent(const struct term *leaf)
{
    struct term term = *leaf;
    term.seed = rng_mix(leaf->seed, 2);
    term.lo = -1;
    term.hi = 1;
    return term;
}
