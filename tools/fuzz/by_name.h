/* Calls of every op, right and wrong, on one rank and on several. */
#ifndef FUZZ_BY_NAME_H
#define FUZZ_BY_NAME_H

#include "platform.h"

struct by_name_options {
    double seconds;
    long long calls, seed, only; /* only: one call; -1: all */
    const char *op;              /* NULL: all */
    struct platform platform;    /* of the ranks */
    int ranks;                   /* 0: 2, 3 or 4 */
    int print;                   /* each call as C before it is made */
    int most;                    /* failures, after which it stops */
};

/** @return 0 where none failed and tensors were compared. */
int by_name_run(const struct by_name_options *options);

#endif
