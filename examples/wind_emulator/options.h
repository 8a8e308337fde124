/* What the command line asks for. */
#ifndef WIND_EMULATOR_OPTIONS_H
#define WIND_EMULATOR_OPTIONS_H

#include <stdint.h>

struct options {
    int ranks, epochs, check, help;
    uint64_t seed;
    const char *data; /* folder of monthly_navy_winds.cdf */
    const char *out;  /* folder, made with its parents */
};

/* Returns 1, or 0 after one line on stderr. */
int options_parse(int argc, char **argv, struct options *options);
void options_print_help(void);

#endif
