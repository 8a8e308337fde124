/* Un-sharded convolution by oneDNN, channels last, on several threads: the peer of the halo convolution. */
#ifndef BENCH_PEER_ONEDNN_H
#define BENCH_PEER_ONEDNN_H

#include <stdint.h>

enum { CONV_DIMS = 3 };

/* The kernel and the stride are the same along all dims; padding keeps the size at stride 1. */
struct conv_shape {
    int dims; /* windowed ones */
    int64_t batch, in, out, size[CONV_DIMS], kernel, stride;
};

enum conv_pass { CONV_FORWARD, CONV_BACKWARD_DATA, CONV_BACKWARD_WEIGHTS };

struct peer_onednn;

/** Prepares one pass; the weights stand in whatever format oneDNN likes best, and reordering is not timed. NULL where
 * it cannot. The threads are set by the caller's OpenMP settings at the time of each run. */
struct peer_onednn *peer_onednn_create(const struct conv_shape *shape, enum conv_pass pass);
void peer_onednn_destroy(struct peer_onednn **peer);

/** Runs it `n` times with `threads` threads. @return 0 where it failed. */
int peer_onednn_run(struct peer_onednn *peer, int threads, int64_t n);

/** The name of oneDNN's kernel. */
const char *peer_onednn_kernel(const struct peer_onednn *peer);

#endif
