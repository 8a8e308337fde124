/* What the command line asks for. */
#ifndef WIND_EMULATOR_OPTIONS_H
#define WIND_EMULATOR_OPTIONS_H

#include "data.h"

struct options {
    int mesh[AXES]; /* data x latitude x longitude */
    int ranks, epochs, lead, threads, check, help;
    uint64_t seed;
    struct source source;
    const char *out, *trace, *parameters;
    char *variables; /* the text that source.variables points into */
};

/* Returns 1, or 0 after one line on stderr. */
int options_parse(int argc, char **argv, struct options *options);
void options_fini(struct options *options);
void options_print_help(void);

#endif
