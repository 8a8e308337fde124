/* A program: tensors that are given (leaves) and steps, each a call of an op by name on earlier tensors. Nothing in
 * it points anywhere but to constants, so that a program is copied by assignment. */
#ifndef FUZZ_PROGRAM_H
#define FUZZ_PROGRAM_H

#include "conform/layouts.h"
#include "platform.h"

#include <shardtensor/op.h>

enum {
    MAX_STEPS = 30,
    MAX_TERMS = 160,
    MAX_STEP_INPUTS = 5,
    MAX_STEP_OUTPUTS = 6,
    MAX_STEP_ATTRS = 6,
    GIVEN = -1,
    LOST = -2
};

/* FILL_SIGN: -1 or 1. FILL_RISING: `lo`, and by a half more from each element of the last dim to the next. */
enum fill { FILL_REAL, FILL_INDEX, FILL_BOOL, FILL_SIGN, FILL_RISING };

/** A tensor of the program. */
struct term {
    int step;   /* that makes it; GIVEN: a leaf; LOST: nothing uses it any more */
    int output; /* which of the step's */
    stn_dtype dtype;
    int ndim;
    int64_t shape[STN_MAX_NDIM];
    enum fill fill; /* of a leaf; a cotangent is FILL_REAL */
    double lo, hi;  /* numbers of a leaf; below `hi` for an index */
    int requires_grad;
    uint64_t seed;        /* of its numbers, or its cotangent's */
    struct layout layout; /* of a leaf; of the cotangent of what a step makes */
    struct layout came;   /* of what a step makes, once it has run on a mesh */
    int is_changed;       /* in place, by the step that reads it: not what it was */
};

struct step {
    const char *op; /* NULL: the input in another layout */
    int in_place;   /* where that can be: the first input, unless a pending reduction has to end */
    int n_inputs, inputs[MAX_STEP_INPUTS]; /* -1: absent */
    int n_attrs;
    stn_attr attrs[MAX_STEP_ATTRS]; /* names and texts are constants */
    int n_outputs, outputs[MAX_STEP_OUTPUTS];
    struct layout layout; /* without an op */
};

struct program {
    uint64_t seed;
    struct platform platform;
    stn_queue_kind queue;
    struct grid grid;
    int n_terms, n_steps;
    struct term terms[MAX_TERMS];
    struct step steps[MAX_STEPS];
};

/** Number `i`, row-major, of a leaf or cotangent. */
double program_number(const struct term *term, int64_t i);

/** How many steps read a term. */
int program_uses(const struct program *p, int term);

/** Takes terms away that are LOST, and numbers the rest anew. */
void program_compact(struct program *p);

int64_t term_numel(const struct term *term);

/** Whether keys of attention go round, however short: in every other program. */
int program_goes_round(const struct program *p);

/** Whether its gradients are differentiated, too: of one program in three. */
int program_goes_twice(const struct program *p);

/** The cotangent of a leaf's gradient there, in the leaf's layout. */
struct term program_second_cotangent(const struct term *leaf);

#endif
