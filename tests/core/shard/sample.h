/* What the tests of redistribution move: chunks whose elements tell where they belong. */
#ifndef SHARDTENSOR_TESTS_SHARD_SAMPLE_H
#define SHARDTENSOR_TESTS_SHARD_SAMPLE_H

#include "core/context/context.h"
#include "core/shard/group.h"
#include "core/redistribute/redistribute.h"

/* Ends the program with the context's error. */
_Noreturn void sample_die(stn_context *context, const char *what, stn_status status);

#define MUST(context, call)                    \
    do {                                       \
        stn_status must_ = (call);             \
        if (must_ != STN_OK)                   \
            sample_die((context), #call, must_);      \
    } while (0)

/* The next index of an array in row-major order; 0 after the last. */
int sample_next(int ndim, const int64_t *shape, int64_t *index);
int64_t sample_linear(int ndim, const int64_t *shape, const int64_t *index);

/* Whether the element lies in this rank's chunk. */
int sample_holds(const stn_spec *spec, int rank, const int64_t *index);

/* An element's bits, given its place in the array: any at all, -0.0 and NaN with payloads among them. */
uint64_t sample_bits(int64_t at);

/* A small whole number by which ranks at different coordinates along Partial axes differ. */
double sample_addend(const stn_spec *spec, const int *at, int64_t element);

/* This rank's chunk of a tensor of f64, in row-major order: bits, or addends. The caller frees it. */
void *sample_chunk(const stn_spec *spec, int bits);

/* A tensor of the chunk: dense, or with gaps in memory. */
stn_tensor *sample_tensor(stn_context *context, const stn_spec *spec, const void *chunk, int gaps);

/* f64 of two dims over one axis of all ranks. */
const stn_spec *sample_line_spec(stn_context *context, stn_placement p, const int64_t *shape);

#endif
