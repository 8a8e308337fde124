/* What the benchmarks share: the table of them, rows of results, and statistics of pairs.
 *
 * Machines are noisy, so that ours and the peer are measured in turn, A B A B …, and only the ratio of each pair
 * counts. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <shardtensor/shardtensor.h>

enum { BENCH_MAX_PAIRS = 15, BENCH_MAX_COUNTERS = 8 };

struct bench {
    int json;      /* one object a line instead of a table */
    const char *isa; /* instruction set of our kernels; NULL: the widest */
    int quick;     /* the short form: fewer and smaller cases, less time on each */
    int once;      /* whether it runs, not how fast: the short form, smaller yet, one pair of one repetition */
    const char *without; /* libraries that contexts do without; NULL: none */
    int pairs;     /* at least 7, but for `once` */
    double seconds; /* that one measurement should last */
    const char *python; /* in which PyTorch is looked for; NULL: python3 */
    const char *only;   /* of breadth, cases whose name holds this; NULL: all */
    int failed;    /* rows that could not be measured */
};

/** Seconds for one repetition, pair by pair. */
struct samples {
    int n; /* 0: not measured */
    double ours[BENCH_MAX_PAIRS], peer[BENCH_MAX_PAIRS];
};

struct counter {
    const char *name;
    double value;
};

/** One result. Ratios are such that higher is better; gate and goal are ratios, NAN where the row is only reported. */
struct row {
    const char *name;
    char label[96]; /* the case */
    double ours, peer;
    const char *unit;
    double ratio, spread; /* the median over pairs, and the distance of its quartiles as a part of it */
    double gate, goal;
    int broken; /* 1: a counter is not what it has to be, whatever the ratio */
    int n_counters;
    struct counter counters[BENCH_MAX_COUNTERS];
};

/** The score of a pair of times, higher is better; `limit` is the scorer's own. */
typedef double (*bench_score)(double ours, double peer, double limit);

double bench_times(double ours, double peer, double limit);      /**< peer / ours: how many times as fast. */
double bench_allowance(double ours, double peer, double limit);  /**< limit / (ours - peer): how often what is allowed over the peer holds it. */

double bench_now(void); /**< Seconds of a clock that only runs forward. */

/** Fills ours, peer (medians, divided by `unit_seconds`), ratio and spread. */
void row_measure(struct row *row, const struct samples *samples, bench_score score, double limit, double unit_seconds);

void row_count(struct row *row, const char *name, double value);

/** Prints a row; one that holds no number counts as failed. */
void row_print(struct bench *bench, const struct row *row);

/** Says on stderr why something could not be measured, and counts it as failed. */
STN_PRINTF(2, 3)
void bench_fail(struct bench *bench, const char *format, ...);

/* The benchmarks */

void bench_ckpt(struct bench *bench);
void bench_dispatch(struct bench *bench);
void bench_dispatch_scale(struct bench *bench);
void bench_latency(struct bench *bench);
void bench_allreduce(struct bench *bench);
void bench_alltoallv(struct bench *bench);
void bench_reshard(struct bench *bench);
void bench_mpi_ranks(struct bench *bench);
void bench_e2e(struct bench *bench);
void bench_fft(struct bench *bench);
void bench_fsdp(struct bench *bench);
void bench_haloconv(struct bench *bench);
void bench_index(struct bench *bench);
void bench_breadth(struct bench *bench);
void bench_norm(struct bench *bench);
void bench_pool(struct bench *bench);
void bench_pointwise(struct bench *bench);
void bench_reduce(struct bench *bench);
void bench_overlap(struct bench *bench);
void bench_plan_scale(struct bench *bench);
void bench_ring(struct bench *bench);
void bench_sht(struct bench *bench);
void bench_spec_mem(struct bench *bench);

#endif
