/* What the templates of softmax_cpu.c work on at once. */
#ifndef STNI_OPS_SOFTMAX_SOFTMAX_STRIP_H
#define STNI_OPS_SOFTMAX_SOFTMAX_STRIP_H

#include "core/box/box_kernel.h"
#include "core/base/dtype.h"
#include "core/base/isa.h"
#include "ops/softmax/softmax_kernel.h"
#include "ops/cpu/math.h"
#include "ops/cpu/nontemporal_blocks.h"

#include <math.h>

enum {
    LANES = 16,
    SHORT = 2048, /* elements of a line that is worked on in the L1 cache */
    FEW = 1024,   /* of lines that are worked on there together, */
    TOGETHER = 8, /* and how many at most */
    TRANSPOSED = 128, /* elements of a line up to which LANES of them are transposed */
    PARTS = 4,    /* partial sums of a line then */
    COLUMNS = 128, /* lines side by side that are worked on together */
    RUN = 256 /* blocks whose terms are added up in the compute type, runs of which are in f64 */
};

/* What is worked on at once. Either one line, in blocks of LANES elements of it (along), or some short ones, or up
 * to LANES lines side by side, whose blocks are the elements at one position of each. Lane l of block i of tensor t
 * is element at[t] + i step[t] + l c[t]. */
struct strip {
    int along;
    int64_t line, lines; /* the first one, and how many */
    int64_t blocks;
    int64_t full, last; /* lanes that a block uses; that the last one uses */
    int64_t at[SOFTMAX_TENSORS], step[SOFTMAX_TENSORS], c[SOFTMAX_TENSORS];
    int streamed; /* the result is written by non-temporal stores */
    size_t ahead; /* then: how far ahead elements are prefetched, bytes; 0: not at all */
};

static inline int64_t end_of_run(int64_t i, int64_t n) { return n - i < RUN ? n : i + RUN; }

typedef void (*strip_fn)(const struct stni_softmax_args *args, const struct strip *strip);

#endif
