/* Ops of all families on two thread ranks, forward and with gradients, beside PyTorch with two threads. */
#ifndef BENCH_BREADTH_H
#define BENCH_BREADTH_H

#include <shardtensor/shardtensor.h>

enum { BREADTH_INPUTS = 7, BREADTH_DIMS = 5 };

struct breadth_input {
    stn_dtype dtype;
    int cut;  /* the dim that is sharded over the ranks; -1: replicated */
    int ndim; /* 0: there is no such input */
    int64_t shape[BREADTH_DIMS];
    int64_t high; /* integers are below it */
    int constant; /* 1: no gradient of it is asked for */
};

typedef stn_tensor *(*breadth_op)(stn_tensor *const *x);

struct breadth_case {
    const char *label;
    breadth_op ours;
    const char *torch; /* the same in Python, of a list x */
    int with_gradient; /* measured forward alone, and with the gradients of its floating inputs */
    struct breadth_input input[BREADTH_INPUTS];
};

/** A block of a transformer on 8 samples of 256 tokens, 256 wide, with 4 heads: tokens, weight and bias of both
 * norms, weights of queries, keys and values, of the output, and of the two layers behind. */
stn_tensor *breadth_transformer(stn_tensor *const *x);
extern const char breadth_transformer_torch[];

/** A U-Net of two levels: images, and three kernels of 3 x 3. */
stn_tensor *breadth_unet(stn_tensor *const *x);
extern const char breadth_unet_torch[];

extern const struct breadth_case breadth_cases[];
extern const int breadth_n_cases;

#endif
