#ifndef EXAMPLES_SHALLOW_WATER_OPTIONS_H
#define EXAMPLES_SHALLOW_WATER_OPTIONS_H

#include "model.h"

struct options {
    enum scenario scenario;
    int64_t rows;
    int ranks[2];
    double hours, every; /* of the run, and between outputs */
    const char *out, *restart;
    int assimilate; /* iterations; 0: no assimilation */
    int check;
};

/* Returns 1; 0 with a line on standard error; -1 where help was asked for and printed. */
int options_parse(int argc, char **argv, struct options *options);

#endif
