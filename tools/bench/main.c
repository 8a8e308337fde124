/* stn-bench: measures the library beside its peers. */
#include "bench.h"

#include "common/isa_option.h"
#include "common/thread_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

static const struct entry {
    const char *name;
    void (*run)(struct bench *bench);
    const char *work;
} entries[] = {
    {"dispatch", bench_dispatch, "one op on tiny shards, over the bare kernel"},
    {"dispatch-scale", bench_dispatch_scale, "the same in worlds of 2 to 100,000 ranks"},
    {"latency", bench_latency, "8-byte all-reduce and barrier"},
    {"allreduce", bench_allreduce, "all-reduce of 64 KiB to 128 MiB"},
    {"alltoallv", bench_alltoallv, "all-to-all, even and 1:3"},
    {"reshard", bench_reshard, "redistribution of 4096 x 4096 f32"},
    {"mpi-ranks", bench_mpi_ranks, "collectives of MPI ranks, beside MPI's own"},
    {"haloconv", bench_haloconv, "conv2d over sharded rows"},
    {"fft", bench_fft, "Fourier transforms of sharded cubes, beside FFTW"},
    {"sht", bench_sht, "spherical harmonic transforms, beside libsharp"},
    {"ring", bench_ring, "attention over a sharded sequence"},
    {"pointwise", bench_pointwise, "ops of one element each, beside memory"},
    {"reduce", bench_reduce, "reductions, beside memory"},
    {"norm", bench_norm, "softmax, norms, resampling, beside oneDNN"},
    {"pool", bench_pool, "pools of windows, beside oneDNN"},
    {"index", bench_index, "rows by random index, beside copying"},
    {"fsdp", bench_fsdp, "a transformer in chunks, trained, beside the same un-sharded"},
    {"e2e", bench_e2e, "training steps of whole models, beside the same un-sharded"},
    {"ckpt", bench_ckpt, "files of tensors, beside plain writing and reading"},
    {"overlap", bench_overlap, "gradients reduced while the backward goes on"},
    {"breadth", bench_breadth, "ops of all families, beside PyTorch"},
    {"plan-scale", bench_plan_scale, "plans of one rank among 2 to 100,000"},
    {"spec-mem", bench_spec_mem, "bytes of 10,000 tensors"},
};

enum { ENTRIES = sizeof entries / sizeof entries[0] };

static int usage(void)
{
    fprintf(stderr, "usage: stn-bench NAME|all... [--json] [--short|--once] [--without onednn,fftw]\n"
                    "                 [--isa base|avx2|avx512] [--python PATH] [--case TEXT]\n\n");
    for (int i = 0; i < ENTRIES; i++)
        fprintf(stderr, "  %-16s %s\n", entries[i].name, entries[i].work);
    fprintf(stderr, "\n  --short        fewer and smaller cases, less time on each\n"
                    "  --once         the least of it, one repetition: whether it runs, not how fast\n"
                    "  --python PATH  the Python in which breadth looks for PyTorch (python3)\n"
                    "  --case TEXT    of breadth, cases whose name holds it\n");
    return EXIT_USAGE;
}

/* 1 if `word` names at least one benchmark; runs them where `run` is set. */
static int select_by(const char *word, struct bench *bench, int run)
{
    int found = 0;
    for (int i = 0; i < ENTRIES; i++) {
        if (strcmp(word, "all") != 0 && strcmp(word, entries[i].name) != 0)
            continue;
        found = 1;
        if (run)
            entries[i].run(bench);
    }
    return found;
}

int main(int argc, char **argv)
{
    struct bench bench = {.pairs = 9, .seconds = 0.1};
    int names = 0; /* they come to the front of argv */
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            bench.json = 1;
        else if (strcmp(argv[i], "--short") == 0)
            bench.quick = 1;
        else if (strcmp(argv[i], "--once") == 0)
            bench.quick = bench.once = 1;
        else if (strcmp(argv[i], "--without") == 0 && i + 1 < argc)
            bench.without = argv[++i];
        else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc)
            bench.isa = argv[++i];
        else if (strcmp(argv[i], "--python") == 0 && i + 1 < argc)
            bench.python = argv[++i];
        else if (strcmp(argv[i], "--case") == 0 && i + 1 < argc)
            bench.only = argv[++i];
        else if (select_by(argv[i], &bench, 0))
            argv[names++] = argv[i];
        else
            return usage();
    }
    if (names == 0)
        return usage();
    int lacking = isa_option_check(bench.isa);
    if (!lacking)
        lacking = thread_ranks_check("start it by itself: it runs mpirun where MPI is measured");
    if (lacking)
        return lacking;
    if (bench.quick) {
        bench.pairs = bench.once ? 1 : 7;
        bench.seconds = bench.once ? 1e-9 : 0.005; /* one repetition takes longer */
    }
    if (!bench.json)
        printf("%-14s %-34s %11s %11s %-4s %8s %6s\n", "name", "case", "ours", "peer", "unit", "ratio", "spread");
    for (int i = 0; i < names; i++)
        select_by(argv[i], &bench, 1);
    return bench.failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
