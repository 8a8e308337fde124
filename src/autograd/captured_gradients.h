/* Gradients in captured steps. A repetition finds the gradients that leaves have then, and leaves its own, as a step
 * that is called does; but its kernels name memory. So a step that begins by reading a gradient or adding to it gets
 * memory of its own for it, into which the gradient of the moment is brought before each repetition, and to which it
 * adds in place; one that begins by forgetting it finds nothing; and one that began without it has to. Where there is
 * none, one that adds begins at zeros, as if it were called; one that reads would have done something else, and is
 * refused. */
#ifndef STNI_AUTOGRAD_CAPTURED_GRADIENTS_H
#define STNI_AUTOGRAD_CAPTURED_GRADIENTS_H

#include "autograd/leaf.h"
#include "autograd/node.h"
#include "core/step/step.h"

/* What the context does with the gradients of its steps. */
extern const struct stni_step_part stni_captured_gradients;

enum stni_gradient_use { STNI_GRADIENT_READ, STNI_GRADIENT_ADDED_TO, STNI_GRADIENT_FORGOTTEN };

/* Before a leaf's gradient is used so while a step is captured: what the first use is, repetitions keep to. */
stn_status stni_captured_gradient_meet(struct stni_leaf *leaf, enum stni_gradient_use use);

/* The same at any time. */
static inline stn_status stni_gradient_used(struct stni_leaf *leaf, enum stni_gradient_use use)
{
    return leaf->context->capture == NULL ? STN_OK : stni_captured_gradient_meet(leaf, use);
}

/* Before the gradient that a node's output keeps (stn_retain_grad) is used: a called step makes the result anew, and
 * what one of before keeps would not go on in repetitions. */
stn_status stni_kept_gradient_used(const struct stni_node *node);

#endif
