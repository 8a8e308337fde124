/* Ranks that are threads of this process, each on a CUDA device of its own, with NCCL between the devices. */
#ifndef CONFORM_NCCL_H
#define CONFORM_NCCL_H

#include <shardtensor/context.h>

/** stn_launch for such ranks, with the context's options for each of them; their device is "cuda", of which there are
 *  as many as ranks.
 *  @return the first rank's own failure, after which `error` (error_size bytes) says why. */
stn_status nccl_launch(int ranks, const stn_context_options *context, stn_rank_main rank_main, void *arg, char *error,
                       size_t error_size);

#endif
