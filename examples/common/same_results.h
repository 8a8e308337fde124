/* For examples: a program whose result has to be the same on any number of ranks. */
#ifndef SHARDTENSOR_EXAMPLES_SAME_RESULTS_H
#define SHARDTENSOR_EXAMPLES_SAME_RESULTS_H

#include <shardtensor/shardtensor.h>

struct results {
    int variant; /* which form of the program is wanted: set before it runs */
    int n;
    double value[16384];
};

/** Adds the elements of a whole f64 tensor to a rank's results. Collective over its mesh. */
void results_add(struct results *results, stn_tensor *tensor);

/** Runs a program, whose `arg` is its results, in each of its forms (variants 0, 1, …) on 1, 3 and 9 ranks, with the
 *  same random numbers, and compares what the first rank has with what variant 0 gave on one rank. Numbers may be
 *  1e-12 apart: ranks add in another order, and what is rounded otherwise grows from step to step.  @return the exit
 *  status: 0 where all agree. */
int same_results(const char *name, int n_variants, stn_rank_main program);

#endif
