/* What one rank does with one configuration. */
#ifndef CONFORM_RANK_H
#define CONFORM_RANK_H

#include "run.h"

/** Runs the op forward and backward in the layouts of the configuration, compares with the case and writes what it
 * found. Collective over the mesh. The context is without error afterwards, unless its family is aborted. */
void rank_run(stn_context *context, const stn_mesh *mesh, const struct conform_case *c,
              const struct configuration *configuration, struct outcome *outcome);

#endif
