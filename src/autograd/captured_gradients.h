/* Gradients in captured steps. A repetition finds the gradients that leaves have then, and leaves its own, as a step
 * that is called does; but its kernels name memory. So a step that begins by reading a gradient gets memory of its
 * own for it, into which the gradient of the moment is brought before each repetition, and to which it adds in
 * place; one that begins by forgetting it finds nothing; and one that began without it has to. */
#ifndef STNI_AUTOGRAD_CAPTURED_GRADIENTS_H
#define STNI_AUTOGRAD_CAPTURED_GRADIENTS_H

#include "autograd/leaf.h"
#include "core/step/step.h"

/* What the context does with the gradients of its steps. */
extern const struct stni_step_part stni_captured_gradients;

/* Before the gradient of a leaf is read or added to while a step is captured (else there is nothing to do): it is
 * the step's then. */
stn_status stni_captured_gradient_meet(struct stni_leaf *leaf, int is_read);

static inline stn_status stni_captured_gradient_read(struct stni_leaf *leaf)
{
    return leaf->context->capture == NULL ? STN_OK : stni_captured_gradient_meet(leaf, 1);
}

/* Before it is forgotten. */
static inline stn_status stni_captured_gradient_forget(struct stni_leaf *leaf)
{
    return leaf->context->capture == NULL ? STN_OK : stni_captured_gradient_meet(leaf, 0);
}

#endif
