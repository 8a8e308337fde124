/* Updates of tensors in place, collected into lists and launched as few kernels. */
#ifndef STNI_TRAIN_UPDATE_H
#define STNI_TRAIN_UPDATE_H

#include "core/tensor/tensor.h"
#include "train/update_kernel.h"

#include <shardtensor/op.h>

/* Holds the kernel of updates, under the name "update.chunks" by which each device brings its own. */
extern const stn_op_desc stni_op_update;

/* Where a captured step finds the numbers of a chunk each time: those of the parameter `index` as they are then, of
 * an owner that the step keeps. */
struct stni_update_renewal {
    void *owner;
    stn_status (*check)(void *owner); /* the owner still has them; keeps the failure */
    void (*numbers)(void *owner, int index, struct stni_update_numbers *numbers);
    void (*retain)(void *owner);
    void (*release)(void *owner);
};

/* A list in the making; launched where it is full, or where dtype or numbers change. */
struct stni_update {
    stn_context *context;
    stn_tensor *held[STNI_UPDATE_CHUNKS]; /* what the list reads and nobody else may keep, until it is launched */
    struct stni_update_args args;
    const struct stni_update_renewal *renewal; /* NULL: numbers stay what they were */
    int index;                                 /* of what is added next, which the owner sets */
    int indices[STNI_UPDATE_CHUNKS];           /* of what is in the list */
};

void stni_update_begin(struct stni_update *update, stn_context *context, enum stni_update_kind kind);

/* Adds the chunks of tensors of one spec, dense; the numbers are those of this tensor. `written` has a bit for each
 * that the kernel changes. A reference to `hold`, which may be NULL, is the list's from now on, also where this
 * fails. */
stn_status stni_update_add(struct stni_update *update, const struct stni_update_numbers *numbers, int n,
                           stn_tensor *const *tensors, uint32_t written, stn_tensor *hold);

/* Launches what is left where `status`, that of all before, is STN_OK. Returns the first failure. */
stn_status stni_update_end(struct stni_update *update, stn_status status);

/* Whether training's kernels can work on a tensor that `what` names: f32 or f64, dense, neither view nor Partial.
 * Keeps the failure. */
stn_status stni_update_check(stn_context *context, const char *what, const char *name, stn_tensor *tensor);

/* Whether they may change it now: by another handle it may have become immutable since. Keeps the failure. */
stn_status stni_update_check_writable(stn_context *context, const char *what, const char *name,
                                      const stn_tensor *tensor);

/* The complete gradient of a leaf in its own spec, dense, with a reference; NULL where there is none. */
stn_status stni_update_gradient(stn_tensor *leaf, stn_tensor **out);

#endif
