/* All benchmarks, in turn, and what they share of tensors and of the device. */
#include "bench.h"
#include "runtime.h"

#include "cuda/programs.h"

#include "core/context/context.h"
#include "core/device/device.h"

#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 20, SIDE = 4096, LEAST_SIDE = 64, PAIRS = 7 };

/* Of enum cudaDeviceAttr; the clock in kHz. */
enum { CLOCK = 13, MULTIPROCESSORS = 16, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };

stn_tensor *bench_tensor(struct bench_rank *rank, const stn_mesh *mesh, stn_placement placement, stn_dtype dtype,
                         int ndim, const int64_t *shape)
{
    const stn_spec *spec = NULL;
    stn_spec_create(rank->context, mesh, mesh ? &placement : NULL, dtype, ndim, shape, NULL, &spec);
    stn_tensor *tensor = stn_uniform(rank->context, spec, -1, 1);
    stn_spec_release(&spec);
    return tensor;
}

stn_status bench_copy(struct bench_rank *rank)
{
    return stni_queue_copy(rank->context->queue, rank->to, rank->from, rank->bytes, STNI_COPY_DEVICE);
}

stn_status bench_copy_make(struct bench_rank *rank, size_t bytes)
{
    const stn_status status = stn_context_status(rank->context);
    rank->room = rank->bytes = bytes;
    if (status != STN_OK)
        return status;
    STNI_TRY(stni_device_allocate(rank->context->device, bytes, &rank->from));
    return stni_device_allocate(rank->context->device, bytes, &rank->to);
}

/* Source: CUDA C++ Programming Guide, throughput of native arithmetic instructions (results per clock cycle and
 * multiprocessor), and the dense tensor throughputs of the A100, H100 and B200 data sheets, by their clocks and
 * numbers of multiprocessors. */
static const struct {
    int capability;
    double f32, bf16; /* multiplications and additions per clock and multiprocessor */
} units[] = {{80, 128, 2048}, {86, 256, 1024}, {89, 256, 1024}, {90, 256, 4096}, {100, 256, 8192}};

double bench_peak(stn_dtype dtype)
{
    const int capability = 10 * runtime_attribute(CAPABILITY_MAJOR) + runtime_attribute(CAPABILITY_MINOR);
    const double clocks = 1e3 * runtime_attribute(CLOCK) * runtime_attribute(MULTIPROCESSORS);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (units[i].capability == capability)
            return clocks * (dtype == STN_DTYPE_F32 ? units[i].f32 : units[i].bf16);
    return 0;
}

static int read_number(int argc, char **argv, int at, int otherwise)
{
    return argc > at ? atoi(argv[at]) : otherwise;
}

int bench(const char *folder, int argc, char **argv)
{
    void (*const all[])(struct bench *) = {bench_host,  bench_memory, bench_offload, bench_ranks, bench_conv,
                                           bench_steps, bench_links,  bench_ops,     bench_own};
    struct bench bench = {.folder = folder,
                          .calls = read_number(argc, argv, 1, CALLS),
                          .side = read_number(argc, argv, 2, SIDE),
                          .pairs = read_number(argc, argv, 3, PAIRS)};
    if (bench.calls < 1 || bench.side < LEAST_SIDE || bench.pairs < 1 || bench.pairs > BENCH_MOST_PAIRS) {
        fprintf(stderr, "bench: calls, side and pairs are numbers, side at least %d, pairs at most %d\n", LEAST_SIDE,
                BENCH_MOST_PAIRS);
        return 1;
    }
    if (!runtime_find(folder)) {
        fprintf(stderr, "bench: %s has no CUDA module with a runtime that times work\n", folder);
        return 1;
    }
    printf("%-8s %-50s %10s %10s %-8s %7s\n", "name", "case", "ours", "peer", "unit", "ratio");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        all[i](&bench);
    printf("%d calls, side %lld, %d pairs; %d rows were not measured\n", bench.calls, (long long)bench.side,
           bench.pairs, bench.failed);
    return bench.failed > 0;
}
