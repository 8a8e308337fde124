/* Arithmetic of the test module's communicator: elements of every dtype as numbers, one by one. */
#ifndef SHARDTENSOR_TESTS_MODULE_PROBE_NUMBER_H
#define SHARDTENSOR_TESTS_MODULE_PROBE_NUMBER_H

#include <shardtensor/comm.h>

/* Of integers `i`, else re and im. */
struct probe_number {
    double re, im;
    int64_t i;
};

struct probe_number probe_number_load(const char *data, int64_t at, stn_dtype dtype);
void probe_number_store(char *data, int64_t at, stn_dtype dtype, struct probe_number x);
struct probe_number probe_number_combine(struct probe_number a, struct probe_number b, stn_dtype dtype,
                                         stn_reduce_op op);

/* A sum of n numbers as what `op` makes of it: an average, or the sum itself. */
struct probe_number probe_number_divided(struct probe_number x, stn_dtype dtype, stn_reduce_op op, int n);

#endif
