/* stn-fuzz: random programs on random meshes and layouts, against one rank. */
#include "by_name.h"
#include "common/isa_option.h"
#include "common/thread_ranks.h"
#include "draw.h"
#include "generators.h"
#include "print.h"
#include "shrink.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: stn-fuzz [--seconds S] [--programs N] [--seed S] [--only N] [--op NAME] [--without LIST]\n"
    "       [--isa SET] [--device NAME] [--module-path DIR] [--print] [--list]\n"
    "       stn-fuzz --by-name [--seconds S] [--calls N] [--seed S] [--only N] [--op NAME] [--ranks N] [--most N]\n"
    "       [--without LIST] [--isa SET] [--device NAME] [--module-path DIR] [--print]\n"
    "\n"
    "Draws programs of 2 to 30 ops, runs each forward and backward on one rank of the CPU and on a mesh with random\n"
    "layouts, and compares all that came. A program that fails is made small and printed as C. Exit status 0 only if "
    "none\n"
    "failed.\n"
    "With --by-name it makes single calls of every op instead, right and wrong: counts, dtypes, shapes, layouts, "
    "attributes. One rank and\n"
    "several have to give the same, be it numbers, gradients or a refusal. A call that fails is printed as C.\n"
    "  --seconds S   until so many seconds have passed (60; with --programs no limit)\n"
    "  --programs N  so many programs\n"
    "  --seed S      what is drawn (1); 'fresh': another one in each run, which the last line names\n"
    "  --only N      one program, as a failure's line names it\n"
    "  --op NAME     programs of this op alone\n"
    "  --without LIST  libraries that the mesh's ranks do without, of onednn,fftw,cublaslt,cudnn,cufft,nccl\n"
    "  --isa SET     instruction set of the kernels: base, avx2 or avx512 (the widest; status 77 where this processor "
    "lacks it)\n"
    "  --device NAME  a module's device, such as cuda, that the mesh's ranks are on (cpu)\n"
    "  --module-path DIR  where the device's module is looked for first\n"
    "  --print       programs as C, before they run\n"
    "  --calls N     by name: so many calls\n"
    "  --ranks N     by name: in worlds of N ranks (2, 3 and 4); 1 with --device alone\n"
    "  --most N      by name: until so many calls have failed (5)\n"
    "  --list        the ops that programs are made of\n";

struct options {
    double seconds;
    long long programs, seed, only, ranks, most;
    const char *op;
    struct platform platform;
    int print, by_name;
};

/* Whether contexts take such a list of libraries to do without. */
static int takes_without(const char *without)
{
    const stn_context_options options = {.size = sizeof options, .without = without};
    stn_context *context = NULL;
    const stn_status status = stn_context_create(&options, &context);
    stn_context_destroy(&context);
    return status == STN_OK;
}

enum { MAX_RANKS = 16 };

struct totals {
    long long programs, steps, compared, failed;
    struct draw_counts draws;
};

static void list_ops(void)
{
    for (int g = 0; g < generator_count(); g++)
        printf("%s\n", generator_at(g)->op);
}

/* 1 where it is an option without a value. */
static int read_flag(const char *word, struct options *o)
{
    if (strcmp(word, "--list") == 0) {
        list_ops();
        exit(EXIT_SUCCESS);
    }
    if (strcmp(word, "--print") == 0)
        return o->print = 1;
    if (strcmp(word, "--by-name") == 0)
        return o->by_name = 1;
    return 0;
}

/* Of the time of day; short enough to type. */
static long long fresh_seed(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    const long long seed = (t.tv_sec * 1000 + t.tv_nsec / 1000000) % 1000000007;
    printf("seed %lld\n", seed); /* what a crash leaves to read */
    fflush(stdout);
    return seed;
}

/* 0 where there is no such option, or its value is none. */
static int read_value(const char *word, const char *value, struct options *o)
{
    const struct {
        const char *name;
        long long *to;
    } numbers[] = {{"--programs", &o->programs}, {"--calls", &o->programs}, {"--seed", &o->seed},
                   {"--only", &o->only},         {"--ranks", &o->ranks},    {"--most", &o->most}};
    const struct {
        const char *name, **to;
    } texts[] = {{"--op", &o->op},
                 {"--isa", &o->platform.isa},
                 {"--without", &o->platform.without},
                 {"--device", &o->platform.device},
                 {"--module-path", &o->platform.module_path}};
    char *end = (char *)"";
    if (strcmp(word, "--seed") == 0 && strcmp(value, "fresh") == 0) {
        o->seed = fresh_seed();
        return 1;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(word, texts[i].name) == 0) {
            *texts[i].to = value;
            return texts[i].to != &o->platform.without || takes_without(value);
        }
    if (strcmp(word, "--seconds") == 0) {
        o->seconds = strtod(value, &end);
        return *end == '\0' && *value != '\0';
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(word, numbers[i].name) == 0) {
            *numbers[i].to = strtoll(value, &end, 10);
            return *end == '\0' && *value != '\0';
        }
    return 0;
}

static int read_options(int argc, char **argv, struct options *o)
{
    *o = (struct options){.seconds = -1, .programs = -1, .seed = 1, .only = -1, .most = 5};
    for (int i = 1; i < argc; i++)
        if (!read_flag(argv[i], o) && (i + 1 == argc || !read_value(argv[i], argv[i + 1], o) || i++ > argc))
            return 0;
    if (o->op && !o->by_name)
        o->op = generator_of(o->op)->op;
    if (o->seconds < 0)
        o->seconds = o->programs < 0 ? 60 : 1e18;
    if (o->programs < 0)
        o->programs = INT64_MAX;
    return o->ranks >= 0 && o->ranks <= MAX_RANKS && (o->ranks != 1 || o->platform.device) && o->most > 0;
}

/* A crash has no finding: the line tells which program it was. */
static char crash_line[128];

static void on_crash(int signal_number)
{
    if (write(STDERR_FILENO, crash_line, strlen(crash_line)) < 0)
        _exit(3);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void report(const struct options *o, long long number, struct program *p, struct finding *finding)
{
    printf("FAIL program %lld of %d steps: %s\n", number, p->n_steps, finding->text);
    fflush(stdout);
    const int tries = shrink_program(p, finding);
    printf("after %d tries %d steps: %s\nagain: stn-fuzz --seed %lld --only %lld%s%s", tries, p->n_steps, finding->text,
           o->seed, number, o->op ? " --op " : "", o->op ? o->op : "");
    platform_print(stdout, &o->platform);
    printf("\n\n");
    print_program(stdout, p);
    printf("\n");
    fflush(stdout);
}

static void run_one(const struct options *o, long long number, struct program *p, struct totals *totals)
{
    struct finding finding;
    snprintf(crash_line, sizeof crash_line, "died in: stn-fuzz --seed %lld --only %lld\n", o->seed, number);
    if (!draw_program(p, rng_mix((uint64_t)o->seed, (uint64_t)number), o->op, &totals->draws) || p->n_steps == 0)
        return;
    if (o->print) {
        print_program(stdout, p);
        fflush(stdout);
    }
    const int good = check_program(p, &finding);
    totals->steps += p->n_steps;
    if (!good)
        report(o, number, p, &finding);
    totals->programs++;
    totals->compared += finding.compared;
    totals->failed += !good;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int run_calls(const struct options *o)
{
    const struct by_name_options by_name = {.seconds = o->seconds,
                                            .calls = o->programs,
                                            .seed = o->seed,
                                            .only = o->only,
                                            .op = o->op,
                                            .ranks = (int)o->ranks,
                                            .print = o->print,
                                            .most = (int)o->most,
                                            .platform = o->platform};
    return by_name_run(&by_name);
}

int main(int argc, char **argv)
{
    struct options options;
    struct totals totals = {0};
    if (!read_options(argc, argv, &options)) {
        fputs(usage, stderr);
        return 2;
    }
    int lacking = isa_option_check(options.platform.isa);
    if (!lacking)
        lacking = thread_ranks_check("start it by itself");
    if (lacking)
        return lacking;
    if (options.by_name)
        return run_calls(&options);
    struct program *p = calloc(1, sizeof *p);
    if (p == NULL)
        return 2;
    p->platform = options.platform;
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        signal(crashes[i], on_crash);
    const double end = now() + options.seconds;
    if (options.only >= 0)
        run_one(&options, options.only, p, &totals);
    for (long long n = 0; options.only < 0 && n < options.programs && now() < end && totals.failed < 5; n++)
        run_one(&options, n, p, &totals);
    printf("%lld programs, %lld steps, %lld tensors compared, %lld failed; seed %lld; %lld of %lld draws refused\n",
           totals.programs, totals.steps, totals.compared, totals.failed, options.seed, (long long)totals.draws.refused,
           (long long)totals.draws.drawn);
    free(p);
    return totals.failed == 0 && totals.compared > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
