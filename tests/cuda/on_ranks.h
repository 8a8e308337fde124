/* The same work on one rank of the CPU and on thread ranks of the CUDA module's device. */
#ifndef STN_TESTS_CUDA_ON_RANKS_H
#define STN_TESTS_CUDA_ON_RANKS_H

#include <shardtensor/shardtensor.h>

/* Checks that `work` succeeds on one rank of the CPU, with `want`, and on so many that share a device of the module
 * under test, with `got`. */
void on_ranks(int ranks, stn_rank_main work, void *want, void *got);

/* A mesh of all ranks in a line. */
const stn_mesh *on_ranks_line(stn_context *context);

/* On rank 0: the whole tensor as f64, into `to`. All ranks call it. */
void on_ranks_keep(stn_context *context, stn_tensor *tensor, double *to);

#endif
