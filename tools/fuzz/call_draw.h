/* What drawing a call knows on the way. */
#ifndef FUZZ_CALL_DRAW_H
#define FUZZ_CALL_DRAW_H

#include "call.h"

struct call_draft {
    struct call *call;
    struct rng rng;
    int wild; /* percent: how often something is not as it should be */
    int ndim;
    int64_t base[26]; /* sizes that shapes are put together from: one a letter of a pattern */
    stn_dtype dtype;
    enum call_numbers numbers;
    enum call_mesh mesh;
    const char *pattern; /* of the inputs' shapes; NULL: at random */
    const char *equation; /* of an op that takes one; its left side is the pattern */
};

/** 0 … n - 1; 0 where n is 0 or less. */
int call_below(struct call_draft *d, int n);
int call_chance(struct call_draft *d, int percent);

void call_draw_attrs(struct call_draft *d);

/** An equation of index letters, right or wrong. */
const char *call_draw_equation(struct call_draft *d);

/* Hints: what ops want that a schema does not tell. Without them calls are as sound, but more are refused. */

struct call_hint {
    const char *op, *input; /* NULL: any */
    stn_dtype dtype;
    int percent; /* how often it is that dtype */
    int has_numbers;
    enum call_numbers numbers;
};

const struct call_hint *call_hint_of(const char *op, const char *input);

/** Shapes of an op's inputs, one letter a dim, the same letter the same size, a digit itself: "ij,jk"; NULL where any
 * will do. */
const char *call_pattern_of(const char *op);

/** The least and the most that an attribute of that name makes sense with. @return 0 where nothing is known. */
int call_range_of(const char *attr, int *least, int *most);

#endif
