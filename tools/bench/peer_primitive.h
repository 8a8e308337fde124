/* Forward primitives of oneDNN on one chunk, by the calling thread alone. */
#ifndef BENCH_PEER_PRIMITIVE_H
#define BENCH_PEER_PRIMITIVE_H

#include <stdint.h>

enum peer_primitive_kind {
    PEER_SOFTMAX,    /* along the last dim */
    PEER_LAYER_NORM, /* over the last dim, in training */
    PEER_BATCH_NORM, /* in training */
    PEER_MAX_POOL,   /* in training: it keeps where the largest elements are */
    PEER_AVG_POOL,   /* without what is padded */
    PEER_BILINEAR,
    PEER_EXP,
    PEER_SIGMOID,
    PEER_GELU_TANH
};

struct peer_primitive_shape {
    enum peer_primitive_kind kind;
    int ndim;
    int64_t dims[5];                 /* of the chunk */
    int64_t kernel, stride, padding; /* of pools, alike in all dims */
    int64_t factor;                  /* of resampling */
};

struct peer_primitive;

/** Whether this build has oneDNN. */
int peer_primitive_is_there(void);

/** NULL where oneDNN offers no such primitive, or is absent. */
struct peer_primitive *peer_primitive_create(const struct peer_primitive_shape *shape);
void peer_primitive_destroy(struct peer_primitive **peer);

/** Runs it `n` times. @return 0 where it failed. */
int peer_primitive_run(struct peer_primitive *peer, int64_t n);

#endif
