/* Tests of kernels and queues on the stand-in or on a GPU: one of the programs by its name, or any other program once
 * there are GPUs. */
#include "programs.h"

#include "core/context/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SKIPPED = 77, USAGE = 2 };

static const char usage[] = "usage: cuda_tests list [ranks] | about | bench [CALLS [SIDE [PAIRS]]]\n"
                            "       cuda_tests [--gpus N] NAME [CASE...]       a program of the list, or the cases of "
                            "it with these parts of names\n"
                            "       cuda_tests [--gpus N] exec PROGRAM ARG...  another one\n"
                            "\n"
                            "The list has the programs of kernels and queues; with \"ranks\" tests of the CPU's ranks, "
                            "whose data is on the device then.\n"
                            "The module is that of STN_TEST_CUDA_FOLDER, or else the tests' stand-in. Status 77 where "
                            "it has less than N devices.\n";

static const char *folder(void)
{
    const char *other = getenv("STN_TEST_CUDA_FOLDER");
    return other ? other : CUDA_FOLDER;
}

static int list(int of_ranks)
{
    for (const struct program *p = programs; p->name; p++)
        if (p->of_ranks == of_ranks)
            puts(p->name);
    return 0;
}

/* How many devices there are; without any says why. */
static int count_devices(struct stni_error *error)
{
    stn_module module;
    stn_device *device = NULL;
    if (stni_module_load("cuda", folder(), &module, error) != STN_OK)
        return 0;
    const int n = module.device_count ? module.device_count() : 0;
    if (n == 0)
        stni_module_open_device("cuda:0", 0, folder(), &device, error);
    return n;
}

/* Tests whose ranks share two devices share one where there are no two. */
static int prepare(int wanted)
{
    struct stni_error error = {.status = STN_OK};
    const int n = count_devices(&error);
    if (n < wanted) {
        printf("skipped: %d of %d GPUs%s%s\n", n, wanted, n == 0 ? ": " : "", n == 0 ? error.text : "");
        return SKIPPED;
    }
    setenv("STN_TEST_DEVICE", "cuda", 1);
    setenv("STN_TEST_DEVICE_MODULES", folder(), 1);
    if (n < 2)
        setenv("STN_TEST_ONE_DEVICE", "1", 1);
    return 0;
}

static int run(int argc, char **argv)
{
    if (strcmp(argv[0], "exec") == 0 && argc > 1) {
        execv(argv[1], argv + 1);
        perror(argv[1]);
        return 1;
    }
    for (const struct program *p = programs; p->name; p++)
        if (strcmp(p->name, argv[0]) == 0)
            return p->main(argc, argv);
    fprintf(stderr, "cuda_tests: no program is called %s\n%s", argv[0], usage);
    return USAGE;
}

int main(int argc, char **argv)
{
    int gpus = 0, first = 1;
    if (argc > 2 && strcmp(argv[1], "--gpus") == 0) {
        gpus = atoi(argv[2]);
        first = 3;
    }
    if (first >= argc) {
        fputs(usage, stderr);
        return USAGE;
    }
    if (strcmp(argv[first], "list") == 0)
        return list(argc > first + 1 && strcmp(argv[first + 1], "ranks") == 0);
    if (strcmp(argv[first], "about") == 0)
        return about(folder());
    if (strcmp(argv[first], "bench") == 0)
        return bench(folder(), argc - first, argv + first);
    const int lacking = prepare(gpus);
    return lacking ? lacking : run(argc - first, argv + first);
}
