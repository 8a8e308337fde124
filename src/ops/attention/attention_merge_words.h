/* A row of what is merged on the CPU. A part of attention_merge_cpu.c. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_MERGE_WORDS_H
#define STNI_OPS_ATTENTION_ATTENTION_MERGE_WORDS_H

#include "core/base/inline.h"
#include "ops/attention/attention_merge_kernel.h"

#include <tgmath.h>

/* Where it begins in each operand. */
struct row {
    int64_t out, lse, more, more_lse;
};

#endif
