/* Layouts in which a chunk is few long pieces of a file. */
#ifndef STNI_TRAIN_LONG_RUNS_H
#define STNI_TRAIN_LONG_RUNS_H

#include "core/shard/spec.h"

/* The layout in which ranks write or read a tensor of `layout`, in which nothing is pending: itself where each chunk
 * lies in the file in long pieces. Else what cuts later dims cuts the first one, and elements lie in memory as in the
 * file: ranks exchange, so that each byte is written once and read once whatever cuts the tensor. */
stn_status stni_long_runs(stn_context *context, struct stni_layout *layout);

#endif
