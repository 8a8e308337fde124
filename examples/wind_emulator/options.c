#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct options defaults = {
    .ranks = 2, .epochs = 10, .data = "/usr/share/ferret-vis/data", .out = "out/wind"};

void options_print_help(void)
{
    printf("usage: wind_emulator [--ranks N] [--epochs E] [--seed S] [--data DIR] [--out DIR] [--check]\n"
           "Trains a neural emulator of monthly mean winds, its fields cut by latitude over N thread ranks (%d), for E epochs (%d), and\n"
           "scores it on months that it never saw. --check instead trains 20 steps on 1 rank and on N and compares the losses.\n"
           "DIR of --data (%s) holds monthly_navy_winds.cdf; metrics.json goes to DIR of --out (%s).\n",
           defaults.ranks, defaults.epochs, defaults.data, defaults.out);
}

static int parse_number(const char *name, const char *text, long long least, long long most, long long *out)
{
    char *end;
    errno = 0;
    *out = text ? strtoll(text, &end, 10) : 0;
    if (!text || errno || end == text || *end || *out < least || *out > most) {
        fprintf(stderr, "wind_emulator: %s got '%s', wanted a number from %lld to %lld\n", name, text ? text : "nothing", least, most);
        return 0;
    }
    return 1;
}

static int parse_text(const char *name, const char *text, const char **out)
{
    if (!text || !text[0]) {
        fprintf(stderr, "wind_emulator: %s got nothing, wanted a folder\n", name);
        return 0;
    }
    *out = text;
    return 1;
}

/* Returns how many arguments were taken, 0 on a failure. */
static int parse_one(const char *name, const char *next, struct options *o)
{
    long long n = 0;
    if (strcmp(name, "--check") == 0)
        return o->check = 1;
    if (strcmp(name, "--help") == 0)
        return o->help = 1;
    if (strcmp(name, "--ranks") == 0) {
        int ok = parse_number(name, next, 1, 1024, &n);
        o->ranks = (int)n;
        return 2 * ok;
    }
    if (strcmp(name, "--epochs") == 0) {
        int ok = parse_number(name, next, 0, 1000000, &n);
        o->epochs = (int)n;
        return 2 * ok;
    }
    if (strcmp(name, "--seed") == 0) {
        int ok = parse_number(name, next, 0, INT64_MAX, &n);
        o->seed = (uint64_t)n;
        return 2 * ok;
    }
    if (strcmp(name, "--data") == 0)
        return 2 * parse_text(name, next, &o->data);
    if (strcmp(name, "--out") == 0)
        return 2 * parse_text(name, next, &o->out);
    fprintf(stderr, "wind_emulator: no option '%s'; --help lists them\n", name);
    return 0;
}

int options_parse(int argc, char **argv, struct options *options)
{
    *options = defaults;
    for (int i = 1; i < argc;) {
        int taken = parse_one(argv[i], i + 1 < argc ? argv[i + 1] : NULL, options);
        if (!taken)
            return 0;
        i += taken;
    }
    return 1;
}
