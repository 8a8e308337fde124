/* The emulator: two convolutions on a sphere's grid, added to a damped last anomaly. */
#ifndef WIND_EMULATOR_MODEL_H
#define WIND_EMULATOR_MODEL_H

#include "winds.h"

enum { HIDDEN = 16, KERNEL = 3, PARAMETERS = 4 };

struct model {
    stn_context *context;
    stn_tensor *parameter[PARAMETERS]; /* weight and bias of each convolution, on every rank */
    stn_tensor *velocity[PARAMETERS];  /* of the gradient descent */
};

/* Parameters drawn from U(+-1 / sqrt(fan_in)) by the seed, the same on any number of ranks. They outlive scopes. */
stn_status model_create(stn_context *context, const stn_mesh *mesh, uint64_t seed, struct model *model);
void model_fini(struct model *model);

/* The predicted anomaly from the anomalies of two months, and the last of the two. */
stn_tensor *model_forward(const struct model *model, stn_tensor *inputs, stn_tensor *last);

/* One step of gradient descent with momentum 0.9 and rate 0.03 from the parameters' gradients, which it forgets. */
stn_status model_step(struct model *model);

#endif
