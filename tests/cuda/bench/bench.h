/* Benchmarks of CUDA devices: ours beside a peer in the same run, in rows of one form. They say how fast, and
 * never whether that is enough.
 *
 * A row is measured on ranks that are threads and share a device, or with NCCL have one each. Ours and the peer take
 * turns, A B A B …; the first turn of each is a warm-up, and the median of the pairs' ratios counts. Work of the device
 * is timed by events on the rank's stream, of several ranks the slowest counts; what the host spends is timed by its
 * clock. */
#ifndef STN_TESTS_CUDA_BENCH_H
#define STN_TESTS_CUDA_BENCH_H

#include <shardtensor/shardtensor.h>

#include <pthread.h>

enum { BENCH_MOST_RANKS = 8, BENCH_MOST_PAIRS = 31, BENCH_MOST_TEXT = 256 };

struct bench {
    const char *folder; /* the module's */
    int calls;          /* of one measurement */
    int64_t side;       /* of a square of f32; all sizes follow from it */
    int pairs;
    int failed; /* rows that could not be measured */
};

struct bench_team;

/* A rank, whose thread works on the device by this context. */
struct bench_rank {
    struct bench_team *team;
    struct bench *bench;
    stn_context *context;
    int rank, size;
    void *events[2]; /* where a measurement of the device begins and ends */
    void *from, *to; /* memory of the device, `room` bytes each, of which bench_copy copies `bytes` */
    size_t room, bytes;
    void *arg; /* of the row that is being measured */
};

typedef stn_status (*bench_call)(struct bench_rank *rank);

enum bench_clock { BENCH_DEVICE, BENCH_HOST };

struct bench_row {
    const char *name;
    char label[64];
    enum bench_clock clock;
    int burst; /* calls in one scope; 0: 1. By the host's clock nothing else is on the queue when they begin */
    bench_call ours;
    bench_call peer; /* NULL: peer_seconds is a limit that is known */
    double peer_seconds;
    const char *unit; /* NULL: us; else of what `work` counts a second, such as GB/s */
    double work;      /* of one call, the same of ours and the peer's */
    void *arg;
};

/* Seconds of one call, medians; negative where the row could not be measured, on all ranks alike. */
struct bench_times {
    double ours, peer;
};

/* Runs `body` on so many thread ranks of the device, each with its context. */
void bench_launch(struct bench *bench, int ranks, void (*body)(struct bench_rank *rank));

/* The same in a world of NCCL, rank r on device r. */
void bench_launch_nccl(struct bench *bench, int ranks, void (*body)(struct bench_rank *rank));

/* Measures and prints a row: name, case, ours, peer, unit, ratio (higher is better), and what one of our calls waits
 * for as a host and launches. Every rank calls it. */
struct bench_times bench_measure(struct bench_rank *rank, const struct bench_row *row);

/* A row of numbers that were found otherwise; rank 0 prints. */
void bench_print(const struct bench_rank *rank, const char *name, const char *label, double ours, double peer,
                 const char *unit, double ratio);

/* Keeps why this rank cannot go on, by what its queue or its context says; returns `status`. */
stn_status bench_explain(struct bench_rank *rank, stn_status status);

/* Whether `status` is STN_OK on all ranks, which all call this; else `name` could not be measured, for the first
 * reason that was kept, or by what the contexts say. */
int bench_ready(struct bench_rank *rank, const char *name, stn_status status);

/* A tensor of random numbers, or the context's error tensor. `mesh` NULL: local. */
stn_tensor *bench_tensor(struct bench_rank *rank, const stn_mesh *mesh, stn_placement placement, stn_dtype dtype,
                         int ndim, const int64_t *shape);

/* The peer of what moves memory: as many bytes copied by the device's own copy. bench_copy_make has room for
 * `bytes`, which is what is copied first. */
stn_status bench_copy(struct bench_rank *rank);
stn_status bench_copy_make(struct bench_rank *rank, size_t bytes);

/* Multiplications and additions that the device could do in a second at its highest clock, in numbers of `dtype`:
 * f32 by its ordinary units, bf16 by tensor cores. 0: not known. */
double bench_peak(stn_dtype dtype);

/* The benchmarks */
void bench_host(struct bench *bench);   /* what a call costs the host */
void bench_memory(struct bench *bench); /* kernels that serve the library itself */
void bench_offload(struct bench *bench); /* memory of the host */
void bench_ops(struct bench *bench);
void bench_own(struct bench *bench); /* what no library has */
void bench_ranks(struct bench *bench);
void bench_conv(struct bench *bench);
void bench_steps(struct bench *bench);
void bench_links(struct bench *bench); /* between devices */

#endif
