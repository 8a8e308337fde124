/* The part of the benchmark of overlap that convolutions are. */
#ifndef BENCH_OVERLAP_H
#define BENCH_OVERLAP_H

#include "bench.h"

/** Rows of convolutions whose halo goes beside their interior, and of the same that wait for it first; `over` says
 * what joins the ranks. Collective over the context's world. */
stn_status overlap_convolutions(struct bench *bench, stn_context *context, const char *over);

#endif
