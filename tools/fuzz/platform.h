/* What the ranks of a mesh compute with. One rank's answers, which come from the CPU, do not depend on it. */
#ifndef FUZZ_PLATFORM_H
#define FUZZ_PLATFORM_H

#include <shardtensor/context.h>

#include <stdio.h>

/** Each NULL: as contexts have it by default. */
struct platform {
    const char *isa;         /* instruction set of the CPU's kernels */
    const char *without;     /* libraries that contexts do without */
    const char *device;      /* of a module, such as cuda */
    const char *module_path; /* where the module is looked for first */
};

/** Writes it into the options of a context. */
void platform_set(const struct platform *platform, stn_context_options *options);

/** Writes it as options of stn-fuzz, each behind a space. */
void platform_print(FILE *out, const struct platform *platform);

/** Writes it as lines of C, which set `options.context`. */
void platform_print_c(FILE *out, const struct platform *platform);

#endif
