/* Hooks of single tensors, and gradients that results of ops keep. */
#ifndef STNI_AUTOGRAD_TENSOR_HOOKS_H
#define STNI_AUTOGRAD_TENSOR_HOOKS_H

#include <shardtensor/autograd.h>

#include "core/tensor/tensor.h"

/* One hook, and those that follow it. They belong to a leaf, or to a node, for one of its outputs. */
struct stni_tensor_hooks {
    int output;
    stn_tensor_hook hook; /* NULL: keeps the gradient */
    void *arg;
    void (*destroy)(void *arg);
    stn_tensor *grad; /* kept: complete; NULL before the first */
    int removed;      /* by itself: not called any more */
    struct stni_tensor_hooks *next;
};

/* Shows the hooks of an output its gradient, one reference, which they may replace; then, with `keeps`, adds it to what
 * is kept of it, in the layout of a complete gradient of `forward`. */
stn_status stni_tensor_hooks_run(struct stni_tensor_hooks *hooks, int output, const stn_spec *forward, int keeps,
                                 stn_tensor **gradient);

/* The entry that keeps an output's gradient; NULL if none does. */
struct stni_tensor_hooks *stni_tensor_hooks_keeper(struct stni_tensor_hooks *hooks, int output);

/* A tensor has another history since it was changed in place: what keeps its gradient goes with it, to an output of the
 * new node. Hooks stay with what it was. */
void stni_tensor_hooks_follow(struct stni_tensor_hooks **from, int output, struct stni_tensor_hooks **to, int at);

void stni_tensor_hooks_destroy(struct stni_tensor_hooks **hooks);

/* Which word a hook that removes itself sets: around its call, with the outer one to come back to. */
int *stni_hook_runs(stn_context *context, int *removed);

#endif
