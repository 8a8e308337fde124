/* Leaves: tensors that gradients end in. */
#ifndef STNI_AUTOGRAD_LEAF_H
#define STNI_AUTOGRAD_LEAF_H

#include <shardtensor/autograd.h>

#include "core/tensor/tensor.h"

struct stni_grad_hook_entry {
    stn_grad_hook hook;
    void *arg;
    void (*destroy)(void *arg);
    int removed; /* by itself: not called any more */
    struct stni_grad_hook_entry *next;
};

struct stni_tensor_hooks;

struct stni_leaf {
    int refs;
    stn_context *context;
    const stn_spec *spec;  /* of the tensor */
    stn_tensor *grad;      /* complete */
    stn_tensor *pending;   /* Partial where the leaf is Replicate, still to be reduced */
    stn_tensor *cotangent; /* while a backward runs */
    uint64_t mark;         /* the last traversal that met it */
    uint64_t named;        /* the last list of leaves that it stood in; a hook may give one while a traversal goes on */
    int last;              /* while a backward runs: the last of its nodes that leads here */
    int reducing;          /* gradients of it that a reduction holds */
    int due;               /* it has hooks, and something was added since they ran last */
    int hooks_wait;        /* a backward inside no-sync has found hooks on some rank: all ranks of its mesh know */
    int listed;            /* on the tape's list of open leaves */
    int counted_elsewhere; /* `grad` is a replica that joining groups gave to ranks in line: the first of them counts its elements */
    uint64_t capture;      /* the last step whose capture met it */
    stn_tensor *own_sum;   /* the step that is being captured adds to this gradient in place; borrowed, NULL: to none */
    stn_tensor *handle;    /* the leaf's own tensor, borrowed, for hooks; NULL once it has died */
    struct stni_grad_hook_entry *hooks, *last_hook;
    struct stni_tensor_hooks *tensor_hooks; /* NULL: none */
};

struct stni_leaf *stni_leaf_create(stn_tensor *tensor);
void stni_leaf_retain(struct stni_leaf *leaf);
void stni_leaf_release(struct stni_leaf *leaf);

/* The layout that a complete gradient of a tensor of spec `forward` has: Shard stays, everything else becomes
 * Replicate. */
stn_status stni_gradient_spec(const stn_spec *forward, const stn_spec **out);

/* Takes over `tensor`, the first of a gradient that is kept: gives it back where nobody else holds its memory, else a
 * copy without history. */
stn_status stni_gradient_own(stn_tensor *tensor, stn_tensor **out);

/* Forgets both gradients. */
void stni_leaf_drop_gradients(struct stni_leaf *leaf);

/* Moves what is to be the leaf's complete gradient to the memory that the leaf lies in, the device's or the host's. */
stn_status stni_leaf_place(const struct stni_leaf *leaf, stn_tensor **gradient);

/* Adds to the complete gradient what has been completed, which becomes it where there is none: memory that nobody
 * else changes. */
stn_status stni_leaf_add(struct stni_leaf *leaf, const stn_spec *spec, stn_tensor *gradient);

/* Takes the summed cotangent of this backward: to `pending` where it is still to be reduced, else to `grad`. It becomes
 * that itself where it is the first and nobody else holds it, and is another handle of the value or NULL afterwards. */
stn_status stni_leaf_take(struct stni_leaf *leaf, stn_tensor **cotangent);

/* What is undone where a gradient that was taken cannot be completed. */
struct stni_leaf_before {
    stn_tensor *pending; /* NULL: nothing */
    int due;
};

void stni_leaf_give_back(struct stni_leaf *leaf, const struct stni_leaf_before *before);

/* The axes along which the leaf's gradient is still to be reduced once it has taken the cotangent; `*whole` is its
 * layout then. */
stn_status stni_leaf_pending_axes(const struct stni_leaf *leaf, const stn_tensor *cotangent, const stn_spec **whole,
                                  uint32_t *axes);

/* Runs the hooks if the gradient has become complete since they ran last; both thread-local words of dispatch are
 * zero meanwhile, and grad mode is as the hooks shall find it (the caller sees to that). */
stn_status stni_leaf_tell(struct stni_leaf *leaf);

#endif
