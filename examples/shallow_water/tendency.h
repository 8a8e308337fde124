/* The right side of the shallow water equations as an op of the example's own: (h, u, v) -> d/dt of them. */
#ifndef EXAMPLES_SHALLOW_WATER_TENDENCY_H
#define EXAMPLES_SHALLOW_WATER_TENDENCY_H

#include "grid.h"

#include <shardtensor/shardtensor.h>

/* One context's op and its adjoint; alive as long as the context. */
struct tendency {
    const struct grid *grid;
    stn_op_desc forward, adjoint;
    const stn_op *adjoint_op;
};

/* Registers both. Every rank does it. */
stn_status tendency_register(stn_context *context, const struct grid *grid, struct tendency *tendency);

/* state: f64, (FIELDS, rows, columns), rows and columns sharded in any way. Differentiable once. */
stn_tensor *tendency_of(stn_tensor *state);

#endif
