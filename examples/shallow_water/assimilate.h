/* Which height at the start leads to what was observed at the end? */
#ifndef EXAMPLES_SHALLOW_WATER_ASSIMILATE_H
#define EXAMPLES_SHALLOW_WATER_ASSIMILATE_H

#include "model.h"

struct assimilation {
    int steps;      /* of the model, from start to observation */
    int segment;    /* steps between states that are kept for the adjoint run; those in between are computed again */
    int iterations;
};

/* Half the sum of squared differences in h between the model's end, from a state with the given height, and `observed`.
 * Differentiable with respect to `height` ((1, rows, columns)), which is a leaf. */
stn_tensor *assimilation_misfit(const struct model *model, const struct assimilation *a, stn_tensor *height,
                                stn_tensor *observed);

/* Puts the best height that was found in the place of *height, the caller's; *least is its misfit. `show` is called for
 * each that was tried, the first one included. Steps along the gradient have the lengths of Barzilai and Borwein
 * (1988). */
stn_status assimilate(const struct model *model, const struct assimilation *a, stn_tensor *observed,
                      stn_tensor **height, double *least, void (*show)(void *arg, int iteration, double misfit),
                      void *arg);

#endif
