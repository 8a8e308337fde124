/* A program in a context: on one rank, whose answers are kept, or on a mesh, where they are compared with those. */
#ifndef FUZZ_EXECUTE_H
#define FUZZ_EXECUTE_H

#include "program.h"

#include <shardtensor/shardtensor.h>

enum { FINDING_TEXT = 640 };

/** What one rank gave. */
struct answers {
    void *value[MAX_TERMS], *grad[MAX_TERMS];
    double largest;    /* of the gradients */
    char refusal[256]; /* of a second derivative */
};

/** What is wrong; `text` is "" if nothing is. */
struct finding {
    char text[FINDING_TEXT];
    int compared;
    int alone; /* found on one rank, in what was drawn as legal: not forward, which may refuse what shrinking proposes */
};

struct execution {
    stn_context *context;
    const stn_mesh *mesh; /* NULL: local tensors */
    const struct program *program;
    stn_tensor *tensor[MAX_TERMS];
    struct finding *finding;
};

/** Makes the context of one rank. @return the status. */
stn_status execute_open(struct execution *e);

/** Makes a leaf, or the cotangent of what a step made. */
stn_tensor *execute_given(struct execution *e, int term);

/** Calls a step's op; tensors that it reads are there. @return the status, of which nothing is taken. */
stn_status execute_op(const struct execution *e, const struct step *step, stn_tensor **outputs);

/** Runs one step; tensors that it reads are there. @return 0 with a finding on failure. */
int execute_step(struct execution *e, int step);

/** The whole program on one rank: writes shapes and dtypes of what its steps make into it. @return 0 with a finding. */
int execute_alone(struct program *p, struct answers *answers, struct finding *finding);
void answers_free(struct answers *answers);

/** The whole program on its mesh and queue, compared with the answers. @return 1 where all is the same, else 0 with the
 * first rank's finding; what steps made then has in `p` the layout that it came in. */
int execute_compare(struct program *p, struct answers *answers, struct finding *finding);

#endif
