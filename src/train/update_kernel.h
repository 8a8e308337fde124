/* Kernels over lists of chunks: the same arithmetic on every element of every chunk of a list, which are dense and
 * alike. */
#ifndef STNI_TRAIN_UPDATE_KERNEL_H
#define STNI_TRAIN_UPDATE_KERNEL_H

#include <shardtensor/device.h>

#include "core/base/inline.h"
#include "core/base/isa.h"

#include <assert.h>
#include <float.h>

enum { STNI_UPDATE_OPERANDS = 4, STNI_UPDATE_CHUNKS = 64 };

enum stni_update_kind {
    STNI_UPDATE_SGD,      /* at: parameter, gradient */
    STNI_UPDATE_MOMENTUM, /* at: parameter, gradient, momentum */
    STNI_UPDATE_ADAMW,    /* at: parameter, gradient, mean, square */
    STNI_UPDATE_ADAM,     /* the same; decay is added to the gradient */
    STNI_UPDATE_AVERAGE,  /* at: mean, parameter */
    STNI_UPDATE_SWAP,     /* at: two tensors */
    STNI_UPDATE_NORM,     /* at: gradient; norm_square grows by its squares, added up in f64 */
    STNI_UPDATE_SCALE,    /* at: where to, a gradient; the factor comes from norm_square */
    STNI_UPDATE_UNSCALE,  /* at: where to, a gradient; divided by `most`; norm_square grows by the number of results that are not finite */
    STNI_UPDATE_KINDS
};

struct stni_update_chunk {
    void *at[STNI_UPDATE_OPERANDS];
    int64_t n;
};

/* What the numbers mean is the kind's. */
struct stni_update_numbers {
    double rate, decay;            /* decay: of weights, or of an average */
    double a, b;                   /* momentum and 1 - dampening (0 for the first gradient: 1), or beta1 and beta2 */
    double epsilon;
    double mean_scale, square_scale; /* Adam: 1 / (1 - beta^step) */
    double most;                   /* SCALE: the norm allowed; UNSCALE: the divisor */
    double *norm_square;             /* NORM, SCALE, UNSCALE */
    int64_t nesterov;
};

struct stni_update_args {
    enum stni_update_kind kind;
    stn_dtype dtype; /* f32, f64 */
    int n;
    void *workspace; /* as many bytes as the kernel asks for */
    struct stni_update_numbers numbers;
    struct stni_update_chunk chunk[STNI_UPDATE_CHUNKS];
};

static_assert(sizeof(struct stni_update_args) <= STN_MAX_KERNEL_ARGS, "arguments of a kernel");

stn_status stni_update_cpu(stn_queue *queue, const void *args);

typedef void (*stni_update_fn)(const struct stni_update_chunk *chunk, const struct stni_update_numbers *numbers);

struct stni_update_kernels {
    stni_update_fn f32[STNI_UPDATE_KINDS], f64[STNI_UPDATE_KINDS];
};

extern const struct stni_update_kernels stni_update_kernels_base, stni_update_kernels_avx2, stni_update_kernels_avx512;

#endif
