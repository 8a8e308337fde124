/* The collectives of dist.h against loops over all ranks' inputs, which every rank can compute. */
#ifndef SHARDTENSOR_TESTS_DIST_COLLECTIVES_H
#define SHARDTENSOR_TESTS_DIST_COLLECTIVES_H

#include "ranks.h"

enum collective {
    ALL_GATHER,
    GATHER,
    REDUCE_SCATTER,
    SCATTER,
    BROADCAST,
    REDUCE,
    ALL_TO_ALL,
    EXCHANGE,
    HALO,
    ALL_REDUCE,
    N_COLLECTIVES
};

/** One call: tensors are len x OTHER, or OTHER x len with dim 1. */
enum { OTHER = 3 };

struct setup {
    enum collective collective;
    int p, rank, root, dim;
    int uneven; /* sizes differ and some are 0; else lists are NULL where the collective allows it */
    int64_t below, above;
    stn_padding_mode mode;
    stn_grad_convention convention;
    int probe_rank; /* -1: inputs are values; else all are 0 but one element of this rank, which is 1 */
    int64_t probe_i, probe_j;
};

extern const char *const collective_names[N_COLLECTIVES];

int64_t in_length(const struct setup *s, int rank);
int64_t out_length(const struct setup *s, int rank);

/** Element (i along the dim, j along the other) of a rank's input, and of its result. */
double in_value(const struct setup *s, int rank, int64_t i, int64_t j);
double out_value(const struct setup *s, int rank, int64_t i, int64_t j);

/** The cotangent of a rank's result; each rank's is another. */
double cotangent_value(int rank, int64_t i, int64_t j);

/** What the convention makes the gradient of this rank's input. */
double gradient_value(const struct setup *s, int64_t i, int64_t j);

/** A local f64 tensor of `length` along the dim. */
stn_tensor *local(stn_context *context, const struct setup *s, int rank, int64_t length,
                  double (*value)(const struct setup *s, int rank, int64_t i, int64_t j));

stn_tensor *call_collective(const struct setup *s, stn_tensor *x, const stn_mesh *mesh);

/** Compares a tensor's elements, |got - want| <= rel * max. */
void expect(const char *what, const struct setup *s, stn_tensor *got, int64_t length,
            double (*want)(const struct setup *s, int rank, int64_t i, int64_t j), double rel);

/** Runs a body on 1, 2, 3, 5 and 8 thread ranks; on MPI once, on the ranks of the job. */
void on_each_size(stn_rank_main body, void *arg);

/** Calls `body` for every collective, even and uneven, along both dims, under both conventions; halos in all modes. */
void for_each_setup(stn_context *context,
                    void (*body)(stn_context *context, const struct setup *s, const stn_mesh *mesh));

#endif
