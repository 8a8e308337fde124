/* Ops that work on a rank's own chunk, on two thread ranks: beside memory, beside oneDNN's primitive on the same
 * chunk, or beside the same op on operands that lie better. */
#ifndef BENCH_CHUNKS_H
#define BENCH_CHUNKS_H

#include "bench.h"
#include "peer_primitive.h"

enum { CHUNKS_DIMS = 5, CHUNKS_INPUTS = 3 };

struct chunks_input {
    int ndim; /* 0: there is no such input */
    int64_t shape[CHUNKS_DIMS];
    int cut;  /* the dim that is sharded over the ranks; -1: replicated */
};

typedef stn_tensor *(*chunks_op)(stn_tensor *const *inputs);

/** A comparison. Exactly one peer is given. */
struct chunks_case {
    const char *label;
    struct chunks_input input[CHUNKS_INPUTS];
    chunks_op prepare; /* what the op is given as its last input, made once; NULL: the input itself */
    chunks_op ours;
    double read, written;                    /* memory as the peer: in sizes of the first input's chunk */
    const struct peer_primitive_shape *primitive; /* oneDNN as the peer, on this chunk with one thread a rank */
    chunks_op other;                        /* another op as the peer, of the first inputs as they are */
    double gate, goal;
};

/** What the peer that is memory does for a chunk of so many floats, where `given` is what all inputs hold, and what its
 * buffers have to hold for that: as much as the op is given, so that no more of it stays in the caches. */
struct chunks_memory {
    int64_t copied, read; /* read: beside what is copied, from where that ends, and from the buffer's start again where it ends */
    int64_t from, to;     /* floats that the buffers hold */
};
struct chunks_memory chunks_memory_of(int64_t chunk, int64_t given, double read, double written);

/** The piece that is read next, after `done` floats of those to be read: floats from `*at` on. What was just copied
 * comes last, since it may be in the caches, where what an op reads is not. */
int64_t chunks_next_read(const struct chunks_memory *memory, int64_t done, int64_t *at);

/** Measures every case. */
void chunks_run(struct bench *bench, const char *name, const struct chunks_case *cases, int n);

#endif
