/* Convolutions whose halo goes beside their interior against the same with the halo first: bits, messages and bytes.
 * On any ranks. */
#ifndef SHARDTENSOR_TESTS_OPS_CONV_OVERLAP_H
#define SHARDTENSOR_TESTS_OPS_CONV_OVERLAP_H

#include <shardtensor/shardtensor.h>

/** A mesh's sizes; columns 0: one axis. */
struct conv_grid {
    int rows, columns;
};

/** Compares each `step`-th of conv_cases and its gradients, cut evenly and with one row or none on some ranks.
 * Collective over the world, which is the grid's ranks. */
void conv_overlap_compare(stn_context *context, const struct conv_grid *grid, int step);

#endif
