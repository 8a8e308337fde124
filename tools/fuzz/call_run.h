/* A call in one context, and all that can be seen of it. */
#ifndef FUZZ_CALL_RUN_H
#define FUZZ_CALL_RUN_H

#include "call.h"

enum { CALL_TEXT = 512, CALL_FAULT = 256, CALL_MOST_READ = 1 << 20 /* elements */, CALL_PERTURBED = 8 };

/** A tensor as read. */
struct call_result {
    int present, outside; /* of its mesh is this rank */
    stn_dtype dtype;
    int ndim;
    int64_t shape[STN_MAX_NDIM];
    int64_t numel;
    void *data; /* NULL: not read, because it is too large or this rank is outside its mesh */
};

struct call_outcome {
    int refused;                      /* the inputs themselves could not be made */
    stn_status status, later, gradient, last; /* of the call, of the agreement after it, of stn_grad, of the agreement at the end */
    char text[CALL_TEXT], later_text[CALL_TEXT], gradient_text[CALL_TEXT], last_text[CALL_TEXT];
    char fault[CALL_FAULT]; /* what no call may do, whatever it was given; "": nothing */
    int n_outputs, n_gradients;
    struct call_result outputs[CALL_OUTPUTS], gradients[CALL_INPUTS];
};

/** Makes the call; every rank of the world does. meshes[MESH_LOCAL] is NULL; meshes NULL: on one rank alone, whose
 * tensors are all local. */
void call_run(stn_context *context, const struct call *call, const stn_mesh *const *meshes,
              struct call_outcome *outcome);

void call_outcome_free(struct call_outcome *outcome);

/** Of outcomes on one rank alone and on all: what is wrong, into `text`, or 0 where nothing is. `perturbed`: what one
 * rank gives of the inputs of draws 1 … CALL_PERTURBED (call.h), by which differences that mean nothing are known;
 * NULL: none are. `compared` counts tensors. */
int call_judge(const struct call *call, const struct call_outcome *alone, const struct call_outcome *perturbed, int n,
               const struct call_outcome *ranks, char *text, size_t size, int64_t *compared);

/** A tensor of one rank alone and of one rank among several: output or gradient `at` of the call. */
struct call_pair {
    const struct call *call;
    const struct call_outcome *alone, *perturbed;
    int is_gradient, at;
    const struct call_result *one, *many;
};

/** The first number that differs by more than rounding explains; -1: none does. */
int64_t call_pair_differs(const struct call_pair *pair);

/** Whether the length of its result, or a failure, hangs on elements, which ranks outside the mesh are not told. */
int call_hangs_on_elements(const stn_op_desc *op);

/** 1 where the ranks cannot go on after it. */
int call_aborted(int n, const struct call_outcome *ranks);

#endif
