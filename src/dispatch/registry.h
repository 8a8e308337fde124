/* The ops of a context: descriptors, kernels, handlers. */
#ifndef STNI_DISPATCH_REGISTRY_H
#define STNI_DISPATCH_REGISTRY_H

#include <shardtensor/op.h>

#include "core/context/context.h"

#include "core/base/hash.h"

struct stni_slot_kernel {
    stn_kernel_fn function;                                 /* NULL: none */
    size_t (*workspace)(stn_queue *queue, const void *args); /* NULL: it wants none */
};

/* Kernels of one slot on this context's device: the built-in one, and one added by an embedder or module that wins
 * while it is on. Launches read the winner alone. */
struct stni_slot {
    struct stni_slot_kernel winner[STN_DTYPE_COUNT], builtin[STN_DTYPE_COUNT], added[STN_DTYPE_COUNT];
    int added_on;
    size_t args_size; /* bytes */
    char *name;       /* "op.slot" */
    size_t asked;     /* where scratch is checked: bytes that it wanted at most since `asked_in` began */
    int64_t asked_in;
};

struct stni_handler {
    stn_op_handler function; /* NULL: none */
    void *arg;
};

struct stn_op {
    stn_context *context;
    const stn_op_desc *desc;
    stn_op_impl impl; /* a copy of the descriptor's */
    int index;
    int handlers_on;          /* switch of this op */
    int told_promotion;       /* the log has been told that a local input of it was promoted */
    struct stni_handler own;  /* set on the op */
    struct stni_handler named; /* set on its name */
    struct stni_slot *slots;  /* impl->n_slots */
    char *signature;          /* NULL before somebody asked for it */
    UT_hash_handle hh;        /* by desc->name */
};

/* A handler that waits for an op of its name, or serves one. */
struct stni_named_handler {
    char *name;
    struct stni_handler handler;
    int on;
    UT_hash_handle hh;
};

/* Scratch memory of the ops under way, innermost last. */
struct stni_scratch {
    void *pointer;
    size_t capacity;
};

struct stni_registry {
    stn_op *by_name;
    stn_op **ops; /* all, by index */
    stn_op **listed; /* those that are not internal */
    int n_ops, n_listed, cap_ops;
    struct stni_named_handler *named;
    int handlers_on; /* switch of all */
    struct stni_scratch *scratch;
    int n_scratch, cap_scratch;
    int64_t scratch_turn; /* counts how often all scratch went back */
    /* Of ops that ranks call together, whose peers wait for them to begin (NULL: there are none): called where a
     * call by name failed before the op could tell them, which it notes in `has_told`. The failure is kept. */
    void (*refused)(const stn_op *op, int n_attrs, const stn_attr *attrs);
    int has_told;
};

stn_status stni_registry_create(stn_context *context, const stn_op_desc *const *table, int n);
void stni_registry_destroy(stn_context *context);

/* Adds a built-in op of a layer above the ops. */
stn_status stni_registry_add(stn_context *context, const stn_op_desc *desc);

/* The op of that name, internal ones included; NULL if there is none. */
stn_op *stni_registry_find(const stn_context *context, const char *name);

static inline int stni_registry_has_handler(const stn_op *op)
{
    return op->own.function || op->named.function;
}

/* The handler that serves `op` now, or NULL. */
const struct stni_handler *stni_registry_handler(const stn_op *op);

/* Calls a handler. Its own ops dispatch as usual, but for the op that it serves. A failure that it did not report
 * itself is one of its callback. */
stn_status stni_handler_run(const stn_op *op, const struct stni_handler *handler, int n_in, stn_tensor *const *in,
                            const void *attrs, int n_out, stn_tensor **out);

#endif
