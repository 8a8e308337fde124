/* How much memory attention on a CUDA device takes for numbers of rows and keys at a time: heads and elements of the
 * batch follow one after the other where all at once would take more. */
#ifndef STNI_OPS_ATTENTION_ATTENTION_SCRATCH_H
#define STNI_OPS_ATTENTION_ATTENTION_SCRATCH_H

#include <stdint.h>

/* Bytes, where the numbers have 16 bits; twice as many for wider ones. Tests build it with less, to see parts of small
 * problems. */
#ifndef STNI_ATTENTION_SCRATCH
#define STNI_ATTENTION_SCRATCH ((int64_t)256 << 20)
#endif

#endif
