/* Drawing programs. A generator (generators.h) asks for inputs with the properties it needs and writes one step; the
 * step is run at once on one rank, so that whatever is drawn next knows the shapes and numbers that are there. */
#ifndef FUZZ_DRAW_H
#define FUZZ_DRAW_H

#include "execute.h"

/** What is known of a term's numbers. */
struct facts {
    double lo, hi;
    double gap; /* the least distance of two elements */
};

struct draft {
    struct program *p;
    struct rng rng;
    struct execution e;
    struct facts facts[MAX_TERMS];
    stn_dtype dtype; /* of its floating leaves */
    struct step *step; /* being written */
    struct grid grid;
};

/** What numbers are kept away from, because rounding would choose the side there: of real ones `kink`, or every
 *  multiple of a half; of complex ones the real axis, on which angles jump. */
enum kink { KINK_NONE, KINK_THERE, KINK_HALVES };

/** Which terms will do: floating ones, with numbers within lo … hi, none nearer to a kink than a step that rounding
 *  could take. */
struct want {
    int min_ndim, max_ndim;
    double lo, hi;
    enum kink has_kink;
    double kink;
    int distinct; /* no two elements alike */
    int64_t min_size; /* of every dim */
    int64_t min_last; /* of the last dim */
    int is_complex;   /* complex ones instead, of any numbers: those that ops made */
};

static inline int draw_below(struct draft *d, int n)
{
    return (int)rng_below(&d->rng, n);
}

static inline int draw_between(struct draft *d, int least, int most)
{
    return least + draw_below(d, most - least + 1);
}

/** One in n. */
static inline int draw_chance(struct draft *d, int n)
{
    return draw_below(d, n) == 0;
}

/** A term that is wanted: one that is there, or a new leaf; -1 where neither can be. */
int draw_term(struct draft *d, const struct want *want);

/** A new leaf. Numbers of FILL_REAL are within lo … hi; of FILL_INDEX below hi; of FILL_RISING from lo on. Those that
 *  are FILL_REAL require grad, but for some. */
int draw_leaf(struct draft *d, enum fill fill, int ndim, const int64_t *shape, double lo, double hi);

/** Another operand for pointwise use with `term`: a term or leaf that broadcasts to its shape, or to which it does. */
int draw_partner(struct draft *d, int term, double lo, double hi);

static inline const struct term *term_of(const struct draft *d, int term)
{
    return &d->p->terms[term];
}

/* Writing the step: inputs in the op's order, then attributes. Each returns 1, or 0 where the term is -1. */
int put_input(struct draft *d, int term);
void put_int(struct draft *d, const char *name, int64_t value);
void put_bool(struct draft *d, const char *name, int value);
void put_float(struct draft *d, const char *name, double value);
void put_ints(struct draft *d, const char *name, int n, const int64_t *values);
void put_text(struct draft *d, const char *name, const char *value);

struct draw_counts {
    int64_t drawn, refused; /* steps; refused by the op, which means that a generator draws too freely */
};

/** Draws a program from a seed; `only` names the one op to draw from the table, NULL: all. @return 0 when memory is
 * out. */
int draw_program(struct program *p, uint64_t seed, const char *only, struct draw_counts *counts);

#endif
