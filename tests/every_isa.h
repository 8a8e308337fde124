/* The instruction sets of kernels, one after the other: for tests that run a kernel many times. */
#ifndef SHARDTENSOR_TESTS_EVERY_ISA_H
#define SHARDTENSOR_TESTS_EVERY_ISA_H

#include "core/base/isa.h"

/** The next of the sets that processor and build offer; those that the build lacks are stood for by others
 * (core/base/isa.h). */
static inline enum stni_isa next_isa(void)
{
    static int calls;
    return (enum stni_isa)(calls++ % ((int)stni_isa_best() + 1));
}

#endif
