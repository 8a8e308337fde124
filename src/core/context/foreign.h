/* Foreign libraries that do what kernels of our own can do too. Any of them may be absent and may refuse anything; a
 * context can be told to do without one, and a test has one refuse what it chooses. */
#ifndef STNI_CORE_CONTEXT_FOREIGN_H
#define STNI_CORE_CONTEXT_FOREIGN_H

#include "core/base/status.h"

enum stni_library {
    STNI_LIBRARY_ONEDNN,
    STNI_LIBRARY_FFTW,
    STNI_LIBRARY_CUBLASLT,
    STNI_LIBRARY_CUDNN,
    STNI_LIBRARY_CUFFT,
    STNI_LIBRARY_NCCL,
    STNI_LIBRARY_COUNT
};

/* What a test makes a library refuse: the n-th query or run from now on, so 1 is the next one; -1 every one, 0 none.
 * A query is whether the library has code for a problem, which is made once and remembered; a run may fail although
 * the library has code. Set while no kernel is under way. */
struct stni_refusals {
    int64_t question, run;
};

struct stni_foreign {
    unsigned without; /* bit l: library l is not used at all */
    struct stni_refusals refusals[STNI_LIBRARY_COUNT];
};

/* Reads names with commas between them (NULL: none) as bits. STN_ERR_ARGUMENT, written to `error`, where one is not
 * known. */
stn_status stni_foreign_read(const char *names, unsigned *without, struct stni_error *error);

static inline int stni_foreign_has(const struct stni_foreign *foreign, enum stni_library library)
{
    return !(foreign->without >> library & 1);
}

/* Counts down; 1 where this one is refused. */
static inline int stni_refuses(int64_t *next)
{
    return *next < 0 || (*next > 0 && --*next == 0);
}

#endif
